// One thread per element: arithmetic, conversions, control flow.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#define KERNEL extern "C" __global__ void

KERNEL vector_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

KERNEL saxpy(float alpha, const float* __restrict__ x, float* __restrict__ y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = alpha * x[i] + y[i];
}

KERNEL scale_float4(const float4* x, float4* y, float s, int n4) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n4) return;
    float4 v = x[i];
    y[i] = make_float4(v.x * s, v.y + s, v.z - s, v.w * v.w);
}

struct Affine {
    const float* x;
    float* y;
    float scale;
    short shift;
    unsigned char negate;
    int n;
};

KERNEL struct_argument(Affine p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.n) return;
    float v = __fmaf_rn(p.x[i], p.scale, (float)p.shift);
    p.y[i] = p.negate ? -v : v;
}

__constant__ float coefficients[6] = {0.5f, -1.25f, 2.0f, 0.0625f, -3.0f, 1.0f};

KERNEL polynomial(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float r = coefficients[0];
#pragma unroll
    for (int k = 1; k < 6; k++) r = __fmaf_rn(r, x[i], coefficients[k]);
    y[i] = r;
}

__device__ int first_table[4] = {1, 2, 3, 4};
__device__ int second_table[4] = {10, 20, 30, 40};
__device__ int* tables[2] = {first_table, second_table + 1};
__constant__ const char* const words[3] = {"zero", "one", "two"};

KERNEL tables_of_addresses(const int* which, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int w = which[i];
    out[i] = tables[w & 1][w % 3] + words[w % 3][1];
}

__device__ unsigned int launches;
__device__ unsigned int history[16];

KERNEL count_launches(unsigned int* out) {
    if (threadIdx.x == 0) {
        history[launches & 15] = 100 + launches;
        launches++;
    }
    __syncthreads();
    if (threadIdx.x < 16) out[threadIdx.x] = history[threadIdx.x];
}

KERNEL integer_division(const int* a, const int* b, int* quotient, int* remainder, const unsigned long long* c,
                        unsigned long long* d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    quotient[i] = a[i] / b[i];
    remainder[i] = a[i] % b[i] + a[i] / 7 - a[i] % 10;
    d[i] = c[i] / 1000000007ULL + c[i] % (unsigned)(b[i] | 1);
}

KERNEL bit_tricks(const unsigned* a, const unsigned* b, unsigned* out, unsigned long long* wide, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = a[i], y = b[i];
    out[i * 8 + 0] = __popc(x);
    out[i * 8 + 1] = __clz(x);
    out[i * 8 + 2] = __brev(x);
    out[i * 8 + 3] = __byte_perm(x, y, 0x3715);
    out[i * 8 + 4] = __umulhi(x, y);
    out[i * 8 + 5] = __funnelshift_l(x, y, x & 31);
    out[i * 8 + 6] = __ffs(x);
    out[i * 8 + 7] = (x >> (y & 31)) | (x << ((32 - y) & 31));
    unsigned long long w = (unsigned long long)x << 32 | y;
    wide[i] = __popcll(w) + 100 * __clzll(w) + (__brevll(w) ^ w);
}

KERNEL dot_int8(const char4* a, const char4* b, const uchar4* c, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    char4 x = a[i], y = b[i];
    uchar4 z = c[i];
    out[i] = x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w + z.x * z.y - z.z / (z.w + 1);
}

KERNEL dot_packed(const int* a, const int* b, const unsigned* c, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __dp4a(a[i], b[i], 5) + (int)__vabsdiffu4(c[i], 0x10203040u) + (int)__vmaxu2(c[i], 0x00800080u);
}

KERNEL half_arithmetic(const __half2* a, const __half2* b, __half2* out, const __nv_bfloat162* c,
                       __nv_bfloat162* d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = __hmax2(__hfma2(a[i], b[i], a[i]), __hsub2(b[i], a[i]));
    d[i] = __hadd2(__hmul2(c[i], c[i]), __float2bfloat162_rn(1.5f));
}

KERNEL conversions(const float* x, signed char* i8, unsigned char* u8, short* i16, long long* i64, __half* h,
                   __nv_bfloat16* b, double* d, unsigned char* fp8, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    i8[i] = (signed char)(int)fminf(fmaxf(v, -128.f), 127.f);
    u8[i] = (unsigned char)__float2uint_rn(fabsf(v));
    i16[i] = (short)__float2int_rd(v);
    i64[i] = __float2ll_ru(v * 1e6f);
    h[i] = __float2half(v);
    b[i] = __float2bfloat16(v);
    d[i] = (double)v / 3.0;
    fp8[i] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
}

KERNEL double_arithmetic(const double* a, const double* b, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double q = a[i] / b[i];
    out[i] = __dadd_rn(sqrt(fabs(q)), __dmul_rn(floor(a[i]), b[i])) - fmin(a[i], b[i]);
}

KERNEL float_rounding(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i], y = b[i];
    out[i * 6 + 0] = x / y;
    out[i * 6 + 1] = sqrtf(fabsf(x));
    out[i * 6 + 2] = __frcp_rn(y);
    out[i * 6 + 3] = rintf(x * 4.f) + truncf(y);
    out[i * 6 + 4] = copysignf(x, y) + ceilf(y);
    out[i * 6 + 5] = fmodf(x, y);
}

KERNEL library_functions(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    out[i * 8 + 0] = expf(v);
    out[i * 8 + 1] = logf(fabsf(v));
    out[i * 8 + 2] = sinf(v * 1e5f);
    out[i * 8 + 3] = cosf(v);
    out[i * 8 + 4] = tanhf(v);
    out[i * 8 + 5] = powf(fabsf(v), 1.7f);
    out[i * 8 + 6] = erff(v);
    out[i * 8 + 7] = atan2f(v, 2.f);
}

KERNEL fast_functions(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    out[i * 4 + 0] = __expf(v);
    out[i * 4 + 1] = __fdividef(v, v + 3.f);
    out[i * 4 + 2] = rsqrtf(v * v + 1.f);
    out[i * 4 + 3] = __logf(v * v + 2.f) + __sinf(v) * __cosf(v);
}

KERNEL switch_operations(const int* op, const int* a, const int* b, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = a[i], y = b[i], r;
    switch (op[i]) {
        case 0: r = x + y; break;
        case 1: r = x - y; break;
        case 2: r = x * y; break;
        case 3: r = x & y; break;
        case 4: r = x | 3;  // falls through
        case 5: r = x ^ y; break;
        case 6: r = max(x, y); break;
        case 7: for (r = 0; x > 0; x >>= 1) r += x & y; break;
        default: r = -1;
    }
    out[i] = r;
}

KERNEL collatz(const unsigned* start, int* steps, int limit, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long x = start[i];
    int count = 0;
    while (true) {
        if (x == 1) break;
        if (count >= limit) { count = -1; break; }
        x = x & 1 ? 3 * x + 1 : x >> 1;
        count++;
    }
    steps[i] = count;
}

KERNEL sort_local_array(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v[12];
    for (int k = 0; k < 12; k++) v[k] = in[i * 12 + k];
#pragma unroll 1
    for (int k = 1; k < 12; k++) {
        int x = v[k], j = k;
#pragma unroll 1
        while (j > 0 && v[j - 1] > x) { v[j] = v[j - 1]; j--; }
        v[j] = x;
    }
    for (int k = 0; k < 12; k++) out[i * 12 + k] = v[k];
}
