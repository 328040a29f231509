#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda/std/utility>

using barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int WIDTH = 256;

extern "C" __global__ void row_products(const int* a, const int* b, int* products)
{
    __shared__ alignas(16) int a_row[WIDTH];
    __shared__ alignas(16) int b_row[WIDTH];
    __shared__ int product;
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier ready;
    if (threadIdx.x == 0) {
        product = 0;
        init(&ready, blockDim.x);
        cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::aligned_size_t<16> bytes(sizeof(a_row));
        cuda::device::memcpy_async_tx(a_row, a + blockIdx.x * WIDTH, bytes, ready);
        cuda::device::memcpy_async_tx(b_row, b + blockIdx.x * WIDTH, bytes, ready);
        token = cuda::device::barrier_arrive_tx(ready, 1, sizeof(a_row) + sizeof(b_row));
    } else {
        token = ready.arrive();
    }
    ready.wait(cuda::std::move(token));
    int sum = 0;
    for (int i = threadIdx.x; i < WIDTH; i += blockDim.x) {
        sum += a_row[i] * b_row[i];
    }
    atomicAdd(&product, sum);
    __syncthreads();
    if (threadIdx.x == 0) {
        products[blockIdx.x] = product;
    }
}
