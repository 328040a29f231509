"""Softmax by rows: a row in registers, and rows that are too long for that.

`softmax` keeps a row in the CTA's registers: one CTA a row, the row is read once and written once. `tj.max(x)` and
`tj.sum(e)` reduce over the whole tile, across registers, lanes and warps; every thread gets the result. N is a
compile-time value, any number: elements past it belong to nobody's row, are never stored and don't count in reductions.

`softmax_of_long_rows` reads the row twice, BLOCK elements at a time. The first pass is *online*: it keeps the greatest
element so far and the sum of exp(x - greatest), and scales that sum down when a greater one comes. It starts from a
finite number, because -inf - -inf would be NaN.

Run it: `python examples/softmax.py`.
"""

import numpy as np

import tilejit as tj

BLOCK = 4096
LONGEST = 32768  # elements of a row that 1024 threads hold in registers
LOWEST = -1e30


@tj.kernel(threads=256)
def softmax(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr):
    row = tj.cta_id(0)
    x = tj.cta.load(X[row, 0:N], fill=-tj.inf).astype(tj.float32)
    e = tj.exp(x - tj.max(x))
    tj.cta.store(Y[row, 0:N], (e / tj.sum(e)).astype(Y.dtype))


@tj.kernel(threads=512)
def softmax_of_long_rows(X: tj.Tensor, Y: tj.Tensor):
    row = tj.cta_id(0)
    greatest, total = LOWEST, 0.0
    for start in range(0, X.shape[1], BLOCK):
        x = tj.cta.load(X[row, start : start + BLOCK], fill=-tj.inf).astype(tj.float32)
        before, greatest = greatest, max(greatest, tj.max(x))
        total = total * tj.exp(before - greatest) + tj.sum(tj.exp(x - greatest))
    for start in range(0, X.shape[1], BLOCK):
        x = tj.cta.load(X[row, start : start + BLOCK]).astype(tj.float32)
        tj.cta.store(Y[row, start : start + BLOCK], (tj.exp(x - greatest) / total).astype(Y.dtype))


def threads_for(x) -> int:
    """As many as hold the row in 2 to 8 vectors of 16 bytes each."""
    vectors = tj.cdiv(x.shape[1] * x.dtype.itemsize, 16)
    return min(max(tj.next_power_of_2(tj.cdiv(vectors, 4)), 32), 1024)


def softmax_of_rows(x, y) -> None:
    """y = softmax(x) along rows, of NumPy arrays or a GPU's."""
    rows, columns = x.shape
    if columns <= LONGEST:
        softmax[(rows,), threads_for(x)](x, y, N=columns)
    else:
        softmax_of_long_rows[rows](x, y)


def check(rows: int, columns: int, dtype=tj.float32) -> None:
    x = 5 * np.random.default_rng(columns).standard_normal((rows, columns), np.float32)
    x = x.astype(dtype.numpy)
    x[0, : columns // 2] = -np.inf
    y = np.full_like(x, np.nan)

    softmax_of_rows(x, y)

    e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    rounding = {tj.float32: 2e-6, tj.float16: 1e-3, tj.bfloat16: 8e-3}[dtype]
    np.testing.assert_allclose(y.astype(np.float64), e / e.sum(1, keepdims=True), rtol=rounding, atol=1e-7)
    print(f"{rows} x {columns} {dtype} on {tj.device()}: right")


def main() -> None:
    check(5, 1000)
    check(3, 997, tj.float16)
    check(2, 40_009, tj.bfloat16)
    x = tj.spec((16384, 4096), tj.float16)
    print(softmax.explain(x, x, N=4096))


if __name__ == "__main__":
    main()
