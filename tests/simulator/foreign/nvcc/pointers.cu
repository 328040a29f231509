// Calls through pointers to functions and through tables of virtual functions.
#include <cstdint>
#include <new>

#define KERNEL extern "C" __global__ void
#define FUNCTION __device__ __noinline__

FUNCTION int add(int a, int b) { return a + b; }
FUNCTION int subtract(int a, int b) { return a - b; }
FUNCTION int times(int a, int b) { return a * b; }
FUNCTION int larger(int a, int b) { return a > b ? a : b; }

typedef int (*Operation)(int, int);

__device__ Operation choose(int k) {
    switch (k) {
        case 0: return add;
        case 1: return subtract;
        case 2: return times;
        default: return larger;
    }
}

KERNEL chosen_operation(const int* k, const int* a, const int* b, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = choose(k[i])(a[i], b[i]);
}

FUNCTION int fold(const int* x, int n, int start, Operation f) {
    for (int i = 0; i < n; i++) start = f(start, x[i]);
    return start;
}

KERNEL fold_rows(const int* x, int* out, int columns) {
    const int* row = x + (blockIdx.x * blockDim.x + threadIdx.x) * columns;
    out[blockIdx.x * blockDim.x + threadIdx.x] = fold(row, columns, 1, threadIdx.x % 3 == 0 ? add : larger)
                                               - fold(row, columns, 0, threadIdx.x % 2 ? subtract : add);
}

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual int corners() const { return 0; }
};
struct Circle : Shape {
    float r;
    __device__ Circle(float r) : r(r) {}
    __device__ float area() const override { return 3.f * r * r; }
};
struct Rectangle : Shape {
    float w, h;
    __device__ Rectangle(float w, float h) : w(w), h(h) {}
    __device__ float area() const override { return w * h; }
    __device__ int corners() const override { return 4; }
};
struct Triangle : Rectangle {
    __device__ Triangle(float w, float h) : Rectangle(w, h) {}
    __device__ float area() const override { return 0.5f * Rectangle::area(); }
    __device__ int corners() const override { return 3; }
};

KERNEL virtual_functions(const int* kind, const float2* size, float* area, int* corners, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Circle circle(size[i].x);
    Rectangle rectangle(size[i].x, size[i].y);
    Triangle triangle(size[i].x, size[i].y);
    const Shape* shapes[3] = {&circle, &rectangle, &triangle};
    const Shape* shape = shapes[kind[i]];
    area[i] = shape->area();
    corners[i] = shape->corners();
}

// Objects of one block, which all of its threads call.
KERNEL virtual_functions_in_shared(const float* x, float* y) {
    __shared__ alignas(16) unsigned char place[8][16];
    __shared__ Shape* shapes[8];
    int t = threadIdx.x;
    if (t < 8) {
        if (t % 2) shapes[t] = new (place[t]) Circle((float)t);
        else shapes[t] = new (place[t]) Triangle((float)t, 4.f);
    }
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 8; k++) sum += shapes[(t + k) % 8]->area() * x[k];
    y[t] = sum + shapes[t % 8]->corners();
}

struct Reader { __device__ virtual int read(int i) = 0; int total = 0; };
struct Writer { __device__ virtual void write(int v) = 0; int written = 0; };
struct Buffer : Reader, Writer {
    int data[6];
    __device__ int read(int i) override { total += data[i]; return data[i]; }
    __device__ void write(int v) override { data[written++] = v; }
};

FUNCTION void produce(Writer* w, int n, int seed) {
    for (int i = 0; i < n; i++) w->write(seed * (i + 1));
}

FUNCTION int consume(Reader* r, int n) {
    int last = 0;
    for (int i = n - 1; i >= 0; i--) last = 2 * last + r->read(i);
    return last;
}

KERNEL two_base_classes(const int* seeds, int* out, int* totals, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    Buffer buffer;
    produce(&buffer, 3 + i % 4, seeds[i]);
    out[i] = consume(&buffer, buffer.written);
    totals[i] = buffer.total;
}

FUNCTION int half_of(int x) { return x / 2; }
FUNCTION int triple_and_one(int x) { return 3 * x + 1; }

KERNEL pointer_in_a_loop(const int* start, int* steps, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    int x = start[i], count = 0;
    while (x != 1) {
        int (*step)(int) = x & 1 ? triple_and_one : half_of;
        x = step(x);
        count++;
    }
    steps[i] = count;
}

template <int N>
struct Polynomial {
    float c[N];
    FUNCTION float operator()(float x) const {
        float r = 0;
        for (int i = 0; i < N; i++) r = r * x + c[i];
        return r;
    }
};

template <class F>
FUNCTION float derivative(const F& f, float x) { return (f(x + 1.f) - f(x - 1.f)) * 0.5f; }

KERNEL functors(const float* x, float* y, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    Polynomial<3> square{{1.f, 2.f, (float)i}};
    Polynomial<4> cube{{1.f, 0.f, 0.f, -1.f}};
    y[i] = i & 1 ? derivative(square, x[i]) : derivative(cube, x[i]);
}

// A function that returns what is called next: a state machine over the letters of a word.
struct State { State (*next)(char); };
FUNCTION State start_state(char c);
FUNCTION State after_a(char c);
FUNCTION State found(char c) { return State{found}; }
FUNCTION State start_state(char c) { return State{c == 'a' ? after_a : start_state}; }
FUNCTION State after_a(char c) { return State{c == 'b' ? found : c == 'a' ? after_a : start_state}; }

KERNEL states_as_functions(const char* words, unsigned char* match, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    State s{start_state};
    for (int k = 0; k < 8; k++) s = s.next(words[8 * i + k]);
    match[i] = s.next == found;
}
