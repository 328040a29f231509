"""Addresses: strides of the digits of an index, in memory, in registers or over threads, and swizzles.

A swizzle of 3 bits permutes the 8 chunks of a row by the row's index. With `base` 3 and `shift` 3, in elements:

    address   ... r r r c c c e e e      r: row, c: chunk of 8 elements, e: element in the chunk
    becomes   ... r r r x x x e e e      x = c xor r

A swizzle is linear over bits: if a and b share no bits, the swizzled a + b is the xor of the swizzled a and b. So a
loop that adds such a b to an address needs one xor, or none if b has no bits among r and c.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...dataclass import dataclass
from ...dtypes import DType
from ...ir.arithmetic import build, facts
from ...ir.nodes import Cast, Const, Expr, Op, Var
from ...layout import Swizzle
from ...remember import remembered


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


def swizzled(address: Expr, swizzle: Swizzle | None) -> Expr:
    """Return the swizzled address; terms that are multiples of the swizzle's period are added after the xor."""
    if swizzle is None:
        return address
    far, near = build.apart(address, swizzle.period)
    mask = ((1 << swizzle.bits) - 1) << swizzle.base
    if swizzle.inner:
        moved = build.bitwise_and(build.right_shift(near, swizzle.shift), mask)
    else:
        moved = build.left_shift(build.bitwise_and(near, mask), swizzle.shift)
    return build.add(build.bitwise_xor(near, moved), far)


def advanced(swizzle: Swizzle | None, base: Expr, plain: Expr, moved: Expr) -> Expr:
    """Return the swizzled address of `plain` + `moved`, given `base`, the swizzled address of `plain`."""
    if swizzle is None:
        return build.add(base, moved)
    far, near = build.apart(moved, swizzle.period)
    bits = possible_bits(near)
    if bits == 0:
        return build.add(base, far)
    # multiples of the period have no bits below it, so they can't overlap `bits`
    before = possible_bits(build.apart(plain, swizzle.period)[1] if 0 <= bits < swizzle.period else plain)
    if bits < 0 or before & bits:
        return swizzled(build.add(plain, moved), swizzle)
    low = ((1 << swizzle.bits) - 1) << swizzle.base
    high = low << swizzle.shift
    read, written = (high, low) if swizzle.inner else (low, high)
    if bits & read:
        return build.add(build.bitwise_xor(base, swizzled(near, swizzle)), far)
    return build.add(build.bitwise_xor(base, near) if bits & written else build.add(base, near), far)


@remembered
def possible_bits(expr: Expr) -> int:
    """Return a mask of the bits that may be set, negative unless `expr` is known to be nonnegative and bounded."""
    if isinstance(expr, Const):
        return int(expr.value) if expr.value >= 0 else -1
    bits = _from_facts(expr)
    if isinstance(expr, Cast):
        return bits & possible_bits(expr.x) if facts.keeps_value(expr) else bits
    if not isinstance(expr, Op) or len(expr.args) != 2:
        return bits
    left, right = (possible_bits(a) for a in expr.args)
    amount = expr.args[1]
    if expr.name == "add" and left >= 0 and right >= 0 and left & right == 0:
        return bits & (left | right)
    if not isinstance(amount, Const) or left < 0 or amount.value <= 0 or int(amount.value).bit_count() != 1:
        return bits
    places = int(amount.value).bit_length() - 1
    if expr.name == "mul":
        return bits & (left << places)
    if expr.name == "floordiv":
        return bits & (left >> places)
    return bits & left & (int(amount.value) - 1) if expr.name == "mod" else bits


def _from_facts(expr: Expr) -> int:
    low, high = facts.bounds(expr)
    multiple = facts.multiple_of(expr)
    if low is None or low < 0:
        return -1
    if multiple == 0:
        return 0
    above = ~((multiple & -multiple) - 1)
    return above if high is None else above & ((1 << high.bit_length()) - 1)
