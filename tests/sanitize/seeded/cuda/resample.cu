extern "C" __global__ void resample(const float* x, float* y, int n, int step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int source = static_cast<int>(static_cast<long long>(i) * step >> 16);
        y[i] = x[source];
    }
}
