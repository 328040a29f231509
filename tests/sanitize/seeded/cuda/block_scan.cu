constexpr int THREADS = 256;

extern "C" __global__ void block_scan(const int* x, int* sums, int n)
{
    __shared__ int buffers[2][THREADS];
    int tid = threadIdx.x;
    int i = blockIdx.x * THREADS + tid;
    int in = 0;
    buffers[in][tid] = i < n ? x[i] : 0;
    __syncthreads();
    for (int distance = 1; distance < THREADS; distance *= 2) {
        int out = 1 - in;
        int sum = buffers[in][tid];
        if (tid >= distance) {
            sum += buffers[in][tid - distance];
        }
        buffers[out][tid] = sum;
        __syncthreads();
        in = out;
    }
    if (i < n) {
        sums[i] = buffers[in][tid];
    }
}
