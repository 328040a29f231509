// Matrix products by mma.sync in double precision, with the fragments' layouts of the PTX ISA.
#define KERNEL extern "C" __global__ void

__device__ void mma_m8n8k4(double (&d)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d[0]), "+d"(d[1]) : "d"(a), "d"(b));
}

KERNEL double_m8n8k4(const double* a, const double* b, const double* c, double* d) {
    int lane = threadIdx.x, group = lane / 4, part = lane % 4;
    double v[2] = {c[group * 8 + part * 2], c[group * 8 + part * 2 + 1]};
    mma_m8n8k4(v, a[group * 4 + part], b[part * 8 + group]);
    d[group * 8 + part * 2] = v[0];
    d[group * 8 + part * 2 + 1] = v[1];
}

// 16 x 8 results: rows group and group + 8, columns 2 * part and 2 * part + 1.
__device__ void load_c(double (&v)[4], const double* c) {
    int group = threadIdx.x % 32 / 4, part = threadIdx.x % 4;
    for (int i = 0; i < 4; i++) v[i] = c[(group + i / 2 * 8) * 8 + part * 2 + i % 2];
}
__device__ void store_d(const double (&v)[4], double* d) {
    int group = threadIdx.x % 32 / 4, part = threadIdx.x % 4;
    for (int i = 0; i < 4; i++) d[(group + i / 2 * 8) * 8 + part * 2 + i % 2] = v[i];
}

KERNEL double_m16n8k4(const double* a, const double* b, const double* c, double* d) {
    int group = threadIdx.x / 4, part = threadIdx.x % 4;
    double v[4];
    load_c(v, c);
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+d"(v[0]), "+d"(v[1]), "+d"(v[2]), "+d"(v[3])
                 : "d"(a[group * 4 + part]), "d"(a[(group + 8) * 4 + part]), "d"(b[part * 8 + group]));
    store_d(v, d);
}

KERNEL double_m16n8k8(const double* a, const double* b, const double* c, double* d) {
    int group = threadIdx.x / 4, part = threadIdx.x % 4;
    double v[4], x[4], y[2];
    load_c(v, c);
    for (int i = 0; i < 4; i++) x[i] = a[(group + i % 2 * 8) * 8 + part + i / 2 * 4];
    for (int i = 0; i < 2; i++) y[i] = b[(part + i * 4) * 8 + group];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+d"(v[0]), "+d"(v[1]), "+d"(v[2]), "+d"(v[3])
                 : "d"(x[0]), "d"(x[1]), "d"(x[2]), "d"(x[3]), "d"(y[0]), "d"(y[1]));
    store_d(v, d);
}

KERNEL double_m16n8k16(const double* a, const double* b, const double* c, double* d) {
    int group = threadIdx.x / 4, part = threadIdx.x % 4;
    double v[4], x[8], y[4];
    load_c(v, c);
    for (int i = 0; i < 8; i++) x[i] = a[(group + i % 2 * 8) * 16 + part + i / 2 * 4];
    for (int i = 0; i < 4; i++) y[i] = b[(part + i * 4) * 8 + group];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
                 : "+d"(v[0]), "+d"(v[1]), "+d"(v[2]), "+d"(v[3])
                 : "d"(x[0]), "d"(x[1]), "d"(x[2]), "d"(x[3]), "d"(x[4]), "d"(x[5]), "d"(x[6]), "d"(x[7]), "d"(y[0]),
                   "d"(y[1]), "d"(y[2]), "d"(y[3]));
    store_d(v, d);
}

// A tile of 16 x 16 per warp, along k from shared memory.
KERNEL double_gemm(const double* a, const double* b, double* c, int n, int k) {
    __shared__ double as[32][5], bs[4][33];
    int t = threadIdx.x, warp = t / 32, group = t % 32 / 4, part = t % 4;
    int m0 = warp / 2 * 16, n0 = warp % 2 * 16;
    double v[2][2][2] = {};
    for (int k0 = 0; k0 < k; k0 += 4) {
        as[t / 4][t % 4] = a[(blockIdx.y * 32 + t / 4) * k + k0 + t % 4];
        bs[t / 32][t % 32] = b[(k0 + t / 32) * n + blockIdx.x * 32 + t % 32];
        __syncthreads();
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                mma_m8n8k4(v[i][j], as[m0 + i * 8 + group][part], bs[part][n0 + j * 8 + group]);
        __syncthreads();
    }
    c += blockIdx.y * 32 * n + blockIdx.x * 32;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int e = 0; e < 2; e++)
                c[(m0 + i * 8 + group) * n + n0 + j * 8 + part * 2 + e] = v[i][j][e];
}

// The sum of squared distances between rows: |x|^2 + |y|^2 - 2 x y.
KERNEL double_distances(const double* x, const double* y, double* d) {
    int group = threadIdx.x / 4, part = threadIdx.x % 4;
    double v[2] = {0, 0}, xx = 0, yy = 0;
    for (int k = 0; k < 12; k += 4) {
        double p = x[group * 12 + k + part], q = y[group * 12 + k + part];
        xx += p * p;
        yy += q * q;
        mma_m8n8k4(v, p, q);
    }
    for (int s = 1; s < 4; s *= 2) {
        xx += __shfl_xor_sync(0xffffffffu, xx, s);
        yy += __shfl_xor_sync(0xffffffffu, yy, s);
    }
    for (int e = 0; e < 2; e++) {
        double other = __shfl_sync(0xffffffffu, yy, (part * 2 + e) * 4);
        d[group * 8 + part * 2 + e] = xx + other - 2 * v[e];
    }
}

// The square of a matrix again and again: results become operands by shuffles.
KERNEL double_matrix_power(const double* a, double* out, int times) {
    int lane = threadIdx.x, group = lane / 4, part = lane % 4;
    double v[2] = {a[group * 8 + part * 2], a[group * 8 + part * 2 + 1]};
    for (int t = 0; t < times; t++) {
        double next[2] = {0, 0};
        for (int half = 0; half < 2; half++) {
            int k = part + half * 4;
            double x0 = __shfl_sync(0xffffffffu, v[0], group * 4 + k / 2);
            double x1 = __shfl_sync(0xffffffffu, v[1], group * 4 + k / 2);
            double y0 = __shfl_sync(0xffffffffu, v[0], k * 4 + group / 2);
            double y1 = __shfl_sync(0xffffffffu, v[1], k * 4 + group / 2);
            mma_m8n8k4(next, k % 2 ? x1 : x0, group % 2 ? y1 : y0);
        }
        v[0] = next[0];
        v[1] = next[1];
    }
    out[group * 8 + part * 2] = v[0];
    out[group * 8 + part * 2 + 1] = v[1];
}

KERNEL double_mma_rounding(const double* a, const double* b, double* d, double* e) {
    int lane = threadIdx.x, group = lane / 4, part = lane % 4;
    double x = part == 0 ? a[group] : 0, y = part == 0 ? b[group] : 0;
    double v[2] = {1, 1}, w[2] = {1, 1};
    asm volatile("mma.sync.aligned.m8n8k4.row.col.rn.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(v[0]), "+d"(v[1]) : "d"(x), "d"(y));
    asm volatile("mma.sync.aligned.m8n8k4.row.col.rz.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(w[0]), "+d"(w[1]) : "d"(x), "d"(y));
    for (int i = 0; i < 2; i++) {
        d[group * 8 + part * 2 + i] = v[i];
        e[group * 8 + part * 2 + i] = w[i];
    }
}
