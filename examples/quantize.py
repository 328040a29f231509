"""Quantize rows to 8 bits, int8 or float8, with a scale per row; and dequantize them.

A row's scale is its greatest magnitude divided by the greatest number of the type, so that the row fills the type's
range. `Q.dtype` is a compile-time value: `if Q.dtype == tj.int8` costs nothing, since only one branch is compiled.
Conversion to an integer truncates, so it is rounded first; conversion to float8 rounds, and saturates as the hardware
does. A row of zeros has the scale 1.

float8 is a storage type: convert it to another float before any arithmetic, as `dequantize` does.

Run it: `python examples/quantize.py`.
"""

import numpy as np

import tilejit as tj


@tj.kernel(threads=256)
def quantize(X: tj.Tensor, Q: tj.Tensor, scales: tj.Tensor, N: tj.constexpr, greatest: tj.constexpr) -> None:
    """greatest: the number of Q's type to which the row's greatest magnitude is scaled."""
    row = tj.cta_id(0)
    x = tj.cta.load(X[row, 0:N]).astype(tj.float32)
    magnitude = tj.max(tj.abs(x))
    scale = magnitude / greatest if magnitude > 0 else 1.0
    y = x / scale
    if Q.dtype == tj.int8:
        y = tj.round(y)
    tj.cta.store(Q[row, 0:N], y.astype(Q.dtype))
    scales[row] = scale


@tj.kernel(threads=256)
def dequantize(Q: tj.Tensor, scales: tj.Tensor, X: tj.Tensor, N: tj.constexpr) -> None:
    row = tj.cta_id(0)
    x = tj.cta.load(Q[row, 0:N]).astype(tj.float32) * scales[row]
    tj.cta.store(X[row, 0:N], x.astype(X.dtype))


GREATEST: dict[tj.DType, int] = {tj.int8: 127, tj.float8_e4m3fn: 448, tj.float8_e5m2: 57344}


def check(rows: int, columns: int, storage: tj.DType = tj.int8, dtype: tj.DType = tj.float16) -> None:
    x = np.random.default_rng(columns).standard_normal((rows, columns)).astype(dtype.numpy)
    x[0] = 0
    q, back = np.full(x.shape, 77, storage.numpy), np.full_like(x, np.nan)
    scales = np.full(rows, np.nan, np.float32)

    quantize[rows](x, q, scales, N=columns, greatest=GREATEST[storage])
    dequantize[rows](q, scales, back, N=columns)

    magnitude = np.abs(x.astype(np.float32)).max(1, keepdims=True)
    scale = np.where(magnitude > 0, magnitude / np.float32(GREATEST[storage]), np.float32(1))
    y = x.astype(np.float32) / scale
    expected = (np.rint(y) if storage == tj.int8 else y).astype(storage.numpy)
    assert np.array_equal(scales, np.ravel(scale)), "the scales are wrong"
    assert np.array_equal(q.view(np.uint8), expected.view(np.uint8)), "the result is wrong"
    assert np.array_equal(back, (expected.astype(np.float32) * scale).astype(x.dtype)), "the values are wrong"
    print(f"{rows} x {columns} {dtype} as {storage} on {tj.device()}: right")


def main() -> None:
    check(5, 1024)
    check(3, 997, tj.float8_e4m3fn, tj.bfloat16)
    x, q, scales = tj.spec((16384, 4096), tj.float16), tj.spec((16384, 4096), tj.int8), tj.spec((16384,), tj.float32)
    print(quantize.explain(x, q, scales, N=4096, greatest=127))


if __name__ == "__main__":
    main()
