extern "C" __global__ void scale_rows(const float* x, const float* scales, float* y, int width)
{
    const float* row = x + blockIdx.x * width;
    float* out = y + blockIdx.x * width;
    float scale = scales[blockIdx.x];
    int vectors = width % 4 == 0 ? width / 4 : 0;
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        float4 v = reinterpret_cast<const float4*>(row)[i];
        v.x *= scale;
        v.y *= scale;
        v.z *= scale;
        v.w *= scale;
        reinterpret_cast<float4*>(out)[i] = v;
    }
    for (int j = 4 * vectors + threadIdx.x; j < width; j += blockDim.x) {
        out[j] = row[j] * scale;
    }
}
