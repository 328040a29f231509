"""Simple kernels, one for each typical mistake; each has a test of about ten lines.

Run the tests: `python -m pytest examples/testing`. `--tilejit-device cuda` runs them on a GPU, `--tilejit-schedules 8`
runs each kernel in eight orders of its threads.
"""

import tilejit as tj

THREADS = 64


@tj.kernel(threads=THREADS)
def doubled(X: tj.Tensor, Y: tj.Tensor) -> None:
    """Y = 2 X."""
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    if i < X.shape[0]:
        Y[i] = X[i] + X[i]


@tj.kernel(threads=THREADS)
def backwards(X: tj.Tensor, Y: tj.Tensor) -> None:
    """Y is X reversed, for up to 64 elements."""
    i = tj.thread_id()
    staged = tj.alloc_shared((THREADS,), X.dtype)
    if i < X.shape[0]:
        staged[i] = X[i]
    tj.cta_sync()
    if i < X.shape[0]:
        Y[i] = staged[X.shape[0] - 1 - i]


@tj.kernel(threads=THREADS)
def transposed(X: tj.Tensor, Y: tj.Tensor) -> None:
    """Y = X.T, by squares of 8 x 8."""
    r = tj.cta_id(0) * 8 + tj.thread_id() // 8
    c = tj.cta_id(1) * 8 + tj.thread_id() % 8
    if r < X.shape[0] and c < X.shape[1]:
        Y[c, r] = X[r, c]


@tj.kernel(threads=32)
def row_sums(X: tj.Tensor, Y: tj.Tensor) -> None:
    """The sum of each row of 8 x 8 elements."""
    tj.cta.store(Y[0:8], tj.sum(tj.cta.load(X[0:8, 0:8]), axis=1))


@tj.kernel(threads=THREADS)
def blended(X: tj.Tensor, Y: tj.Tensor, Z: tj.Tensor) -> None:
    """The mean of two pictures of uint8, rounded down."""
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    if i < X.shape[0]:
        x, y = tj.uint16(X[i]), tj.uint16(Y[i])
        Z[i] = tj.uint8((x + y) >> 1)


@tj.kernel(threads=THREADS)
def histogram(X: tj.Tensor, H: tj.Tensor) -> None:
    """The number of times that each of 0 to 15 occurs in X."""
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    if i < X.shape[0]:
        tj.atomic.add(H[X[i]], 1)


@tj.kernel(threads=THREADS)
def total(X: tj.Tensor, Y: tj.Tensor) -> None:
    """The sum of up to 64 integers, by halving."""
    i = tj.thread_id()
    partial = tj.alloc_shared((THREADS,), X.dtype)
    partial[i] = 0
    if i < X.shape[0]:
        partial[i] = X[i]
    for step in tj.static_range(6):
        tj.cta_sync()
        if i < 32 >> step:
            partial[i] += partial[i + (32 >> step)]
    if i == 0:
        Y[0] = partial[0]


@tj.kernel(threads=THREADS)
def relu(X: tj.Tensor, Y: tj.Tensor) -> None:
    """max(x, 0), and NaN for NaN."""
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    if i < X.shape[0]:
        Y[i] = tj.maximum(X[i], 0.0)


@tj.kernel(threads=THREADS)
def packed(X: tj.Tensor, Y: tj.Tensor, columns: tj.int32, pitch: tj.int32) -> None:
    """The rows of a picture without the padding between them: `pitch` elements from one to the next."""
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    if i < Y.shape[0]:
        Y[i] = X[i // columns * pitch + i % columns]


@tj.kernel(threads=THREADS)
def greatest(X: tj.Tensor, Y: tj.Tensor) -> None:
    """The greatest element of each column."""
    c = tj.cta_id(0) * THREADS + tj.thread_id()
    if c < X.shape[1]:
        best: tj.Scalar = tj.float32(-tj.inf)
        for r in range(X.shape[0]):
            best = tj.maximum(best, X[r, c])
        Y[c] = best


@tj.kernel(threads=THREADS)
def sigmoid(X: tj.Tensor, Y: tj.Tensor) -> None:
    """1 / (1 + exp(-x)), within 4 units in the last place."""
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    if i < X.shape[0]:
        Y[i] = 1.0 / (1.0 + tj.exp(-X[i]))


@tj.kernel(threads=THREADS)
def last_positive(X: tj.Tensor, Y: tj.Tensor) -> None:
    """The index of the last element above 0; Y begins with -1."""
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    if i < X.shape[0] and X[i] > 0:
        tj.atomic.max(Y[0], i)
