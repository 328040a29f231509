"""Y = X + gelu(H + bias): tiles of several dtypes in one expression.

H and X are float16 (or bfloat16), the bias is float32. An operation of two dtypes promotes as in NumPy, so that
h + bias is float32; `.astype` converts a tile in registers. A function is computed to its operand's precision: gelu of
float16 needs 30 instructions, of float32 70, which would take longer than the memory accesses. So the sum is rounded to
H's type first, as in torch, and the rest is computed in float32 until the end.

`bias` is one row: it broadcasts over the tile's rows and gets a layout that matches theirs, so that each thread holds
its columns. All is fused: H, X and bias are read once, Y is written once, and intermediate values stay in registers.

Run it: `python examples/bias_gelu.py`.
"""

from math import erf, sqrt

import numpy as np

import tilejit as tj

ROWS, COLUMNS = 4, 2048  # of a CTA's tile: 256 threads with 16 bytes of float16 of each row


@tj.kernel(threads=256)
def bias_gelu(H: tj.Tensor, bias: tj.Tensor, X: tj.Tensor, Y: tj.Tensor) -> None:
    row, column = tj.cta_id(1), tj.cta_id(0)
    h = tj.cta.load(H.tile((ROWS, COLUMNS), (row, column)))
    x = tj.cta.load(X.tile((ROWS, COLUMNS), (row, column)))
    t = (h + tj.cta.load(bias.tile(COLUMNS, column))).astype(H.dtype)
    y = x.astype(tj.float32) + tj.gelu(t).astype(tj.float32)
    tj.cta.store(Y.tile((ROWS, COLUMNS), (row, column)), y.astype(Y.dtype))


def grid(rows: int, columns: int) -> tuple[int, int]:
    return tj.cdiv(columns, COLUMNS), tj.cdiv(rows, ROWS)


def check(rows: int, columns: int, dtype: tj.DType = tj.float16) -> None:
    random = np.random.default_rng(columns)
    h, x = (random.standard_normal((rows, columns)).astype(dtype.numpy) for _ in range(2))
    bias = random.standard_normal(columns).astype(np.float32)
    y = np.full_like(x, np.nan)

    bias_gelu[grid(rows, columns)](h, bias, x, y)

    t = (h.astype(np.float32) + bias).astype(h.dtype).astype(np.float64)
    expected = x.astype(np.float64) + t * (1 + np.vectorize(erf)(t / sqrt(2))) / 2
    roundings: dict[tj.DType, float] = {tj.float32: 2e-6, tj.float16: 2e-3, tj.bfloat16: 1.6e-2}
    rounding = roundings[dtype]
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=rounding, atol=rounding)
    print(f"{rows} x {columns} {dtype} on {tj.device()}: right")


def main() -> None:
    check(8, 2048)
    check(3, 1021, tj.bfloat16)
    x, bias = tj.spec((8192, 8192), tj.float16), tj.spec((8192,), tj.float32)
    print(bias_gelu.explain(x, bias, x, x))


if __name__ == "__main__":
    main()
