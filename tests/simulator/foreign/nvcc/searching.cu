// Users' programs on texts, graphs, hash tables and bits.
#include <cstdint>

#define KERNEL extern "C" __global__ void
#define FULL 0xffffffffu

__constant__ char pattern[16];

KERNEL string_search(const char* text, int n, int m, unsigned* hits, int* count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    bool there = i + m <= n;
    while (there && k < m) {
        there = text[i + k] == pattern[k];
        k++;
    }
    unsigned votes = __ballot_sync(FULL, there);
    if (threadIdx.x % 32 == 0) {
        hits[i / 32] = votes;
        atomicAdd(count, __popc(votes));
    }
}

// Many patterns of one length, by the hash of a window that each thread rolls over its part of the text.
KERNEL rolling_hash(const unsigned char* text, int n, int m, unsigned wanted, int per, int* first) {
    const unsigned base = 257;
    int start = (blockIdx.x * blockDim.x + threadIdx.x) * per;
    if (start + m > n) return;
    unsigned hash = 0, power = 1;
    for (int k = 0; k < m; k++) {
        hash = hash * base + text[start + k];
        if (k) power *= base;
    }
    for (int i = start; i < start + per && i + m <= n; i++) {
        if (hash == wanted) atomicMin(first, i);
        if (i + m < n) hash = (hash - text[i] * power) * base + text[i + m];
    }
}

// Knuth, Morris, Pratt: occurrences in each line, overlapping ones too.
KERNEL knuth_morris_pratt(const char* lines, int length, const int* failure, int m, int* counts) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, state = 0, count = 0;
    for (int i = 0; i < length; i++) {
        char c = lines[row * length + i];
        while (state > 0 && (state == m || c != pattern[state])) state = failure[state - 1];
        if (c == pattern[state]) state++;
        if (state == m) count++;
    }
    counts[row] = count;
}

KERNEL hash_insert(const unsigned* keys, unsigned* table, int* counts, int n, unsigned capacity) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = keys[i], slot = key * 2654435761u % capacity;
    for (;;) {
        unsigned old = atomicCAS(&table[slot], 0xffffffffu, key);
        if (old == 0xffffffffu || old == key) {
            atomicAdd(&counts[key], 1);
            return;
        }
        slot = (slot + 1) % capacity;
    }
}

// One block inserts pairs and then looks others up; the order of insertion shows nowhere.
KERNEL hash_join(const unsigned* keys, const unsigned* values, const unsigned* wanted, unsigned* found, int n) {
    __shared__ unsigned long long table[256];
    int t = threadIdx.x;
    for (int i = t; i < 256; i += blockDim.x) table[i] = 0;
    __syncthreads();
    for (int i = t; i < n; i += blockDim.x) {
        unsigned long long entry = (unsigned long long)keys[i] << 32 | values[i];
        unsigned slot = (keys[i] ^ keys[i] >> 7) & 255;
        while (atomicCAS(&table[slot], 0ull, entry) != 0) slot = (slot + 1) & 255;
    }
    __syncthreads();
    for (int i = t; i < n; i += blockDim.x) {
        unsigned slot = (wanted[i] ^ wanted[i] >> 7) & 255, value = 0xffffffffu;
        while (table[slot] != 0) {
            if (table[slot] >> 32 == wanted[i]) {
                value = (unsigned)table[slot];
                break;
            }
            slot = (slot + 1) & 255;
        }
        found[i] = value;
    }
}

KERNEL bloom_filter(const unsigned* members, int n, const unsigned* asked, unsigned char* maybe, int m) {
    __shared__ unsigned bits[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) bits[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        for (int k = 1; k <= 3; k++) {
            unsigned h = members[i] * (2654435761u + 2 * k) >> 21;
            atomicOr(&bits[h / 32], 1u << h % 32);
        }
    __syncthreads();
    for (int i = threadIdx.x; i < m; i += blockDim.x) {
        bool all = true;
        for (int k = 1; k <= 3; k++) {
            unsigned h = asked[i] * (2654435761u + 2 * k) >> 21;
            all = all && bits[h / 32] >> h % 32 & 1;
        }
        maybe[i] = all;
    }
}

// One level of a breadth-first search: from a list of vertices to marks of those of the next level.
KERNEL bfs_level(const int* first, const int* neighbour, const int* front, int front_size, int* distance,
                 unsigned char* next, int* next_size, int depth) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= front_size) return;
    int v = front[i];
    for (int e = first[v]; e < first[v + 1]; e++) {
        int w = neighbour[e];
        if (atomicCAS(&distance[w], -1, depth) == -1) {
            next[w] = 1;
            atomicAdd(next_size, 1);
        }
    }
}

KERNEL shortest_paths(const int3* edges, int* distance, int n, int m) {
    __shared__ int d[64];
    int t = threadIdx.x;
    for (int v = t; v < n; v += blockDim.x) d[v] = v == 0 ? 0 : 1000000000;
    __syncthreads();
    for (int round = 0; round < n; round++) {
        int changed = 0;
        for (int e = t; e < m; e += blockDim.x) {
            int3 edge = edges[e];
            int far = atomicAdd(&d[edge.x], 0) + edge.z;
            if (far < 1000000000 && atomicMin(&d[edge.y], far) > far) changed = 1;
        }
        if (!__syncthreads_or(changed)) break;
    }
    for (int v = t; v < n; v += blockDim.x) distance[v] = d[v];
}

KERNEL connected_components(const int2* edges, int* label, int n, int m) {
    __shared__ int parent[128];
    int t = threadIdx.x;
    for (int v = t; v < n; v += blockDim.x) parent[v] = v;
    __syncthreads();
    for (int e = t; e < m; e += blockDim.x) {
        int a = edges[e].x, b = edges[e].y;
        for (;;) {
            for (int p; (p = atomicAdd(&parent[a], 0)) != a;) a = p;
            for (int p; (p = atomicAdd(&parent[b], 0)) != b;) b = p;
            if (a == b) break;
            if (a < b) { int x = a; a = b; b = x; }
            if (atomicCAS(&parent[a], a, b) == a) break;
        }
    }
    __syncthreads();
    for (int v = t; v < n; v += blockDim.x) {
        int root = v;
        while (parent[root] != root) root = parent[root];
        label[v] = root;
    }
}

KERNEL count_triangles(const unsigned long long* rows, int n, int* total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, own = 0;
    if (i < n)
        for (int j = i + 1; j < n; j++)
            if (rows[i] >> j & 1) own += __popcll(rows[i] & rows[j] & ~((2ull << j) - 1));
    for (int d = 16; d; d /= 2) own += __shfl_xor_sync(FULL, own, d);
    if (threadIdx.x % 32 == 0) atomicAdd(total, own);
}

KERNEL page_rank_step(const int* first, const int* source, const int* out_degree, const double* rank, double* next,
                      int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    double sum = 0;
    for (int e = first[v]; e < first[v + 1]; e++) sum += rank[source[e]] / out_degree[source[e]];
    next[v] = __dadd_rn(0.25 / n, __dmul_rn(0.75, sum));
}

// Anti-diagonals of the table one after the other.
KERNEL edit_distance(const char* a, const char* b, int* out, int n) {
    __shared__ int d[3][65];
    int t = threadIdx.x;
    const char *s = a + blockIdx.x * n, *u = b + blockIdx.x * n;
    for (int diagonal = 0; diagonal <= 2 * n; diagonal++) {
        int *now = d[diagonal % 3], *one = d[(diagonal + 2) % 3], *two = d[(diagonal + 1) % 3];
        for (int i = t; i <= n; i += blockDim.x) {
            int j = diagonal - i;
            if (j < 0 || j > n) continue;
            if (i == 0 || j == 0) now[i] = i + j;
            else now[i] = min(min(one[i - 1], one[i]) + 1, two[i - 1] + (s[i - 1] != u[j - 1]));
        }
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = d[2 * n % 3][n];
}

KERNEL local_alignment(const char* a, const char* b, int* best, int n, int m) {
    int pair = blockIdx.x * blockDim.x + threadIdx.x, row[21], top = 0;
    for (int j = 0; j <= m; j++) row[j] = 0;
    for (int i = 0; i < n; i++) {
        int diagonal = 0;
        for (int j = 1; j <= m; j++) {
            int up = row[j], score = diagonal + (a[pair * n + i] == b[pair * m + j - 1] ? 3 : -2);
            diagonal = up;
            row[j] = max(max(0, score), max(up, row[j - 1]) - 2);
            top = max(top, row[j]);
        }
    }
    best[pair] = top;
}

__constant__ unsigned crc_table[256];

KERNEL crc32_rows(const unsigned char* x, int length, unsigned* out, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    unsigned crc = ~0u;
    for (int i = 0; i < length; i++) crc = crc_table[(crc ^ x[r * length + i]) & 255] ^ crc >> 8;
    out[r] = ~crc;
}

__constant__ unsigned sha_constants[64];

__device__ __forceinline__ unsigned turn(unsigned x, int n) { return x >> n | x << (32 - n); }

// SHA-256 of messages of one block, which the host has padded; words are big-endian.
KERNEL sha256(const unsigned* blocks, unsigned* digests, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned w[64], h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int t = 0; t < 16; t++) w[t] = __byte_perm(blocks[i * 16 + t], 0, 0x0123);
    for (int t = 16; t < 64; t++)
        w[t] = w[t - 16] + w[t - 7] + (turn(w[t - 15], 7) ^ turn(w[t - 15], 18) ^ w[t - 15] >> 3)
             + (turn(w[t - 2], 17) ^ turn(w[t - 2], 19) ^ w[t - 2] >> 10);
    unsigned s[8];
    for (int k = 0; k < 8; k++) s[k] = h[k];
    for (int t = 0; t < 64; t++) {
        unsigned one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + (s[4] & s[5] ^ ~s[4] & s[6])
                     + sha_constants[t] + w[t];
        unsigned two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + (s[0] & s[1] ^ s[0] & s[2] ^ s[1] & s[2]);
        for (int k = 7; k > 0; k--) s[k] = s[k - 1];
        s[4] += one;
        s[0] = one + two;
    }
    for (int k = 0; k < 8; k++) digests[i * 8 + k] = __byte_perm(h[k] + s[k], 0, 0x0123);
}

KERNEL base64(const unsigned char* x, char4* y, int groups) {
    const char* letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= groups) return;
    unsigned v = x[i * 3] << 16 | x[i * 3 + 1] << 8 | x[i * 3 + 2];
    y[i] = make_char4(letters[v >> 18], letters[v >> 12 & 63], letters[v >> 6 & 63], letters[v & 63]);
}

// Words, lines and characters of UTF-8 text.
KERNEL word_count(const unsigned char* text, int n, int* counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned char c = i < n ? text[i] : ' ', before = i > 0 && i <= n ? text[i - 1] : ' ';
    bool space = c == ' ' || c == '\n', after_space = before == ' ' || before == '\n';
    int words = __syncthreads_count(i < n && !space && after_space);
    int lines = __syncthreads_count(i < n && c == '\n');
    int letters = __syncthreads_count(i < n && (c & 0xc0) != 0x80);
    if (threadIdx.x == 0) {
        atomicAdd(&counts[0], words);
        atomicAdd(&counts[1], lines);
        atomicAdd(&counts[2], letters);
    }
}

KERNEL prime_sieve(unsigned* composite, int n) {
    for (int p = 2; p * p < n; p++) {
        bool crossed = composite[p / 32] >> p % 32 & 1;
        __syncthreads();
        if (crossed) continue;
        for (int m = p * p + threadIdx.x * p; m < n; m += blockDim.x * p) atomicOr(&composite[m / 32], 1u << m % 32);
        __syncthreads();
    }
}

KERNEL modular_powers(const uint64_t* base, const uint64_t* exponent, uint64_t* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    // modulo the Mersenne prime 2**61 - 1: the product's high part is added to its low part
    const uint64_t p = (1ull << 61) - 1;
    uint64_t b = base[i] % p, r = 1;
    for (uint64_t e = exponent[i]; e; e >>= 1) {
        for (int square = 0; square < 2; square++) {
            if (!square && !(e & 1)) continue;
            uint64_t x = square ? b : r, low = x * b, high = __umul64hi(x, b);
            uint64_t s = (low & p) + (low >> 61 | high << 3);
            s = (s & p) + (s >> 61);
            if (s >= p) s -= p;
            if (square) b = s;
            else r = s;
        }
    }
    out[i] = r;
}

// Sums of numbers of 128 bits, a thread per sum, with the carry flag.
KERNEL long_addition(const unsigned* a, const unsigned* b, unsigned* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned *x = a + i * 4, *y = b + i * 4;
    unsigned* z = c + i * 5;
    asm("add.cc.u32 %0, %5, %9;\n\t"
        "addc.cc.u32 %1, %6, %10;\n\t"
        "addc.cc.u32 %2, %7, %11;\n\t"
        "addc.cc.u32 %3, %8, %12;\n\t"
        "addc.u32 %4, 0, 0;"
        : "=r"(z[0]), "=r"(z[1]), "=r"(z[2]), "=r"(z[3]), "=r"(z[4])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
}

KERNEL long_product(const unsigned* a, const unsigned* b, unsigned* c, int words) {
    __shared__ unsigned long long low[32], high[32];
    int t = threadIdx.x;
    unsigned long long l = 0, h = 0;
    for (int i = 0; i < words; i++) {
        int j = t - i;
        if (j < 0 || j >= words) continue;
        unsigned long long p = (unsigned long long)a[blockIdx.x * words + i] * b[blockIdx.x * words + j];
        l += p & 0xffffffffu;
        h += p >> 32;
    }
    low[t] = l;
    high[t] = h;
    __syncthreads();
    if (t == 0) {
        unsigned long long carry = 0;
        for (int k = 0; k < 2 * words; k++) {
            carry += low[k] + (k > 0 ? high[k - 1] : 0);
            c[blockIdx.x * 2 * words + k] = (unsigned)carry;
            carry >>= 32;
        }
    }
}

// Runs of equal bytes: how long and of what.
KERNEL run_lengths(const unsigned char* x, int n, unsigned char* values, int* lengths, int* count) {
    __shared__ int heads[257];
    __shared__ int sums[8];
    int t = threadIdx.x, lane = t % 32;
    bool head = t < n && (t == 0 || x[t] != x[t - 1]);
    unsigned votes = __ballot_sync(FULL, head);
    if (lane == 0) sums[t / 32] = __popc(votes);
    __syncthreads();
    int at = __popc(votes & ((1u << lane) - 1)), all = 0;
    for (int w = 0; w < 8; w++) {
        if (w < t / 32) at += sums[w];
        all += sums[w];
    }
    if (head) heads[at] = t;
    if (t == 0) heads[all] = n;
    __syncthreads();
    if (t < all) {
        values[t] = x[heads[t]];
        lengths[t] = heads[t + 1] - heads[t];
    }
    if (t == 0) *count = all;
}
