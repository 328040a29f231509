"""How far results may be from the reference."""

from __future__ import annotations

from tilejit.dtypes import DType

#: functions that are within 4 units in the last place; everything else is exact
FUNCTIONS = frozenset(
    ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "sigmoid", "silu", "gelu", "rsqrt", "pow")
)


def tolerance(name: str, dtype: DType) -> int:
    """Units in the last place by which a result may be off.

    A function of float16 or bfloat16 computes in float32 and rounds once, so that its error moves the result by one
    unit at most.
    """
    if name not in FUNCTIONS or not dtype.is_float:
        return 0
    return 4 if dtype.bits >= 32 else 1
