// Users' programs that sort, select and merge.
#include <cstdint>

#define KERNEL extern "C" __global__ void
#define FULL 0xffffffffu

// One pass of a radix sort over four bits: stable, one block.
KERNEL radix_sort_pass(const unsigned* keys, unsigned* sorted, int n, int shift) {
    __shared__ int counts[16][128];
    __shared__ int totals[16];
    int t = threadIdx.x, per = (n + 127) / 128, first = t * per, last = min(first + per, n);
    for (int d = 0; d < 16; d++) counts[d][t] = 0;
    for (int i = first; i < last; i++) counts[keys[i] >> shift & 15][t]++;
    __syncthreads();
    if (t < 16) {
        int sum = 0;
        for (int i = 0; i < 128; i++) {
            int c = counts[t][i];
            counts[t][i] = sum;
            sum += c;
        }
        totals[t] = sum;
    }
    __syncthreads();
    if (t == 0) {
        int sum = 0;
        for (int d = 0; d < 16; d++) {
            int c = totals[d];
            totals[d] = sum;
            sum += c;
        }
    }
    __syncthreads();
    for (int i = first; i < last; i++) {
        int d = keys[i] >> shift & 15;
        sorted[totals[d] + counts[d][t]++] = keys[i];
    }
}

// Splits by one bit after the other with ballots: a warp sorts 32 numbers of 8 bits.
KERNEL split_sort(const unsigned char* x, unsigned char* y, unsigned char* order) {
    int lane = threadIdx.x;
    unsigned v = x[blockIdx.x * 32 + lane] | lane << 8;
    for (int b = 0; b < 8; b++) {
        unsigned ones = __ballot_sync(FULL, v >> b & 1), below = (1u << lane) - 1;
        int to = v >> b & 1 ? __popc(~ones) + __popc(ones & below) : __popc(~ones & below);
        // who has lane as target? send through memory of the warp
        __shared__ unsigned place[32];
        place[to] = v;
        __syncwarp();
        v = place[lane];
        __syncwarp();
    }
    y[blockIdx.x * 32 + lane] = v & 255;
    order[blockIdx.x * 32 + lane] = v >> 8;
}

KERNEL bitonic_by_shuffles(const int* x, int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, v = x[i];
    for (int k = 2; k <= 32; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            int other = __shfl_xor_sync(FULL, v, j);
            bool up = (lane & k) == 0 || k == 32, low = (lane & j) == 0;
            v = up == low ? min(v, other) : max(v, other);
        }
    y[i] = v;
}

KERNEL odd_even_sort(float* x, int n) {
    __shared__ float s[128];
    int t = threadIdx.x;
    for (int i = t; i < n; i += blockDim.x) s[i] = x[blockIdx.x * n + i];
    __syncthreads();
    for (int round = 0; round < n; round++) {
        int i = 2 * t + round % 2;
        if (i + 1 < n && s[i] > s[i + 1]) {
            float v = s[i];
            s[i] = s[i + 1];
            s[i + 1] = v;
        }
        __syncthreads();
    }
    for (int i = t; i < n; i += blockDim.x) x[blockIdx.x * n + i] = s[i];
}

// Each element goes to the number of those that come before it.
KERNEL rank_sort(const int* x, int* y, int n) {
    __shared__ int part[64];
    int i = blockIdx.x * 64 + threadIdx.x, mine = i < n ? x[i] : 0, rank = 0;
    for (int first = 0; first < n; first += 64) {
        if (first + threadIdx.x < n) part[threadIdx.x] = x[first + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 64 && first + k < n; k++)
            if (part[k] < mine || (part[k] == mine && first + k < i)) rank++;
        __syncthreads();
    }
    if (i < n) y[rank] = mine;
}

__device__ int lower_bound(const int* a, int n, int v) {
    int low = 0;
    while (n > 0) {
        int half = n / 2;
        if (a[low + half] < v) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

__device__ int upper_bound(const int* a, int n, int v) { return lower_bound(a, n, v + 1); }

// Runs of 1, 2, 4, ... are merged by the ranks of their elements.
KERNEL merge_sort(const int* x, int* y) {
    __shared__ int s[2][128];
    int t = threadIdx.x;
    s[0][t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    int now = 0;
    for (int w = 1; w < 128; w *= 2) {
        int pair = t / (2 * w) * 2 * w, v = s[now][t];
        bool left = t - pair < w;
        int rank = left ? lower_bound(s[now] + pair + w, w, v) : upper_bound(s[now] + pair, w, v);
        s[now ^ 1][pair + (left ? t - pair : t - pair - w) + rank] = v;
        now ^= 1;
        __syncthreads();
    }
    y[blockIdx.x * 128 + t] = s[now][t];
}

// Each thread finds where its part of the merged array begins, and merges it.
KERNEL merge_path(const int* a, int na, const int* b, int nb, int* c, int per) {
    int diagonal = (blockIdx.x * blockDim.x + threadIdx.x) * per;
    if (diagonal >= na + nb) return;
    int low = max(0, diagonal - nb), high = min(diagonal, na);
    while (low < high) {
        int mid = (low + high) / 2;
        if (a[mid] <= b[diagonal - 1 - mid]) low = mid + 1;
        else high = mid;
    }
    int i = low, j = diagonal - low;
    for (int k = diagonal; k < min(diagonal + per, na + nb); k++)
        c[k] = j >= nb || (i < na && a[i] <= b[j]) ? a[i++] : b[j++];
}

// The k largest of each row, in a heap of registers and local memory.
KERNEL top_k(const float* x, float* y, int columns) {
    const int k = 5;
    const float* row = x + (blockIdx.x * blockDim.x + threadIdx.x) * columns;
    float heap[k];
    for (int i = 0; i < k; i++) heap[i] = -INFINITY;
    for (int c = 0; c < columns; c++) {
        if (row[c] <= heap[0]) continue;
        float v = row[c];
        int at = 0;
        for (;;) {
            int child = 2 * at + 1;
            if (child >= k) break;
            if (child + 1 < k && heap[child + 1] < heap[child]) child++;
            if (heap[child] >= v) break;
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = v;
    }
    for (int i = 0; i < k; i++) y[(blockIdx.x * blockDim.x + threadIdx.x) * k + i] = heap[i];
}

KERNEL quickselect(const int* x, int* medians, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int a[15];
    for (int i = 0; i < 15; i++) a[i] = x[r * 15 + i];
    int low = 0, high = 14;
    while (low < high) {
        int pivot = a[7], i = low, j = high;
        do {
            while (a[i] < pivot) i++;
            while (pivot < a[j]) j--;
            if (i <= j) {
                int t = a[i];
                a[i++] = a[j];
                a[j--] = t;
            }
        } while (i <= j);
        if (j < 7) low = i;
        if (7 < i) high = j;
    }
    medians[r] = a[7];
}

KERNEL unique_of_sorted(const int* x, int* y, int* positions, int* count, int n) {
    __shared__ int sums[4];
    int t = threadIdx.x, lane = t % 32, base = 0;
    for (int first = 0; first < n; first += 128) {
        int i = first + t;
        bool head = i < n && (i == 0 || x[i] != x[i - 1]);
        unsigned votes = __ballot_sync(FULL, head);
        if (lane == 0) sums[t / 32] = __popc(votes);
        __syncthreads();
        int at = base + __popc(votes & ((1u << lane) - 1)), all = 0;
        for (int w = 0; w < 4; w++) {
            if (w < t / 32) at += sums[w];
            all += sums[w];
        }
        if (head) {
            y[at] = x[i];
            positions[at] = i;
        }
        base += all;
        __syncthreads();
    }
    if (t == 0) *count = base;
}

// The median of 3 x 3 pixels, by exchanges.
__device__ __forceinline__ void order(int& a, int& b) {
    int t = min(a, b);
    b = max(a, b);
    a = t;
}
KERNEL median_filter(const unsigned char* x, unsigned char* y, int height, int width) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c >= width || r >= height) return;
    int v[9], k = 0;
    for (int dr = -1; dr <= 1; dr++)
        for (int dc = -1; dc <= 1; dc++) {
            int rr = min(max(r + dr, 0), height - 1), cc = min(max(c + dc, 0), width - 1);
            v[k++] = x[rr * width + cc];
        }
    for (int i = 0; i < 5; i++)
        for (int j = 8; j > i; j--) order(v[j - 1], v[j]);
    y[r * width + c] = (unsigned char)v[4];
}

KERNEL search_sorted(const int* a, int n, const int* v, int2* out, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) out[i] = make_int2(lower_bound(a, n, v[i]), upper_bound(a, n, v[i]));
}

// A priority per thread, the smallest first: tickets by atomics on one word of urgency and number.
KERNEL most_urgent(const int* urgency, unsigned long long* best, int* order, int n, int rounds) {
    __shared__ unsigned long long least;
    int i = threadIdx.x;
    unsigned long long own = i < n ? (unsigned long long)urgency[i] << 32 | i : ~0ull;
    for (int r = 0; r < rounds; r++) {
        if (i == 0) least = ~0ull;
        __syncthreads();
        atomicMin(&least, own);
        __syncthreads();
        if (own == least) {
            order[r] = i;
            best[r] = own;
            own = ~0ull;
        }
        __syncthreads();
    }
}
