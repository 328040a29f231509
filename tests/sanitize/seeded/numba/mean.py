"""Compute a mean in one launch: the last block to finish adds the sums of all blocks."""

import numpy as np
from numba import cuda, int64

BLOCKS = 8


@cuda.jit
def mean_kernel(x, partial, finished, mean):
    total = cuda.shared.array(1, int64)
    if cuda.threadIdx.x == 0:
        total[0] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(total, 0, x[i])
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        partial[cuda.blockIdx.x] = total[0]
        cuda.threadfence()
        if cuda.atomic.add(finished, 0, 1) == cuda.gridDim.x - 1:
            cuda.threadfence()
            everything = 0
            for block in range(cuda.gridDim.x):
                everything += partial[block]
            mean[0] = everything / x.size


def mean_of(values):
    partial = cuda.device_array(BLOCKS, np.int64)
    finished = cuda.to_device(np.zeros(1, np.int32))
    mean = cuda.device_array(1, np.float64)
    mean_kernel[BLOCKS, 64](cuda.to_device(values), partial, finished, mean)
    return mean.copy_to_host()[0]


def main():
    values = np.random.default_rng(0).integers(0, 1000, 1500).astype(np.int64)
    assert mean_of(values) == values.sum() / values.size


if __name__ == "__main__":
    main()
