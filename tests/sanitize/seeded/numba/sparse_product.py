"""Multiply a sparse matrix in CSR form by a vector, one row per thread."""

import numpy as np
from numba import cuda


@cuda.jit
def product_kernel(row_start, columns, values, x, y):
    row = cuda.grid(1)
    if row < y.size:
        total = 0
        for k in range(row_start[row], row_start[row + 1]):
            total += values[k] * x[columns[k]]
        y[row] = total


def product(row_start, columns, values, x):
    rows = row_start.size - 1
    y = cuda.device_array(rows, np.int64)
    arrays = [cuda.to_device(array) for array in (row_start, columns, values, x)]
    product_kernel[-(-rows // 64), 64](*arrays, y)
    return y.copy_to_host()


def main():
    rng = np.random.default_rng(0)
    dense = rng.integers(1, 10, (150, 80)) * (rng.random((150, 80)) < 0.1)
    rows, columns = np.nonzero(dense)
    row_start = np.searchsorted(rows, np.arange(151)).astype(np.int32)
    x = rng.integers(-10, 10, 80)
    y = product(row_start, columns.astype(np.int32), dense[rows, columns], x)
    np.testing.assert_array_equal(y, dense @ x)


if __name__ == "__main__":
    main()
