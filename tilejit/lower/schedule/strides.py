"""Strides of the digits of an index: in memory, in registers, or over threads."""

from __future__ import annotations

from collections.abc import Iterable

from ...dataclass import dataclass
from ...dtypes import DType
from ...ir.arithmetic import build
from ...ir.nodes import Expr, Var


@dataclass(frozen=True, slots=True)
class Thread:
    """A stride over the threads of the scope."""

    stride: int


@dataclass(frozen=True, slots=True)
class Folded:
    """The stride of a dimension that is one digit, although its distances aren't multiples of a single stride.

    Index i adds to the address the sum over `parts` (divisor, extent, stride), slowest first, of
    (start + i) // divisor % extent * stride. The first part omits `% extent`, since i may be past the dimension's end.
    """

    start: Expr
    parts: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Scaled:
    """A run-time stride times `factor`."""

    var: Var
    factor: int = 1

    @property
    def multiple(self) -> int:
        return self.var.multiple_of * self.factor


Stride = int | Scaled | Thread | Folded

#: a stride and the number of steps along it
Term = tuple[Stride, Expr]


def multiple_of(stride: int | Scaled) -> int:
    """Return a known divisor of the stride; 0 if the stride is known to be 0."""
    return abs(stride) if isinstance(stride, int) else stride.multiple


def times(stride: Stride, factor: int) -> Stride:
    if isinstance(stride, int):
        return stride * factor
    if isinstance(stride, Thread):
        return Thread(stride.stride * factor)
    if isinstance(stride, Scaled):
        return Scaled(stride.var, stride.factor * factor)
    assert factor == 1, "a folded digit can't be split"
    return stride


def goes_on(slow: Stride, fast: Stride, extent: int) -> bool:
    """True if a step along `slow` equals `extent` steps along `fast`, and both are constant or both over threads."""
    if isinstance(slow, int) and isinstance(fast, int):
        return slow == extent * fast
    if isinstance(slow, Thread) and isinstance(fast, Thread):
        return slow.stride == extent * fast.stride
    return False


def total_along(terms: Iterable[Term], dtype: DType) -> Expr:
    """Return the sum of indices times strides (see `Folded` for its formula); strides over threads count as 0."""
    weighted: list[tuple[Expr, int]] = []
    for stride, index in terms:
        if isinstance(stride, int):
            weighted.append((build.cast(index, dtype), stride))
        elif isinstance(stride, Scaled):
            product = build.mul(build.cast(index, dtype), build.cast(stride.var, dtype))
            weighted.append((product, stride.factor))
        elif isinstance(stride, Folded):
            at = build.add(build.cast(stride.start, dtype), build.cast(index, dtype))
            for k, (divisor, extent, step) in enumerate(stride.parts):
                digit = build.floordiv(at, divisor)
                weighted.append((build.mod(digit, extent) if k else digit, step))
    # fast path for the single term that most operands have; `build.mul` caches the product
    return build.mul(*weighted[0]) if len(weighted) == 1 else build.weighted_sum(weighted, dtype)


def shown(stride: Stride, scale: int = 1) -> str:
    """Format a stride for a message. scale: bytes per element if the message counts bytes."""
    if isinstance(stride, int):
        return str(stride * scale)
    if isinstance(stride, Scaled):
        factor = "" if stride.factor * scale == 1 else f"{stride.factor * scale} * "
        return f"{factor}{stride.var.name} (a multiple of {stride.multiple * scale})"
    return "a varying number of"
