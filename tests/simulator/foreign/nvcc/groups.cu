// Cooperative groups: the whole grid, tiles, coalesced threads.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#define KERNEL extern "C" __global__ void
namespace cg = cooperative_groups;

KERNEL grid_sum(const int* x, int* parts, int* total, int n) {
    __shared__ int sum;
    auto grid = cg::this_grid();
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) sum = 0;
    block.sync();
    int own = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) own += x[i];
    atomicAdd(&sum, own);
    block.sync();
    if (block.thread_rank() == 0) parts[blockIdx.x] = sum;
    grid.sync();
    if (grid.thread_rank() == 0) {
        int all = 0;
        for (int b = 0; b < gridDim.x; b++) all += parts[b];
        *total = all;
    }
}

KERNEL grid_jacobi(float* a, float* b, int n, int steps) {
    auto grid = cg::this_grid();
    for (int s = 0; s < steps; s++) {
        for (int i = grid.thread_rank(); i < n; i += grid.num_threads()) {
            float left = i > 0 ? a[i - 1] : 0.f, right = i + 1 < n ? a[i + 1] : 0.f;
            b[i] = 0.25f * left + 0.5f * a[i] + 0.25f * right;
        }
        grid.sync();
        float* t = a;
        a = b;
        b = t;
    }
}

// Sums of blocks, their prefixes, and the elements' prefixes in one launch.
KERNEL grid_scan(const int* x, int* y, int* sums) {
    __shared__ int part[64];
    auto grid = cg::this_grid();
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    part[t] = x[i];
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {
        int v = t >= d ? part[t - d] : 0;
        __syncthreads();
        part[t] += v;
        __syncthreads();
    }
    if (t == 63) sums[blockIdx.x] = part[63];
    grid.sync();
    int before = 0;
    for (int b = 0; b < blockIdx.x; b++) before += sums[b];
    y[i] = before + part[t];
}

// Levels of a breadth-first search, with a barrier of the grid after each.
KERNEL grid_bfs(const int* first, const int* neighbour, int* level, int* changed, int n) {
    auto grid = cg::this_grid();
    for (int depth = 0;; depth++) {
        for (int v = grid.thread_rank(); v < n; v += grid.size())
            if (atomicAdd(&level[v], 0) == depth)
                for (int e = first[v]; e < first[v + 1]; e++)
                    if (atomicCAS(&level[neighbour[e]], -1, depth + 1) == -1) atomicAdd(&changed[depth], 1);
        grid.sync();
        if (atomicAdd(&changed[depth], 0) == 0) break;
    }
}

KERNEL grid_split_barrier(const int* x, int* y) {
    auto grid = cg::this_grid();
    int i = grid.thread_rank(), n = grid.size();
    y[i] = x[i] * 2;
    auto token = grid.barrier_arrive();
    int own = x[n - 1 - i];
    grid.barrier_wait(std::move(token));
    int other = y[(i + n / 2) % n];
    grid.sync();
    y[i] = other + own;
}

KERNEL tiles_of_four(const int* x, int* out) {
    auto tile = cg::tiled_partition<4>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i], *o = out + i * 7;
    o[0] = tile.shfl(v, 3);
    o[1] = tile.shfl_up(v, 1);
    o[2] = tile.shfl_down(v, 2);
    o[3] = tile.shfl_xor(v, 1);
    o[4] = tile.any(v > 50) + 2 * tile.all(v > -50);
    o[5] = (int)tile.ballot(v > 0);
    o[6] = tile.meta_group_rank() * 1000 + tile.meta_group_size() * 10 + tile.thread_rank();
}

KERNEL nested_tiles(const int* x, int* out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto half = cg::tiled_partition<16>(warp);
    auto pair = cg::tiled_partition<2>(half);
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    int by_pair = cg::reduce(pair, v, cg::plus<int>());
    int by_half = cg::reduce(half, by_pair, cg::greater<int>());
    out[i] = cg::reduce(warp, by_half, cg::less<int>());
}

KERNEL reductions(const unsigned* x, unsigned* out, const float* f, float* g) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned v = x[i], *o = out + i * 5;
    o[0] = cg::reduce(tile, v, cg::bit_and<unsigned>());
    o[1] = cg::reduce(tile, v, cg::bit_or<unsigned>());
    o[2] = cg::reduce(tile, v, cg::bit_xor<unsigned>());
    o[3] = cg::reduce(tile, v, [](unsigned a, unsigned b) { return a * b; });
    o[4] = cg::exclusive_scan(tile, v);
    g[i * 2] = cg::reduce(tile, f[i], cg::greater<float>());
    g[i * 2 + 1] = cg::inclusive_scan(tile, f[i], cg::plus<float>());
}

// Warps give their sums to memory with one atomic operation.
KERNEL reduce_to_memory(const int* x, int* sums, int* largest) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int v = x[blockIdx.x * blockDim.x + threadIdx.x];
    int total = cg::reduce(warp, v, cg::plus<int>()), top = cg::reduce(warp, v, cg::greater<int>());
    cg::invoke_one(warp, [&] {
        atomicAdd(sums, total);
        atomicMax(largest, top);
    });
}

KERNEL coalesced_filter(const int* x, int* kept, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] % 3 == 0) {
        auto together = cg::coalesced_threads();
        int at = 0;
        if (together.thread_rank() == 0) at = atomicAdd(count, together.size());
        at = together.shfl(at, 0);
        kept[at + together.thread_rank()] = x[i];
    }
}

KERNEL partitioned_branches(const int* x, int* out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    auto group = cg::binary_partition(warp, v & 1);
    if (v & 1) out[i] = cg::reduce(group, v, cg::plus<int>()) + group.shfl_up(v, 1);
    else out[i] = cg::exclusive_scan(group, v) * 2 + group.thread_rank();
}

// Threads with the same key form a group.
KERNEL labeled_groups(const int* keys, const int* x, int* out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto group = cg::labeled_partition(warp, keys[i]);
    out[i * 3] = group.size();
    out[i * 3 + 1] = group.thread_rank();
    out[i * 3 + 2] = cg::reduce(group, x[i], cg::plus<int>());
}

KERNEL binary_groups(const int* x, int* out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    auto group = cg::binary_partition(warp, v > 10);
    out[i] = cg::reduce(group, v, cg::less<int>()) * 100 + group.size();
}

// Tiles of more than a warp need memory of their own.
KERNEL large_tiles(const int* x, int* out) {
    __shared__ cg::block_tile_memory<128> memory;
    auto block = cg::this_thread_block(memory);
    auto tile = cg::tiled_partition<64>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    int sum = cg::reduce(tile, v, cg::plus<int>());
    tile.sync();
    out[i] = sum + tile.shfl(v, 40) * tile.any(v > 90) + tile.meta_group_rank();
}
