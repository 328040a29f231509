"""Reverse each tile of an array; the last tile is shorter."""

import numpy as np
from numba import cuda, float32

TILE = 128


@cuda.jit
def reverse_kernel(x, out):
    tile = cuda.shared.array(TILE, float32)
    tid = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < x.size:
        tile[tid] = x[i]
    cuda.syncthreads()
    if i < x.size:
        last = min(TILE, x.size - cuda.blockIdx.x * TILE) - 1
        out[i] = tile[last - tid]


def reverse_tiles(values):
    out = cuda.device_array(values.size, np.float32)
    reverse_kernel[-(-values.size // TILE), TILE](cuda.to_device(values), out)
    return out.copy_to_host()


def main():
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    tiles = [values[start : start + TILE][::-1] for start in range(0, values.size, TILE)]
    np.testing.assert_array_equal(reverse_tiles(values), np.concatenate(tiles))


if __name__ == "__main__":
    main()
