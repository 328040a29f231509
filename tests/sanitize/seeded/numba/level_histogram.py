"""Count the values of a quantized image, first in each block's shared memory, then in global memory."""

import numpy as np
from numba import cuda, int32

BINS = 32


@cuda.jit
def histogram_kernel(image, counts):
    bins = cuda.shared.array(BINS, int32)
    for level in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        bins[level] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), image.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, image[i], 1)
    cuda.syncthreads()
    for b in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        cuda.atomic.add(counts, b, bins[b])


def histogram(image):
    counts = cuda.to_device(np.zeros(BINS, np.int32))
    histogram_kernel[3, 128](cuda.to_device(image), counts)
    return counts.copy_to_host()


def main():
    image = np.random.default_rng(0).integers(0, BINS, 2000).astype(np.uint8)
    np.testing.assert_array_equal(histogram(image), np.bincount(image, minlength=BINS))


if __name__ == "__main__":
    main()
