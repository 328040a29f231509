// Products of matrices with nvcuda::wmma: all types, shapes and layouts; one warp unless said otherwise.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#define KERNEL extern "C" __global__ void
using namespace nvcuda;
using row = wmma::row_major;
using col = wmma::col_major;

template <int M, int N, int K, class In, class LayoutA, class LayoutB, class Acc, class Stored, class Out>
__device__ void product(const Stored* a, const Stored* b, const Out* c, Out* d, int lda, int ldb, int ldc,
                        wmma::layout_t layout) {
    wmma::fragment<wmma::matrix_a, M, N, K, In, LayoutA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, In, LayoutB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(fc, c, ldc, layout);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, ldc, layout);
}

KERNEL wmma_f16_f16_columns(const half* a, const half* b, const half* c, half* d) {
    product<16, 16, 16, half, col, col, half>(a, b, c, d, 16, 16, 16, wmma::mem_col_major);
}

KERNEL wmma_f16_f32_rows(const half* a, const half* b, const float* c, float* d) {
    product<16, 16, 16, half, row, row, float>(a, b, c, d, 16, 16, 16, wmma::mem_row_major);
}

KERNEL wmma_f16_m32n8k16(const half* a, const half* b, const float* c, float* d) {
    product<32, 8, 16, half, col, row, float>(a, b, c, d, 32, 8, 8, wmma::mem_row_major);
}

KERNEL wmma_f16_m8n32k16(const half* a, const half* b, const half* c, half* d) {
    product<8, 32, 16, half, row, col, half>(a, b, c, d, 16, 16, 8, wmma::mem_col_major);
}

KERNEL wmma_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, const float* c, float* d) {
    product<16, 16, 16, __nv_bfloat16, row, col, float>(a, b, c, d, 16, 16, 16, wmma::mem_row_major);
}

KERNEL wmma_bf16_m8n32k16(const __nv_bfloat16* a, const __nv_bfloat16* b, const float* c, float* d) {
    product<8, 32, 16, __nv_bfloat16, col, row, float>(a, b, c, d, 8, 32, 32, wmma::mem_row_major);
}

KERNEL wmma_int8(const signed char* a, const signed char* b, const int* c, int* d) {
    product<16, 16, 16, signed char, row, col, int>(a, b, c, d, 16, 16, 16, wmma::mem_row_major);
}

KERNEL wmma_uint8_m32n8k16(const unsigned char* a, const unsigned char* b, const int* c, int* d) {
    product<32, 8, 16, unsigned char, row, col, int>(a, b, c, d, 16, 16, 32, wmma::mem_col_major);
}

KERNEL wmma_int8_m8n32k16(const signed char* a, const signed char* b, const int* c, int* d) {
    product<8, 32, 16, signed char, col, row, int>(a, b, c, d, 16, 32, 32, wmma::mem_row_major);
}

KERNEL wmma_int8_saturated(const signed char* a, const signed char* b, const int* c, int* d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, col> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, col> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc, true);
    wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major);
}

KERNEL wmma_double(const double* a, const double* b, const double* c, double* d) {
    product<8, 8, 4, double, row, col, double>(a, b, c, d, 4, 4, 8, wmma::mem_row_major);
}

KERNEL wmma_double_columns(const double* a, const double* b, const double* c, double* d) {
    product<8, 8, 4, double, col, row, double>(a, b, c, d, 8, 8, 8, wmma::mem_col_major);
}

// The elements of tf32 fragments are rounded by the program.
KERNEL wmma_tf32(const float* a, const float* b, float* d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, row> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, col> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
    wmma::fill_fragment(fc, 0.f);
    for (int k = 0; k < 24; k += 8) {
        wmma::load_matrix_sync(fa, a + k, 24);
        wmma::load_matrix_sync(fb, b + k, 24);
        for (int i = 0; i < fa.num_elements; i++) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
        for (int i = 0; i < fb.num_elements; i++) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major);
}

KERNEL wmma_int4(const int* a, const int* b, int* d) {
    wmma::fragment<wmma::matrix_a, 8, 8, 32, wmma::experimental::precision::s4, row> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 32, wmma::experimental::precision::s4, col> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 32, int> fc;
    wmma::fill_fragment(fc, 100);
    wmma::load_matrix_sync(fa, a, 32);
    wmma::load_matrix_sync(fb, b, 32);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, 8, wmma::mem_row_major);
}

KERNEL wmma_bits(const int* a, const int* b, int* d, int* e) {
    wmma::fragment<wmma::matrix_a, 8, 8, 128, wmma::experimental::precision::b1, row> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, wmma::experimental::precision::b1, col> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc, fd;
    wmma::fill_fragment(fc, 0);
    wmma::fill_fragment(fd, 1);
    wmma::load_matrix_sync(fa, a, 128);
    wmma::load_matrix_sync(fb, b, 128);
    wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpXOR, wmma::experimental::bmmaAccumulateOpPOPC);
    wmma::bmma_sync(fd, fa, fb, fd, wmma::experimental::bmmaBitOpAND, wmma::experimental::bmmaAccumulateOpPOPC);
    wmma::store_matrix_sync(d, fc, 8, wmma::mem_row_major);
    wmma::store_matrix_sync(e, fd, 8, wmma::mem_col_major);
}

// alpha * A * B + beta * C of matrices of any multiple of 16, a warp per tile, as in NVIDIA's introduction.
KERNEL wmma_gemm(const half* a, const half* b, float* c, int m, int n, int k, float alpha, float beta) {
    int warp_m = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize, warp_n = blockIdx.y * blockDim.y + threadIdx.y;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, col> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, col> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc, fc;
    wmma::fill_fragment(acc, 0.f);
    int row_ = warp_m * 16, column = warp_n * 16;
    if (row_ >= m || column >= n) return;
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(fa, a + row_ + i * m, m);
        wmma::load_matrix_sync(fb, b + i + column * k, k);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::load_matrix_sync(fc, c + row_ + column * m, m, wmma::mem_col_major);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = alpha * acc.x[i] + beta * fc.x[i];
    wmma::store_matrix_sync(c + row_ + column * m, fc, m, wmma::mem_col_major);
}

// Four warps; tiles in shared memory with padded rows.
KERNEL wmma_shared_tiles(const half* a, const half* b, float* c, int k) {
    __shared__ alignas(32) half as[32][24], bs[16][40];
    int t = threadIdx.x, warp = t / 32, tile_m = warp / 2 * 16, tile_n = warp % 2 * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    for (int k0 = 0; k0 < k; k0 += 16) {
        for (int i = t; i < 512; i += 128) {
            as[i / 16][i % 16] = a[i / 16 * k + k0 + i % 16];
            bs[i / 32][i % 32] = b[(k0 + i / 32) * 32 + i % 32];
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, row> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, row> fb;
        wmma::load_matrix_sync(fa, &as[tile_m][0], 24);
        wmma::load_matrix_sync(fb, &bs[0][tile_n], 40);
        wmma::mma_sync(acc, fa, fb, acc);
        __syncthreads();
    }
    wmma::store_matrix_sync(c + tile_m * 32 + tile_n, acc, 32, wmma::mem_row_major);
}

// A layer of a network: accumulators through shared memory, because their layout isn't defined.
KERNEL wmma_layer(const half* x, const half* w, const float* bias, half* y) {
    __shared__ alignas(32) float out[16][20];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, row> fx;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, row> fw;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    for (int i = threadIdx.x; i < 256; i += 32) out[i / 16][i % 16] = bias[i % 16];
    __syncwarp();
    wmma::load_matrix_sync(acc, &out[0][0], 20, wmma::mem_row_major);
    __syncwarp();
    wmma::load_matrix_sync(fx, x, 16);
    wmma::load_matrix_sync(fw, w, 16);
    wmma::mma_sync(acc, fx, fw, acc);
    for (int i = 0; i < acc.num_elements; i++) acc.x[i] = fmaxf(acc.x[i], 0.f);
    wmma::store_matrix_sync(&out[0][0], acc, 20, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) y[i] = __float2half(out[i / 16][i % 16]);
}

// Two products in a row: the first result is rounded to half and becomes an operand.
KERNEL wmma_twice(const half* a, const half* b, half* d) {
    __shared__ alignas(32) half between[256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, row> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, col> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> acc;
    wmma::fill_fragment(acc, __float2half(0.f));
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(acc, fa, fb, acc);
    wmma::store_matrix_sync(between, acc, 16, wmma::mem_row_major);
    __syncwarp();
    wmma::load_matrix_sync(fa, between, 16);
    wmma::fill_fragment(acc, __float2half(1.f));
    wmma::mma_sync(acc, fa, fb, acc);
    wmma::store_matrix_sync(d, acc, 16, wmma::mem_col_major);
}
