"""How far results may be from the reference."""

from __future__ import annotations

from tilejit.dtypes import DType
from tilejit.ops.elementwise import ELEMENTWISE

#: what the language promises of every function, in units in the last place
PROMISE = 4


def tolerance(name: str, dtype: DType) -> int:
    """Units in the last place by which a result may be off.

    A function of float16 or bfloat16 computes in float32 and rounds once, so that its error moves the result by one
    unit at most.
    """
    if name not in ELEMENTWISE or ELEMENTWISE[name].accuracy is None or not dtype.is_float:
        return 0
    return PROMISE if dtype.bits >= 32 else 1
