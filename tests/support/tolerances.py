"""How far results may be from the reference."""

from __future__ import annotations

from tilejit.dtypes import DType
from tilejit.ops.elementwise import ELEMENTWISE

#: what the language promises of every function, in units in the last place
PROMISE = 4
#: what the simulator makes of approximations, which it computes nearly exactly, where nothing overflows: exp of 88
SIMULATED_APPROXIMATION = 64

#: the operations that give one result everywhere; how far the others are off, tests/kernels/test_approximations.py says
REPRODUCIBLE = tuple(name for name, op in ELEMENTWISE.items() if op.approximation is None)


def tolerance(name: str, dtype: DType) -> int:
    """Units in the last place by which a result may be off.

    A function of float16 or bfloat16 computes in float32 and rounds once, so that its error moves the result by one
    unit at most.
    """
    if name in ELEMENTWISE and ELEMENTWISE[name].approximation is not None:
        return SIMULATED_APPROXIMATION if dtype.bits >= 32 else 1
    if name not in ELEMENTWISE or ELEMENTWISE[name].accuracy is None or not dtype.is_float:
        return 0
    return PROMISE if dtype.bits >= 32 else 1
