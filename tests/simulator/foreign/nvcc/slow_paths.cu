// Functions of CUDA's mathematical library with arguments that take their slow paths.
#include <cstdint>

#define KERNEL extern "C" __global__ void
#define INDEX                                        \
    int i = blockIdx.x * blockDim.x + threadIdx.x;   \
    if (i >= n) return

KERNEL sines_of_large_floats(const float* x, float* s, float* c, int n) {
    INDEX;
    s[i] = sinf(x[i]);
    c[i] = cosf(x[i]);
}

KERNEL tangents_of_large_floats(const float* x, float* t, int n) {
    INDEX;
    t[i] = tanf(x[i]);
}

KERNEL sines_of_large_doubles(const double* x, double* s, double* c, double* t, int n) {
    INDEX;
    sincos(x[i], s + i, c + i);
    t[i] = tan(x[i]);
}

KERNEL powers_of_doubles(const double* x, const double* y, double* z, double* half, int n) {
    INDEX;
    z[i] = pow(x[i], y[i]);
    half[i] = pow(fabs(x[i]), 2.5);
}

KERNEL powers_of_floats(const float* x, const float* y, float* z, float* half, int n) {
    INDEX;
    z[i] = powf(x[i], y[i]);
    half[i] = powf(x[i], 2.5f);
}

KERNEL remainders(const double* x, const double* y, double* a, double* b, const float* u, const float* v, float* c,
                  float* d, int n) {
    INDEX;
    a[i] = fmod(x[i], y[i]);
    b[i] = remainder(x[i], y[i]);
    c[i] = fmodf(u[i], v[i]);
    d[i] = remainderf(u[i], v[i]);
}

KERNEL error_functions(const double* x, double* a, double* b, double* c, int n) {
    INDEX;
    a[i] = erf(x[i]);
    b[i] = erfc(x[i]);
    c[i] = normcdf(x[i]);
}

KERNEL error_functions_of_floats(const float* x, float* a, float* b, int n) {
    INDEX;
    a[i] = erff(x[i]);
    b[i] = erfcf(x[i]);
}

KERNEL normal_quantiles(const double* p, double* a, double* b, int n) {
    INDEX;
    a[i] = normcdfinv(p[i]);
    b[i] = erfcinv(2.0 * p[i]);
}

KERNEL logarithms_of_gamma(const double* x, double* y, int n) {
    INDEX;
    y[i] = lgamma(x[i]);
}

KERNEL logarithms_of_gamma_of_floats(const float* x, float* y, int n) {
    INDEX;
    y[i] = lgammaf(x[i]);
}

KERNEL gamma_function(const double* x, double* y, int n) {
    INDEX;
    y[i] = tgamma(x[i]);
}

KERNEL exponentials(const double* x, double* y, int n) {
    INDEX;
    double v = x[i], a = fabs(v) + 1e-310;
    y[i * 7 + 0] = exp(v);
    y[i * 7 + 1] = exp2(v);
    y[i * 7 + 2] = expm1(v);
    y[i * 7 + 3] = log(a);
    y[i * 7 + 4] = log2(a);
    y[i * 7 + 5] = log10(a);
    y[i * 7 + 6] = log1p(a);
}

KERNEL hyperbolic_functions(const double* x, double* y, int n) {
    INDEX;
    double v = x[i];
    y[i * 6 + 0] = sinh(v);
    y[i * 6 + 1] = cosh(v);
    y[i * 6 + 2] = tanh(v);
    y[i * 6 + 3] = asinh(v);
    y[i * 6 + 4] = acosh(fabs(v) + 1);
    y[i * 6 + 5] = atanh(v / (fabs(v) + 1));
}

KERNEL roots_and_norms(const double* x, const double* y, double* out, int n) {
    INDEX;
    out[i * 5 + 0] = cbrt(x[i]);
    out[i * 5 + 1] = hypot(x[i], y[i]);
    out[i * 5 + 2] = rsqrt(fabs(x[i]));
    out[i * 5 + 3] = norm3d(x[i], y[i], 1.0);
    out[i * 5 + 4] = rcbrt(y[i]);
}

KERNEL inverse_sines(const double* x, const double* y, double* out, int n) {
    INDEX;
    out[i * 5 + 0] = asin(x[i]);
    out[i * 5 + 1] = acos(x[i]);
    out[i * 5 + 2] = atan(x[i] * 1000.0);
    out[i * 5 + 3] = atan2(x[i], y[i]);
    out[i * 5 + 4] = sinpi(y[i]);
}

KERNEL divisions_at_the_limits(const double* x, const double* y, double* q, double* r, const float* u, const float* v,
                               float* f, float* g, int n) {
    INDEX;
    q[i] = x[i] / y[i];
    r[i] = sqrt(fabs(x[i])) - 1.0 / y[i];
    f[i] = u[i] / v[i];
    g[i] = sqrtf(fabsf(u[i]));
}

KERNEL directed_rounding(const double* x, const double* y, double* out, const float* u, const float* v, float* f,
                         int n) {
    INDEX;
    out[i * 8 + 0] = __dadd_ru(x[i], y[i]);
    out[i * 8 + 1] = __dadd_rd(x[i], y[i]);
    out[i * 8 + 2] = __dmul_rz(x[i], y[i]);
    out[i * 8 + 3] = __dmul_ru(x[i], y[i]);
    out[i * 8 + 4] = __ddiv_rd(x[i], y[i]);
    out[i * 8 + 5] = __ddiv_ru(x[i], y[i]);
    out[i * 8 + 6] = __fma_rz(x[i], y[i], 1.0);
    out[i * 8 + 7] = __dsqrt_ru(fabs(x[i]));
    f[i * 6 + 0] = __fadd_ru(u[i], v[i]);
    f[i * 6 + 1] = __fmul_rd(u[i], v[i]);
    f[i * 6 + 2] = __fdiv_rz(u[i], v[i]);
    f[i * 6 + 3] = __fdiv_ru(u[i], v[i]);
    f[i * 6 + 4] = __fsqrt_rd(fabsf(u[i]));
    f[i * 6 + 5] = __fmaf_ru(u[i], v[i], 1.f);
}

KERNEL parts_of_numbers(const double* x, double* fraction, int* exponent, double* whole, double* scaled, int* log,
                        double* next, long long* rounded, int n) {
    INDEX;
    fraction[i] = frexp(x[i], exponent + i);
    double w;
    scaled[i] = ldexp(modf(x[i], &w), i % 40 - 20);
    whole[i] = w;
    log[i] = ilogb(x[i]);
    next[i] = nextafter(x[i], i & 1 ? 1e300 : -1e300);
    rounded[i] = llrint(x[i]) + llround(x[i]);
}

KERNEL bessel_functions(const double* x, double* y, int n) {
    INDEX;
    y[i * 4 + 0] = j0(x[i]);
    y[i * 4 + 1] = j1(x[i]);
    y[i * 4 + 2] = cyl_bessel_i0(x[i]);
    y[i * 4 + 3] = cyl_bessel_i1(x[i]);
}
