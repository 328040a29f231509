"""Vectors between a thread's registers and memory: where they lie, round after round, and how they are moved.

A `Schedule` is an index into all elements of an operation: its digits, slowest first, and how far a step of each leads
in every operand. A `View` is one operand of it: where an index, or values of the digits, lead there. A copy of 8 x 64
float16 between shared memory, in rows of 72, and the registers of a warp, a quarter of a row a lane:

    digit                      row          quarter      element
    extent                     8            4            16
    stride in "registers"      Thread(4)    Thread(1)    1            lane 4*row + quarter, register element
    stride in "memory"         72           16           1            address 72*row + 16*quarter + element
                               `-- threads_share --'     elements

`OwnedVectors` is such a schedule cut in two: which thread, and which of its registers. Vectors of 8 elements divide the
last digit into 2 rounds with a stride of 8, so in round r thread t moves

    registers 8r to 8r+7       memory from 72*(t // 4) + 16*(t % 4) + 8r on, swizzled

A vector at the edge of a global tensor is masked. One that straddles it, or of which a mask has a part, goes element by
element: a branch that few threads take. Where registers lie otherwise than memory, those of a vector go through as many
that are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...dtypes import DType, int32, int64
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import FALSE, TRUE, Buffer, Expr, Region, TileOp, Vector
from ...ops.copies import INDEX
from ..builder import Builder
from ..schedule.owners import need_all_threads, need_same_threads
from ..schedule.placement import Placement, need_slice, place
from ..schedule.registers import each_start
from ..schedule.strides import Stride
from ..schedule.views import Schedule, View, broadcast_along
from ..schedule.width import Width, widest_vector
from ..schedule.windows import Edges, Mask
from ..variant import DispatchContext, local_side
from .gathered import Index
from .masks import IndexCondition, ReadMask, VectorMask

__all__ = [
    "MaskedVector", "OwnedVectors", "RegisterVectors", "VectorRegisters", "at_edges", "fill_value", "pieces",
    "register_copy",
]


def register_copy(op: TileOp, context: DispatchContext) -> tuple[Schedule, bool]:
    """The digits in which "registers" and "memory" move by one stride each, and whether registers are the destination.

    A copy with a mask has "mask" besides, and one with an index that is a tile "index", in the threads that own the
    registers.
    accepts: a copy with one local side.
    raises: LayoutError where there are none, the registers' owners aren't exactly the threads of the scope, or a region
    is no slice.
    """
    local, other, loads = local_side(op)
    registers, memory = place(local, op.scope), place(other, op.scope)
    need_all_threads(registers, op.scope, context.count(op.scope))
    need_slice(registers)
    need_slice(memory)
    every = tuple(range(len(registers.shape)))
    # the dimensions of the index, which lead, and those along which memory moves
    boxes = len([extent for extent in other.index_shape if extent != 1])
    tiles: dict[str, tuple[Placement, Sequence[int | None]]]
    tiles = {"registers": (registers, every), "memory": (memory, (None,) * boxes + every[: len(every) - boxes])}
    beside = {"mask": broadcast_along(op.region("mask").shape, op.region("dst").shape)} if "mask" in op.options else {}
    if isinstance(op.index, Region):
        beside[INDEX.name] = every[:boxes] + (None,) * (len(every) - boxes)
    for name, along in beside.items():
        tiles[name] = place(op.region(name), op.scope), along
        need_all_threads(tiles[name][0], op.scope, context.count(op.scope))
    schedule = Schedule.of(registers.shape, tiles)
    for name in beside:
        need_same_threads(schedule, "registers", name)
    if any(digit.is_folded for digit in schedule.digits):
        raise LayoutError(
            f"{registers.buffer.name} and {memory.buffer.name} split a dimension so differently "
            "that one step in registers isn't one step in memory",
            hint="choose layouts whose extents divide each other",
        )
    return schedule, loads


def fill_value(op: TileOp) -> Expr:
    """What a copy reads outside its source."""
    dtype = op.region("dst").dtype
    fill = op.value("fill")
    return build.const(0, dtype) if fill is None else build.cast(fill, dtype)


@dataclass(frozen=True, slots=True)
class OwnedVectors:
    """Vector r of each thread, counted along the registers that it owns, in every operand.

    threads_share: the digits spread over threads. elements: those of a thread's registers, the last along a vector.
    vectors: those of r, one vector of `width` elements a step.
    """

    threads_share: Schedule
    elements: Schedule
    vectors: Schedule
    width: int

    @staticmethod
    def of(schedule: Schedule, owner: str, along: str = "") -> OwnedVectors:
        """Vectors of one element, counted along the registers of operand `owner`, or along operand `along`."""
        threads_share = schedule.where(lambda digit: digit.is_spread(owner))
        elements = schedule.where(lambda digit: not digit.is_spread(owner))
        elements = elements.ordered(lambda digit: _distance(digit[along or owner])).joined()
        return OwnedVectors(threads_share, elements, elements, 1)

    def widest(self, *names: str) -> Width:
        """The widest vector that is contiguous and provably aligned in these operands, and why it isn't wider."""
        schedule = self.threads_share.then(self.elements)
        return widest_vector(schedule.among(names or schedule.names), ragged=False)

    def of_width(self, width: int) -> OwnedVectors:
        """The same elements, in vectors of `width`."""
        return OwnedVectors(self.threads_share, self.elements, self.elements.in_vectors(width), width)

    @property
    def rounds(self) -> int:
        """Vectors of a thread."""
        return self.vectors.count

    def place(self, name: str, thread: Expr, round: Expr) -> Expr:
        """Where the vector of a thread in a round begins: its address, swizzled, or its register."""
        view = self.vectors[name]
        if view.buffer.space == "local":
            return view.located(round)
        return view.swizzled(build.add(self._first(name, thread), view.steps(round)))

    def is_mover(self, thread: Expr, loads: bool) -> Expr:
        """Whether a thread moves its vectors between "registers" and "memory"."""
        return self.vectors["registers"].placement.is_mover(thread, loads)

    def starts(self, b: Builder) -> Iterator[Mapping[str, RegisterVectors]]:
        """The operands in registers. The caller writes its code once, or for each register at which they may start."""
        local = [view for view in self.vectors.views if view.buffer.space == "local"]
        for firsts in each_start(b, *(view.touched(self.width) for view in local)):
            yield {
                view.name: RegisterVectors(view, first, self.width, self.step_of(view.name))
                for view, first in zip(local, firsts, strict=True)
            }

    def step_of(self, name: str) -> int:
        """How far a vector's elements lie apart in an operand, 0 where one serves them all."""
        if self.width == 1:
            return 1
        return self.elements.digits[-1].elements(name)

    def each_round(
        self,
        b: Builder,
        thread: Expr,
        takes_part: Expr,
        index: Index | None = None,
        condition: IndexCondition | None = None,
    ) -> Iterator[tuple[Mapping[str, VectorRegisters], MaskedVector]]:
        """The vector of a round in the operands that are registers and in "memory", in a loop over those of `thread`.

        index: by which "memory" is gathered, None where it isn't.
        The caller writes its code once, or several times: for each register at which a region may start, and for
        regions inside their tensors, without masks, and at their edges.
        condition: what "mask" says of each element, where it needn't be read.
        """
        first = self._first("memory", thread)
        base = b.let("memory", self.vectors["memory"].swizzled(first))
        for starts in self.starts(b):
            with b.when(takes_part):
                yield from self._rounds(b, thread, first, base, starts, index, condition)

    def _rounds(
        self,
        b: Builder,
        thread: Expr,
        first: Expr,
        base: Expr,
        starts: Mapping[str, RegisterVectors],
        index: Index | None,
        condition: IndexCondition | None,
    ) -> Iterator[tuple[Mapping[str, VectorRegisters], MaskedVector]]:
        """first: where the first vector lies in memory, before swizzling; base: its address."""
        registers, tile, numbers = starts["registers"], starts.get("mask"), starts.get(INDEX.name)
        memory = self.vectors["memory"]
        every, elements = (self.threads_share.then(part)["memory"] for part in (self.vectors, self.elements))
        which = self.threads_share["registers"].of_thread(thread)

        def vector(round: Expr, mask: Mask) -> tuple[MaskedVector, Expr]:
            """That of a round, and the number that says where it lies; 0 where nothing does."""
            values = [*which, *self.vectors.digits_of(round)]
            allowed: VectorMask | None = None if tile is None else tile.mask(round)
            if condition is not None:
                allowed = self._computed(b, condition, every, values)
            distance: Expr = memory.steps(round)
            number: Expr = build.const(0, int64)
            if index is not None:
                number = index.number(b, None if numbers is None else numbers.of(round)[build.const(0, int32)])
                distance = build.add(distance, index.distance(number))
            order = "" if index is None else _MAY_COLLIDE
            address = memory.advanced(base, first, distance)
            return MaskedVector(every, mask, address, values, 0, self.width, allowed, order), number

        # where a mask may cut each vector, an edge is one test more
        for masks in at_edges(b, [elements], self.width, self.rounds, twice=tile is None):
            if index is not None and b.has_checks:
                with index.checks(b) as tell, b.rounds(self.rounds, registers.view.buffer) as round:
                    masked, number = vector(round, masks["memory"])
                    tell(number, masked.is_accessed)
            with b.rounds(self.rounds, registers.view.buffer) as round:
                masked, _ = vector(round, masks["memory"])
                yield {name: start.of(round) for name, start in starts.items()}, masked

    def cuts(self, condition: IndexCondition | None) -> str:
        """Which vectors in memory go element by element, or ""."""
        if self.width == 1:
            return ""
        every = self.threads_share.then(self.elements)["memory"]
        cut = [] if Edges.of(every, self.width).whole else ["across an edge"]
        if "mask" in self.vectors.names and self.step_of("mask"):
            cut.append("of which the mask has a part" + (", as its ends tell" if condition is not None else ""))
        return f"vectors {' or '.join(cut)}" if cut else ""

    def _computed(self, b: Builder, condition: IndexCondition, every: View, values: Sequence[Expr]) -> VectorMask:
        """The mask of the vector whose first element has these values of the digits `every`."""
        run = self.elements.digits[-1]
        assert run.dim is not None, "a condition is asked along one dimension"
        first = [every.coordinate(dim, values, int32) for dim in range(len(condition.index))]
        return condition.of_vector(first, run.dim, run.weight, self.width, b)

    def is_computed(self, condition: IndexCondition | None) -> bool:
        """Whether a vector's test takes no more than that of its ends."""
        digits = (*self.threads_share.digits, *self.elements.digits)
        if condition is None or self.width == 1 or any(digit.dim is None for digit in digits):
            return False
        run = self.elements.digits[-1]
        return run.dim is not None and condition.is_tested_by_ends(run.dim, self.width)

    def _first(self, name: str, thread: Expr) -> Expr:
        """Where a thread's first vector lies in memory, before swizzling."""
        return self.threads_share[name].at(self.threads_share["registers"].of_thread(thread))


#: Threads may store to one place of a gathered region, where one of the values lands: of plain stores that is a race.
_MAY_COLLIDE = "volatile"


def _distance(stride: Stride) -> int:
    """How far a step leads, more than any number where only the launch knows, or where it leads nowhere by itself."""
    return abs(stride) or 2**62 if isinstance(stride, int) else 2**62


@dataclass(frozen=True, slots=True)
class RegisterVectors:
    """An operand's vectors of `width` registers, `step` apart, of which the first begins at register `first`."""

    view: View
    first: Expr
    width: int
    step: int

    def of(self, round: Expr) -> VectorRegisters:
        """Those of a round."""
        return VectorRegisters(self.view.buffer, build.add(self.first, self.view.steps(round)), self.width, self.step)

    def at(self, round: Expr) -> Vector:
        """Those of a round, which follow each other."""
        return self.of(round).run

    def mask(self, round: Expr) -> VectorMask:
        """What those of a round, of bool_, say of a vector in memory."""
        registers = self.of(round)
        return ReadMask(registers.buffer, registers.first, registers.step)


@dataclass(frozen=True, slots=True)
class VectorRegisters:
    """The registers of one vector's elements: from `first` on, `step` apart; 0 where one serves them all."""

    buffer: Buffer
    first: Expr
    width: int
    step: int

    @property
    def run(self) -> Vector:
        """All of them, where they follow each other."""
        assert self.step == 1 or self.width == 1, f"the registers of {self.buffer.name} are {self.step} apart"
        return Vector(self.buffer, self.first, self.width)

    def __getitem__(self, k: Expr) -> Vector:
        return Vector(self.buffer, build.add(self.first, build.mul(k, self.step)))

    def load(self, b: Builder, memory: MaskedVector, fill: Expr) -> None:
        """Fills them from memory."""
        run = self._run(b)
        memory.load(b, run, fill)
        for k, register in self._apart(run):
            b.move(register, k)

    def store(self, b: Builder, memory: MaskedVector) -> None:
        """Writes them to memory."""
        memory.store(b, self.beside_each_other(b))

    def beside_each_other(self, b: Builder) -> Vector:
        """Their values in registers that follow each other."""
        run = self._run(b)
        for k, register in self._apart(run):
            b.move(k, register)
        return run

    def _run(self, b: Builder) -> Vector:
        """They themselves, or as many others: names that ptxas leaves no instruction of."""
        if self.step == 1 or self.width == 1:
            return self.run
        return Vector(b.scratch("run", self.buffer.dtype, self.width), build.const(0, int32), self.width)

    def _apart(self, run: Vector) -> Iterator[tuple[Vector, Vector]]:
        """(register of the run, register) where these aren't the same."""
        if run.buffer != self.buffer:
            for k in range(self.width):
                yield Vector(run.buffer, build.const(k, int32)), self[build.const(k, int32)]


@dataclass(frozen=True, slots=True)
class MaskedVector:
    """Elements [start, start + width) of a vector in memory, of which only those inside the tensor are accessed.

    view: its operand over the digits that count vectors, whose `values` lead to it. mask: what of it is inside.
    address: of the vector's first element, swizzled.
    allowed: which elements are accessed; None for all.
    order: in which it is stored, one of `ORDERS["move"]`.
    """

    view: View
    mask: Mask
    address: Expr
    values: Sequence[Expr]
    start: int
    width: int
    allowed: VectorMask | None = None
    order: str = ""

    @property
    def is_accessed(self) -> Expr:
        """Whether any of the elements is."""
        some: Expr = FALSE
        every = self.width if self.allowed is not None or not self.mask.whole else 1
        for k in range(self.start, self.start + every):
            step = build.const(k, int32)
            some = build.logical_or(some, build.logical_and(self._allows(step), self.inside(step)))
        return some

    @property
    def place(self) -> Vector:
        """Where the elements are."""
        return Vector(self.view.buffer, build.add(self.address, self.start), self.width)

    def coordinate(self, dim: int, dtype: DType) -> Expr:
        """The index of the vector's first element in a dimension of the space."""
        return self.view.coordinate(dim, self.values, dtype)

    def inside(self, step: Expr) -> Expr:
        """Whether the vector's element number `step` lies inside the tensor."""
        return self.mask.inside(self.coordinate, step)

    def load(self, b: Builder, registers: Vector, fill: Expr) -> None:
        """Moves the elements to those of the vector `registers`; what lies outside the tensor is `fill`."""
        for register, memory, inside in self._moves(b, registers):
            b.move(register, memory, inside, fill)

    def store(self, b: Builder, registers: Vector) -> None:
        """Moves those of the vector `registers` to the elements; what lies outside the tensor is left out."""
        for register, memory, inside in self._moves(b, registers):
            b.move(memory, register, inside, order=self.order)

    def update(self, b: Builder, registers: Vector, write: Callable[[Vector, Vector], None]) -> None:
        """Has `write` update what is inside by the vector `registers`: (memory, registers) of one access."""
        for register, memory, inside in self._moves(b, registers):
            with b.when(inside):
                write(memory, register)

    def _moves(self, b: Builder, registers: Vector) -> Iterator[tuple[Vector, Vector, Expr]]:
        """(registers, memory, whether it is accessed): all at once; where an edge or a mask cuts them, each element."""
        whole = Vector(registers.buffer, build.add(registers.offset, self.start), self.width)
        first = self.inside(build.const(self.start, int32))
        varies = self.allowed is not None and self.allowed.varies
        if self.width == 1 or (self.mask.whole and not varies):
            yield whole, self.place, build.logical_and(self._allows(build.const(self.start, int32)), first)
            return
        if self.mask.whole:
            first = inside = b.let("inside", first)
        else:
            start, end = (build.const(self.start + k, int32) for k in (0, self.width - 1))
            inside = self.mask.throughout(self.coordinate, start, end)
        every = TRUE if self.allowed is None else self.allowed.throughout(self.width)
        with b.either(b.let("all", build.logical_and(every, inside))) as otherwise:
            yield whole, self.place, TRUE
            with otherwise:
                yield from self._single_moves(b, registers, first)

    def _single_moves(self, b: Builder, registers: Vector, first: Expr) -> Iterator[tuple[Vector, Vector, Expr]]:
        """first: whether the first element lies inside the tensor."""
        with b.loop("element", self.width, unrolled=True) as k:
            at = build.add(k, self.start)
            register = Vector(registers.buffer, build.add(registers.offset, at))
            inside = first if self.mask.whole else self.inside(at)
            yield register, Vector(self.view.buffer, build.add(self.address, at)), build.logical_and(
                inside, self._allows(at)
            )

    def _allows(self, step: Expr) -> Expr:
        """Whether the mask has element number `step` of the vector."""
        return TRUE if self.allowed is None else self.allowed.at(step)


#: So many vectors a thread just carry their predicates. Code without them beside it takes longer to compile (two
#: copies of 8 rounds: 14.0 ms instead of 10.6 from call to PTX) and gains nothing (1 GiB through shared memory on an
#: H100: 0.974 of the GPU's own copy instead of 0.986, `tests/bench/bench_copy.py`).
_FEW_ROUNDS = 8


def at_edges(
    b: Builder, views: Sequence[View], width: int, rounds: int, *, twice: bool = True
) -> Iterator[Mapping[str, Mask]]:
    """The operands' masks. The caller writes its code for regions inside their tensors, then for those at an edge.

    Few rounds of whole vectors are written once, with masks.
    views: the operands over the digits of elements, of which a vector has `width` along the last.
    twice: whether regions inside their tensors may get code of their own.
    """
    edges = {view.name: Edges.of(view, width) for view in views}
    few = rounds <= _FEW_ROUNDS and all(each.whole for each in edges.values())
    gains = any(each.dims for each in edges.values()) and all(each.without_tensor.whole for each in edges.values())
    if few or not twice or not gains:
        yield {name: each.mask(b, rounds) for name, each in edges.items()}
        return
    cond: Expr = TRUE
    for each in edges.values():
        cond = build.logical_and(cond, each.all_inside)
    with b.either(cond) as otherwise:
        yield {name: each.without_tensor for name, each in edges.items()}
        with otherwise:
            yield {name: each.mask(b, rounds) for name, each in edges.items()}


def pieces(count: int) -> list[tuple[int, int]]:
    """(start, width) of the widest aligned vectors that make up `count` elements from an aligned start."""
    vectors, start = [], 0
    while start < count:
        width = 1 << ((count - start).bit_length() - 1)
        vectors.append((start, width))
        start += width
    return vectors
