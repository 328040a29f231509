// Device functions that aren't inlined: stack frames, structures, recursion, pointers to functions, virtual functions.
#include <cstdint>
#include <new>

#define KERNEL extern "C" __global__ void
#define FUNCTION __device__ __noinline__

FUNCTION void fill(int* a, int n, int seed) {
    for (int i = 0; i < n; i++) a[i] = seed = seed * 1103 + 12345;
}

FUNCTION int weighted_sum(const int* a, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * (i + 1);
    return sum;
}

KERNEL local_array_by_pointer(const int* seeds, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a[10];
    int length = 4 + (i % 7);
    fill(a, length, seeds[i]);
    out[i] = weighted_sum(a, length);
}

struct Vector { float x, y, z; };
struct Record { double mass; int tag; short low, high; Vector at; };

FUNCTION Vector cross(Vector a, Vector b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

FUNCTION Record describe(Vector v, int tag) {
    Record r;
    r.mass = (double)v.x + v.y + v.z;
    r.tag = tag;
    r.low = (short)(tag & 0xff);
    r.high = (short)-tag;
    r.at = cross(v, {1.f, 2.f, 3.f});
    return r;
}

KERNEL structures_by_value(const Vector* a, const Vector* b, Vector* c, double* mass, int* tags, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Record r = describe(cross(a[i], b[i]), 3 * i);
    c[i] = r.at;
    mass[i] = r.mass;
    tags[i] = r.tag + 1000 * r.low + r.high;
}

FUNCTION unsigned long long factorial(int n) { return n <= 1 ? 1ull : n * factorial(n - 1); }

KERNEL factorials(unsigned long long* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = factorial(i);
}

FUNCTION int fibonacci(int n) {
    if (n < 2) return n;
    int a = fibonacci(n - 1);
    return a + fibonacci(n - 2);
}

KERNEL fibonacci_numbers(int* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = fibonacci(i % 12);
}

FUNCTION int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

KERNEL ackermann_numbers(const int2* arguments, int* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = ackermann(arguments[i].x, arguments[i].y);
}

struct Node { int left, right, value; };

FUNCTION int tree_sum(const Node* nodes, int at, int depth, int* deepest) {
    if (at < 0) return 0;
    if (depth > *deepest) *deepest = depth;
    const Node& node = nodes[at];
    int left = tree_sum(nodes, node.left, depth + 1, deepest);
    return left + node.value + tree_sum(nodes, node.right, depth + 1, deepest);
}

KERNEL tree_walk(const Node* nodes, const int* roots, int* sums, int* depths, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    int deepest = 0;
    sums[i] = tree_sum(nodes, roots[i], 1, &deepest);
    depths[i] = deepest;
}

FUNCTION void quicksort(int* a, int low, int high) {
    if (low >= high) return;
    int pivot = a[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (a[i] < pivot) i++;
        while (a[j] > pivot) j--;
        if (i <= j) {
            int t = a[i];
            a[i++] = a[j];
            a[j--] = t;
        }
    }
    quicksort(a, low, j);
    quicksort(a, i, high);
}

KERNEL quicksort_rows(const int* x, int* y, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int a[14];
    for (int i = 0; i < 14; i++) a[i] = x[r * 14 + i];
    quicksort(a, 0, 13);
    for (int i = 0; i < 14; i++) y[r * 14 + i] = a[i];
}

FUNCTION void hanoi(int n, int from, int to, int other, unsigned char* moves, int* count) {
    if (n == 0) return;
    hanoi(n - 1, from, other, to, moves, count);
    moves[(*count)++] = from * 10 + to;
    hanoi(n - 1, other, to, from, moves, count);
}

KERNEL towers_of_hanoi(unsigned char* moves, int* counts) {
    int count = 0;
    hanoi(threadIdx.x + 1, 0, 2, 1, moves + threadIdx.x * 32, &count);
    counts[threadIdx.x] = count;
}

FUNCTION bool is_odd(unsigned n);
FUNCTION bool is_even(unsigned n) { return n == 0 || is_odd(n - 1); }
FUNCTION bool is_odd(unsigned n) { return n != 0 && is_even(n - 1); }
FUNCTION int male(int n);
FUNCTION int female(int n) { return n == 0 ? 1 : n - male(female(n - 1)); }
FUNCTION int male(int n) { return n == 0 ? 0 : n - female(male(n - 1)); }

KERNEL mutual_recursion(const unsigned* x, unsigned char* even, int* females, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    even[i] = is_even(x[i]);
    females[i] = female(i % 9);
}

FUNCTION int extended_gcd(int a, int b, int* x, int* y) {
    if (b == 0) {
        *x = 1;
        *y = 0;
        return a;
    }
    int x1, y1, g = extended_gcd(b, a % b, &x1, &y1);
    *x = y1;
    *y = x1 - a / b * y1;
    return g;
}

KERNEL bezout(const int* a, const int* b, int3* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x, y, g = extended_gcd(a[i], b[i], &x, &y);
    out[i] = make_int3(g, x, y);
}

struct Matrix { unsigned m[2][2]; };

FUNCTION Matrix multiply(Matrix a, Matrix b) {
    Matrix c;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) c.m[i][j] = a.m[i][0] * b.m[0][j] + a.m[i][1] * b.m[1][j];
    return c;
}

FUNCTION Matrix matrix_power(Matrix a, unsigned n) {
    if (n == 0) return {{{1, 0}, {0, 1}}};
    Matrix half = matrix_power(multiply(a, a), n / 2);
    return n & 1 ? multiply(half, a) : half;
}

KERNEL matrix_powers(const Matrix* a, const unsigned* exponents, Matrix* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = matrix_power(a[i], exponents[i]);
}

FUNCTION int queens(int n, unsigned columns, unsigned left, unsigned right) {
    unsigned all = (1u << n) - 1;
    if (columns == all) return 1;
    int count = 0;
    for (unsigned free = all & ~(columns | left | right); free; free &= free - 1) {
        unsigned q = free & -free;
        count += queens(n, columns | q, (left | q) << 1, (right | q) >> 1);
    }
    return count;
}

KERNEL count_queens(int* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = queens(i + 1, 0, 0, 0);
}

struct Term { char op; double value; int left, right; };

FUNCTION double evaluate(const Term* t, int at, double x) {
    const Term& e = t[at];
    switch (e.op) {
        case 'c': return e.value;
        case 'x': return x;
        case '-': return -evaluate(t, e.left, x);
    }
    double a = evaluate(t, e.left, x), b = evaluate(t, e.right, x);
    return e.op == '+' ? __dadd_rn(a, b) : e.op == '*' ? __dmul_rn(a, b) : a / b;
}

KERNEL expression_tree(const Term* terms, int root, const double* x, double* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = evaluate(terms, root, x[i]);
}

FUNCTION double many_arguments(char a, unsigned char b, short c, unsigned d, long long e, float f, double g, bool h,
                               const int* p, int2 q, char4 r, unsigned long long s) {
    double v = a + 2.0 * b + 3.0 * c + 4.0 * d + 5.0 * e + 6.0 * f + 7.0 * g + (h ? 8.0 : -8.0) + 9.0 * *p;
    return v + 10.0 * (q.x - q.y) + 11.0 * (r.x + r.y - r.z + r.w) + 12.0 * (double)s;
}

KERNEL wide_call(const int* x, double* y, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    int v = x[i];
    y[i] = many_arguments((char)v, (unsigned char)v, (short)v, (unsigned)v & 0xffff, -(long long)v, v * 0.5f, v * 0.25,
                          v & 1, x + n - 1 - i, make_int2(v, i), make_char4(v, -v, i, 3), (unsigned long long)i << 33);
}

FUNCTION float block_sum(float v, float* scratch) {
    int t = threadIdx.x;
    scratch[t] = v;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s) scratch[t] += scratch[t + s];
        __syncthreads();
    }
    float sum = scratch[0];
    __syncthreads();
    return sum;
}

KERNEL function_with_barriers(const float* x, float* y) {
    __shared__ float scratch[64];
    float v = x[blockIdx.x * 64 + threadIdx.x];
    float sum = block_sum(v, scratch);
    float squares = block_sum(v * v, scratch);
    y[blockIdx.x * 64 + threadIdx.x] = squares - v * sum;
}

FUNCTION int warp_total(int v) {
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

// Whole warps take different ways to the function.
KERNEL function_with_shuffles(const int* x, int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    if (threadIdx.x / 32 % 2) y[i] = warp_total(v) - 1;
    else y[i] = warp_total(-v) + 1;
}
