"""Sum each block's part of an array by a tree in shared memory."""

import numpy as np
from numba import cuda, int32

THREADS = 256


@cuda.jit
def block_sums(x, sums):
    partial = cuda.shared.array(THREADS, int32)
    tid = cuda.threadIdx.x
    i = cuda.grid(1)
    partial[tid] = x[i] if i < x.size else 0
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if tid < half:
            partial[tid] += partial[tid + half]
        cuda.syncthreads()
        half //= 2
    if tid == 0:
        sums[cuda.blockIdx.x] = partial[0]


def total(values):
    blocks = -(-values.size // THREADS)
    sums = cuda.device_array(blocks, np.int32)
    block_sums[blocks, THREADS](cuda.to_device(values), sums)
    return sums.copy_to_host().sum()


def main():
    values = np.random.default_rng(0).integers(-1000, 1000, 3000).astype(np.int32)
    assert total(values) == values.sum()


if __name__ == "__main__":
    main()
