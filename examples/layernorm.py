"""Layer normalisation of rows, forward and backward.

Forward: one CTA per row, which stays in registers between its load and its store. `gain` and `bias` get the row's
layout, so that each thread holds its columns. `means[row] = mean` stores one element: every thread has the value.

Backward: dx of a row needs that row alone, but dgain and dbias are sums over all rows. So a fixed number of CTAs share
the rows, and keep their part of those sums in registers, as loop-carried tiles; a second launch adds the parts. There
are no atomics, so the result is the same each time, bit for bit. The next row is loaded before this row's sums are
computed, so that its loads overlap with the barriers; in the last iteration the last row is loaded once more. `tj.fma`
is one instruction with one rounding; nothing else is contracted.

Run it: `python examples/layernorm.py`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

import tilejit as tj

CTAS = 2 * 132  # that share the rows of the backward pass: two on each multiprocessor of an H100
TALL, WIDE = 128, 32  # of the tiles that the last launch sums


@tj.kernel(threads=256)
def layernorm(
    X: tj.Tensor, gain: tj.Tensor, bias: tj.Tensor, Y: tj.Tensor, means: tj.Tensor, scales: tj.Tensor,
    N: tj.constexpr, epsilon: tj.float32,
) -> None:
    """means, scales: of each row, for the backward pass."""
    row = tj.cta_id(0)
    x = tj.cta.load(X[row, 0:N]).astype(tj.float32)
    mean = tj.sum(x) / N
    d = x - mean
    scale = tj.rsqrt(tj.sum(d * d) / N + epsilon)
    means[row] = mean
    scales[row] = scale
    tj.cta.store(Y[row, 0:N], (d * scale * tj.cta.load(gain[0:N]) + tj.cta.load(bias[0:N])).astype(Y.dtype))


@tj.kernel(threads=256)
def layernorm_backward(
    X: tj.Tensor, gain: tj.Tensor, means: tj.Tensor, scales: tj.Tensor, dY: tj.Tensor,
    dX: tj.Tensor, dgains: tj.Tensor, dbiases: tj.Tensor, N: tj.constexpr,
) -> None:
    """dgains, dbiases: CTAs × N, float32: each CTA's part of the sums."""
    first, step, last = tj.cta_id(0), tj.num_ctas(0), X.shape[0] - 1
    g = tj.cta.load(gain[0:N])
    dgain, dbias = tj.cta.zeros((N,), tj.float32), tj.cta.zeros((N,), tj.float32)
    next_x, next_dy = tj.cta.load(X[first, 0:N]), tj.cta.load(dY[first, 0:N])
    next_mean, next_scale = means[first], scales[first]
    for row in range(first, X.shape[0], step):
        mean, scale, dy = next_mean, next_scale, next_dy.astype(tj.float32)
        x = tj.fma(next_x.astype(tj.float32), scale, -mean * scale)
        following = min(row + step, last)
        next_x, next_dy = tj.cta.load(X[following, 0:N]), tj.cta.load(dY[following, 0:N])
        next_mean, next_scale = means[following], scales[following]
        dgain = tj.fma(dy, x, dgain)
        dbias += dy
        dy *= g
        mean_dy, along = tj.sum(dy) / N, tj.sum(dy * x) / N
        dx = tj.fma(x, -along * scale, tj.fma(dy, scale, -mean_dy * scale))
        tj.cta.store(dX[row, 0:N], dx.astype(dX.dtype))
    tj.cta.store(dgains[first, 0:N], dgain)
    tj.cta.store(dbiases[first, 0:N], dbias)


@tj.kernel(threads=1024)
def sum_of_rows(parts: tj.Tensor, totals: tj.Tensor) -> None:
    """totals[i] = the sum of the rows of parts[i]: CTA (k, i) sums the k-th block of columns."""
    column, which = tj.cta_id(0), tj.cta_id(1)
    sums = tj.cta.zeros((1, TALL, WIDE), tj.float32)
    for k in range(tj.cdiv(parts.shape[1], TALL)):
        sums += tj.cta.load(parts.tile((1, TALL, WIDE), (which, k, column)))
    tj.cta.store(totals.tile((1, WIDE), (which, column)), tj.sum(sums, axis=1).astype(totals.dtype))


def check(rows: int, columns: int, dtype: tj.DType = tj.float32, ctas: int = CTAS) -> None:
    random = np.random.default_rng(columns)
    x, dy = (random.standard_normal((rows, columns)).astype(dtype.numpy) for _ in range(2))
    gain, bias = (random.standard_normal(columns).astype(dtype.numpy) for _ in range(2))
    y, dx = np.full_like(x, np.nan), np.full_like(x, np.nan)
    means, scales = np.empty(rows, np.float32), np.empty(rows, np.float32)
    ctas = min(ctas, rows)
    parts, totals = np.empty((2, ctas, columns), np.float32), np.full((2, columns), np.nan, x.dtype)

    layernorm[rows](x, gain, bias, y, means, scales, N=columns, epsilon=1e-5)
    layernorm_backward[ctas](x, gain, means, scales, dy, dx, *parts, N=columns)
    sum_of_rows[tj.cdiv(columns, WIDE), 2](parts, totals)

    x, dy, gain, bias = (array.astype(np.float64) for array in (x, dy, gain, bias))
    d = x - x.mean(1, keepdims=True)
    scale = 1 / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5)
    x, dx_of = d * scale, dy * gain
    compare("y", y, x * gain + bias, dtype)
    mean, along = dx_of.mean(1, keepdims=True), (dx_of * x).mean(1, keepdims=True)
    compare("dx", dx, (dx_of - mean - x * along) * scale, dtype)
    compare("dgain", totals[0], (dy * x).sum(0), dtype)
    compare("dbias", totals[1], dy.sum(0), dtype)
    print(f"{rows} x {columns} {dtype} on {tj.device()}: right")


def compare(name: str, result: npt.NDArray[Any], expected: npt.NDArray[Any], dtype: tj.DType) -> None:
    roundings: dict[tj.DType, float] = {tj.float32: 1e-5, tj.float16: 1e-3, tj.bfloat16: 8e-3}
    rounding = roundings[dtype]
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=rounding, atol=rounding, err_msg=name)


def main() -> None:
    check(7, 1000, ctas=3)
    check(9, 509, tj.float16, ctas=4)
    x, vector, column = tj.spec((16384, 4096), tj.float16), tj.spec((4096,), tj.float16), tj.spec((16384,), tj.float32)
    print(layernorm.explain(x, vector, vector, x, column, column, N=4096, epsilon=1e-5))


if __name__ == "__main__":
    main()
