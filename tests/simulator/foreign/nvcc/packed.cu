// Instructions on several small numbers in one register, and other integer instructions that are seldom used.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void
#define INDEX                                        \
    int i = blockIdx.x * blockDim.x + threadIdx.x;   \
    if (i >= n) return

// 1.0 where the comparison holds, else 0.0, in both halves.
KERNEL half2_comparisons(const half2* a, const half2* b, half2* out, int n) {
    INDEX;
    half2 x = a[i], y = b[i], *o = out + i * 6;
    o[0] = __heq2(x, y);
    o[1] = __hne2(x, y);
    o[2] = __hlt2(x, y);
    o[3] = __hle2(x, y);
    o[4] = __hgt2(x, y);
    o[5] = __hge2(x, y);
}

KERNEL half2_unordered_comparisons(const half2* a, const half2* b, half2* out, int n) {
    INDEX;
    half2 x = a[i], y = b[i], *o = out + i * 7;
    o[0] = __hequ2(x, y);
    o[1] = __hneu2(x, y);
    o[2] = __hltu2(x, y);
    o[3] = __hleu2(x, y);
    o[4] = __hgtu2(x, y);
    o[5] = __hgeu2(x, y);
    o[6] = __hisnan2(x);
}

// 0xffff where the comparison holds, else 0, in both halves.
KERNEL half2_masks(const half2* a, const half2* b, unsigned* out, int n) {
    INDEX;
    half2 x = a[i], y = b[i];
    unsigned* o = out + i * 6;
    o[0] = __heq2_mask(x, y);
    o[1] = __hne2_mask(x, y);
    o[2] = __hlt2_mask(x, y);
    o[3] = __hgeu2_mask(x, y);
    o[4] = __hgt2_mask(x, y);
    o[5] = __hleu2_mask(x, y);
}

// Bits that say how both halves compare.
KERNEL half2_both(const half2* a, const half2* b, int* out, int n) {
    INDEX;
    half2 x = a[i], y = b[i];
    out[i] = __hbeq2(x, y) + 2 * __hbne2(x, y) + 4 * __hblt2(x, y) + 8 * __hbge2(x, y) + 16 * __hbequ2(x, y)
           + 32 * __hbgtu2(x, y) + 64 * (__heq(__low2half(x), __high2half(y)) || __hlt(__low2half(x), __low2half(y)));
}

KERNEL bfloat2_comparisons(const __nv_bfloat162* a, const __nv_bfloat162* b, __nv_bfloat162* out, unsigned* masks,
                           int n) {
    INDEX;
    __nv_bfloat162 x = a[i], y = b[i], *o = out + i * 4;
    o[0] = __heq2(x, y);
    o[1] = __hneu2(x, y);
    o[2] = __hlt2(x, y);
    o[3] = __hgeu2(x, y);
    masks[i * 2] = __hgt2_mask(x, y);
    masks[i * 2 + 1] = __hequ2_mask(x, y);
}

KERNEL half2_selections(const half2* a, const half2* b, const half2* c, half2* out, int n) {
    INDEX;
    half2 x = a[i], y = b[i], *o = out + i * 8;
    o[0] = __hmin2(x, y);
    o[1] = __hmax2_nan(x, y);
    o[2] = __hfma2_relu(x, y, c[i]);
    o[3] = __hadd2_sat(x, y);
    o[4] = __habs2(__hneg2(x));
    o[5] = h2rint(x);
    o[6] = __lows2half2(x, y);
    o[7] = __hmul2_sat(x, y);
}

KERNEL dot_products_of_bytes(const int* a, const int* b, const int* c, int* out, unsigned* sums, int n) {
    INDEX;
    int x = a[i], y = b[i];
    out[i * 3 + 0] = __dp4a(x, y, c[i]);
    out[i * 3 + 1] = __dp2a_lo(x, y, c[i]);
    out[i * 3 + 2] = __dp2a_hi(x, y, c[i]);
    sums[i * 3 + 0] = __dp4a((unsigned)x, (unsigned)y, (unsigned)c[i]);
    sums[i * 3 + 1] = __dp2a_lo((unsigned)x, (unsigned)y, (unsigned)c[i]);
    sums[i * 3 + 2] = __dp2a_hi((unsigned)x, (unsigned)y, (unsigned)c[i]);
}

KERNEL dot_products_of_vectors(const char4* a, const short2* b, const char4* c, int* out, int n) {
    INDEX;
    out[i] = __dp2a_lo(b[i], c[i], __dp4a(a[i], c[i], 7)) - __dp2a_hi(b[i], a[i], 0);
}

KERNEL simd_differences(const unsigned* a, const unsigned* b, unsigned* out, int n) {
    INDEX;
    unsigned x = a[i], y = b[i], *o = out + i * 8;
    o[0] = __vabsdiffu4(x, y);
    o[1] = __vabsdiffs4(x, y);
    o[2] = __vabsdiffu2(x, y);
    o[3] = __vabsdiffs2(x, y);
    o[4] = __vsadu4(x, y);
    o[5] = __vsads4(x, y);
    o[6] = __vsadu2(x, y);
    o[7] = __vabsss4(x) ^ __vnegss2(y);
}

KERNEL simd_extremes(const unsigned* a, const unsigned* b, unsigned* out, int n) {
    INDEX;
    unsigned x = a[i], y = b[i], *o = out + i * 8;
    o[0] = __vmaxs4(x, y);
    o[1] = __vmins4(x, y);
    o[2] = __vmaxu4(x, y);
    o[3] = __vminu4(x, y);
    o[4] = __vmaxs2(x, y);
    o[5] = __vmins2(x, y);
    o[6] = __vmaxu2(x, y);
    o[7] = __vminu2(x, y);
}

KERNEL simd_sums(const unsigned* a, const unsigned* b, unsigned* out, int n) {
    INDEX;
    unsigned x = a[i], y = b[i], *o = out + i * 10;
    o[0] = __vadd4(x, y);
    o[1] = __vaddss4(x, y);
    o[2] = __vaddus4(x, y);
    o[3] = __vsub2(x, y);
    o[4] = __vsubss2(x, y);
    o[5] = __vsubus4(x, y);
    o[6] = __vavgu4(x, y);
    o[7] = __vavgs2(x, y);
    o[8] = __vhaddu4(x, y);
    o[9] = __vneg4(x);
}

KERNEL simd_comparisons(const unsigned* a, const unsigned* b, unsigned* out, int n) {
    INDEX;
    unsigned x = a[i], y = b[i], *o = out + i * 8;
    o[0] = __vcmpeq4(x, y);
    o[1] = __vcmpgts4(x, y);
    o[2] = __vcmpltu4(x, y);
    o[3] = __vcmpges2(x, y);
    o[4] = __vsetne4(x, y);
    o[5] = __vsetleu2(x, y);
    o[6] = __vseteq2(x, y);
    o[7] = __vcmpltu2(x, y);
}

KERNEL nth_set_bits(const unsigned* masks, const int* bases, const int* offsets, unsigned* out, int n) {
    INDEX;
    out[i] = __fns(masks[i], bases[i], offsets[i]);
}

KERNEL permuted_bytes(const unsigned* a, const unsigned* b, const unsigned* selectors, unsigned* out, int n) {
    INDEX;
    unsigned x = a[i], y = b[i], *o = out + i * 5;
    o[0] = __byte_perm(x, y, selectors[i] & 0x7777);
    o[1] = __byte_perm(x, 0, 0x0123);
    o[2] = __byte_perm(x, y, 0x5410);
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(o[3]) : "r"(x), "r"(y), "r"(selectors[i]));
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(o[4]) : "r"(x), "r"(y), "r"(selectors[i]));
}

KERNEL funnel_shifts(const unsigned* low, const unsigned* high, const unsigned* shifts, unsigned* out, int n) {
    INDEX;
    unsigned x = low[i], y = high[i], s = shifts[i], *o = out + i * 4;
    o[0] = __funnelshift_l(x, y, s);
    o[1] = __funnelshift_r(x, y, s);
    o[2] = __funnelshift_lc(x, y, s);
    o[3] = __funnelshift_rc(x, y, s);
}

KERNEL averages_and_products(const int* a, const int* b, const int* c, int* out, unsigned* wide, int n) {
    INDEX;
    int x = a[i], y = b[i], *o = out + i * 6;
    o[0] = __hadd(x, y);
    o[1] = __rhadd(x, y);
    o[2] = __mul24(x, y);
    o[3] = __mulhi(x, y);
    o[4] = __sad(x, y, c[i]);
    o[5] = (int)__brev((unsigned)x) ^ __clz(y) ^ __ffs(c[i]);
    wide[i * 3 + 0] = __usad((unsigned)x, (unsigned)y, (unsigned)c[i]);
    wide[i * 3 + 1] = __uhadd((unsigned)x, (unsigned)y) ^ __urhadd((unsigned)x, (unsigned)y);
    wide[i * 3 + 2] = __umul24((unsigned)x, (unsigned)y) ^ __umulhi((unsigned)x, (unsigned)y);
}

KERNEL dynamic_programming_steps(const int* a, const int* b, const int* c, int* out, unsigned* pairs, int n) {
    INDEX;
    int x = a[i], y = b[i], z = c[i], *o = out + i * 6;
    bool from_first;
    o[0] = __viaddmax_s32(x, y, z);
    o[1] = __viaddmax_s32_relu(x, y, z);
    o[2] = __vimax3_s32(x, y, z);
    o[3] = __vimin3_s32_relu(x, y, z);
    o[4] = __vibmax_s32(x, y, &from_first);
    o[5] = from_first;
    pairs[i * 3 + 0] = __vimax3_s16x2(x, y, z);
    pairs[i * 3 + 1] = __viaddmin_s16x2(x, y, z);
    pairs[i * 3 + 2] = __vimin_s16x2_relu(x, y);
}

KERNEL video_instructions(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* out, int n) {
    INDEX;
    unsigned x = a[i], y = b[i], z = c[i], *o = out + i * 6;
    asm("vadd4.u32.u32.u32.add %0, %1, %2, %3;"
        : "=r"(o[0]) : "r"(x & 0x7f7f7f7f), "r"(y & 0x7f7f7f7f), "r"(z));
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(o[1]) : "r"(x), "r"(y), "r"(z));
    asm("vabsdiff.u32.u32.u32 %0, %1.b1, %2.b3;" : "=r"(o[2]) : "r"(x), "r"(y));
    asm("vmad.s32.s32.s32 %0, %1.h0, %2.h1, %3;" : "=r"(o[3]) : "r"(x), "r"(y), "r"(z));
    asm("vshl.u32.u32.u32.wrap.add %0, %1, %2, %3;" : "=r"(o[4]) : "r"(x), "r"(y), "r"(z));
    asm("vmax.s32.s32.s32.min %0, %1.h1, %2.b0, %3;" : "=r"(o[5]) : "r"(x), "r"(y), "r"(z));
}

KERNEL bits_of_words(const unsigned long long* x, const unsigned* field, long long* out, int n) {
    INDEX;
    unsigned long long v = x[i];
    unsigned word = (unsigned)v, first = field[i] & 31, length = field[i] >> 8 & 31, r;
    unsigned* narrow = (unsigned*)(out + i * 5 + 3);
    out[i * 5 + 0] = __popcll(v) * 10000 + __clzll(v) * 100 + __ffsll(v);
    out[i * 5 + 1] = (long long)__brevll(v);
    out[i * 5 + 2] = (long long)__umul64hi(v, v + 1) ^ __mul64hi((long long)v, -3);
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(narrow[0]) : "r"(word), "r"(first), "r"(length));
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(narrow[1]) : "r"(word), "r"(first), "r"(length));
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(narrow[2]) : "r"(word), "r"(~word), "r"(first), "r"(length));
    asm("bfind.shiftamt.s32 %0, %1;" : "=r"(r) : "r"(word));
    narrow[3] = r;
}
