// Users' programs on arrays: reductions, scans, transposes, stencils, products.
#include <cstdint>

#define KERNEL extern "C" __global__ void
#define FULL 0xffffffffu

// A histogram per warp, added at the end; four bytes per load.
KERNEL histogram_by_warps(const uchar4* x, unsigned* bins, int n4) {
    __shared__ unsigned own[4][64];
    int t = threadIdx.x, warp = t / 32;
    for (int b = t; b < 256; b += 128) own[b / 64][b % 64] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + t; i < n4; i += gridDim.x * blockDim.x) {
        uchar4 v = x[i];
        atomicAdd(&own[warp][v.x >> 2], 1);
        atomicAdd(&own[warp][v.y >> 2], 1);
        atomicAdd(&own[warp][v.z >> 2], 1);
        atomicAdd(&own[warp][v.w >> 2], 1);
    }
    __syncthreads();
    if (t < 64) atomicAdd(&bins[t], own[0][t] + own[1][t] + own[2][t] + own[3][t]);
}

KERNEL scan_two_buffers(const int* x, int* y, int n) {
    extern __shared__ int buffers[];
    int t = threadIdx.x, in = 0, out = 1;
    buffers[t] = t > 0 && t < n ? x[t - 1] : 0;
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        int v = buffers[in * blockDim.x + t];
        if (t >= d) v += buffers[in * blockDim.x + t - d];
        buffers[out * blockDim.x + t] = v;
        in ^= 1;
        out ^= 1;
        __syncthreads();
    }
    if (t < n) y[t] = buffers[in * blockDim.x + t];
}

// Up and down a tree; two elements per thread, padded against bank conflicts.
#define PAD(i) ((i) + ((i) >> 5))
KERNEL scan_tree(const int* x, int* y) {
    __shared__ int s[PAD(256)];
    int t = threadIdx.x, first = blockIdx.x * 256;
    s[PAD(t)] = x[first + t];
    s[PAD(t + 128)] = x[first + t + 128];
    int offset = 1;
    for (int d = 128; d > 0; d /= 2) {
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            s[PAD(b)] += s[PAD(a)];
        }
        offset *= 2;
    }
    if (t == 0) s[PAD(255)] = 0;
    for (int d = 1; d < 256; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            int v = s[PAD(a)];
            s[PAD(a)] = s[PAD(b)];
            s[PAD(b)] += v;
        }
    }
    __syncthreads();
    y[first + t] = s[PAD(t)];
    y[first + t + 128] = s[PAD(t + 128)];
}

KERNEL scan_by_shuffles(const int* x, int* y, int* total) {
    __shared__ int sums[8];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, v = x[t];
    for (int d = 1; d < 32; d *= 2) {
        int u = __shfl_up_sync(FULL, v, d);
        if (lane >= d) v += u;
    }
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    if (t < 8) {
        int s = sums[t];
        for (int d = 1; d < 8; d *= 2) {
            int u = __shfl_up_sync(0xffu, s, d, 8);
            if (t >= d) s += u;
        }
        sums[t] = s;
        if (t == 7) *total = s;
    }
    __syncthreads();
    y[t] = v + (warp > 0 ? sums[warp - 1] : 0);
}

// Sums that begin anew where a flag is set; one warp.
KERNEL segmented_scan(const int* x, const unsigned char* heads, int* y) {
    int lane = threadIdx.x, v = x[blockIdx.x * 32 + lane];
    unsigned flags = __ballot_sync(FULL, heads[blockIdx.x * 32 + lane]) | 1;
    int start = 31 - __clz(flags & (FULL >> (31 - lane)));
    for (int d = 1; d < 32; d *= 2) {
        int u = __shfl_up_sync(FULL, v, d);
        if (lane - d >= start) v += u;
    }
    y[blockIdx.x * 32 + lane] = v;
}

KERNEL reduce_unrolled(const int* x, int* out, int n) {
    __shared__ int s[128];
    int t = threadIdx.x, sum = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) {
        sum += x[i];
        if (i + 128 < n) sum += x[i + 128];
    }
    s[t] = sum;
    __syncthreads();
    if (t < 64) s[t] += s[t + 64];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32];
        __syncwarp();
        for (int d = 16; d > 0; d /= 2) {
            int v = t < d ? s[t + d] : 0;
            __syncwarp();
            s[t] += v;
            __syncwarp();
        }
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

KERNEL smallest_and_largest(const float* x, float* out, int n) {
    __shared__ float lows[4], highs[4];
    float low = INFINITY, high = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    for (int d = 16; d; d /= 2) {
        low = fminf(low, __shfl_xor_sync(FULL, low, d));
        high = fmaxf(high, __shfl_xor_sync(FULL, high, d));
    }
    if (threadIdx.x % 32 == 0) {
        lows[threadIdx.x / 32] = low;
        highs[threadIdx.x / 32] = high;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 0; w < 4; w++) {
            out[0] = w ? fminf(out[0], lows[w]) : lows[0];
            out[1] = w ? fmaxf(out[1], highs[w]) : highs[0];
        }
}

KERNEL compact_in_order(const int* x, int* y, int* count, int n) {
    __shared__ int offsets[8];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, base = 0;
    for (int first = 0; first < n; first += 256) {
        int v = first + t < n ? x[first + t] : 0;
        unsigned keep = __ballot_sync(FULL, v > 0);
        if (lane == 0) offsets[warp] = __popc(keep);
        __syncthreads();
        int before = base, all = 0;
        for (int w = 0; w < 8; w++) {
            if (w < warp) before += offsets[w];
            all += offsets[w];
        }
        if (v > 0) y[before + __popc(keep & ((1u << lane) - 1))] = v;
        base += all;
        __syncthreads();
    }
    if (t == 0) *count = base;
}

// Tiles of the upper triangle change places with those of the lower.
KERNEL transpose_in_place(float* a, int n) {
    __shared__ float upper[16][17], lower[16][17];
    int bx = blockIdx.x, by = blockIdx.y, x = threadIdx.x, y = threadIdx.y;
    if (bx < by) return;
    int r = by * 16 + y, c = bx * 16 + x, r2 = bx * 16 + y, c2 = by * 16 + x;
    if (r < n && c < n) upper[y][x] = a[r * n + c];
    if (bx > by && r2 < n && c2 < n) lower[y][x] = a[r2 * n + c2];
    __syncthreads();
    if (r2 < n && c2 < n) a[r2 * n + c2] = upper[x][y];
    if (bx > by && r < n && c < n) a[r * n + c] = lower[x][y];
}

KERNEL reverse_in_place(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) {
        int t = x[i];
        x[i] = x[n - 1 - i];
        x[n - 1 - i] = t;
    }
}

KERNEL matrix_vector_by_warps(const float* a, const float* x, float* y, int rows, int columns) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (warp >= rows) return;
    float sum = 0;
    for (int c = lane; c < columns; c += 32) sum += a[warp * columns + c] * x[c];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(FULL, sum, d);
    if (lane == 0) y[warp] = sum;
}

KERNEL vector_matrix(const double* __restrict__ x, const double* __restrict__ a, double* y, int rows, int columns) {
    __shared__ double part[32];
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0;
    for (int first = 0; first < rows; first += 32) {
        if (threadIdx.x < 32 && first + threadIdx.x < rows) part[threadIdx.x] = x[first + threadIdx.x];
        __syncthreads();
        for (int r = 0; r < 32 && first + r < rows; r++)
            if (c < columns) sum += part[r] * a[(first + r) * columns + c];
        __syncthreads();
    }
    if (c < columns) y[c] = sum;
}

KERNEL batched_4x4(const float4* a, const float4* b, float4* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * 4) return;
    const float4* m = b + i / 4 * 4;
    float4 row = a[i], p = m[0], q = m[1], r = m[2], s = m[3];
    c[i] = make_float4(row.x * p.x + row.y * q.x + row.z * r.x + row.w * s.x,
                       row.x * p.y + row.y * q.y + row.z * r.y + row.w * s.y,
                       row.x * p.z + row.y * q.z + row.z * r.z + row.w * s.z,
                       row.x * p.w + row.y * q.w + row.z * r.w + row.w * s.w);
}

KERNEL sparse_matrix_vector(const int* first, const int* column, const double* value, const double* x, double* y,
                            int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    double sum = 0;
    for (int e = first[r]; e < first[r + 1]; e++) sum += value[e] * x[column[e]];
    y[r] = sum;
}

KERNEL sparse_coordinates(const int* row, const int* column, const int* value, const int* x, int* y, int n) {
    int e = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    int r = e < n ? row[e] : -1, v = e < n ? value[e] * x[column[e]] : 0;
    // entries are sorted by rows: neighbours are added before memory is
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(FULL, v, d), other_row = __shfl_up_sync(FULL, r, d);
        if (lane >= d && other_row == r) v += other;
    }
    int next = __shfl_down_sync(FULL, r, 1);
    if (r >= 0 && (lane == 31 || next != r)) atomicAdd(&y[r], v);
}

KERNEL stencil_of_planes(const float* in, float* out, int nx, int ny, int nz) {
    __shared__ float plane[10][18];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1, x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    bool inside = x < nx && y < ny;
    int at = y * nx + x, size = nx * ny;
    float below = 0.f, here = inside ? in[at] : 0.f, above;
    for (int z = 0; z < nz; z++) {
        above = inside && z + 1 < nz ? in[at + (z + 1) * size] : 0.f;
        plane[ty][tx] = here;
        if (threadIdx.x == 0) plane[ty][0] = inside && x > 0 ? in[at + z * size - 1] : 0.f;
        if (threadIdx.x == 15) plane[ty][17] = inside && x + 1 < nx ? in[at + z * size + 1] : 0.f;
        if (threadIdx.y == 0) plane[0][tx] = inside && y > 0 ? in[at + z * size - nx] : 0.f;
        if (threadIdx.y == 7) plane[9][tx] = inside && y + 1 < ny ? in[at + z * size + nx] : 0.f;
        __syncthreads();
        if (inside)
            out[at + z * size] = plane[ty][tx - 1] + plane[ty][tx + 1] + plane[ty - 1][tx] + plane[ty + 1][tx] + below
                               + above - 6.f * here;
        __syncthreads();
        below = here;
        here = above;
    }
}

__constant__ int taps[9];

KERNEL convolve_1d(const int* x, int* y, int n) {
    __shared__ int line[136];
    int first = blockIdx.x * 128 - 4;
    for (int i = threadIdx.x; i < 136; i += 128) line[i] = first + i >= 0 && first + i < n ? x[first + i] : 0;
    __syncthreads();
    int i = blockIdx.x * 128 + threadIdx.x, sum = 0;
    for (int k = 0; k < 9; k++) sum += taps[k] * line[threadIdx.x + k];
    if (i < n) y[i] = sum;
}

// L x = b with a unit lower triangular matrix, a column at a time.
KERNEL forward_substitution(const double* l, double* b, int n) {
    int r = threadIdx.x;
    for (int c = 0; c < n - 1; c++) {
        if (r > c && r < n) b[r] -= l[r * n + c] * b[c];
        __syncthreads();
    }
}

// The determinant modulo a prime, by elimination with exchanges of rows.
KERNEL determinant_modulo(const unsigned* matrices, unsigned* out, int n) {
    __shared__ uint64_t a[12][13];
    __shared__ int pivot;
    __shared__ uint64_t inverse;
    const uint64_t p = 2147483647;
    int r = threadIdx.y, c = threadIdx.x;
    a[r][c] = matrices[(blockIdx.x * n + r) * n + c] % p;
    uint64_t det = 1;
    for (int k = 0; k < n; k++) {
        __syncthreads();
        if (r == 0 && c == 0) {
            pivot = k;
            while (pivot < n && a[pivot][k] == 0) pivot++;
            uint64_t base = pivot < n ? a[pivot][k] : 0, power = 1;
            for (uint64_t e = p - 2; e; e >>= 1) {
                if (e & 1) power = power * base % p;
                base = base * base % p;
            }
            inverse = power;
        }
        __syncthreads();
        int at = pivot;
        if (at == n) { det = 0; break; }
        det = det * (at == k ? 1 : p - 1) % p * a[at][k] % p;
        uint64_t mine = a[r == k ? at : r == at ? k : r][c];
        uint64_t top = a[at][c], factor = a[r == at ? k : r][k] * inverse % p;
        __syncthreads();
        a[r][c] = r > k ? (mine + (p - factor) * top) % p : mine;
    }
    if (r == 0 && c == 0) out[blockIdx.x] = (unsigned)det;
}

KERNEL max_pooling(const float* x, float* y, int* argmax, int height, int width) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y, w2 = width / 2;
    if (c >= w2 || r >= height / 2) return;
    int best = 2 * r * width + 2 * c;
    for (int k = 1; k < 4; k++) {
        int i = (2 * r + k / 2) * width + 2 * c + k % 2;
        if (x[i] > x[best]) best = i;
    }
    y[r * w2 + c] = x[best];
    argmax[r * w2 + c] = best;
}
