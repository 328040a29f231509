// Asynchronous copies with cuda::pipeline, cuda::barrier and cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cstdint>

#define KERNEL extern "C" __global__ void
#pragma nv_diag_suppress static_var_with_dynamic_init
namespace cg = cooperative_groups;
using block_barrier = cuda::barrier<cuda::thread_scope_block>;

// Each thread copies and reads its own elements, two stages ahead.
KERNEL pipeline_of_one_thread(const int4* x, int4* sums, int rounds) {
    __shared__ int4 stage[3][64];
    auto pipe = cuda::make_pipeline();
    int t = threadIdx.x;
    const int4* mine = x + blockIdx.x * rounds * 64 + t;
    for (int r = 0; r < 2; r++) {
        pipe.producer_acquire();
        cuda::memcpy_async(&stage[r][t], mine + r * 64, cuda::aligned_size_t<16>(16), pipe);
        pipe.producer_commit();
    }
    int4 sum = make_int4(0, 0, 0, 0);
    for (int r = 0; r < rounds; r++) {
        pipe.producer_acquire();
        if (r + 2 < rounds)
            cuda::memcpy_async(&stage[(r + 2) % 3][t], mine + (r + 2) * 64, cuda::aligned_size_t<16>(16), pipe);
        pipe.producer_commit();
        cuda::pipeline_consumer_wait_prior<2>(pipe);
        int4 v = stage[r % 3][t];
        sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
        pipe.consumer_release();
    }
    sums[blockIdx.x * 64 + t] = sum;
}

// All threads of a block copy together; the pipeline's state is in shared memory.
KERNEL pipeline_of_a_block(const int* x, int* y, int batches) {
    constexpr int stages = 2;
    __shared__ alignas(16) int stage[stages][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    const int* mine = x + blockIdx.x * batches * 128;
    int fetched = 0, sum = 0;
    for (int batch = 0; batch < batches; batch++) {
        for (; fetched < batches && fetched < batch + stages; fetched++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stage[fetched % stages], mine + fetched * 128, sizeof(int) * 128, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += stage[batch % stages][(threadIdx.x * 5 + 1) % 128];
        pipe.consumer_release();
    }
    y[blockIdx.x * 128 + threadIdx.x] = sum;
}

// One warp copies, the others add.
KERNEL pipeline_with_roles(const int* x, int* y, int batches) {
    constexpr int stages = 2;
    __shared__ alignas(16) int stage[stages][96];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto block = cg::this_thread_block();
    bool produces = block.thread_rank() < 32;
    auto role = produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(block, &state, role);
    if (produces) {
        for (int b = 0; b < batches; b++) {
            pipe.producer_acquire();
            for (int i = threadIdx.x; i < 96; i += 32)
                cuda::memcpy_async(&stage[b % stages][i], x + b * 96 + i, cuda::aligned_size_t<4>(4), pipe);
            pipe.producer_commit();
        }
    } else {
        int t = threadIdx.x - 32, sum = 0;
        for (int b = 0; b < batches; b++) {
            pipe.consumer_wait();
            sum = sum * 2 + stage[b % stages][95 - t];
            pipe.consumer_release();
        }
        y[t] = sum;
    }
}

// A part of the threads fetches rows by their numbers; a thread has one role for the whole kernel.
KERNEL pipeline_of_gathered_rows(const float* table, const int* numbers, float* out, int count) {
    constexpr int stages = 3, producers = 32;
    __shared__ alignas(16) float row[stages][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state, producers);
    if (block.thread_rank() < producers) {
        for (int k = 0; k < count; k++) {
            pipe.producer_acquire();
            const float* from = table + numbers[k] * 64 + threadIdx.x * 2;
            cuda::memcpy_async(&row[k % stages][threadIdx.x * 2], from, cuda::aligned_size_t<8>(8), pipe);
            pipe.producer_commit();
        }
    } else {
        int t = threadIdx.x - producers;
        float sum = 0.f;
        for (int k = 0; k < count; k++) {
            pipe.consumer_wait();
            sum = sum * 0.5f + row[k % stages][t];
            pipe.consumer_release();
        }
        out[t] = sum;
    }
}

struct Pixel { int red, green, blue; };

// Copies of 12 bytes, which are three of 4, from places in no order.
KERNEL barrier_of_gathered_structures(const Pixel* pixels, const int* order, int* out) {
    __shared__ Pixel part[2][64];
    __shared__ block_barrier bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    int sum = 0;
    for (int r = 0; r < 2; r++) {
        cuda::memcpy_async(&part[r][t], &pixels[order[r * 64 + t]], sizeof(Pixel), bar);
        bar.arrive_and_wait();
        Pixel p = part[r][63 - t];
        sum = sum * 7 + p.red - 2 * p.green + 3 * p.blue;
    }
    out[t] = sum;
}

// Copies by single threads on barriers of their warps: each warp goes on by itself.
KERNEL barriers_of_warps(const int* x, int* y, int rounds) {
    __shared__ int part[4][32];
    __shared__ block_barrier bars[4];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int w = warp.meta_group_rank(), lane = warp.thread_rank(), sum = 0;
    if (lane == 0) init(&bars[w], 32);
    warp.sync();
    for (int r = 0; r < rounds + w; r++) {
        cuda::memcpy_async(&part[w][lane], x + (r * 4 + w) * 32 + lane, cuda::aligned_size_t<4>(4), bars[w]);
        bars[w].arrive_and_wait();
        sum += part[w][(lane + r) % 32];
        warp.sync();
    }
    y[w * 32 + lane] = sum;
}

// The copy of a block completes on a barrier.
KERNEL barrier_of_copies(const double* x, double* y, int rows) {
    __shared__ alignas(16) double tile[64];
    __shared__ block_barrier bar;
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&bar, block.size());
    block.sync();
    double sum = 0;
    for (int r = 0; r < rows; r++) {
        cuda::memcpy_async(block, tile, x + r * 64, cuda::aligned_size_t<16>(sizeof(tile)), bar);
        bar.arrive_and_wait();
        sum += tile[63 - threadIdx.x];
        block.sync();
    }
    y[threadIdx.x] = sum;
}

// Copies of single threads on a barrier, with an element's own alignment.
KERNEL barrier_of_own_copies(const float* x, float* y) {
    __shared__ float tile[128];
    __shared__ block_barrier bar;
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    if (t == 0) init(&bar, 128);
    __syncthreads();
    cuda::memcpy_async(&tile[t], x + i, sizeof(float), bar);
    block_barrier::arrival_token token = bar.arrive();
    float own = x[i] * 2.f;
    bar.wait(std::move(token));
    y[i] = own + tile[t ^ 3];
}

// Two barriers and two tiles in turn.
KERNEL barriers_in_turn(const int4* x, int* y, int rounds) {
    __shared__ int4 tile[2][32];
    __shared__ block_barrier bars[2];
    auto block = cg::this_thread_block();
    int t = threadIdx.x;
    if (t < 2) init(&bars[t], 32);
    block.sync();
    cuda::memcpy_async(block, tile[0], x, cuda::aligned_size_t<16>(512), bars[0]);
    int sum = 0;
    for (int r = 0; r < rounds; r++) {
        int next = (r + 1) % 2;
        if (r + 1 < rounds)
            cuda::memcpy_async(block, tile[next], x + (r + 1) * 32, cuda::aligned_size_t<16>(512), bars[next]);
        bars[r % 2].arrive_and_wait();
        int4 v = tile[r % 2][31 - t];
        sum += v.x - v.y + v.z - v.w;
        block.sync();
    }
    y[t] = sum;
}

KERNEL group_copies(const int* x, int* y, int n) {
    extern __shared__ int4 dynamic[];
    int* tile = (int*)dynamic;
    auto block = cg::this_thread_block();
    int sum = 0;
    for (int first = 0; first < n; first += 256) {
        int count = min(256, n - first);
        cg::memcpy_async(block, tile, x + first, sizeof(int) * count);
        cg::wait(block);
        for (int k = threadIdx.x; k < count; k += blockDim.x) sum += tile[count - 1 - k] * (k % 3);
        block.sync();
    }
    y[threadIdx.x] = sum;
}

KERNEL group_copies_ahead(const int4* x, int4* y, int rounds) {
    __shared__ int4 tile[2][64];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile[0], x, cuda::aligned_size_t<16>(1024));
    int4 last = make_int4(0, 0, 0, 0);
    for (int r = 1; r <= rounds; r++) {
        if (r < rounds) {
            cg::memcpy_async(block, tile[r % 2], x + r * 64, cuda::aligned_size_t<16>(1024));
            cg::wait_prior<1>(block);
        } else {
            cg::wait(block);
        }
        int4 v = tile[(r - 1) % 2][threadIdx.x ^ 17];
        last.x = last.x * 3 + v.x; last.y ^= v.y; last.z = max(last.z, v.z); last.w += v.w;
        block.sync();
    }
    y[threadIdx.x] = last;
}

// Tiles of a warp copy on their own.
KERNEL tile_copies(const int* x, int* y) {
    __shared__ alignas(16) int part[4][32];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int w = warp.meta_group_rank();
    cg::memcpy_async(warp, part[w], x + (blockIdx.x * 4 + w) * 32, sizeof(int) * 32);
    cg::wait(warp);
    y[blockIdx.x * 128 + threadIdx.x] = part[w][31 - warp.thread_rank()];
}

// Arrive, do other work, wait: a stencil whose edges come from other threads.
KERNEL split_barrier(const float* x, float* y, int steps) {
    __shared__ float line[2][66];
    __shared__ block_barrier bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    line[0][t + 1] = x[t];
    if (t < 2) line[t][0] = line[t][65] = 0.f;
    __syncthreads();
    for (int s = 0; s < steps; s++) {
        const float* from = line[s % 2];
        float v = (from[t] + from[t + 2]) * 0.5f;
        line[(s + 1) % 2][t + 1] = v;
        auto token = bar.arrive();
        y[s * 64 + t] = v;
        bar.wait(std::move(token));
    }
}

// Threads leave one after the other; the rest goes on.
KERNEL barrier_with_drops(const int* lives, int* y) {
    __shared__ block_barrier bar;
    __shared__ int shared_sum[8];
    int t = threadIdx.x;
    if (t == 0) init(&bar, blockDim.x);
    if (t < 8) shared_sum[t] = 0;
    __syncthreads();
    for (int r = 0; r < lives[t]; r++) {
        atomicAdd(&shared_sum[r], t);
        bar.arrive_and_wait();
        y[r * blockDim.x + t] = shared_sum[r];
    }
    if (lives[t] < 8) bar.arrive_and_drop();
}

struct CountRounds {
    int* rounds;
    __device__ void operator()() noexcept { *rounds = *rounds * 2 + 1; }
};

KERNEL barrier_with_completion(int* y) {
    using counted = cuda::barrier<cuda::thread_scope_block, CountRounds>;
    __shared__ alignas(counted) char place[sizeof(counted)];
    __shared__ int rounds;
    counted* bar = (counted*)place;
    if (threadIdx.x == 0) {
        rounds = 0;
        new (bar) counted(blockDim.x, CountRounds{&rounds});
    }
    __syncthreads();
    for (int r = 0; r < 3; r++) {
        bar->arrive_and_wait();
        y[r * blockDim.x + threadIdx.x] = rounds;
        bar->arrive_and_wait();
    }
}

// Producers fill, consumers empty a slot: two barriers, as in the programming guide.
KERNEL producers_and_consumers(const int* x, int* y, int rounds) {
    __shared__ block_barrier ready, filled;
    __shared__ int slot[32];
    int t = threadIdx.x, lane = t % 32;
    if (t == 0) {
        init(&ready, 64);
        init(&filled, 64);
    }
    __syncthreads();
    if (t < 32) {
        for (int r = 0; r < rounds; r++) {
            ready.arrive_and_wait();
            slot[lane] = x[r * 32 + lane];
            block_barrier::arrival_token token = filled.arrive();
        }
    } else {
        block_barrier::arrival_token first = ready.arrive();
        int sum = 0;
        for (int r = 0; r < rounds; r++) {
            filled.arrive_and_wait();
            sum += slot[31 - lane] * (r + 1);
            if (r + 1 < rounds) block_barrier::arrival_token token = ready.arrive();
        }
        y[lane] = sum;
    }
}

// cp.async by hand: the barrier of the copies counts each thread's arrival, which comes with the last of its copies.
KERNEL copies_by_hand(const int4* x, int4* y) {
    __shared__ int4 tile[128];
    __shared__ uint64_t bar;
    int t = threadIdx.x;
    unsigned place = (unsigned)__cvta_generic_to_shared(&tile[t]), b = (unsigned)__cvta_generic_to_shared(&bar);
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 128;" ::"r"(b) : "memory");
    __syncthreads();
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(x + blockIdx.x * 128 + t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(b) : "memory");
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(b) : "memory");
    y[blockIdx.x * 128 + t] = tile[127 - t];
}

// The same without .noinc: the barrier expects one more arrival for each copying thread.
KERNEL copies_by_hand_counted(const int* x, int* y) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    int t = threadIdx.x;
    unsigned place = (unsigned)__cvta_generic_to_shared(&tile[t]), b = (unsigned)__cvta_generic_to_shared(&bar);
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(b) : "memory");
    __syncthreads();
    if (t % 2 == 0) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(place), "l"(x + t) : "memory");
        asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(b) : "memory");
    }
    uint64_t state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(b) : "memory");
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(b), "l"(state) : "memory");
    y[t] = tile[(t + 9) % 64];
}
