"""Vectors that are moved between a thread's registers and memory: their addresses and accesses in each iteration.

`register_copy` and `update_schedule` return the digits that the tiles of an operation have in common. `OwnedVectors`
splits them into the digits over threads and those over a thread's registers. In the copy that `schedule/views.py`
describes, vectors of 4 elements divide the last digit into 2 iterations with a stride of 4, so in iteration r thread t
moves

    registers 4r to 4r+3       memory from 40*(t // 4) + 8*(t % 4) + 4r on, swizzled

Vectors at the edge of a global tensor are masked (`masked.py`). A vector that is contiguous in memory but not in
registers is moved through consecutive temporary registers.

An index selects the boxes of a gathered region, such as E.at(tokens)[:, 0:64], which has a row of E for each of 32
tokens. Its copy to the registers of a CTA of 128 threads:

    digit                      token        quarter      element
    stride in "registers"      Thread(4)    Thread(1)    1
    stride in "memory"         -            16           1            plus the token times E's row stride
    stride in "index"          Thread(4)    -            -
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache

from ...dataclass import dataclass, lean, replace
from ...dtypes import int32, int64
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Expr, Load, Region, TileOp
from ...isa.atomics import RED_VECTOR, VectorForm, vectors_of
from ...ops.copies import INDEX
from ...target import Target
from ..builder import Builder
from ..plans import VectorPlan
from ..schedule.access import Edges, Width, each_inside, widest_vector
from ..schedule.addresses import Stride, total_along
from ..schedule.placement import gathered_offsets, need_slice, place
from ..schedule.views import DigitSchedule, owned_schedule
from .masked import ComputedMask, IndexCondition, MaskedVector, ReadMask, Selection, VectorRegisters, at_edges


def register_copy(op: TileOp, threads: int) -> tuple[DigitSchedule, bool]:
    """Return the digits of a copy between "registers" and "memory", and whether registers are the destination.

    A mask is the operand "mask", and an index that is a tile is "index".
    raises: LayoutError if there are no common digits, a local tile isn't owned by exactly the threads of the scope, its
    elements are in other threads than those of "registers", or a region cuts through parts of its layout.
    """
    loads = op.tiles["dst"].buffer.space == "local"
    schedule = owned_schedule(op, *(("dst", "src") if loads else ("src", "dst")), threads)
    if schedule.folded:
        registers, memory = schedule["registers"].placement, schedule["memory"].placement
        need_slice(registers)
        need_slice(memory)
        raise LayoutError(
            f"the layouts of {registers.buffer.name} and {memory.buffer.name} split a dimension in incompatible ways: "
            "their extents have no common refinement",
            hint="choose layouts whose extents divide each other",
        )
    return schedule, loads


def update_schedule(op: TileOp, threads: int) -> tuple[DigitSchedule, str]:
    """Return the digits of an atomic update, and the name of the tile that becomes the operand "registers".

    That is the first tile of values that has the shape of the tile "place", which becomes "memory". Other tiles keep
    their names.
    raises: LayoutError as `register_copy` does, or if no tile of values has that shape.
    """
    tiles, shape = op.tiles, op.region("place").shape
    owner = next((n for n in ("before", "value", "desired") if n in tiles and tiles[n].shape == shape), None)
    if owner is None:
        raise LayoutError("no local tile has the shape of the place, so no thread owns the place's elements")
    schedule = owned_schedule(op, owner, "place", threads)
    if schedule.folded:
        need_slice(schedule["memory"].placement)
        raise LayoutError("the layouts of a tile and the place split a dimension in incompatible ways")
    return schedule, owner


def update_forms(op: TileOp, target: Target) -> tuple[VectorForm, ...]:
    """Return the vector forms for `op`, widest first; () if it uses old values, takes a scalar or isn't relaxed.gpu."""
    place = op.region("place")
    is_read = op.attr("returns") and "before" in op.options
    if is_read or not isinstance(op.operand("value"), Region) or op.attr("order") != "relaxed.gpu":
        return ()
    forms = vectors_of(str(op.attr("operation")), place.dtype, place.buffer.space)
    return tuple(form for form in forms if RED_VECTOR.row(form).missing(target) is None)


def fill_value(op: TileOp) -> Expr:
    """Return the value that a copy writes for elements outside the tensor or the mask, 0 by default."""
    dtype = op.region("dst").dtype
    fill = op.value("fill")
    return build.const(0, dtype) if fill is None else build.cast(fill, dtype)


@lean(frozen=True, slots=True)
class OwnedVectors:
    """The vectors of each thread in every operand, counted along the registers that the thread owns."""

    threads_share: DigitSchedule
    #: the digits over a thread's elements, the last one along a vector
    elements: DigitSchedule
    #: the digits over a thread's vectors
    vectors: DigitSchedule
    width: int

    @staticmethod
    def of(schedule: DigitSchedule, owner: str, along: str = "") -> OwnedVectors:
        """Split a schedule into vectors of one element, in the order of operand `along` or of `owner`'s registers."""
        threads_share, elements = schedule.split_by_owner(owner)
        if len(elements.digits) > 1:
            elements = elements.ordered(lambda digit: _distance(digit.strides[along or owner])).joined()
        return OwnedVectors(threads_share, elements, elements, 1)

    def widest(self, *names: str) -> Width:
        """Return the widest vector that is contiguous and provably aligned in operands `names`, by default all."""
        every = self.threads_share.then(self.elements)
        return widest_vector(every, names or every.operands, ragged=False)

    def of_width(self, width: int) -> OwnedVectors:
        return OwnedVectors(self.threads_share, self.elements, self.elements.in_vectors(width), width)

    def is_mover(self, thread: Expr, loads: bool) -> Expr:
        return self.vectors["registers"].placement.is_mover(thread, loads)

    def starts(self, b: Builder) -> Iterator[Mapping[str, VectorRegisters]]:
        """Yield the register operands, by name, for each combination of starts; the caller emits its code per yield."""
        local = [view for view in self.vectors.views if view.buffer.space == "local"]
        # a vector with a stride spans the gaps between its registers, too
        lengths = [1 + (self.width - 1) * self.step_of(view.name) for view in local]
        for firsts in b.each_start(*[view.touched(n) for view, n in zip(local, lengths, strict=True)]):
            yield {
                view.name: VectorRegisters(view, first, self.width, self.step_of(view.name))
                for view, first in zip(local, firsts, strict=True)
            }

    def step_of(self, name: str) -> int:
        """Return the stride along a vector in operand `name`: 1 for a single element, else 0 if `name` is broadcast."""
        if self.width == 1:
            return 1
        return self.elements.digits[-1].elements(name)

    def each_round(
        self,
        b: Builder,
        thread: Expr,
        is_active: Expr,
        index: Region | Expr | None = None,
        condition: IndexCondition | None = None,
        *,
        loads: bool = False,
    ) -> Iterator[tuple[Mapping[str, VectorRegisters], MaskedVector]]:
        """Yield the register operands and "memory" of each vector of `thread`, in a loop.

        The caller emits its code once per yield: for each register at which a region may start, and for regions inside
        their tensors and at their edges.
        index: that of a gathered region: a scalar or, if it is a tile, the operand "index"; None for the first box.
        condition: the condition from which "mask" is computed, or None to read it from registers.
        loads: True for loads. If vectors may be cut, the whole ones may then be loaded in a separate loop before the
            others, so that their loads are in flight while a warp waits for single elements.
        """
        own = self.threads_share["registers"].of_thread(thread)
        first = self.threads_share["memory"].at(own)
        base = b.let("memory", self.vectors["memory"].swizzled(first))
        for starts in self.starts(b):
            with b.when(is_active):
                yield from self._rounds(b, own, first, base, starts, index, condition, loads)

    def _rounds(
        self,
        b: Builder,
        own: Sequence[Expr],
        first: Expr,
        base: Expr,
        starts: Mapping[str, VectorRegisters],
        index: Region | Expr | None,
        condition: IndexCondition | None,
        loads: bool,
    ) -> Iterator[tuple[Mapping[str, VectorRegisters], MaskedVector]]:
        """Emit the loops of `each_round` for one combination of starts.

        own: values of the digits over threads. first, base: the first vector's address before and after swizzling.
        """
        registers, tile, numbers = starts["registers"], starts.get("mask"), starts.get(INDEX.name)
        memory, every = self.vectors["memory"], self.threads_share.then(self.vectors)["memory"]
        elements = self.threads_share.then(self.elements)["memory"]
        region = memory.placement.region

        def box(register: VectorRegisters | None) -> Expr:
            """Return the index of a vector's box. register: holds the index; None if the index is a scalar."""
            value = index if register is None else Load(register[_FIRST])
            assert value is not None and not isinstance(value, Region)
            return b.let("index", build.cast(value, int64))

        # the index of the box, if it is the same for all vectors of a thread
        common = box(numbers) if index is not None and (numbers is None or numbers.view.reach == 0) else None

        def vector(iteration: Expr, mask: Edges) -> tuple[MaskedVector, Expr]:
            """Return the vector of an iteration, and the index of its box (0 if memory isn't gathered)."""
            values = cache(lambda: [*own, *self.vectors.digits_of(iteration)])
            allowed: ReadMask | ComputedMask | None = None if tile is None else ReadMask(tile.after(iteration))
            if condition is not None:
                index_of = [every.coordinate(dim, values(), int32) for dim in range(len(condition.index))]
                allowed = condition.of_vector(index_of, self.elements.digits[-1], self.width, b)
            distance: Expr = memory.steps(iteration)
            number: Expr = build.const(0, int64)
            if index is not None:
                number = common or box(None if numbers is None else numbers.after(iteration))
                terms = [(offset.stride, offset.index) for offset in gathered_offsets(region, number)]
                distance = build.add(distance, total_along(terms, region.buffer.index_dtype))
            order = "" if index is None else _MAY_COLLIDE
            address = memory.advanced(base, first, distance)
            return MaskedVector(every, mask, address, values, 0, self.width, allowed, order), number

        # with a mask, any vector may be cut anyway, so an edge is only one more test
        for masks in at_edges(b, [elements], self.width, self.vectors.count, twice=tile is None):
            if index is not None and region.gathered is not None and b.has_checks:
                rounds = b.rounds(self.vectors.count, registers.buffer)
                with each_inside(b, region, region.gathered.dim) as examine, rounds as iteration:
                    masked, number = vector(iteration, masks["memory"])
                    examine(number, masked.is_accessed)
            are_runs = memory.buffer.space == "global" and self.step_of("registers") == 1
            is_split = loads and self.vectors.count > 1 and are_runs
            selections: tuple[Selection, ...] = ("whole", "cut")
            for selection in selections:
                for iteration in b.each_round(self.vectors.count, registers.buffer):
                    masked, _ = vector(iteration, masks["memory"])
                    is_split = is_split and masked.may_be_cut
                    selected = replace(masked, selection=selection) if is_split else masked
                    yield {name: start.after(iteration) for name, start in starts.items()}, selected
                if not is_split:
                    break

    def need_inside(self, b: Builder, op: TileOp, region: Region, thread: Expr, is_active: Expr) -> None:
        """Emit assertions that the elements of `region` ("memory") that the mask includes are inside the tensor."""
        dims = place(replace(region, in_bounds=False), op.scope).edges
        with ExitStack() as checks:
            examine = {d: checks.enter_context(each_inside(b, region, d)) for d in dims}
            for _, memory in self.of_width(1).each_round(b, thread, is_active) if dims else ():
                is_accessed = b.let("is_accessed", memory.is_accessed)
                for d in dims:
                    index = build.cast(region.starts[d], int64)
                    if d in memory.view.dims:
                        index = build.add(index, memory.coordinate(memory.view.dims.index(d), int64))
                    examine[d](index, is_accessed)

    def cuts(self, condition: IndexCondition | None) -> str:
        """Return a description of the vectors that move element by element, for `Facts.cuts`."""
        if self.width == 1:
            return ""
        every = self.threads_share.then(self.elements)["memory"]
        cut = [] if Edges.of(every, self.width).whole else ["across an edge"]
        if "mask" in self.vectors.operands and self.step_of("mask") != 0:
            cut.append("partially masked" + (", tested at its ends" if condition is not None else ""))
        return f"vectors {' or '.join(cut)}" if cut else ""

    def is_computed(self, condition: IndexCondition) -> bool:
        """True if vectors of several elements can be masked by testing `condition` at their ends."""
        digits = (*self.threads_share.digits, *self.elements.digits)
        if self.width == 1 or any(digit.dim is None for digit in digits):
            return False
        return condition.is_tested_by_ends(self.elements.digits[-1], self.width)


@dataclass(frozen=True, slots=True)
class OwnedPlan(VectorPlan):
    """A plan in which each thread moves or computes the vectors that it owns: vector r in iteration r."""

    owned: OwnedVectors

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the operands in `owned`, in the operation's order. Overridden if `owned` has another order."""
        return tuple(self.owned.vectors.operands)

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(self.owned.vectors[side].placement.region for side in self.sides)

    def places(self, thread: Expr, iteration: Expr) -> tuple[Expr, ...]:
        share, places = self.owned.threads_share, []
        for view in map(self.owned.vectors.__getitem__, self.sides):
            place = view.located(iteration)
            if view.buffer.space != "local":
                first = share[view.name].at(share["registers"].of_thread(thread))
                place = view.swizzled(build.add(first, view.steps(iteration)))
            places.append(place)
        return tuple(places)

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(self.owned.step_of(side) for side in self.sides)


_FIRST = build.const(0, int32)

#: Threads may store to the same element of a gathered region. One of the values remains; weak stores would race.
_MAY_COLLIDE = "volatile"


def _distance(stride: Stride) -> int:
    """Return the absolute stride, to sort by; 0 and strides that aren't a single constant sort as the largest."""
    return abs(stride) or 2**62 if isinstance(stride, int) else 2**62


def pieces(count: int) -> list[tuple[int, int]]:
    """Split `count` elements from an aligned start into the widest aligned vectors, as (start, width)."""
    vectors, start = [], 0
    while start < count:
        width = 1 << ((count - start).bit_length() - 1)
        vectors.append((start, width))
        start += width
    return vectors
