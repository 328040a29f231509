"""RMS normalisation of rows, forward and backward: y = x * gain / sqrt(mean(x²) + epsilon).

The structure is that of `layernorm.py`, with one sum per row instead of two. Note the types: a *number*, also a
run-time one, takes the type of the tile that it is combined with, so `x * scales[row]` would be float16 if x is. With
`x.astype(tj.float32)` it is float32; and a tile of float32 with a *tile* of float16, as `x * gain` here, is float32.

Run it: `python examples/rmsnorm.py`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

import tilejit as tj

CTAS = 2 * 132  # that share the rows of the backward pass: two on each multiprocessor of an H100
TALL, WIDE = 128, 32  # of the tiles that the last launch sums


@tj.kernel(threads=256)
def rmsnorm(
    X: tj.Tensor, gain: tj.Tensor, Y: tj.Tensor, scales: tj.Tensor, N: tj.constexpr, epsilon: tj.float32
) -> None:
    """scales: of each row, for the backward pass."""
    row = tj.cta_id(0)
    x = tj.cta.load(X[row, 0:N]).astype(tj.float32)
    scale = tj.rsqrt(tj.sum(x * x) / N + epsilon)
    tj.cta.store(Y[row, 0:N], (x * scale * tj.cta.load(gain[0:N])).astype(Y.dtype))
    scales[row] = scale


@tj.kernel(threads=256)
def rmsnorm_backward(
    X: tj.Tensor, gain: tj.Tensor, scales: tj.Tensor, dY: tj.Tensor, dX: tj.Tensor, dgains: tj.Tensor, N: tj.constexpr
) -> None:
    """dgains: CTAs × N, float32: each CTA's part of dgain."""
    first, step, last = tj.cta_id(0), tj.num_ctas(0), X.shape[0] - 1
    g = tj.cta.load(gain[0:N])
    dgain = tj.cta.zeros((N,), tj.float32)
    next_x, next_dy, next_scale = tj.cta.load(X[first, 0:N]), tj.cta.load(dY[first, 0:N]), scales[first]
    for row in range(first, X.shape[0], step):
        scale, dy = next_scale, next_dy.astype(tj.float32)
        x = next_x.astype(tj.float32) * scale
        following = min(row + step, last)
        next_x, next_dy = tj.cta.load(X[following, 0:N]), tj.cta.load(dY[following, 0:N])
        next_scale = scales[following]
        dgain = tj.fma(dy, x, dgain)
        dy *= g
        along = tj.sum(dy * x) / N
        tj.cta.store(dX[row, 0:N], tj.fma(x, -along * scale, dy * scale).astype(dX.dtype))
    tj.cta.store(dgains[first, 0:N], dgain)


@tj.kernel(threads=1024)
def sum_of_rows(parts: tj.Tensor, total: tj.Tensor) -> None:
    """total = the sum of the rows of `parts`; each CTA sums WIDE columns."""
    column = tj.cta_id(0)
    sums = tj.cta.zeros((TALL, WIDE), tj.float32)
    for k in range(tj.cdiv(parts.shape[0], TALL)):
        sums += tj.cta.load(parts.tile((TALL, WIDE), (k, column)))
    tj.cta.store(total.tile(WIDE, column), tj.sum(sums, axis=0).astype(total.dtype))


def check(rows: int, columns: int, dtype: tj.DType = tj.float32, ctas: int = CTAS) -> None:
    random = np.random.default_rng(columns)
    x, dy = (random.standard_normal((rows, columns)).astype(dtype.numpy) for _ in range(2))
    gain = random.standard_normal(columns).astype(dtype.numpy)
    y, dx, dgain = np.full_like(x, np.nan), np.full_like(x, np.nan), np.full_like(gain, np.nan)
    scales = np.empty(rows, np.float32)
    dgains = np.empty((min(ctas, rows), columns), np.float32)

    rmsnorm[rows](x, gain, y, scales, N=columns, epsilon=1e-5)
    rmsnorm_backward[len(dgains)](x, gain, scales, dy, dx, dgains, N=columns)
    sum_of_rows[tj.cdiv(columns, WIDE)](dgains, dgain)

    x, dy, gain = (array.astype(np.float64) for array in (x, dy, gain))
    scale = 1 / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5)
    x, dx_of = x * scale, dy * gain
    compare("y", y, x * gain, dtype)
    compare("dx", dx, (dx_of - x * (dx_of * x).mean(1, keepdims=True)) * scale, dtype)
    compare("dgain", dgain, (dy * x).sum(0), dtype)
    print(f"{rows} x {columns} {dtype} on {tj.device()}: right")


def compare(name: str, result: npt.NDArray[Any], expected: npt.NDArray[Any], dtype: tj.DType) -> None:
    roundings: dict[tj.DType, float] = {tj.float32: 1e-5, tj.float16: 1e-3, tj.bfloat16: 8e-3}
    rounding = roundings[dtype]
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=rounding, atol=rounding, err_msg=name)


def main() -> None:
    check(7, 1000, ctas=3)
    check(9, 509, tj.float16, ctas=4)
    x, vector, column = tj.spec((16384, 4096), tj.float16), tj.spec((4096,), tj.float16), tj.spec((16384,), tj.float32)
    print(rmsnorm.explain(x, vector, x, column, N=4096, epsilon=1e-5))


if __name__ == "__main__":
    main()
