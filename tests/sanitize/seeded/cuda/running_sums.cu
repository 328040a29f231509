#include <cuda/atomic>

using Flag = cuda::atomic_ref<int, cuda::thread_scope_device>;

extern "C" __global__ void running_sums(const int* x, int* sums, int* carries, int* ready)
{
    __shared__ int before;
    __shared__ int total;
    int block = blockIdx.x;
    int i = block * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        total = 0;
    }
    __syncthreads();
    atomicAdd(&total, x[i]);
    __syncthreads();
    if (threadIdx.x == 0) {
        before = 0;
        if (block > 0) {
            while (Flag(ready[block - 1]).load(cuda::memory_order_acquire) == 0) {
            }
            before = carries[block - 1];
        }
        carries[block] = before + total;
        Flag(ready[block]).store(1, cuda::memory_order_release);
    }
    __syncthreads();
    int sum = before;
    for (int j = block * blockDim.x; j <= i; j++) {
        sum += x[j];
    }
    sums[i] = sum;
}
