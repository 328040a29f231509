"""Index arithmetic: from the number of a vector to an address, and to what lies inside a tensor's edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ...dtypes import DType, int32, int64
from ...ir import build, facts
from ...ir.nodes import TRUE, Cast, Const, Expr, Op
from ...ir.remember import remembered
from ...layout import Swizzle
from .placement import Folded, Scaled, Side, Stride
from .schedule import Atom, chained

__all__ = [
    "Moved", "adds_up", "advanced", "all_inside", "along", "digits", "edge_dims", "extent_of", "index_dtype",
    "index_within", "inside", "linear", "located", "moves_whole", "offsets", "origin", "possible_bits", "reached",
    "steps", "swizzled",
]  # fmt: skip

#: a stride, and how many times it is gone
Moved = tuple[Stride, Expr]


def index_dtype(side: Side) -> DType:
    """The type in which offsets into this side's memory are computed."""
    return int64 if side.buffer.space == "global" else int32


def digits(index: Expr, extents: Sequence[int]) -> list[Expr]:
    """The digits of `index`, slowest first; it is below the extents' product."""
    found = []
    for k, extent in enumerate(extents):
        below = prod(extents[k + 1 :])
        digit = build.floordiv(index, below) if below > 1 else index
        found.append(build.mod(digit, extent) if k else digit)
    return found


def origin(side: Side) -> Expr:
    """Where the region starts, before swizzling."""
    return along(offsets(side), index_dtype(side))


def linear(side: Side, column: int, atoms: Sequence[Atom], values: Sequence[Expr]) -> Expr:
    """How far digits `values` of `atoms` lead on `side`, the atoms' region number `column`."""
    return along(steps(column, atoms, values), index_dtype(side))


def reached(side: Side, column: int, atoms: Sequence[Atom], index: Expr) -> Expr:
    """How far `index`, which counts all digits of `atoms`, leads on `side`."""
    return along(_counted(column, atoms, index), index_dtype(side))


def located(side: Side, column: int, atoms: Sequence[Atom], index: Expr) -> Expr:
    """Where `index` leads from the region's start, before swizzling."""
    return along((*offsets(side), *_counted(column, atoms, index)), index_dtype(side))


def offsets(side: Side) -> list[Moved]:
    """What leads to the region's start."""
    return [(o.stride, o.index) for o in side.offsets]


def steps(column: int, atoms: Sequence[Atom], values: Sequence[Expr]) -> list[Moved]:
    """What digits `values` of `atoms` add on side `column`."""
    return [(a.strides[column], v) for a, v in zip(atoms, values, strict=True)]


def _counted(column: int, atoms: Sequence[Atom], index: Expr) -> list[Moved]:
    own = chained(atoms, column)
    return steps(column, own, digits(index, [a.extent for a in own]))


def adds_up(column: int, atoms: Sequence[Atom], step: int, count: int) -> bool:
    """Whether index first + rest leads as far as `first` and `rest` do together: no digit carries.

    first: any multiple of `step`, and rest below it, their sum below `count`.
    """
    own = chained(atoms, column)
    below = [prod(a.extent for a in own[k:]) for k in range(1, len(own))]
    folded = any(isinstance(a.strides[column], Folded) for a in own)
    return not folded and all(step % b == 0 or b % step == 0 or b >= count for b in below)


def along(moved: Iterable[Moved], dtype: DType) -> Expr:
    """How far indices lead along their strides, together; those among threads lead nowhere in memory."""
    terms: list[tuple[Expr, int]] = []
    for stride, index in moved:
        if isinstance(stride, int):
            terms.append((build.cast(index, dtype), stride))
        elif isinstance(stride, Scaled):
            product = build.mul(build.cast(index, dtype), build.cast(stride.var, dtype))
            terms.append((product, stride.factor))
        elif isinstance(stride, Folded):
            at = build.add(build.cast(stride.start, dtype), build.cast(index, dtype))
            terms.extend((build.mod(build.floordiv(at, d), extent), step) for d, extent, step in stride.parts)
    return build.weighted_sum(terms, dtype)


# ---- swizzles -----------------------------------------------------------------------------------------------


def swizzled(address: Expr, swizzle: Swizzle | None) -> Expr:
    """The address that a swizzle leads to.

    Terms that are multiples of the swizzle's period are added afterwards: it doesn't see them.
    """
    if swizzle is None:
        return address
    far, near = build.apart(address, swizzle.period)
    mask = ((1 << swizzle.bits) - 1) << swizzle.base
    if swizzle.inner:
        moved = build.bitwise_and(build.right_shift(near, swizzle.shift), mask)
    else:
        moved = build.left_shift(build.bitwise_and(near, mask), swizzle.shift)
    return build.add(build.bitwise_xor(near, moved), far)


def advanced(swizzle: Swizzle | None, base: Expr, still: Expr, moved: Expr) -> Expr:
    """The swizzled address at `still` + `moved`, from `base`, that at `still`.

    swz(a + c) is swz(a) xor swz(c) where a and c share no bits: a swizzle is linear over bits.
    """
    if swizzle is None:
        return build.add(base, moved)
    far, near = build.apart(moved, swizzle.period)
    bits = possible_bits(near)
    if bits == 0:
        return build.add(base, far)
    # what is a multiple of the period has no bits in it
    before = possible_bits(build.apart(still, swizzle.period)[1] if 0 <= bits < swizzle.period else still)
    if bits < 0 or before & bits:
        return swizzled(build.add(still, moved), swizzle)
    read, written = _bits_of(swizzle)
    if bits & read:
        return build.add(build.bitwise_xor(base, swizzled(near, swizzle)), far)
    return build.add(build.bitwise_xor(base, near) if bits & written else build.add(base, near), far)


def _bits_of(swizzle: Swizzle) -> tuple[int, int]:
    """The address bits that a swizzle reads, and those that it changes."""
    low = ((1 << swizzle.bits) - 1) << swizzle.base
    high = low << swizzle.shift
    return (high, low) if swizzle.inner else (low, high)


@remembered
def possible_bits(expr: Expr) -> int:
    """The bits that may be set in a value that is not negative; -1 where nothing is known."""
    if isinstance(expr, Const):
        return int(expr.value) if expr.value >= 0 else -1
    found = _from_facts(expr)
    if isinstance(expr, Cast):
        return found & possible_bits(expr.x) if facts.keeps_value(expr) else found
    if not isinstance(expr, Op) or len(expr.args) != 2:
        return found
    left, right = (possible_bits(a) for a in expr.args)
    amount = expr.args[1]
    if expr.name == "add" and left >= 0 and right >= 0 and left & right == 0:
        return found & (left | right)
    if not isinstance(amount, Const) or left < 0 or amount.value <= 0 or int(amount.value).bit_count() != 1:
        return found
    places = int(amount.value).bit_length() - 1
    if expr.name == "mul":
        return found & (left << places)
    if expr.name == "floordiv":
        return found & (left >> places)
    return found & left & (int(amount.value) - 1) if expr.name == "mod" else found


def _from_facts(expr: Expr) -> int:
    low, high = facts.bounds(expr)
    multiple = facts.multiple_of(expr)
    if low is None or low < 0:
        return -1
    if multiple == 0:
        return 0
    above = ~((multiple & -multiple) - 1)
    return above if high is None else above & ((1 << high.bit_length()) - 1)


# ---- edges --------------------------------------------------------------------------------------------------


def edge_dims(side: Side) -> tuple[int, ...]:
    """The buffer's dimensions in which the region isn't known to lie inside the tensor."""
    region = side.region
    if region.in_bounds or side.buffer.space != "global":
        return ()
    return tuple(d for d in range(len(region.starts)) if all_inside(side, (d,)) != TRUE)


def all_inside(side: Side, dims: Sequence[int]) -> Expr:
    """Whether the whole region lies inside the tensor in `dims`."""
    cond: Expr = TRUE
    for d in dims:
        start = build.cast(side.region.starts[d], int64)
        end = build.add(start, side.region.extents[d] or 1)
        cond = build.logical_and(cond, build.greater_equal(start, 0))
        cond = build.logical_and(cond, build.less_equal(end, extent_of(side, d)))
    return cond


def inside(
    side: Side,
    dims: Sequence[int],
    atoms: Sequence[Atom],
    values: Sequence[Expr],
    step: Expr,
    run_dim: int | None,
) -> Expr:
    """Whether an element lies inside the tensor in `dims`: that at digits `values`, and `step` further in `run_dim`.

    run_dim: the dimension of the region along which a vector runs.
    """
    cond: Expr = TRUE
    for d in dims:
        at = _index_in(side, d, atoms, values, step, run_dim)
        cond = build.logical_and(cond, build.greater_equal(at, 0))
        cond = build.logical_and(cond, build.less(at, extent_of(side, d)))
    return cond


def _index_in(
    side: Side, d: int, atoms: Sequence[Atom], values: Sequence[Expr], step: Expr, run_dim: int | None
) -> Expr:
    """The index in dimension `d` of the buffer of what `inside` tests."""
    at = build.cast(side.region.starts[d], int64)
    if d not in side.places:
        return at
    at = build.add(at, index_within(side.places.index(d), atoms, values, int64))
    return build.add(at, build.cast(step, int64)) if side.places.index(d) == run_dim else at


def extent_of(side: Side, d: int) -> Expr:
    """How large the buffer is in dimension `d`."""
    size = side.buffer.shape[d]
    return build.const(size, int64) if isinstance(size, int) else size


def index_within(dim: int, atoms: Sequence[Atom], values: Sequence[Expr], dtype: DType) -> Expr:
    """The index in dimension `dim` of the region at digits `values` of `atoms`."""
    own = [(v, a.weight) for a, v in zip(atoms, values, strict=True) if a.dim == dim]
    return build.weighted_sum([(build.cast(v, dtype), weight) for v, weight in own], dtype)


def moves_whole(side: Side, dims: Sequence[int], atoms: Sequence[Atom], width: int) -> bool:
    """Whether each vector of `width` along the last atom lies on one side of every edge in `dims`.

    True where the dimension's start and size are multiples of the width, as is what all other digits add.
    """
    run_dim = atoms[-1].dim if atoms else None
    if width == 1 or run_dim is None or side.places[run_dim] not in dims:
        return True
    d = side.places[run_dim]
    others = (a.weight for a in atoms[:-1] if a.dim == run_dim)
    known = (facts.multiple_of(side.region.starts[d]), facts.multiple_of(extent_of(side, d)), *others)
    return all(k % width == 0 for k in known)
