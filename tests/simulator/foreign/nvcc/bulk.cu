// Bulk copies and bulk reductions.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>

#define KERNEL extern "C" __global__ void
#pragma nv_diag_suppress static_var_with_dynamic_init
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
using block_barrier = cuda::barrier<cuda::thread_scope_block>;

// Load a part, change it, store it, as in the programming guide.
KERNEL bulk_there_and_back(int* data) {
    __shared__ alignas(16) int part[256];
    __shared__ block_barrier bar;
    int* mine = data + blockIdx.x * 256;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    if (threadIdx.x == 0) cuda::memcpy_async(part, mine, cuda::aligned_size_t<16>(sizeof(part)), bar);
    block_barrier::arrival_token token = bar.arrive();
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < 256; i += blockDim.x) part[i] = part[i] * 2 + i;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, mine, part, sizeof(part));
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}

KERNEL bulk_with_transactions(const double* x, double* y) {
    __shared__ alignas(16) double first[64], second[64];
    __shared__ block_barrier bar;
    int t = threadIdx.x;
    if (t == 0) {
        init(&bar, 64);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    block_barrier::arrival_token token;
    if (t == 0) {
        cuda::device::memcpy_async_tx(first, x, cuda::aligned_size_t<16>(512), bar);
        cuda::device::memcpy_async_tx(second, x + 64, cuda::aligned_size_t<16>(512), bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, 1024);
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    y[t] = first[63 - t] - second[t];
}

// Four stages, each with a barrier of its own; parities change from round to round.
KERNEL bulk_stages(const float* x, float* y, int rounds) {
    __shared__ alignas(128) float stage[4][64];
    __shared__ uint64_t bars[4];
    int t = threadIdx.x;
    const float* mine = x + blockIdx.x * rounds * 64;
    if (t == 0) {
        for (int s = 0; s < 4; s++) ptx::mbarrier_init(&bars[s], 1);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    auto load = [&](int r) {
        if (t != 0 || r >= rounds) return;
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bars[r % 4], 256);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, stage[r % 4], mine + r * 64, 256, &bars[r % 4]);
    };
    for (int r = 0; r < 3; r++) load(r);
    float sum = 0;
    for (int r = 0; r < rounds; r++) {
        load(r + 3);
        while (!ptx::mbarrier_try_wait_parity(&bars[r % 4], r / 4 % 2)) {}
        sum += stage[r % 4][t ^ 5] * (r + 1);
        __syncthreads();
    }
    y[blockIdx.x * 64 + t] = sum;
}

template <class T>
__device__ void stage_own(T* part, const T* x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) part[i] = x[blockIdx.x * n + i];
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
}
__device__ void finish_group() {
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}

// All blocks add to the same place.
KERNEL bulk_add(const int* x, int* sums, const uint64_t* wide, uint64_t* wide_sums) {
    __shared__ alignas(16) int part[128];
    __shared__ alignas(16) uint64_t wide_part[32];
    stage_own(part, x, 128);
    stage_own(wide_part, wide, 32);
    if (threadIdx.x == 0) {
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sums, part, sizeof(part));
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, wide_sums, wide_part, 256);
        finish_group();
    }
}

KERNEL bulk_extremes(const int* x, int* least, const uint32_t* u, uint32_t* most, const int64_t* wide, int64_t* top) {
    __shared__ alignas(16) int part[64];
    __shared__ alignas(16) uint32_t unsigned_part[64];
    __shared__ alignas(16) int64_t wide_part[64];
    stage_own(part, x, 64);
    stage_own(unsigned_part, u, 64);
    stage_own(wide_part, wide, 64);
    if (threadIdx.x == 0) {
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_min, least, part, 256);
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_max, most, unsigned_part, 256);
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_max, top, wide_part, 512);
        finish_group();
    }
}

KERNEL bulk_bits(const uint32_t* x, uint32_t* all, uint32_t* any, uint32_t* odd, uint32_t* counts) {
    __shared__ alignas(16) uint32_t part[32];
    __shared__ alignas(16) uint32_t limits[32];
    stage_own(part, x, 32);
    limits[threadIdx.x] = 2;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_and_op, all, part, 128);
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_or_op, any, part, 128);
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_xor_op, odd, part, 128);
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_inc, counts, limits, 128);
        finish_group();
    }
}

KERNEL bulk_add_floats(const float* x, float* sums, const double* wide, double* wide_sums) {
    __shared__ alignas(16) float part[64];
    __shared__ alignas(16) double wide_part[64];
    stage_own(part, x, 64);
    stage_own(wide_part, wide, 64);
    if (threadIdx.x == 0) {
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sums, part, 256);
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, wide_sums, wide_part, 512);
        finish_group();
    }
}

KERNEL bulk_add_halves(const __half* x, __half* sums, const __nv_bfloat16* b, __nv_bfloat16* most) {
    __shared__ alignas(16) __half part[64];
    __shared__ alignas(16) __nv_bfloat16 other[64];
    stage_own(part, x, 64);
    stage_own(other, b, 64);
    if (threadIdx.x == 0) {
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sums, part, 128);
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_max, most, other, 128);
        finish_group();
    }
}

// The blocks of a cluster add to the first one's shared memory, whose barrier counts the bytes.
KERNEL __cluster_dims__(4, 1, 1) bulk_add_in_cluster(const int* x, int* y) {
    __shared__ alignas(16) int sums[64], part[64];
    __shared__ uint64_t bar;
    auto cluster = cg::this_cluster();
    int t = threadIdx.x, rank = cluster.block_rank();
    sums[t] = 1000 * t;
    part[t] = x[blockIdx.x * 64 + t];
    if (t == 0) {
        ptx::mbarrier_init(&bar, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        if (rank == 0)
            ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 4 * sizeof(part));
    }
    ptx::fence_proxy_async(ptx::space_shared);
    cluster.sync();
    if (t == 0)
        ptx::cp_reduce_async_bulk(ptx::space_cluster, ptx::space_shared, ptx::op_add, cluster.map_shared_rank(sums, 0),
                                  part, sizeof(part), cluster.map_shared_rank(&bar, 0));
    if (rank == 0) {
        while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0)) {}
        y[blockIdx.x / 4 * 64 + t] = sums[t];
    }
    cluster.sync();
}

KERNEL __cluster_dims__(2, 1, 1) bulk_to_neighbour(const int* x, int* y) {
    __shared__ alignas(16) int own[64], received[64];
    __shared__ uint64_t bar;
    auto cluster = cg::this_cluster();
    int t = threadIdx.x, i = blockIdx.x * 64 + t, other = cluster.block_rank() ^ 1;
    own[t] = x[i] * 3;
    if (t == 0) {
        ptx::mbarrier_init(&bar, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 256);
    }
    ptx::fence_proxy_async(ptx::space_shared);
    cluster.sync();
    if (t == 0)
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared, cluster.map_shared_rank(received, other), own, 256,
                           cluster.map_shared_rank(&bar, other));
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0)) {}
    y[i] = received[63 - t];
    cluster.sync();
}

// One copy from global memory to all blocks of the cluster.
KERNEL __cluster_dims__(2, 1, 1) bulk_multicast(const int* x, int* y) {
    __shared__ alignas(128) int part[64];
    __shared__ uint64_t bar;
    auto cluster = cg::this_cluster();
    int t = threadIdx.x;
    if (t == 0) {
        ptx::mbarrier_init(&bar, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 256);
    }
    cluster.sync();
    if (t == 0 && cluster.block_rank() == 0)
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, part, x, 256, &bar, (uint16_t)3);
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0)) {}
    y[blockIdx.x * 64 + t] = part[(t + cluster.block_rank()) % 64];
    cluster.sync();
}

KERNEL bulk_prefetch(const int4* x, int* y, int n) {
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(x + blockIdx.x * 64), "r"(1024) : "memory");
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int4 v = x[i];
    y[i] = v.x + v.y + v.z + v.w;
}
