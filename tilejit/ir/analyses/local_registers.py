"""Sets of a thread's registers that places of local buffers refer to.

Here, a register holds one element, whatever its width. The registers of all local buffers are numbered consecutively.
A place refers to a register if any thread holds one of its elements there, so one set describes all threads. Views
refer to the registers of their root.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from ...dataclass import lean
from ...dtypes import DType
from ...errors import LayoutError
from ...layout import TileLayout
from ...layout.iters import Iter, refined, sliced
from ...remember import lasting, remembered
from .. import nodes as ir
from ..arithmetic import facts
from ..arithmetic.affine import affine
from ..walk import Block, Place, indices, within, writes
from .bitsets import flagged, members, set_of
from .elements import offsets, slots_of

#: maximum number of iterations of a loop, including those of nested loops, that are enumerated to find its writes
_MOST_ITERATIONS = 4096


@lean(frozen=True, slots=True)
class RegisterAccesses:
    """The registers that a place refers to: those that it certainly covers, and those that it may cover."""

    surely: int
    possibly: int


_NOTHING = RegisterAccesses(0, 0)


class LocalRegisters:
    """The registers of the local buffers allocated directly in a block. first: buffer's name -> its first register."""

    def __init__(self, body: Block) -> None:
        self.first: dict[str, int] = {}
        self.buffers: dict[str, ir.Buffer] = {}
        self._whole: dict[str, int] = {}
        count = 0
        for stmt in body:
            if isinstance(stmt, ir.Alloc) and stmt.buffer.space == "local":
                self.first[stmt.buffer.name], self.buffers[stmt.buffer.name] = count, stmt.buffer
                count += span(stmt.buffer)
        self._names, self._firsts = list(self.first), list(self.first.values())

    @property
    def all(self) -> int:
        """All registers that hold an element, not padding."""
        held = 0
        for name in self.buffers:
            held |= self.whole(name)
        return held

    def whole(self, name: str) -> int:
        """Return the registers that hold a buffer's elements, not padding."""
        if name not in self._whole:
            self._whole[name] = _whole(self.buffers[name]) << self.first[name]
        return self._whole[name]

    def among(self, registers: int) -> Iterator[tuple[ir.Buffer, int]]:
        """Yield, in order of allocation, each buffer with any of these registers, and how many hold its elements."""
        left = registers
        while left:
            number = bisect_right(self._firsts, (left & -left).bit_length() - 1) - 1
            name = self._names[number]
            yield self.buffers[name], (left & self.whole(name)).bit_count()
            end = self._firsts[number + 1] if number + 1 < len(self._firsts) else left.bit_length()
            left = left >> end << end

    def element(self, name: str, among: int) -> str:
        """Return the indices of a buffer's first element in one of these registers, in the form `[0, 4]`."""
        buffer = self.buffers[name]
        wanted = set(members(among >> self.first[name]))
        shape = buffer.fixed_shape
        held = offsets(buffer, (0,) * len(shape), shape)[0]
        first = next(k for k, register in enumerate(held.ravel().tolist()) if register in wanted)
        return f"[{', '.join(str(index) for index in np.unravel_index(first, shape))}]"

    def of(self, place: Place) -> RegisterAccesses:
        """Return the registers that a place of tile IR refers to; none if its buffer isn't among the `buffers`."""
        name = place.buffer.root.name
        if name not in self.first:
            return _NOTHING
        named, first = _named(place), self.first[name]
        return RegisterAccesses(named.surely << first, named.possibly << first)

    def touched(self, places: Iterable[Place]) -> RegisterAccesses:
        """Return the registers that any of these places refers to."""
        surely = possibly = 0
        for place in places:
            named = self.of(place)
            surely, possibly = surely | named.surely, possibly | named.possibly
        return RegisterAccesses(surely, possibly)

    def written_by(self, loop: ir.For) -> int:
        """Return the registers that a loop certainly writes, as far as its iterations can be enumerated."""
        written = 0
        for place, at in _writes_of(loop, {}, [_MOST_ITERATIONS]):
            if place.buffer.root.name not in self.first:
                continue
            if not at:
                written |= self.of(place).surely
                continue
            starts = [_value(start, at) for start in indices(place)]
            known = [start for start in starts if start is not None]
            if len(known) == len(starts):
                written |= _named_at(place, known).surely << self.first[place.buffer.root.name]
        return written


@remembered
def _named(place: Place) -> RegisterAccesses:
    """Return the registers that a place of tile IR refers to, numbered from the first register of its root."""
    assert isinstance(place, (ir.Region, ir.Element)), "vectors occur in lane IR only"
    root = place.buffer.root
    starts: list[int] = []
    for start in indices(place):
        if not isinstance(start, ir.Const):
            return RegisterAccesses(0, _whole(root))
        starts.append(int(start.value))
    if place.buffer is root and place.counts == root.shape:
        return RegisterAccesses(_whole(root), _whole(root))
    return _named_at(place, starts)


def _named_at(place: ir.Region | ir.Element, starts: Sequence[int]) -> RegisterAccesses:
    buffer, shape = place.buffer, place.buffer.fixed_shape
    if [start for start, n, count in zip(starts, shape, place.counts, strict=True) if not 0 <= start <= n - count]:
        return _NOTHING
    # for most places and layouts, the set is computed without enumerating elements
    named = _whole(buffer) if place.counts == shape else _of_box(buffer, starts, place.counts)
    surely, possibly = in_root(named, buffer.dtype, buffer.root.dtype)
    return RegisterAccesses(surely, possibly)


@remembered
def span(buffer: ir.Buffer) -> int:
    """Return the number of registers that a buffer occupies in each thread."""
    return buffer.tile_layout.adapted(slots_of(buffer)).footprint()


@remembered
def _whole(buffer: ir.Buffer) -> int:
    """Return the registers that hold a buffer's elements, not padding, numbered from its first one."""
    dense = None if buffer.slots else _dense(buffer.tile_layout)
    return dense if dense is not None else _of_box(buffer, (0,) * len(buffer.shape), buffer.fixed_shape)


def _of_box(buffer: ir.Buffer, starts: Sequence[int], counts: Sequence[int]) -> int:
    steps = _steps(buffer, starts, counts)
    return set_of(offsets(buffer, starts, counts)) if steps is None else _reached(*steps)


def _steps(buffer: ir.Buffer, starts: Sequence[int], counts: Sequence[int]) -> tuple[list[Iter], int] | None:
    """Return the registers of a box's elements as `Iter`s and a first register; None if that isn't possible."""
    slots = slots_of(buffer)
    layout = buffer.tile_layout.adapted(slots)
    if layout.swizzle is not None:
        return None
    try:
        dims = [sliced(*window) for window in zip(refined(layout.shard, slots), starts, counts, strict=True)]
    except LayoutError:
        return None
    moved = [*layout.offset, *(along for _, offset in dims for along in offset.items())]
    first = sum([value for axis, value in moved if not axis.is_thread])
    return [it for iters in (layout.replica, *(run for run, _ in dims)) for it in iters if not it.axis.is_thread], first


def _reached(steps: Iterable[Iter], first: int) -> int:
    reached = 1
    for it in steps:
        registers = reached
        for k in range(1, it.extent):
            reached |= registers << k * abs(it.stride)
        if it.stride < 0:
            first += (it.extent - 1) * it.stride
    return reached << first


@lasting
def _dense(layout: TileLayout) -> int | None:
    """Return the set of registers 0 to n - 1 if a layout provably holds one of n elements in each, else None."""
    held = layout.storage()
    if held.replica or held.offset or held.swizzle is not None:
        return None
    size = 1
    for it in sorted(held.shard, key=lambda it: it.stride):
        if it.extent > 1 and it.stride != size:
            return None
        size *= it.extent
    return (1 << size) - 1


def in_root(bits: int, view: DType, root: DType) -> tuple[int, int]:
    """Return the registers of a root that a view's registers `bits` cover fully, and those covered at least in part."""
    if view.bits == root.bits:
        return bits, bits
    held = np.zeros(bits.bit_length() * view.bits + root.bits, bool)
    for number in members(bits):
        held[number * view.bits : (number + 1) * view.bits] = True
    each = held[: len(held) // root.bits * root.bits].reshape(-1, root.bits)
    return flagged(np.asarray(each.all(axis=1))), flagged(np.asarray(each.any(axis=1)))


def _is_fixed(place: ir.Region | ir.Element) -> bool:
    return all(isinstance(start, ir.Const) for start in indices(place))


def _writes_of(
    loop: ir.For, at: Mapping[str, int], left: list[int]
) -> Iterator[tuple[ir.Region | ir.Element, Mapping[str, int]]]:
    """Yield places that a loop's iterations certainly write, each with the values of the loop variables.

    Places at constant starts are yielded once per execution of their loop, with no values.
    left: a list of one item, the number of iterations that may still be enumerated; it is updated.
    """
    ends = [_value(end, at) for end in (loop.start, loop.stop, loop.step)]
    start, stop, step = ends
    if start is None or stop is None or step is None or step == 0 or len(range(start, stop, step)) > left[0]:
        return
    iterations = range(start, stop, step)
    left[0] -= len(iterations)
    before, leaves = _before_a_jump(loop.body)
    if leaves:
        iterations = iterations[:1]
    written = [place for stmt in before if isinstance(stmt, (ir.Store, ir.TileOp)) for place in writes(stmt)]
    places = [place for place in written if isinstance(place, (ir.Region, ir.Element))]
    moving = [place for place in places if not _is_fixed(place)]
    if iterations:
        yield from ((place, {}) for place in places if _is_fixed(place))
    loops = [stmt for stmt in before if isinstance(stmt, ir.For)]
    if not moving and not loops:
        return
    for value in iterations:
        here = {**at, loop.var.name: value}
        yield from ((place, here) for place in moving)
        for inner in loops:
            yield from _writes_of(inner, here, left)


def _before_a_jump(body: Block) -> tuple[Block, bool]:
    for k, stmt in enumerate(body):
        if not isinstance(stmt, ir.For) and any(isinstance(inner, ir.Jump) for inner in within(stmt)):
            return body[:k], True
    return body, False


def _value(expr: ir.Expr, at: Mapping[str, int]) -> int | None:
    """Return the value of an integer expression; None if it isn't an affine function of the variables in `at`."""
    if isinstance(expr, ir.Const):
        return int(expr.value)
    form = affine(expr)
    total = form.constant
    for term, coefficient in form.terms:
        while isinstance(term, ir.Cast) and facts.keeps_value(term):
            term = term.x
        if not isinstance(term, ir.Var) or term.name not in at:
            return None
        total += coefficient * at[term.name]
    return total
