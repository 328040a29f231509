"""Names that start as literals and are carried round a loop: one type for the whole loop, in which they are kept.

It is the promotion of every typed value that the loop assigns, raised so that sums don't lose: narrow integers to
int32, float16 and bfloat16 to float32. A float literal makes it a float.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..dataclass import dataclass, field
from ..dtypes import DType, float32, int32, promote
from ..errors import KernelTypeError
from .values import Constant, Scalar, Value, default_type, is_number

__all__ = ["Carried", "is_literal", "raised"]


@dataclass(slots=True)
class Carried:
    """A name that starts as a literal, while a loop's body is read.

    dtype: its type in the loop; None as long as only literals were seen. assigned: the types that it was given.
    """

    dtype: DType | None
    assigned: set[DType] = field(default_factory=set)


def is_literal(value: Value) -> bool:
    """Whether a value has no type of its own yet."""
    return value.weak if isinstance(value, Scalar) else is_number(value)


def raised(literals: Sequence[Value], types: Iterable[DType]) -> DType | None:
    """The type of a name that is given these literals and values of these types; None where there is none."""
    kinds = {_default(literal).kind for literal in literals}
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


def _default(literal: Value) -> DType:
    return default_type(literal.value) if isinstance(literal, Constant) else literal.dtype  # type: ignore[union-attr]
