"""Average each sample of a signal with its two neighbours."""

import numpy as np
from numba import cuda


@cuda.jit
def blur_kernel(x, out):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        out[i] = (x[i - 1] + x[i] + x[i + 1]) // 3
    elif i < x.size:
        out[i] = x[i]


def blur(signal):
    x = cuda.to_device(signal)
    out = cuda.device_array_like(x)
    blur_kernel[-(-signal.size // 128), 128](x, out)
    return out.copy_to_host()


def main():
    signal = np.random.default_rng(0).integers(0, 1000, 700)
    expected = signal.copy()
    expected[1:-1] = (signal[:-2] + signal[1:-1] + signal[2:]) // 3
    np.testing.assert_array_equal(blur(signal), expected)


if __name__ == "__main__":
    main()
