// Kernels that are written with NVIDIA's libraries: CUB, libcu++, cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
#include <cuda/atomic>

#define KERNEL extern "C" __global__ void
namespace cg = cooperative_groups;

KERNEL cub_radix_sort(unsigned* keys, int* values) {
    using Sort = cub::BlockRadixSort<unsigned, 128, 4, int>;
    __shared__ typename Sort::TempStorage storage;
    unsigned k[4];
    int v[4];
    int first = blockIdx.x * 512 + threadIdx.x * 4;
    for (int i = 0; i < 4; i++) { k[i] = keys[first + i]; v[i] = values[first + i]; }
    Sort(storage).Sort(k, v);
    for (int i = 0; i < 4; i++) { keys[first + i] = k[i]; values[first + i] = v[i]; }
}

KERNEL cub_scan(const int* x, int* y, int* totals) {
    using Load = cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<int, 128, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using Scan = cub::BlockScan<int, 128>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Scan::TempStorage scan;
    } s;
    int v[4], total;
    Load(s.load).Load(x + blockIdx.x * 512, v);
    __syncthreads();
    Scan(s.scan).ExclusiveSum(v, v, total);
    __syncthreads();
    Store(s.store).Store(y + blockIdx.x * 512, v);
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

KERNEL cub_reduce(const double* x, double* out) {
    using Reduce = cub::BlockReduce<double, 128>;
    __shared__ typename Reduce::TempStorage storage;
    double sum = Reduce(storage).Sum(x[blockIdx.x * 128 + threadIdx.x]);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

KERNEL cg_tiles(const int* x, int* out, int* positive) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    out[i * 2] = cg::reduce(tile, v, cg::plus<int>());
    out[i * 2 + 1] = cg::inclusive_scan(tile, v, cg::greater<int>());
    if (v > 0) {
        auto together = cg::coalesced_threads();
        if (together.thread_rank() == 0) atomicAdd(positive, together.size());
    }
}

// A message through a flag with release and acquire; blocks pass a sum along.
KERNEL libcu_chain(const int* x, int* sums, int* flags) {
    __shared__ int part;
    if (threadIdx.x == 0) part = 0;
    __syncthreads();
    int own = x[blockIdx.x * blockDim.x + threadIdx.x];
    cuda::atomic_ref<int, cuda::thread_scope_block>(part).fetch_add(own, cuda::memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x == 0) {
        int before = 0;
        if (blockIdx.x > 0) {
            cuda::atomic_ref<int, cuda::thread_scope_device> flag(flags[blockIdx.x - 1]);
            while (flag.load(cuda::memory_order_acquire) == 0) {}
            before = sums[blockIdx.x - 1];
        }
        sums[blockIdx.x] = before + part;
        cuda::atomic_ref<int, cuda::thread_scope_device>(flags[blockIdx.x]).store(1, cuda::memory_order_release);
    }
}

KERNEL libcu_maximum(const float* x, float* result, unsigned long long* product, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cuda::atomic_ref<float, cuda::thread_scope_device> r(*result);
    r.fetch_max(x[i]);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> p(*product);
    unsigned long long old = p.load();
    while (!p.compare_exchange_weak(old, old * 3 + 1, cuda::memory_order_acq_rel)) {}
}
