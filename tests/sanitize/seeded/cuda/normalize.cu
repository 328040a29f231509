__device__ void wait_for_all_blocks(unsigned* arrived)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < gridDim.x) {
        }
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void normalize(const int* x, int* block_maxima, unsigned* arrived, float* y, int n)
{
    __shared__ int block_maximum;
    if (threadIdx.x == 0) {
        block_maximum = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicMax(&block_maximum, x[i]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        block_maxima[blockIdx.x] = block_maximum;
    }
    wait_for_all_blocks(arrived);
    int maximum = 0;
    for (int block = 0; block < gridDim.x; block++) {
        maximum = max(maximum, block_maxima[block]);
    }
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        y[i] = static_cast<float>(x[i]) / maximum;
    }
}
