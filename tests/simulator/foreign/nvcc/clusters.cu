// Clusters of blocks: barriers and distributed shared memory.
#include <cooperative_groups.h>
#include <cuda/ptx>
#include <cstdint>

#define KERNEL extern "C" __global__ void
namespace cg = cooperative_groups;

// Each block's part of the bins, as in the programming guide.
KERNEL __cluster_dims__(2, 1, 1) cluster_histogram(const int* x, int* bins, int n) {
    __shared__ int own[32];
    auto cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < 32; i += blockDim.x) own[i] = 0;
    cluster.sync();
    for (int i = cg::this_grid().thread_rank(); i < n; i += cg::this_grid().size()) {
        int bin = min(max(x[i], 0), 63);
        int* there = cluster.map_shared_rank(own, bin / 32);
        atomicAdd(there + bin % 32, 1);
    }
    cluster.sync();
    int* mine = bins + cluster.block_rank() * 32;
    for (int i = threadIdx.x; i < 32; i += blockDim.x) atomicAdd(&mine[i], own[i]);
}

KERNEL __cluster_dims__(4, 1, 1) cluster_ring(const float* x, float* y) {
    __shared__ float buffer[64];
    auto cluster = cg::this_cluster();
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    buffer[t] = x[i];
    cluster.sync();
    const float* next = cluster.map_shared_rank(buffer, (cluster.block_rank() + 1) % cluster.num_blocks());
    y[i] = buffer[t] - next[63 - t];
    cluster.sync();
}

KERNEL __cluster_dims__(4, 1, 1) cluster_sum(const int* x, int* out) {
    __shared__ int total;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) total = 0;
    cluster.sync();
    atomicAdd(cluster.map_shared_rank(&total, 0), x[blockIdx.x * blockDim.x + threadIdx.x]);
    cluster.sync();
    int sum = *cluster.map_shared_rank(&total, 0);
    cluster.sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

KERNEL __cluster_dims__(2, 2, 1) cluster_ranks(int* out, const int* x) {
    __shared__ int value;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) value = x[blockIdx.y * gridDim.x + blockIdx.x];
    cluster.sync();
    int across = *cluster.map_shared_rank(&value, cluster.block_rank() ^ 3);
    dim3 at = cluster.block_index(), size = cluster.dim_blocks();
    int* o = out + ((blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x) * 4;
    o[0] = cluster.block_rank() * 100 + cluster.thread_rank();
    o[1] = at.x + 10 * at.y + 100 * size.x + 1000 * size.y;
    o[2] = cluster.num_threads() * 10 + cluster.query_shared_rank(&value);
    o[3] = across;
    cluster.sync();
}

// The edges of a stencil lie in the neighbours' shared memory.
KERNEL __cluster_dims__(4, 1, 1) cluster_stencil(const float* x, float* y, int steps) {
    __shared__ float line[2][32];
    auto cluster = cg::this_cluster();
    int t = threadIdx.x, rank = cluster.block_rank(), i = blockIdx.x * 32 + t;
    line[0][t] = x[i];
    cluster.sync();
    for (int s = 0; s < steps; s++) {
        float* now = line[s & 1];
        float left = t > 0 ? now[t - 1] : rank > 0 ? cluster.map_shared_rank(now, rank - 1)[31] : 0.f;
        float right = t < 31 ? now[t + 1] : rank < 3 ? cluster.map_shared_rank(now, rank + 1)[0] : 0.f;
        line[~s & 1][t] = 0.5f * now[t] + 0.25f * (left + right);
        cluster.sync();
    }
    y[i] = line[steps & 1][t];
}

KERNEL __cluster_dims__(2, 1, 1) cluster_split_barrier(const int* x, int* y) {
    __shared__ int box[64];
    auto cluster = cg::this_cluster();
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    box[t] = x[i];
    cluster.barrier_arrive();
    int own = x[i] * 10;
    cluster.barrier_wait();
    y[i] = own + *cluster.map_shared_rank(&box[63 - t], cluster.block_rank() ^ 1);
    cluster.barrier_arrive();
    cluster.barrier_wait();
}

// Writes into the other block's memory: a transpose of tiles.
KERNEL __cluster_dims__(2, 1, 1) cluster_transpose(const int* x, int* y) {
    __shared__ int tile[2][16][17];
    auto cluster = cg::this_cluster();
    int rank = cluster.block_rank(), column = threadIdx.x % 32, row = threadIdx.x / 32;
    cluster.sync();
    for (int r = row; r < 16; r += 4) {
        auto there = cluster.map_shared_rank(&tile[rank][0][0], column / 16);
        there[(column % 16) * 17 + r] = x[(rank * 16 + r) * 32 + column];
    }
    cluster.sync();
    for (int r = row; r < 16; r += 4) y[(rank * 16 + r) * 32 + column] = tile[column / 16][r][column % 16];
}

// A message with st.async: data and their arrival on the receiver's barrier in one.
KERNEL __cluster_dims__(2, 1, 1) cluster_messages(const int* x, int* y) {
    __shared__ int inbox[32];
    __shared__ uint64_t bar;
    auto cluster = cg::this_cluster();
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    if (t == 0) {
        cuda::ptx::mbarrier_init(&bar, 1);
        cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
    }
    cluster.sync();
    if (t == 0)
        cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta, cuda::ptx::space_shared,
                                             &bar, sizeof(inbox));
    int* theirs = cluster.map_shared_rank(&inbox[31 - t], cluster.block_rank() ^ 1);
    uint64_t* their_bar = cluster.map_shared_rank(&bar, cluster.block_rank() ^ 1);
    cuda::ptx::st_async(theirs, x[i] + 1, their_bar);
    while (!cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cluster, &bar, 0)) {}
    y[i] = inbox[t];
    cluster.sync();
}

// Remote additions with red.async, counted by the barrier of their owner.
KERNEL __cluster_dims__(4, 1, 1) cluster_remote_additions(const int* x, int* y) {
    __shared__ int sums[8];
    __shared__ uint64_t bar;
    auto cluster = cg::this_cluster();
    int t = threadIdx.x;
    if (t < 8) sums[t] = 0;
    if (t == 0) {
        cuda::ptx::mbarrier_init(&bar, 1);
        cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
        cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta, cuda::ptx::space_shared,
                                             &bar, 32 * 4);
    }
    cluster.sync();
    // 8 of the 32 threads of each block send to each block
    int to = t / 8;
    cuda::ptx::red_async(cuda::ptx::op_add, cluster.map_shared_rank(&sums[t % 8], to), x[blockIdx.x * 32 + t],
                         cluster.map_shared_rank(&bar, to));
    while (!cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cluster, &bar, 0)) {}
    if (t < 8) y[blockIdx.x * 8 + t] = sums[t];
    cluster.sync();
}
