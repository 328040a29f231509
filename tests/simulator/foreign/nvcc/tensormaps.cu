// Maps of tensors that kernels make or change: tensormap.replace.
#include <cuda/ptx>
#include <cstdint>

#define KERNEL extern "C" __global__ void
namespace ptx = cuda::ptx;

struct alignas(128) Map { unsigned char bytes[128]; };

// A map of a matrix, from nothing: 32-bit elements, no swizzle, zeros beyond the edges.
template <int Type, int Swizzle = 0>
__device__ void make_map(Map* map, const void* address, uint32_t columns, uint32_t rows, uint64_t row_bytes,
                         uint32_t box_columns, uint32_t box_rows) {
    for (int i = threadIdx.x; i < 32; i += blockDim.x) ((int*)map)[i] = 0;
    __syncwarp();
    if (threadIdx.x == 0) {
        ptx::tensormap_replace_global_address(ptx::space_shared, map, address);
        ptx::tensormap_replace_rank(ptx::space_shared, map, 1);  // dimensions - 1
        ptx::tensormap_replace_box_dim(ptx::space_shared, map, ptx::n32_t<0>(), box_columns);
        ptx::tensormap_replace_box_dim(ptx::space_shared, map, ptx::n32_t<1>(), box_rows);
        ptx::tensormap_replace_global_dim(ptx::space_shared, map, ptx::n32_t<0>(), columns);
        ptx::tensormap_replace_global_dim(ptx::space_shared, map, ptx::n32_t<1>(), rows);
        ptx::tensormap_replace_global_stride(ptx::space_shared, map, ptx::n32_t<0>(), row_bytes);
        ptx::tensormap_replace_element_stride(ptx::space_shared, map, ptx::n32_t<0>(), 1);
        ptx::tensormap_replace_element_stride(ptx::space_shared, map, ptx::n32_t<1>(), 1);
        ptx::tensormap_replace_elemtype(ptx::space_shared, map, ptx::n32_t<Type>());
        ptx::tensormap_replace_interleave_layout(ptx::space_shared, map, ptx::n32_t<0>());
        ptx::tensormap_replace_swizzle_mode(ptx::space_shared, map, ptx::n32_t<Swizzle>());
        ptx::tensormap_replace_fill_mode(ptx::space_shared, map, ptx::n32_t<0>());
    }
    __syncwarp();
}
constexpr int INT32 = 3, FLOAT32 = 7;

// Copies the map to global memory for the unit that reads maps.
__device__ void publish(Map* global, const Map* map) {
    ptx::tensormap_cp_fenceproxy(ptx::sem_release, ptx::scope_gpu, global, map, ptx::n32_t<128>());
    ptx::fence_proxy_tensormap_generic(ptx::sem_acquire, ptx::scope_gpu, global, ptx::n32_t<128>());
    __syncwarp();
}
__device__ void init_barrier(uint64_t* bar) {
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(bar, 1);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncwarp();
}
__device__ void load(void* tile, const Map* map, int x, int y, uint32_t bytes, uint64_t* bar, int parity) {
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, bar, bytes);
        const int32_t at[2] = {x, y};
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, map, at, bar);
    }
    while (!ptx::mbarrier_try_wait_parity(bar, parity)) {}
}

// One warp per block in all kernels.
KERNEL map_of_a_matrix(const float* x, Map* maps, float* y, int rows, int columns) {
    __shared__ Map map;
    __shared__ alignas(128) float tile[8][16];
    __shared__ uint64_t bar;
    Map* own = maps + blockIdx.y * gridDim.x + blockIdx.x;
    init_barrier(&bar);
    make_map<FLOAT32>(&map, x, columns, rows, columns * 4, 16, 8);
    publish(own, &map);
    load(tile, own, blockIdx.x * 16, blockIdx.y * 8, sizeof(tile), &bar, 0);
    for (int i = threadIdx.x; i < 128; i += 32) {
        int r = blockIdx.y * 8 + i % 8, c = blockIdx.x * 16 + i / 8;
        if (r < rows && c < columns) y[c * rows + r] = tile[i % 8][i / 8];
    }
}

struct Problem { const int* x; int rows, columns; };

// Each block has a matrix of its own size; what a box has beyond the edges is zero.
KERNEL map_per_group(const Problem* problems, Map* maps, int* sums) {
    __shared__ Map map;
    __shared__ alignas(128) int tile[8][32];
    __shared__ uint64_t bar;
    Problem p = problems[blockIdx.x];
    init_barrier(&bar);
    make_map<INT32>(&map, p.x, p.columns, p.rows, p.columns * 4, 32, 8);
    publish(maps + blockIdx.x, &map);
    int sum = 0, parity = 0;
    for (int r = 0; r < p.rows; r += 8)
        for (int c = 0; c < p.columns; c += 32) {
            load(tile, maps + blockIdx.x, c, r, sizeof(tile), &bar, parity);
            parity ^= 1;
            for (int k = 0; k < 8; k++) sum += tile[k][threadIdx.x] * (k + 1);
            __syncwarp();
        }
    sums[blockIdx.x * 32 + threadIdx.x] = sum;
}

// Only the address changes from matrix to matrix.
KERNEL map_with_new_addresses(const int* const* matrices, int count, Map* maps, int* y) {
    __shared__ Map map;
    __shared__ alignas(128) int tile[8][8];
    __shared__ uint64_t bar;
    init_barrier(&bar);
    make_map<INT32>(&map, matrices[0], 8, 8, 32, 8, 8);
    int sum = 0;
    for (int m = 0; m < count; m++) {
        if (threadIdx.x == 0) ptx::tensormap_replace_global_address(ptx::space_shared, &map, matrices[m]);
        __syncwarp();
        publish(maps + m, &map);
        load(tile, maps + m, 0, 0, sizeof(tile), &bar, m & 1);
        sum = sum * 3 + tile[threadIdx.x % 8][threadIdx.x / 8];
        __syncwarp();
    }
    y[threadIdx.x] = sum;
}

// A store through a map writes nothing beyond the matrix.
KERNEL map_for_stores(int* y, Map* maps, int rows, int columns, int row_bytes) {
    __shared__ Map map;
    __shared__ alignas(128) int tile[4][16];
    Map* own = maps + blockIdx.y * gridDim.x + blockIdx.x;
    make_map<INT32>(&map, y, columns, rows, row_bytes, 16, 4);
    publish(own, &map);
    for (int i = threadIdx.x; i < 64; i += 32) tile[i / 16][i % 16] = blockIdx.y * 4000 + blockIdx.x * 1000 + i;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncwarp();
    if (threadIdx.x == 0) {
        const int32_t at[2] = {(int)blockIdx.x * 16, (int)blockIdx.y * 4};
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, own, at, tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}

// 128-byte swizzle: the number of a row's 16-byte piece is exclusive-ored with the row's.
KERNEL map_with_swizzle(const float* x, Map* maps, float* y) {
    __shared__ Map map;
    __shared__ alignas(1024) float tile[8][32];
    __shared__ uint64_t bar;
    init_barrier(&bar);
    make_map<FLOAT32, 3>(&map, x, 32, 8, 128, 32, 8);
    publish(maps, &map);
    load(tile, maps, 0, 0, sizeof(tile), &bar, 0);
    for (int r = 0; r < 8; r++) {
        int c = threadIdx.x;
        y[r * 32 + c] = tile[r][((c / 4) ^ r) * 4 + c % 4];
    }
}

// The map in global memory is changed in place: its rows become fewer.
KERNEL map_changed_in_global(const int* x, Map* maps, int* y) {
    __shared__ Map map;
    __shared__ alignas(128) int tile[8][8];
    __shared__ uint64_t bar;
    init_barrier(&bar);
    make_map<INT32>(&map, x, 8, 16, 32, 8, 8);
    publish(maps, &map);
    load(tile, maps, 0, 8, sizeof(tile), &bar, 0);
    int first = tile[threadIdx.x / 8][threadIdx.x % 8] + tile[4 + threadIdx.x / 8][threadIdx.x % 8];
    __syncwarp();
    if (threadIdx.x == 0) ptx::tensormap_replace_global_dim(ptx::space_global, maps, ptx::n32_t<1>(), 12);
    __syncwarp();
    ptx::fence_proxy_tensormap_generic(ptx::sem_release, ptx::scope_gpu);
    ptx::fence_proxy_tensormap_generic(ptx::sem_acquire, ptx::scope_gpu, maps, ptx::n32_t<128>());
    load(tile, maps, 0, 8, sizeof(tile), &bar, 1);
    y[threadIdx.x] = first - tile[threadIdx.x / 8][threadIdx.x % 8];
    y[32 + threadIdx.x] = tile[4 + threadIdx.x / 8][threadIdx.x % 8];
}
