"""The types of loop-carried names that start as literals.

Such a name has one type in the whole loop: the promoted type of the typed values assigned to it, with float16 and
bfloat16 widened to float32, and narrow integers to int32. A float literal makes an integer type float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..dataclass import dataclass, field
from ..dtypes import DType, float32, int32, promote
from ..errors import KernelTypeError
from .values import Scalar, Value, is_number, weak_type


@dataclass(slots=True)
class Carried:
    """The state of a loop-carried name that starts as a literal, while the loop's body is translated."""

    #: the type in the loop; None while only literals have been assigned
    dtype: DType | None
    #: the types of the typed scalars that the loop assigns to the name
    assigned: set[DType] = field(default_factory=set)


def is_literal(value: Value) -> bool:
    """True if the value is a number whose type isn't fixed yet."""
    return value.weak if isinstance(value, Scalar) else is_number(value)


def loop_type(literals: Sequence[Value], types: Iterable[DType]) -> DType | None:
    """Return the type of a name that holds `literals` and values of `types`; None if they have no common type."""
    kinds = {weak_type(literal).kind for literal in literals}
    listed = sorted(set(types), key=lambda t: t.name)
    if "bool" in kinds:
        return listed[0] if kinds == {"bool"} and all(t.kind == "bool" for t in listed) else None
    try:
        common = promote(*listed)
    except KernelTypeError:
        return None
    if common.is_half:
        return float32
    if not common.is_float and "float" in kinds:
        return float32
    return int32 if not common.is_float and common.bits < 32 else common
