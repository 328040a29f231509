#include <cuda_pipeline.h>

constexpr int STAGES = 3;
constexpr int WIDTH = 128;

__device__ void fetch(float* stage, const float* row)
{
    if (threadIdx.x < WIDTH / 4) {
        __pipeline_memcpy_async(stage + 4 * threadIdx.x, row + 4 * threadIdx.x, 16);
    }
}

extern "C" __global__ void column_sums(const float* x, float* sums, int rows)
{
    __shared__ alignas(16) float ring[STAGES][WIDTH];
    x += static_cast<size_t>(blockIdx.x) * rows * WIDTH;
    for (int row = 0; row < STAGES - 1; row++) {
        if (row < rows) {
            fetch(ring[row], x + row * WIDTH);
        }
        __pipeline_commit();
    }
    float sum = 0;
    for (int row = 0; row < rows; row++) {
        int ahead = row + STAGES - 1;
        if (ahead < rows) {
            fetch(ring[ahead % STAGES], x + ahead * WIDTH);
        }
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 1);
        __syncthreads();
        sum += ring[row % STAGES][threadIdx.x];
        __syncthreads();
    }
    sums[blockIdx.x * WIDTH + threadIdx.x] = sum;
}
