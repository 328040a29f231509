// Threads that work together: reductions, scans, histograms, locks.
#include <cstdint>

#define KERNEL extern "C" __global__ void
#define FULL 0xffffffffu

KERNEL sum_shuffle(const int* x, int* total, int n) {
    __shared__ int parts[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int v = i < n ? x[i] : 0;
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(FULL, v, d);
    if (lane == 0) parts[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = lane < blockDim.x / 32 ? parts[lane] : 0;
        for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(FULL, v, d);
        if (lane == 0) atomicAdd(total, v);
    }
}

KERNEL sum_tree(const float* x, float* out, int n) {
    extern __shared__ float buffer[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    buffer[t] = (i < n ? x[i] : 0.f) + (i + blockDim.x < n ? x[i + blockDim.x] : 0.f);
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) buffer[t] += buffer[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = buffer[0];
}

__device__ unsigned int blocks_done = 0;

KERNEL sum_last_block(const int* x, volatile int* parts, int* total, int n) {
    __shared__ int buffer[128];
    __shared__ bool is_last;
    int t = threadIdx.x, v = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) v += x[i];
    buffer[t] = v;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (t < s) buffer[t] += buffer[t + s];
        __syncthreads();
    }
    if (t == 0) {
        parts[blockIdx.x] = buffer[0];
        __threadfence();
        is_last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && t == 0) {
        __threadfence();
        int sum = 0;
        for (int b = 0; b < gridDim.x; b++) sum += parts[b];
        *total = sum;
    }
}

KERNEL softmax_rows(const float* x, float* y, int columns) {
    __shared__ float shared[4];
    const float* row = x + blockIdx.x * columns;
    float m = -INFINITY;
    for (int j = threadIdx.x; j < columns; j += blockDim.x) m = fmaxf(m, row[j]);
    for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(FULL, m, d));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = m;
    __syncthreads();
    m = fmaxf(fmaxf(shared[0], shared[1]), fmaxf(shared[2], shared[3]));
    __syncthreads();
    float s = 0.f;
    for (int j = threadIdx.x; j < columns; j += blockDim.x) s += expf(row[j] - m);
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(FULL, s, d);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = s;
    __syncthreads();
    s = shared[0] + shared[1] + shared[2] + shared[3];
    for (int j = threadIdx.x; j < columns; j += blockDim.x) y[blockIdx.x * columns + j] = expf(row[j] - m) / s;
}

KERNEL layernorm_rows(const float* x, const float* weight, const float* bias, float* y, int columns, float eps) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    x += row * columns;
    float sum = 0.f, squares = 0.f;
    for (int j = lane; j < columns; j += 32) { sum += x[j]; squares += x[j] * x[j]; }
    for (int d = 16; d; d >>= 1) {
        sum += __shfl_xor_sync(FULL, sum, d);
        squares += __shfl_xor_sync(FULL, squares, d);
    }
    float mean = sum / columns, r = rsqrtf(squares / columns - mean * mean + eps);
    for (int j = lane; j < columns; j += 32) y[row * columns + j] = (x[j] - mean) * r * weight[j] + bias[j];
}

KERNEL histogram(const unsigned char* x, unsigned* bins, int n) {
    __shared__ unsigned local[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) local[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) if (local[b]) atomicAdd(&bins[b], local[b]);
}

KERNEL scan_block(const int* x, int* y) {
    extern __shared__ int double_buffer[];
    int t = threadIdx.x, n = blockDim.x, from = 0, to = 1;
    double_buffer[t] = x[blockIdx.x * n + t];
    __syncthreads();
    for (int d = 1; d < n; d *= 2) {
        double_buffer[to * n + t] = double_buffer[from * n + t] + (t >= d ? double_buffer[from * n + t - d] : 0);
        __syncthreads();
        from = 1 - from; to = 1 - to;
    }
    y[blockIdx.x * n + t] = double_buffer[from * n + t];
}

// Decoupled look-back: status 0 nothing, 1 the block's own sum, 2 the sum up to and with the block.
KERNEL scan_lookback(const int* x, int* y, volatile unsigned long long* state, unsigned* ticket, int n) {
    __shared__ int warps[8];
    __shared__ unsigned tile;
    __shared__ int prefix;
    if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);
    __syncthreads();
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, i = tile * blockDim.x + threadIdx.x;
    int v = i < n ? x[i] : 0;
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(FULL, v, d);
        if (lane >= d) v += other;
    }
    if (lane == 31) warps[warp] = v;
    __syncthreads();
    for (int w = 0; w < warp; w++) v += warps[w];
    if (threadIdx.x == blockDim.x - 1) {
        unsigned long long own = (unsigned)v;
        state[tile] = (tile == 0 ? 2ull : 1ull) << 32 | own;
        int before = 0;
        for (int t = (int)tile - 1; t >= 0; t--) {
            unsigned long long s;
            do s = state[t]; while (s >> 32 == 0);
            before += (int)(unsigned)s;
            if (s >> 32 == 2) break;
        }
        if (tile) state[tile] = 2ull << 32 | (unsigned)(before + v);
        prefix = before;
    }
    __syncthreads();
    if (i < n) y[i] = v + prefix;
}

KERNEL maximum_by_cas(const float* x, float* result, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int* place = (int*)result;
    int old = *(volatile int*)place, assumed;
    do {
        assumed = old;
        if (__int_as_float(assumed) >= x[i]) break;
        old = atomicCAS(place, assumed, __float_as_int(x[i]));
    } while (old != assumed);
}

KERNEL argmax_packed(const float* x, unsigned long long* result, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned bits = __float_as_uint(x[i]);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    atomicMax(result, (unsigned long long)bits << 32 | (unsigned)i);
}

KERNEL compact(const int* x, int* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < n && (x[i] % 3) == 0;
    unsigned ballot = __ballot_sync(FULL, keep);
    int lane = threadIdx.x & 31, base = 0, leader = __ffs(ballot) - 1;
    if (lane == leader) base = atomicAdd(count, __popc(ballot));
    base = __shfl_sync(FULL, base, leader & 31);
    if (keep) out[base + __popc(ballot & ((1u << lane) - 1))] = x[i];
}

KERNEL warp_collectives(const unsigned* x, unsigned* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned v = x[i];
    out[i * 6 + 0] = __match_any_sync(FULL, v & 7);
    out[i * 6 + 1] = __reduce_add_sync(FULL, v);
    out[i * 6 + 2] = __reduce_max_sync(FULL, v);
    out[i * 6 + 3] = __any_sync(FULL, v == 3) + 2 * __all_sync(FULL, v != 5);
    out[i * 6 + 4] = __shfl_sync(FULL, v, threadIdx.x * 7, 8);
    unsigned who = __ballot_sync(FULL, v & 1), odd = 0;
    if (v & 1) odd = __popc(__ballot_sync(who, v & 2)) > 0;
    __syncwarp();
    out[i * 6 + 5] = odd;
}

// One atomic per group of threads that happen to be together.
KERNEL aggregated_count(const int* x, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || x[i] <= 0) return;
    unsigned active = __activemask();
    if ((threadIdx.x & 31) == __ffs(active) - 1) atomicAdd(count, __popc(active));
}

KERNEL spin_lock(int* lock, volatile int* counter, int rounds) {
    for (int r = 0; r < rounds; r++) {
        if (threadIdx.x == 0) {
            while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
            __threadfence();
            *counter = *counter * 3 % 1009 + 1;
            __threadfence();
            atomicExch(lock, 0);
        }
        __syncthreads();
    }
}

KERNEL vector_atomics(const int* where, const float4* x, float4* sums, float2* pairs, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&sums[where[i]], x[i]);
    float2 old = atomicAdd(&pairs[where[i]], make_float2(x[i].x, 1.f));
    if (old.y < 0.f) sums[0].x = -1e9f;
}

KERNEL barrier_votes(const int* x, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int n = __syncthreads_count(x[i] > 0);
    int all = __syncthreads_and(x[i] != 7), any = __syncthreads_or(x[i] == 9);
    out[i] = n * 4 + (all ? 2 : 0) + (any ? 1 : 0);
}
