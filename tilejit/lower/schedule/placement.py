"""Placements of regions: the stride of each digit of a region's index in memory, in registers, or over threads.

    region a[8:16, 0:32] of S[(16, 32) : (32, 1)] in shared memory       dims: 8 steps of 32; 32 steps of 1
                                                                         offsets: 256
    all of r[8, 8] in S[(8, 4, 2) : (4@laneid, 1@laneid, 1)]             dims: 8 steps of Thread(4);
                                                                               4 of Thread(1), 2 of 1
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from ...dataclass import lean, replace
from ...dtypes import int64
from ...errors import LayoutError
from ...ir.arithmetic import build, facts
from ...ir.arithmetic.facts import full_range
from ...ir.nodes import TRUE, Buffer, Const, Expr, Region, Strided, Var
from ...layout import Axis, Swizzle, TileLayout, TLane
from ...layout.iters import Iter, merged, refined, sliced, weights
from ...remember import lasting, remembered, remembered_pair
from ...scopes import SCOPES, THREAD
from ...target import TMEM_LANE
from .addresses import Folded, Scaled, Stride, Term, Thread, multiple_of, swizzled, total_along


class DigitStep(NamedTuple):
    """One digit of an index: `extent` values, `stride` apart."""

    extent: int
    stride: Stride

    @property
    def threads(self) -> int:
        assert isinstance(self.stride, Thread)
        return self.stride.stride

    def of_thread(self, thread: Expr) -> Expr:
        apart = self.threads
        return build.mod(build.floordiv(thread, apart) if apart > 1 else thread, self.extent)


@lean(frozen=True, slots=True)
class Offset:
    """One term of a region's start: `index` times `stride`. `what` describes it in messages."""

    index: Expr
    stride: int | Scaled
    what: str

    @property
    def multiple(self) -> int:
        """A known divisor of the term; 0 if the term is known to be 0."""
        return facts.multiple_of(self.index) * multiple_of(self.stride)


@lean(frozen=True, slots=True)
class Placement:
    """The placement of one operand of a tile operation. Offsets are in elements, before swizzling."""

    region: Region
    #: the region's extents other than 1; of a gathered region, those of one box
    shape: tuple[int, ...]
    #: the buffer's dimension for each extent in `shape`
    places: tuple[int, ...]
    #: the steps along each of these dimensions, slowest first; their values may include padding
    dims: tuple[tuple[DigitStep, ...], ...]
    #: terms of the start; in tensor memory one lane has a stride of `TMEM_LANE`
    offsets: tuple[Offset, ...]
    #: steps over the threads or places that hold the same values
    replicas: tuple[DigitStep, ...] = ()
    swizzle: Swizzle | None = None
    #: the buffer's dimensions in which the region may exceed the tensor
    edges: tuple[int, ...] = ()
    #: the index in the scope of the first thread that owns elements
    first_thread: int = 0

    @property
    def buffer(self) -> Buffer:
        return self.region.buffer

    @property
    def terms(self) -> list[Term]:
        return [(offset.stride, offset.index) for offset in self.offsets]

    @property
    def start(self) -> Expr:
        return total_along(self.terms, self.buffer.index_dtype)

    def is_mover(self, thread: Expr, loads: bool) -> Expr:
        """Return the condition that a thread moves its elements: all owners load a value, only the lowest stores it."""
        cond: Expr = TRUE
        for step in () if loads else self.replicas:
            cond = build.logical_and(cond, build.equal(step.of_thread(thread), 0))
        return cond

    @property
    def threads(self) -> tuple[DigitStep, ...]:
        """The steps over threads, replicas included, fastest first."""
        return _threads(self.dims, self.replicas)


def _threads(dims: tuple[tuple[DigitStep, ...], ...], replicas: tuple[DigitStep, ...]) -> tuple[DigitStep, ...]:
    spread = [s for steps in (*dims, replicas) for s in steps if isinstance(s.stride, Thread)]
    return tuple(sorted(spread, key=lambda s: s.threads))


@remembered_pair
def _owners(dims: tuple[tuple[DigitStep, ...], ...], replicas: tuple[DigitStep, ...]) -> int | None:
    """Return the number of owners, replicas included; None if they have gaps or overlap, or one owns several copies."""
    if any(not isinstance(step.stride, Thread) for step in replicas):
        return None
    reached = 1
    for step in _threads(dims, replicas):
        if step.threads != reached:
            return None
        reached *= step.extent
    return reached


def place(region: Region, scope: str) -> Placement:
    """Return a region's placement, or raise LayoutError, e.g. if threads of a wider scope own it."""
    buffer = region.buffer
    strides = global_strides(buffer) if buffer.space == "global" else None
    if strides is not None:
        return _strided(region, strides)
    layout = buffer.tile_layout
    for axis, value in layout.offset:
        if axis.is_thread and value:
            raise LayoutError(
                f"{buffer.name} starts at {axis} {value}, so not all threads of the scope own a part",
                hint="use a layout without an offset on a thread axis",
            )
    is_whole = region.counts == buffer.shape and all(map(_is_zero, region.starts))
    if buffer.space == "global" or layout.offset or not is_whole:
        return _window_of(region, layout, scope)
    wholes, key = _wholes(layout), (scope, buffer.space, buffer.shape, buffer.slots)
    whole = wholes.get(key)
    if whole is None:
        whole = wholes[key] = _window_of(region, layout, scope)
    return Placement(region, whole.shape, whole.places, whole.dims, (), whole.replicas, whole.swizzle)


@lasting
def _wholes(layout: TileLayout) -> dict[tuple[object, ...], Placement]:
    """Return the cache of placements of whole tiles of a layout, keyed by scope, space, shape and slots."""
    return {}


def owned(buffer: Buffer, scope: str) -> Placement:
    """Return the placement of a whole local buffer, or raise LayoutError, e.g. if threads of a wider scope own it."""
    layout, extents = buffer.tile_layout, buffer.fixed_shape
    whole = Region(buffer, (_int(0),) * len(extents), extents)
    steps = SCOPES[scope].steps
    first = sum(value * steps.get(axis.name, 1) for axis, value in layout.offset if axis.is_thread)
    return replace(_window_of(whole, layout, scope), first_thread=first)


def element_offset(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
    """Return an element's swizzled offset or register; raise LayoutError, e.g. if its buffer is spread over threads."""
    dtype = buffer.index_dtype
    starts = [build.cast(index, dtype) for index in indices]
    one_each = global_strides(buffer)
    if one_each is not None:
        strides = (s if isinstance(s, int) else Scaled(s) for s in one_each)
        return total_along(zip(strides, starts, strict=True), dtype)
    layout = buffer.tile_layout
    if _is_spread(buffer):
        raise LayoutError(
            f"{buffer.name} is spread over threads; its elements can't be accessed individually",
            hint="use .registers for the calling thread's own part",
        )
    terms: list[Term] = [(1, _int(value)) for _, value in layout.offset]
    for start, group in zip(starts, _groups(buffer), strict=True):
        _, moved = _window(group, start, 1, "", THREAD.name)
        terms.extend((offset.stride, offset.index) for offset in moved)
    return swizzled(total_along(terms, dtype), layout.swizzle)


@remembered
def _is_spread(buffer: Buffer) -> bool:
    return any(axis.is_thread for axis in buffer.tile_layout.axes())


def gathered_offsets(region: Region, number: Expr) -> tuple[Offset, ...]:
    """Return the terms that index `number` adds to the start of a gathered region; () if it isn't gathered."""
    if region.gathered is None:
        return ()
    buffer, dim = region.buffer, region.gathered.dim
    what = f"the offset of the selected row of {buffer.name}"
    strides = global_strides(buffer)
    if strides is None:
        return tuple(_window(_groups(buffer)[dim], number, 1, what, THREAD.name)[1])
    stride = strides[dim]
    return (Offset(number, stride if isinstance(stride, int) else Scaled(stride), what),)


def extent_of(buffer: Buffer, d: int) -> Expr:
    size = buffer.shape[d]
    return build.const(size, int64) if isinstance(size, int) else size


def need_all_threads(placement: Placement, scope: str, threads: int) -> None:
    """Raise LayoutError unless all threads of the scope, and no others, own elements, in one register per value."""
    if _owners(placement.dims, placement.replicas) == threads:
        return
    need_own_registers(placement)
    if not any(axis.is_thread for axis in placement.buffer.tile_layout.axes()):
        need_thread_axes(placement, scope, threads)
    name, reached = placement.buffer.name, 1
    for step in placement.threads:
        if step.threads != reached:
            chain = ", ".join(f"{s.extent}:{s.threads}" for s in placement.threads)
            raise LayoutError(
                f"the threads that own {name} leave a gap or overlap: {step.extent} of them are "
                f"{step.threads} apart where {reached} was needed ({chain})",
                hint=f"use a layout whose thread axes cover threads 0 to {threads - 1} without gaps or overlaps",
            )
        reached *= step.extent
    parts = "take a region of which every thread owns a part, or call the operation on the scope that owns it"
    raise LayoutError(
        f"{'1 thread owns' if reached == 1 else f'{reached} threads own'} the region of {name}; "
        f"the {scope} has {threads}",
        hint=f"use a layout over {threads} threads" if reached > threads else parts,
    )


def need_own_registers(placement: Placement) -> None:
    """Raise LayoutError if a thread holds a value in several registers."""
    for step in placement.replicas:
        if not isinstance(step.stride, Thread):
            raise LayoutError(f"{placement.buffer.name} holds each value in several registers of one thread")


def need_thread_axes(placement: Placement, scope: str, threads: int) -> None:
    """Raise LayoutError if a tile without thread axes is used by a scope of several threads."""
    if threads > 1 and not placement.threads:
        raise LayoutError(
            f"{placement.buffer.name} has no thread axes, so it is per-thread; a {scope} has {threads} threads",
            hint="call the operation on tj.thread, or give the tile a layout with thread axes",
        )


def need_slice(placement: Placement) -> None:
    """Raise LayoutError if the region cuts through parts of its layout, so that a dimension has a `Folded` stride."""
    for dim, steps in zip(placement.places, placement.dims, strict=True):
        for step in steps:
            if isinstance(step.stride, Folded):
                parts, start = "·".join(str(extent) for _, extent, _ in step.stride.parts), step.stride.start
                begin = f"{start.value} on aren't" if isinstance(start, Const) else "a run-time start on may not be"
                raise LayoutError(
                    f"dimension {dim} of {placement.buffer.name} is split as {parts}; "
                    f"{step.extent} elements from {begin} whole parts",
                    hint="take whole parts; write a run-time start as i * extent, or use tj.sym(..., multiple_of=)",
                )


def global_strides(buffer: Buffer) -> tuple[int | Var, ...] | None:
    """Return a tensor's strides in elements; None if it isn't global or strides alone don't define its layout."""
    if buffer.space != "global":
        return None
    if isinstance(buffer.layout, Strided):
        return buffer.layout.strides
    layout = buffer.tile_layout
    if layout.swizzle is not None or layout.replica or layout.offset:
        return None
    shape = tuple(n for n in buffer.shape if isinstance(n, int))
    if len(shape) != len(buffer.shape) or prod(shape) != layout.size():
        return None
    # a dimension of extent 1 needs a stride too, for elements past the edge
    groups = [merged(g) or g[:1] for g in refined(layout.shard, shape)]
    if any(len(g) > 1 or g[0].axis.is_thread for g in groups):
        return None
    return tuple(g[0].stride for g in groups)


def _strided(region: Region, all_strides: tuple[int | Var, ...]) -> Placement:
    counts = region.counts
    kept = [d for d, count in enumerate(counts) if count != 1]
    strides = [s if isinstance(s, int) else Scaled(s) for s in all_strides]
    offsets = [
        Offset(start, stride, f"start {d} of {region.buffer.name}")
        for d, (start, stride) in enumerate(zip(region.starts, strides, strict=True))
        if not _is_zero(start)
    ]
    return Placement(
        region,
        tuple([counts[d] for d in kept]),
        tuple(kept),
        tuple([(DigitStep(counts[d], strides[d]),) for d in kept]),
        tuple(offsets),
        edges=edges(region),
    )


def _window_of(region: Region, layout: TileLayout, scope: str) -> Placement:
    buffer, counts = region.buffer, region.counts
    dims: list[tuple[DigitStep, ...]] = []
    offsets = [
        Offset(_int(value), _unit(axis), f"offset of {buffer.name}")
        for axis, value in layout.offset
        if not axis.is_thread
    ]
    for d, group in enumerate(_groups(buffer)):
        reach = _reach(buffer, d, region.starts[d], counts[d])
        steps, moved = _window(group, region.starts[d], reach, f"start {d} of {buffer.name}", scope)
        dims.append(steps)
        offsets.extend(moved)
    kept = [d for d, count in enumerate(counts) if count != 1]
    return Placement(
        region,
        tuple([counts[d] for d in kept]),
        tuple(kept),
        tuple([dims[d] for d in kept]),
        tuple([o for o in offsets if not _is_zero(o.index)]),
        tuple([_scope_step(it, scope) for it in layout.replica if it.extent > 1]),
        None if layout.swizzle is None or layout.swizzle.is_identity else layout.swizzle,
        edges(region),
    )


@remembered
def _groups(buffer: Buffer) -> tuple[tuple[Iter, ...], ...]:
    """Return each dimension's iterators, or raise LayoutError. Strides along TLane are multiplied by `TMEM_LANE`."""
    layout, shape = buffer.tile_layout, tuple(n for n in buffer.laid_out if isinstance(n, int))
    if len(buffer.laid_out) != len(buffer.shape):
        raise LayoutError(f"{buffer.name} is laid out as one dimension; needs a layout with separate dimensions")
    if len(shape) != len(buffer.shape):
        raise LayoutError(f"{buffer.name} has extents known only at launch, but a layout of fixed size")
    groups = refined((layout.adapted(shape) if prod(shape) != layout.size() else layout).shard, shape)
    if buffer.space != "tmem":
        return groups
    return tuple(tuple(Iter(it.extent, it.stride * _unit(it.axis), it.axis) for it in group) for group in groups)


def _reach(buffer: Buffer, d: int, start: Expr, extent: int) -> int:
    """Return how many slots a region has in dimension `d`, with padding if it is known to reach the buffer's end."""
    size = buffer.shape[d]
    if not buffer.slots or not isinstance(size, int) or not isinstance(start, Const) or start.value + extent != size:
        return extent
    if size == 1 < buffer.slots[d]:
        raise LayoutError(f"dimension {d} of {buffer.name} has 1 element and {buffer.slots[d]} slots; needs 1 slot")
    return buffer.slots[d] - int(start.value)


def _unit(axis: Axis) -> int:
    return TMEM_LANE if axis == TLane else 1


def _window(
    group: tuple[Iter, ...], start: Expr, extent: int, what: str, scope: str
) -> tuple[tuple[DigitStep, ...], list[Offset]]:
    """Return the steps over [start, start + extent) of a dimension and the start's terms, or raise LayoutError."""
    if _is_zero(start) and extent == prod([it.extent for it in group]):
        return _whole(group, scope), []
    if isinstance(start, Const):
        window = _constant_window(group, int(start.value), extent, what)
    else:
        window = _moving_window(group, start, extent, what)
    if window is None:
        return (DigitStep(extent, _folded(group, start)),), []
    run, moved = window
    return tuple([_scope_step(it, scope) for it in run if it.extent > 1]), moved


@remembered_pair
def _whole(group: tuple[Iter, ...], scope: str) -> tuple[DigitStep, ...]:
    return tuple([_scope_step(it, scope) for it in merged(group)])


#: iterators of a part of a dimension and the terms of its start; None if the part's stride is `Folded`
_Window = tuple[tuple[Iter, ...], list[Offset]] | None


def _constant_window(group: tuple[Iter, ...], start: int, extent: int, what: str) -> _Window:
    try:
        run, moved = sliced(group, start, extent)
    except LayoutError:
        if _has_threads(group):
            raise
        return None
    for axis, value in moved.items():
        if axis.is_thread and value:
            raise LayoutError(
                f"{what} is at {axis} {value}, not at the first thread",
                hint="take all elements that the threads own along this dimension, starting with the first",
            )
    return run, [Offset(_int(value), 1, what) for axis, value in moved.items() if not axis.is_thread]


def _moving_window(group: tuple[Iter, ...], start: Expr, extent: int, what: str) -> _Window:
    """Return the window at a run-time start, or raise LayoutError if it may be distributed unevenly over threads."""
    outer, tail = list(merged(group)), list[Iter]()
    if not outer:
        return (), []
    multiple, uncovered, size = facts.multiple_of(start), extent, 1
    while len(outer) > 1 and multiple % (size * outer[-1].extent) == 0 and uncovered % outer[-1].extent == 0:
        it = outer.pop()
        tail.insert(0, it)
        size, uncovered = size * it.extent, uncovered // it.extent
    pivot = outer[-1]
    is_one = uncovered == 1 and multiple % size == 0
    stays_inside = pivot.extent % uncovered == 0 and multiple % (size * uncovered) == 0
    if _has_threads(outer) or not (len(outer) == 1 or is_one or stays_inside):
        if _has_threads(group):
            raise LayoutError(
                f"{what} is known only at run time; the region may be distributed unevenly over threads and registers",
                hint="start at multiples of a part that covers all threads, and take whole parts",
            )
        return None
    offsets = []
    for k, (it, weight) in enumerate(zip(outer, weights([it.extent for it in outer]), strict=True)):
        digit = build.floordiv(start, build.const(weight * size, start.dtype))
        if k > 0:
            digit = build.mod(digit, build.const(it.extent, start.dtype))
        offsets.append(Offset(digit, it.stride, what))
    return (Iter(uncovered, pivot.stride, pivot.axis), *tail), offsets


def _has_threads(iters: Iterable[Iter]) -> bool:
    return any(it.axis.is_thread for it in iters)


def _folded(group: tuple[Iter, ...], start: Expr) -> Folded:
    run = merged(group) or group[:1]
    every = zip(weights([it.extent for it in run]), run, strict=True)
    return Folded(start, tuple((weight, it.extent, it.stride) for weight, it in every))


def _scope_step(it: Iter, scope: str) -> DigitStep:
    if not it.axis.is_thread:
        return DigitStep(it.extent, it.stride)
    steps = SCOPES[scope].steps
    if it.axis.name not in steps:
        use = f"use {f'an axis within a {scope}' if steps else 'no thread axes'}"
        raise LayoutError(
            f"{it.axis} counts {it.axis.unit}s within a {it.axis.within}; the operation is called on one {scope}",
            hint=f"call it on the {it.axis.within}, or {use}" if it.axis.within in SCOPES else use,
        )
    return DigitStep(it.extent, Thread(it.stride * steps[it.axis.name]))


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == 0


def _int(value: int) -> Const:
    return build.const(value, int64)


@remembered
def edges(region: Region) -> tuple[int, ...]:
    """Return the dimensions in which a region may exceed its tensor; () if it is marked in bounds or isn't global."""
    if region.in_bounds or region.buffer.space != "global":
        return ()
    return tuple([d for d in region.box_dims if inside(region, d) != TRUE])


def inside(region: Region, d: int) -> Expr:
    """Return the condition that the region is inside its tensor in dimension `d`."""
    begins = build.greater_equal(build.cast(region.starts[d], int64), 0)
    return build.logical_and(begins, ends_inside(region, d))


def ends_inside(region: Region, d: int) -> Expr:
    """Return the condition that the region ends inside its tensor in dimension `d`."""
    start, count, size = build.cast(region.starts[d], int64), region.counts[d], extent_of(region.buffer, d)
    greatest = facts.bounds(start)[1]
    if facts.is_data(start) if greatest is None else greatest > full_range(int64)[1] - count:
        # start + count may overflow, but size - count can't
        return build.less_equal(start, build.sub(size, count))
    return build.less_equal(build.add(start, count), size)
