"""A region as steps: how far each digit of its index moves in memory, in registers, or among the threads."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...dtypes import int64
from ...errors import LayoutError
from ...ir import build, facts
from ...ir.nodes import Buffer, Const, Expr, Region, Strided, Var
from ...ir.remember import remembered, remembered_pair
from ...layout import Swizzle, TileLayout
from ...layout.iters import Iter, merged, refined, sliced, weights

__all__ = [
    "Folded", "Offset", "Scaled", "Side", "Step", "Stride", "THREADS", "Thread", "need_slice", "scope_step",
    "side", "stride_multiple",
]  # fmt: skip

#: scope -> thread axis -> how many of the scope's threads one step along it is
THREADS: dict[str, dict[str, int]] = {
    "thread": {},
    "warp": {"laneid": 1},
    "warpgroup": {"laneid": 1, "wid_in_wg": 32, "tid_in_wg": 1},
    "cta": {"laneid": 1, "wid_in_wg": 32, "tid_in_wg": 1, "warpid": 32, "wgid": 128, "tx": 1},
}


@dataclass(frozen=True, slots=True)
class Thread:
    """A stride that leads to another thread of the scope, in threads."""

    stride: int


@dataclass(frozen=True, slots=True)
class Folded:
    """A dimension that moves along several strides at once.

    Index i of the region goes to the sum over `parts` (divisor, extent, stride) of
    (start + i) // divisor % extent * stride.
    """

    start: Expr
    parts: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Scaled:
    """A stride known only at launch, `factor` times."""

    var: Var
    factor: int = 1

    @property
    def multiple(self) -> int:
        return self.var.multiple_of * self.factor


Stride = int | Scaled | Thread | Folded


@dataclass(frozen=True, slots=True)
class Step:
    """One digit of an index: `extent` values, each `stride` further."""

    extent: int
    stride: Stride


@dataclass(frozen=True, slots=True)
class Offset:
    """One term of where a region starts: `index` times `stride`, and what to call it."""

    index: Expr
    stride: int | Scaled
    what: str

    @property
    def multiple(self) -> int:
        """A number that divides the term; 0 for nothing at all."""
        return facts.multiple_of(self.index) * stride_multiple(self.stride)


@dataclass(frozen=True, slots=True)
class Side:
    """One operand of a tile operation, taken apart.

    dims: the steps of each dimension of `shape`, slowest first.
    shape: extents without those of 1. places: for each, its dimension in the buffer.
    offsets: what is added, in elements, before swizzling.
    replicas: the threads that hold the same values, as steps among the threads.
    """

    region: Region
    shape: tuple[int, ...]
    places: tuple[int, ...]
    dims: tuple[tuple[Step, ...], ...]
    offsets: tuple[Offset, ...]
    replicas: tuple[Step, ...]
    swizzle: Swizzle | None

    @property
    def buffer(self) -> Buffer:
        return self.region.buffer

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(s for dim in self.dims for s in dim)

    @property
    def threads(self) -> tuple[Step, ...]:
        """The steps among the threads, replicas included, nearest first."""
        found = [s for s in (*self.steps, *self.replicas) if isinstance(s.stride, Thread)]
        return tuple(sorted(found, key=_thread_stride))


def _thread_stride(step: Step) -> int:
    assert isinstance(step.stride, Thread)
    return step.stride.stride


def stride_multiple(stride: int | Scaled) -> int:
    """A number that divides the stride; 0 for a stride of 0."""
    return abs(stride) if isinstance(stride, int) else stride.multiple


def side(region: Region, scope: str) -> Side:
    """A region as its scope's threads see it.

    raises: LayoutError where threads of a wider scope than `scope` own it, where it cuts the threads, or
    where its registers can't be told apart by steps.
    """
    layout = region.buffer.layout
    if isinstance(layout, Strided):
        return _strided(region, layout.strides)
    fixed = _fixed_strides(region.buffer, layout)
    if fixed is not None:
        return _strided(region, fixed)
    return _tiled(region, layout, scope)


def need_slice(side: Side) -> None:
    """Raise LayoutError where a dimension of the region doesn't move along steps."""
    for dim, steps in zip(side.places, side.dims, strict=True):
        for step in steps:
            if isinstance(step.stride, Folded):
                raise LayoutError(
                    f"dimension {dim} of {side.buffer.name} lies in parts, {_parts(step.stride)}; "
                    f"{step.extent} elements from {_begin(step.stride)} on cut through them",
                    hint="take whole parts; a start known only at run time as i * extent, or tj.sym(..., multiple_of=)",
                )


def _parts(folded: Folded) -> str:
    return "·".join(str(extent) for _, extent, _ in folded.parts)


def _begin(folded: Folded) -> str:
    return str(folded.start.value) if isinstance(folded.start, Const) else "a start known only at run time"


def _fixed_strides(buffer: Buffer, layout: TileLayout) -> tuple[int, ...] | None:
    """The strides of a global tensor that has one a dimension: its regions may pass its edges."""
    if buffer.space != "global" or layout.swizzle is not None or layout.replica or layout.offset:
        return None
    shape = tuple(n for n in buffer.shape if isinstance(n, int))
    if len(shape) != len(buffer.shape) or prod(shape) != layout.size():
        return None
    groups = [merged(g) for g in refined(layout.shard, shape)]
    if any(len(g) > 1 or any(it.axis.is_thread for it in g) for g in groups):
        return None
    return tuple(g[0].stride if g else 1 for g in groups)


def _extents(region: Region) -> tuple[int, ...]:
    return tuple(1 if e is None else e for e in region.extents)


def _strided(region: Region, given: tuple[int | Var, ...]) -> Side:
    extents = _extents(region)
    kept = [d for d, e in enumerate(extents) if e != 1]
    strides = [s if isinstance(s, int) else Scaled(s) for s in given]
    offsets = tuple(
        Offset(start, stride, f"start {d} of {region.buffer.name}")
        for d, (start, stride) in enumerate(zip(region.starts, strides, strict=True))
        if not _is_zero(start)
    )
    return Side(
        region,
        tuple(extents[d] for d in kept),
        tuple(kept),
        tuple((Step(extents[d], strides[d]),) for d in kept),
        offsets,
        (),
        None,
    )


def _tiled(region: Region, layout: TileLayout, scope: str) -> Side:
    buffer, extents = region.buffer, _extents(region)
    found: list[tuple[Step, ...]] = []
    offsets = [Offset(_int(value), 1, f"offset of {buffer.name}") for a, value in layout.offset if not a.is_thread]
    _no_thread_offset(layout, buffer)
    for d, group in enumerate(_groups(buffer)):
        steps, moved = _window(group, region.starts[d], extents[d], f"start {d} of {buffer.name}", scope)
        found.append(steps)
        offsets.extend(moved)
    kept = [d for d, e in enumerate(extents) if e != 1]
    return Side(
        region,
        tuple(extents[d] for d in kept),
        tuple(kept),
        tuple(found[d] for d in kept),
        tuple(o for o in offsets if not _is_zero(o.index)),
        tuple(scope_step(it, scope) for it in layout.replica if it.extent > 1),
        None if layout.swizzle is None or layout.swizzle.is_identity else layout.swizzle,
    )


@remembered
def _groups(buffer: Buffer) -> tuple[tuple[Iter, ...], ...]:
    """The iterators of each dimension of a buffer with a tile layout."""
    layout, shape = buffer.layout, tuple(n for n in buffer.shape if isinstance(n, int))
    assert isinstance(layout, TileLayout)
    if len(shape) != len(buffer.shape):
        raise LayoutError(f"{buffer.name} has extents known only at launch, and a layout of fixed size")
    return refined((layout.adapted(shape) if prod(shape) != layout.size() else layout).shard, shape)


def _no_thread_offset(layout: TileLayout, buffer: Buffer) -> None:
    for axis, value in layout.offset:
        if axis.is_thread and value:
            raise LayoutError(
                f"{buffer.name} starts at {axis} {value}, so that not all threads of the scope own a part",
                hint="use a layout without an offset on a thread axis",
            )


def _window(
    group: tuple[Iter, ...], start: Expr, extent: int, what: str, scope: str
) -> tuple[tuple[Step, ...], list[Offset]]:
    """The steps over [start, start + extent) of one dimension, and the terms of where it begins."""
    if _is_zero(start) and extent == prod(it.extent for it in group):
        return _whole(group, scope), []
    try:
        run, moved = _constant_window(group, start, extent, what)
    except LayoutError:
        if any(it.axis.is_thread for it in group):
            raise
        return (Step(extent, _folded(group, start)),), []
    if run is None:
        found = _moving_window(merged(group), start, extent, what)
        if found is None:
            if any(it.axis.is_thread for it in group):
                raise LayoutError(
                    f"{what} isn't known to move whole threads",
                    hint="start at a multiple of what one thread holds along this dimension",
                )
            return (Step(extent, _folded(group, start)),), []
        run, moved = found
    return tuple(scope_step(it, scope) for it in run if it.extent > 1), moved


@remembered_pair
def _whole(group: tuple[Iter, ...], scope: str) -> tuple[Step, ...]:
    """The steps over a whole dimension."""
    return tuple(scope_step(it, scope) for it in merged(group))


def _constant_window(
    group: tuple[Iter, ...], start: Expr, extent: int, what: str
) -> tuple[tuple[Iter, ...] | None, list[Offset]]:
    if not isinstance(start, Const):
        return None, []
    run, moved = sliced(group, int(start.value), extent)
    for axis, value in moved.items():
        if axis.is_thread and value:
            raise LayoutError(
                f"{what} cuts the threads: it begins at {axis} {value}",
                hint="take all rows that the threads own, from the first on",
            )
    return run, [Offset(_int(value), 1, what) for axis, value in moved.items() if not axis.is_thread]


def _moving_window(
    run: tuple[Iter, ...], start: Expr, extent: int, what: str
) -> tuple[tuple[Iter, ...], list[Offset]] | None:
    """As `sliced`, for a start of which only a divisor is known; None where it doesn't move along steps."""
    if not run:
        return (), []
    known = facts.multiple_of(start)
    outer, rest, size = list(run), extent, 1
    tail: list[Iter] = []
    while len(outer) > 1 and known % (size * outer[-1].extent) == 0 and rest % outer[-1].extent == 0:
        it = outer.pop()
        tail.insert(0, it)
        size, rest = size * it.extent, rest // it.extent
    pivot = outer[-1]
    inside = pivot.extent % rest == 0 and known % (size * rest) == 0
    if len(outer) > 1 and not (rest == 1 and known % size == 0 or inside):
        return None
    if any(it.axis.is_thread for it in outer):
        return None
    worth = weights([it.extent for it in outer])
    offsets = []
    for k, (it, w) in enumerate(zip(outer, worth, strict=True)):
        digit = build.floordiv(start, build.const(w * size, start.dtype))
        if k > 0:
            digit = build.mod(digit, build.const(it.extent, start.dtype))
        offsets.append(Offset(digit, it.stride, what))
    return (Iter(rest, pivot.stride, pivot.axis), *tail), offsets


def _folded(group: tuple[Iter, ...], start: Expr) -> Folded:
    run = merged(group) or group[:1]
    worth = weights([it.extent for it in run])
    return Folded(start, tuple((w, it.extent, it.stride) for w, it in zip(worth, run, strict=True)))


def scope_step(it: Iter, scope: str) -> Step:
    """An iterator as a step in registers, or among the threads of one scope.

    raises: LayoutError where it counts threads of a wider one.
    """
    if not it.axis.is_thread:
        return Step(it.extent, it.stride)
    if it.axis.name not in THREADS[scope]:
        raise LayoutError(
            f"{it.axis} counts {it.axis.unit}s within a {it.axis.within}; the operation is called on one {scope}",
            hint=f"call it on the {it.axis.within}, or use an axis within a {scope}",
        )
    return Step(it.extent, Thread(it.stride * THREADS[scope][it.axis.name]))


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == 0


def _int(value: int) -> Const:
    return Const(value, int64)
