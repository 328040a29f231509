#include <cuda/std/limits>

extern "C" __global__ void row_maxima(const int* x, int* maxima, int width)
{
    int lane = threadIdx.x;
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    int largest = lane < width ? x[row * width + lane] : cuda::std::numeric_limits<int>::min();
    for (int offset = 16; offset > 0; offset /= 2) {
        largest = max(largest, __shfl_down_sync(0xffffffff, largest, offset));
    }
    if (lane == 0) {
        maxima[row] = largest;
    }
}
