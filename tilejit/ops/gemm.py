"""The matrix product: what it says of types and shapes, and its meaning."""

from __future__ import annotations

import numpy as np

from ..dtypes import DType, float32
from ..isa.mma import MMA

__all__ = ["reference", "shape_fault", "type_fault"]


def type_fault(acc: DType, a: DType, b: DType, precision: object) -> str | None:
    """Why `acc += a @ b` isn't a product that tensor cores compute, or None."""
    if precision not in (None, "tf32"):
        return f'precision is "tf32" or None; got {precision!r}'
    if (a, b) == (float32, float32):
        if precision is None:
            return 'float32 operands need precision="tf32": tensor cores round them to 10 bits of fraction'
    elif precision is not None:
        return f"precision={precision!r} is for float32 operands; got {a} and {b}"
    sums = [form.acc for form in MMA.forms() if (form.a, form.b) == (a, b)]
    if not sums:
        return f"no tensor core multiplies {a} by {b}; cast one of them"
    if acc not in sums:
        listed = " or ".join(str(t) for t in dict.fromkeys(sums))
        return f"{a} by {b} accumulates in {listed}; got {acc}"
    return None


def shape_fault(acc: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]) -> str | None:
    """Why the shapes aren't (M, N), (M, K) and (K, N), or None."""
    if any(len(shape) != 2 for shape in (acc, a, b)):
        return f"gemm takes matrices (M, N), (M, K), (K, N); got {acc}, {a}, {b}"
    if a[1] != b[0] or acc != (a[0], b[1]):
        return f"{a} by {b} isn't {acc}: gemm takes (M, N), (M, K), (K, N)"
    return None


def reference(acc: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """acc + a @ b, summed in float64 or int64 and rounded once; integers wrap.

    The hardware's own sums differ from it by the rounding of partial sums.
    """
    wide = np.int64 if acc.dtype.kind == "i" else np.float64
    return np.asarray((acc.astype(wide) + a.astype(wide) @ b.astype(wide)).astype(acc.dtype))
