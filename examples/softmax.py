"""Softmax by rows: a row in registers, rows that aren't aligned, and rows that are too long.

`softmax` keeps a row in the CTA's registers: one CTA per row, which is read once and written once. `tj.max(x)` and
`tj.sum(e)` reduce over the whole tile, across registers, lanes and warps; every thread gets the result. N is a
compile-time value, any number: elements of the tile past it are never stored and are excluded from reductions.

`fast_softmax` uses the hardware's exp, and one reciprocal per row instead of a division per element. Its relative error
in float32 is 5e-7, plus 1e-7 for each unit by which x is below the row's maximum: 1.2e-6 for normally distributed x,
where `softmax` has 5e-7; in float16 and bfloat16 rounding hides both. The kernel calls `powers(x, …)` twice: so a long
row stays in registers as float16, two elements in each, while for a short one the powers are computed once.

Rows of 4095 float16 aren't aligned, while fast accesses are aligned vectors of 16 bytes. `softmax_of_unaligned_rows`
takes a flat matrix. Its CTA loads the aligned window around a row, and masks the elements of the neighbouring rows: if
the mask covers a whole vector, it moves at once; at the row's ends elements move one by one.

`softmax_of_long_rows` reads the row twice, BLOCK elements at a time. The first pass is *online*: it keeps the greatest
element so far and the sum of exp(x - greatest), and scales that sum down when a greater one appears. It starts from a
finite number, because -inf - -inf would be NaN.

`softmax_of_rows` uses `softmax` for float64, and otherwise the fast kernel that suits the rows.

Run it: `python examples/softmax.py`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tilejit as tj

BLOCK = 4096
LONGEST = 128 * 1024  # bytes of a row that 1024 threads hold in registers
LOWEST = -1e30


@tj.kernel(threads=256)
def softmax(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr) -> None:
    row = tj.cta_id(0)
    x = tj.cta.load(X[row, 0:N], fill=-tj.inf).astype(tj.float32)
    e = tj.exp(x - tj.max(x))
    tj.cta.store(Y[row, 0:N], (e / tj.sum(e)).astype(Y.dtype))


@tj.function
def powers(x: tj.Tile, greatest: float) -> tj.Tile:
    return tj.fast.exp(x.astype(tj.float32) - greatest)


@tj.kernel(threads=256)
def fast_softmax(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr) -> None:
    row = tj.cta_id(0)
    x = tj.cta.load(X[row, 0:N], fill=-tj.inf)
    greatest = tj.max(x)
    scale = tj.fast.reciprocal(tj.sum(powers(x, greatest)))
    tj.cta.store(Y[row, 0:N], (powers(x, greatest) * scale).astype(Y.dtype))


@tj.kernel(threads=256)
def softmax_of_unaligned_rows(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr, V: tj.constexpr) -> None:
    first = tj.cta_id(0) * N
    start = first // V * V
    window = tj.cdiv(N + V - 1, V) * V
    at = tj.cta.indices((window,), 0) - first % V
    in_row = (at >= 0) & (at < N)
    x = tj.cta.load(X[start : start + window], mask=in_row, fill=-tj.inf)
    greatest = tj.max(x)
    scale = tj.fast.reciprocal(tj.sum(powers(x, greatest)))
    tj.cta.store(Y[start : start + window], (powers(x, greatest) * scale).astype(Y.dtype), mask=in_row)


@tj.kernel(threads=512)
def softmax_of_long_rows(X: tj.Tensor, Y: tj.Tensor) -> None:
    row = tj.cta_id(0)
    greatest, total = LOWEST, 0.0
    for start in range(0, X.shape[1], BLOCK):
        x = tj.cta.load(X[row, start : start + BLOCK], fill=-tj.inf).astype(tj.float32)
        before, greatest = greatest, max(greatest, tj.max(x))
        total = total * tj.exp(before - greatest) + tj.sum(powers(x, greatest))
    scale = 1 / total
    for start in range(0, X.shape[1], BLOCK):
        x = tj.cta.load(X[row, start : start + BLOCK])
        tj.cta.store(Y[row, start : start + BLOCK], (powers(x, greatest) * scale).astype(Y.dtype))


def threads_for(row_bytes: int) -> int:
    """Return how many threads hold a row in 2 to 4 vectors of 16 bytes with the least padding, but at most 1024."""
    vectors = tj.cdiv(row_bytes, 16)
    choices = [(32 * tj.cdiv(vectors, 32 * each), each) for each in (4, 3, 2)]
    threads, _ = min(choices, key=lambda choice: choice[0] * choice[1])
    return min(threads, 1024)


def is_contiguous(x: Any) -> bool:
    return bool(x.flags.c_contiguous if hasattr(x, "flags") else x.is_contiguous())


def launch_for(x: Any, y: Any) -> Callable[[], None]:
    """Return a function that computes y = softmax(x) along rows: the kernel that suits them, with its arguments."""
    rows, columns = x.shape
    size = x.dtype.itemsize
    threads = threads_for(columns * size)
    if columns * size > LONGEST:
        return partial(softmax_of_long_rows[rows], x, y)
    if size > 4:
        return partial(softmax[(rows,), threads], x, y, N=columns)
    if columns * size % 16 and is_contiguous(x) and is_contiguous(y):
        flat = softmax_of_unaligned_rows[(rows,), threads_for(columns * size + 16)]
        return partial(flat, x.reshape(-1), y.reshape(-1), N=columns, V=16 // size)
    return partial(fast_softmax[(rows,), threads], x, y, N=columns)


def softmax_of_rows(x: Any, y: Any) -> None:
    """y = softmax(x) along rows, for NumPy arrays or arrays on a GPU."""
    launch_for(x, y)()


def check(rows: int, columns: int, dtype: tj.DType = tj.float32) -> None:
    x = 5 * np.random.default_rng(columns).standard_normal((rows, columns), np.float32)
    x = x.astype(dtype.numpy)
    x[0, : columns // 2] = -np.inf
    y = np.full_like(x, np.nan)

    softmax_of_rows(x, y)

    e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    roundings: dict[tj.DType, float] = {tj.float32: 2e-6, tj.float16: 1e-3, tj.bfloat16: 8e-3}
    rounding = roundings[dtype]
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
