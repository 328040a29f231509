// Users' programs of physics, statistics, image processing and machine learning.
#include <cstdint>

#define KERNEL extern "C" __global__ void
#define FULL 0xffffffffu

KERNEL mandelbrot(unsigned short* out, int width, int height, int limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    double cx = -2.0 + px * (2.5 / width), cy = -1.25 + py * (2.5 / height), x = 0, y = 0;
    int k = 0;
    // rounded after each operation, so that every machine counts the same
    for (; k < limit; k++) {
        double xx = __dmul_rn(x, x), yy = __dmul_rn(y, y);
        if (__dadd_rn(xx, yy) > 4.0) break;
        y = __dadd_rn(__dmul_rn(2 * x, y), cy);
        x = __dadd_rn(__dadd_rn(xx, -yy), cx);
    }
    out[py * width + px] = k;
}

KERNEL n_body_step(const double4_16a* bodies, double4_16a* moved, double3* speeds, int n, double dt) {
    __shared__ double4_16a part[32];
    int i = blockIdx.x * 32 + threadIdx.x;
    double4_16a own = i < n ? bodies[i] : make_double4_16a(0, 0, 0, 0);
    double ax = 0, ay = 0, az = 0;
    for (int first = 0; first < n; first += 32) {
        if (first + threadIdx.x < n) part[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < min(32, n - first); k++) {
            double dx = part[k].x - own.x, dy = part[k].y - own.y, dz = part[k].z - own.z;
            double inverse = rsqrt(dx * dx + dy * dy + dz * dz + 0.01);
            double s = part[k].w * inverse * inverse * inverse;
            ax += dx * s;
            ay += dy * s;
            az += dz * s;
        }
        __syncthreads();
    }
    if (i >= n) return;
    double3 v = speeds[i];
    v.x += ax * dt;
    v.y += ay * dt;
    v.z += az * dt;
    speeds[i] = v;
    moved[i] = make_double4_16a(own.x + v.x * dt, own.y + v.y * dt, own.z + v.z * dt, own.w);
}

KERNEL game_of_life(const unsigned char* now, unsigned char* next, int height, int width) {
    __shared__ unsigned char tile[10][18];
    int x0 = blockIdx.x * 16 - 1, y0 = blockIdx.y * 8 - 1;
    for (int t = threadIdx.y * 16 + threadIdx.x; t < 180; t += 128) {
        int r = (y0 + t / 18 + height) % height, c = (x0 + t % 18 + width) % width;
        tile[t / 18][t % 18] = now[r * width + c];
    }
    __syncthreads();
    int x = threadIdx.x + 1, y = threadIdx.y + 1, alive = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) alive += dy || dx ? tile[y + dy][x + dx] : 0;
    if (y0 + y < height && x0 + x < width) next[(y0 + y) * width + x0 + x] = alive == 3 || (alive == 2 && tile[y][x]);
}

// 32 cells per word, one warp: neighbours by shuffles and shifts, sums by logic.
KERNEL life_of_bits(const unsigned* rows, unsigned* out, int steps) {
    unsigned own = rows[threadIdx.x];
    for (int s = 0; s < steps; s++) {
        unsigned up = __shfl_sync(FULL, own, threadIdx.x + 31), down = __shfl_sync(FULL, own, threadIdx.x + 1);
        unsigned one = 0, two = 0, four = 0;
        unsigned neighbours[8] = {up, up << 1 | up >> 31, up >> 1 | up << 31, own << 1 | own >> 31,
                                  own >> 1 | own << 31, down, down << 1 | down >> 31, down >> 1 | down << 31};
        for (int k = 0; k < 8; k++) {
            unsigned carry = one & neighbours[k];
            one ^= neighbours[k];
            four |= two & carry;
            two ^= carry;
        }
        own = two & ~four & (one | own);
    }
    out[threadIdx.x] = own;
}

KERNEL rule_110(unsigned* cells, int steps) {
    int lane = threadIdx.x;
    unsigned row = cells[blockIdx.x * (steps + 1)];
    for (int s = 1; s <= steps; s++) {
        int pattern = (row >> ((lane + 1) & 31) & 1) << 2 | (row >> lane & 1) << 1 | (row >> ((lane + 31) & 31) & 1);
        row = __ballot_sync(FULL, 110 >> pattern & 1);
        if (lane == 0) cells[blockIdx.x * (steps + 1) + s] = row;
    }
}

KERNEL k_means_step(const short2* points, const int2* centres, int* which, int* sums, int n, int k) {
    __shared__ int own[8][3];
    for (int t = threadIdx.x; t < 24; t += blockDim.x) own[t / 3][t % 3] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        short2 p = points[i];
        int best = 0, least = 0x7fffffff;
        for (int c = 0; c < k; c++) {
            int dx = p.x - centres[c].x, dy = p.y - centres[c].y, d = dx * dx + dy * dy;
            if (d < least) {
                least = d;
                best = c;
            }
        }
        which[i] = best;
        atomicAdd(&own[best][0], p.x);
        atomicAdd(&own[best][1], p.y);
        atomicAdd(&own[best][2], 1);
    }
    __syncthreads();
    for (int t = threadIdx.x; t < k * 3; t += blockDim.x) atomicAdd(&sums[t], own[t / 3][t % 3]);
}

__device__ __forceinline__ unsigned xorshift(unsigned& s) {
    s ^= s << 13;
    s ^= s >> 17;
    s ^= s << 5;
    return s;
}

KERNEL monte_carlo_pi(const unsigned* seeds, unsigned* inside, int tries) {
    __shared__ unsigned total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    unsigned s = seeds[blockIdx.x * blockDim.x + threadIdx.x], own = 0;
    for (int t = 0; t < tries; t++) {
        unsigned long long x = xorshift(s) >> 1, y = xorshift(s) >> 1;
        own += x * x + y * y < 1ull << 62;
    }
    atomicAdd(&total, own);
    __syncthreads();
    if (threadIdx.x == 0) inside[blockIdx.x] = total;
}

KERNEL random_walks(ulonglong2* states, int2* ends, int* farthest, int steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    ulonglong2 s = states[i];
    int x = 0, y = 0, far = 0;
    for (int t = 0; t < steps; t++) {
        unsigned long long a = s.x, b = s.y;
        s.x = b;
        a ^= a << 23;
        s.y = a ^ b ^ a >> 17 ^ b >> 26;
        switch ((s.y + b) >> 62) {
            case 0: x++; break;
            case 1: x--; break;
            case 2: y++; break;
            default: y--;
        }
        far = max(far, abs(x) + abs(y));
    }
    states[i] = s;
    ends[i] = make_int2(x, y);
    atomicMax(farthest, far);
}

// The spins of one colour of a checkerboard turn; thresholds come from the host.
KERNEL ising_half_step(signed char* spins, const unsigned* thresholds, int width, int colour, unsigned seed) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if ((x + y) % 2 != colour) return;
    unsigned s = seed ^ (y * width + x + 1) * 2654435761u;
    int around = spins[y * width + (x + 1) % width] + spins[y * width + (x + width - 1) % width]
               + spins[(y + 1) % width * width + x] + spins[(y + width - 1) % width * width + x];
    int gain = spins[y * width + x] * around;
    if (gain <= 0 || xorshift(s) < thresholds[gain / 2]) spins[y * width + x] = -spins[y * width + x];
}

// 256 points, radix 2, in shared memory.
KERNEL fourier_transform(const float2* x, float2* y) {
    __shared__ float2 s[256];
    int t = threadIdx.x;
    const float2* own = x + blockIdx.x * 256;
    s[__brev(t) >> 24] = own[t];
    s[__brev(t + 128) >> 24] = own[t + 128];
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        int k = t % half, i = (t / half) * 2 * half + k;
        float si, co;
        sincospif(-(float)k / half, &si, &co);
        float2 a = s[i], b = s[i + half];
        float2 w = make_float2(b.x * co - b.y * si, b.x * si + b.y * co);
        s[i] = make_float2(a.x + w.x, a.y + w.y);
        s[i + half] = make_float2(a.x - w.x, a.y - w.y);
    }
    __syncthreads();
    y[blockIdx.x * 256 + t] = s[t];
    y[blockIdx.x * 256 + t + 128] = s[t + 128];
}

KERNEL haar_wavelet(const int* x, int* y) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    s[t + 64] = x[blockIdx.x * 128 + t + 64];
    for (int n = 64; n > 0; n /= 2) {
        __syncthreads();
        int a = 0, b = 0;
        if (t < n) {
            a = s[2 * t];
            b = s[2 * t + 1];
        }
        __syncthreads();
        if (t < n) {
            s[t] = a + b;
            y[blockIdx.x * 128 + n + t] = a - b;
        }
    }
    if (t == 0) y[blockIdx.x * 128] = s[0];
}

KERNEL sobel_edges(const unsigned char* image, unsigned char* edges, int height, int width) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= height || c >= width) return;
    if (r == 0 || c == 0 || r == height - 1 || c == width - 1) {
        edges[r * width + c] = 0;
        return;
    }
    const unsigned char* p = image + r * width + c;
    int gx = p[1 - width] + 2 * p[1] + p[1 + width] - p[-1 - width] - 2 * p[-1] - p[-1 + width];
    int gy = p[width - 1] + 2 * p[width] + p[width + 1] - p[-width - 1] - 2 * p[-width] - p[-width + 1];
    edges[r * width + c] = min(abs(gx) + abs(gy), 255);
}

KERNEL equalized_grey(const uchar3* pixels, unsigned char* out, int n) {
    __shared__ int bins[256];
    int t = threadIdx.x;
    bins[t] = 0;
    __syncthreads();
    for (int i = t; i < n; i += 256) {
        uchar3 p = pixels[i];
        int grey = (77 * p.x + 150 * p.y + 29 * p.z) >> 8;
        out[i] = grey;
        atomicAdd(&bins[grey], 1);
    }
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        int v = t >= d ? bins[t - d] : 0;
        __syncthreads();
        bins[t] += v;
        __syncthreads();
    }
    for (int i = t; i < n; i += 256) out[i] = bins[out[i]] * 255 / n;
}

KERNEL integral_image(const unsigned char* image, unsigned* sums, int height, int width) {
    int t = threadIdx.x;
    if (t < height) {
        unsigned sum = 0;
        for (int c = 0; c < width; c++) sums[t * width + c] = sum += image[t * width + c];
    }
    __syncthreads();
    if (t < width)
        for (int r = 1; r < height; r++) sums[r * width + t] += sums[(r - 1) * width + t];
}

KERNEL resize_bilinear(const unsigned char* in, unsigned char* out, int h, int w, int oh, int ow) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= ow || y >= oh) return;
    int fx = x * (w - 1) * 256 / (ow - 1), fy = y * (h - 1) * 256 / (oh - 1);
    int x0 = fx >> 8, y0 = fy >> 8, x1 = min(x0 + 1, w - 1), y1 = min(y0 + 1, h - 1);
    int ax = fx & 255, ay = fy & 255;
    int top = in[y0 * w + x0] * (256 - ax) + in[y0 * w + x1] * ax;
    int bottom = in[y1 * w + x0] * (256 - ax) + in[y1 * w + x1] * ax;
    out[y * ow + x] = (top * (256 - ay) + bottom * ay + 32768) >> 16;
}

KERNEL recursive_filter(const double* x, double* y, int length, int channels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    double one = 0, two = 0;
    for (int i = 0; i < length; i++) {
        double v = x[i * channels + c] + 0.5 * one - 0.25 * two;
        two = one;
        y[i * channels + c] = one = v;
    }
}

KERNEL rays_and_spheres(const double3* directions, const double4_16a* spheres, int count, int* hit, double* distance,
                        int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double3 d = directions[i];
    double nearest = 1e30, length = d.x * d.x + d.y * d.y + d.z * d.z;
    int which = -1;
    for (int k = 0; k < count; k++) {
        double4_16a s = spheres[k];
        double b = d.x * s.x + d.y * s.y + d.z * s.z, c = s.x * s.x + s.y * s.y + s.z * s.z - s.w * s.w;
        double under = b * b - length * c;
        if (under < 0) continue;
        double t = (b - sqrt(under)) / length;
        if (t > 0 && t < nearest) {
            nearest = t;
            which = k;
        }
    }
    hit[i] = which;
    distance[i] = nearest;
}

KERNEL option_prices(const double* price, const double* strike, const double* years, double* call, double* put, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double rate = 0.02, volatility = 0.3;
    double spread = volatility * sqrt(years[i]);
    double d1 = (log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / spread;
    double d2 = d1 - spread;
    double discounted = strike[i] * exp(-rate * years[i]);
    call[i] = price[i] * 0.5 * erfc(-d1 * 0.7071067811865476) - discounted * 0.5 * erfc(-d2 * 0.7071067811865476);
    put[i] = call[i] - price[i] + discounted;
}

// The maximum and the sum are brought along together, a warp per row.
KERNEL softmax_online(const float* x, float* y, int columns) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    float m = -INFINITY, s = 0;
    for (int c = lane; c < columns; c += 32) {
        float v = x[row * columns + c], top = fmaxf(m, v);
        s = s * expf(m - top) + expf(v - top);
        m = top;
    }
    for (int d = 16; d; d /= 2) {
        float other = __shfl_xor_sync(FULL, m, d), sum = __shfl_xor_sync(FULL, s, d), top = fmaxf(m, other);
        s = s * expf(m - top) + sum * expf(other - top);
        m = top;
    }
    for (int c = lane; c < columns; c += 32) y[row * columns + c] = expf(x[row * columns + c] - m) / s;
}

// Weights of four bits, eight in a word, with a scale per group of 32.
KERNEL quantized_matrix_vector(const unsigned* w, const float* scales, const float* x, float* y, int columns) {
    int row = blockIdx.x, lane = threadIdx.x;
    float sum = 0;
    for (int c = lane * 8; c < columns; c += 256) {
        unsigned word = w[(row * columns + c) / 8];
        float part = 0;
        for (int k = 0; k < 8; k++) part += (float)((int)(word >> 4 * k & 15) - 8) * x[c + k];
        sum += part * scales[(row * columns + c) / 32];
    }
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(FULL, sum, d);
    if (lane == 0) y[row] = sum;
}

KERNEL embedding_sums(const int* offsets, const int* indices, const float4* table, float4* out, int width4) {
    int bag = blockIdx.x;
    for (int c = threadIdx.x; c < width4; c += blockDim.x) {
        float4 sum = make_float4(0, 0, 0, 0);
        for (int e = offsets[bag]; e < offsets[bag + 1]; e++) {
            float4 v = table[indices[e] * width4 + c];
            sum.x += v.x;
            sum.y += v.y;
            sum.z += v.z;
            sum.w += v.w;
        }
        out[bag * width4 + c] = sum;
    }
}

KERNEL adam_step(float* weight, const float* gradient, float* first, float* second, int n, float rate,
                 float correction1, float correction2) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float g = gradient[i];
        float m = first[i] = 0.9f * first[i] + 0.1f * g;
        float v = second[i] = 0.999f * second[i] + 0.001f * g * g;
        weight[i] -= rate * (m * correction1) / (sqrtf(v * correction2) + 1e-8f);
    }
}
