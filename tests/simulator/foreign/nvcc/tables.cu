// Tables of pointers to functions, from which each thread chooses.
#include <cstdint>

#define KERNEL extern "C" __global__ void

typedef float (*Unary)(float);
typedef int (*Binary)(int, int);

__device__ float negate(float x) { return -x; }
__device__ float square(float x) { return x * x; }
__device__ float reciprocal(float x) { return 1.f / x; }
__device__ float relu(float x) { return fmaxf(x, 0.f); }
__device__ float identity(float x) { return x; }

__constant__ Unary activations[5] = {negate, square, reciprocal, relu, identity};

KERNEL constant_table(const int* which, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = activations[which[i]](x[i]);
}

__device__ Unary layers[6] = {square, relu, negate, negate, reciprocal, square};

// All threads call the same function, one after the other.
KERNEL table_of_layers(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int k = 0; k < 6; k++) v = layers[k](v) + 1.f;
    y[i] = v;
}

__device__ int bit_and(int a, int b) { return a & b; }
__device__ int bit_or(int a, int b) { return a | b; }
__device__ int bit_xor(int a, int b) { return a ^ b; }
__device__ int shift(int a, int b) { return a << (b & 7); }

struct Rule { Binary combine; int operand; const char* name; };
__device__ const Rule rules[4] = {
    {bit_and, 0xff0, "and"}, {bit_or, 5, "or"}, {bit_xor, -1, "xor"}, {shift, 3, "shift"},
};

KERNEL table_of_structures(const int* x, int* y, unsigned char* letters, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Rule& rule = rules[(x[i] >> 3) & 3];
    y[i] = rule.combine(x[i], rule.operand);
    letters[i] = rule.name[i & 1];
}

// A scanner of numbers and words: what a state does with a kind of character.
struct Scanner { int state, numbers, words, value; };
__device__ void skip(Scanner* s, char) { s->state = 0; }
__device__ void digit(Scanner* s, char c) {
    if (s->state != 1) { s->numbers++; s->value = 0; }
    s->state = 1;
    s->value = s->value * 10 + (c - '0');
}
__device__ void letter(Scanner* s, char) {
    if (s->state != 2) s->words++;
    s->state = 2;
}
__device__ void word_digit(Scanner*, char) {}
typedef void (*Action)(Scanner*, char);
__constant__ Action actions[3][3] = {{skip, digit, letter}, {skip, digit, letter}, {skip, word_digit, letter}};

KERNEL table_of_states(const char* text, int length, int4* out) {
    Scanner s = {0, 0, 0, 0};
    const char* line = text + (blockIdx.x * blockDim.x + threadIdx.x) * length;
    for (int k = 0; k < length; k++) {
        char c = line[k];
        int kind = c >= '0' && c <= '9' ? 1 : c >= 'a' && c <= 'z' ? 2 : 0;
        actions[s.state][kind](&s, c);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = make_int4(s.state, s.numbers, s.words, s.value);
}

__device__ Binary pick(int k) { return k == 0 ? bit_and : k == 1 ? bit_or : bit_xor; }

KERNEL table_in_shared(const int* x, int* y) {
    __shared__ Binary table[3];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 3) table[threadIdx.x] = pick(threadIdx.x);
    __syncthreads();
    y[i] = table[x[i] % 3](x[i], 0x55);
}

template <int N>
__device__ int nth_digit(int x) {
    int divisor = 1;
    for (int i = 0; i < N; i++) divisor *= 10;
    return x / divisor % 10;
}
typedef int (*Digit)(int);
__device__ Digit digits[5] = {nth_digit<0>, nth_digit<1>, nth_digit<2>, nth_digit<3>, nth_digit<4>};

KERNEL table_of_templates(const int* x, const int* which, int* y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = digits[which[i]](x[i]) * 100 + digits[4 - which[i]](x[i]);
}

// A small machine with a stack: code is pairs of an operation and its operand.
struct Machine { int stack[8]; int top; int input; };
__device__ void op_push(Machine* m, int v) { m->stack[m->top++] = v; }
__device__ void op_input(Machine* m, int v) { m->stack[m->top++] = m->input + v; }
__device__ void op_add(Machine* m, int) { m->top--; m->stack[m->top - 1] += m->stack[m->top]; }
__device__ void op_multiply(Machine* m, int) { m->top--; m->stack[m->top - 1] *= m->stack[m->top]; }
__device__ void op_swap(Machine* m, int) {
    int t = m->stack[m->top - 1];
    m->stack[m->top - 1] = m->stack[m->top - 2];
    m->stack[m->top - 2] = t;
}
__device__ void op_subtract(Machine* m, int) { m->top--; m->stack[m->top - 1] -= m->stack[m->top]; }
typedef void (*Instruction)(Machine*, int);
__constant__ Instruction instructions[6] = {op_push, op_input, op_add, op_multiply, op_swap, op_subtract};

KERNEL stack_machine(const int2* code, int length, const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Machine m;
    m.top = 0;
    m.input = x[i];
    for (int k = 0; k < length; k++) instructions[code[k].x](&m, code[k].y);
    y[i] = m.top == 1 ? m.stack[0] : -1;
}

__device__ double area(const double* p) { return p[0] * p[1]; }
__device__ double perimeter(const double* p) { return 2 * (p[0] + p[1]); }
__device__ double diagonal(const double* p) { return sqrt(__dadd_rn(__dmul_rn(p[0], p[0]), __dmul_rn(p[1], p[1]))); }
typedef double (*Measure)(const double*);
__device__ Measure measures[3] = {area, perimeter, diagonal};

// The host or an earlier launch may change which functions the table holds.
KERNEL table_turned(const double* sizes, double* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] += measures[i % 3](sizes + 2 * i);
    __syncthreads();
    if (i == 0) {
        Measure first = measures[0];
        measures[0] = measures[1];
        measures[1] = measures[2];
        measures[2] = first;
    }
}

__device__ Unary* const rows_of_table[2] = {layers + 1, layers + 3};

KERNEL table_of_tables(const float* x, float* y, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    Unary* row = rows_of_table[i & 1];
    y[i] = row[i % 3](x[i]);
}
