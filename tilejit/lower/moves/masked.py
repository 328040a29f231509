"""Vectors in a thread's registers, and vectors in memory, some of whose elements may be excluded.

An element is excluded by the edge of a tensor, as padding or by a mask. A vector without excluded elements moves in one
access. A partially excluded vector moves element by element, in a separate branch. A mask is read from registers, or
computed from the indices of the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from ...dataclass import dataclass, lean
from ...dtypes import DType, int32
from ...ir.arithmetic import build, runs
from ...ir.nodes import FALSE, TRUE, Buffer, Expr, Load, TileOp, Var, Vector
from ..builder import Builder
from ..rematerialized import Recomputed, along
from ..schedule.access import Edges
from ..schedule.views import Digit, View


@lean(frozen=True, slots=True)
class VectorRegisters:
    """The registers of a vector, from `first` on, `step` apart. step: 0 if all elements share one register."""

    view: View
    first: Expr
    width: int
    step: int

    @property
    def buffer(self) -> Buffer:
        return self.view.buffer

    def after(self, iterations: Expr) -> VectorRegisters:
        """Return the registers of the vector `iterations` iterations later."""
        return VectorRegisters(self.view, build.add(self.first, self.view.steps(iterations)), self.width, self.step)

    @property
    def run(self) -> Vector:
        """All registers as one vector; they must be consecutive."""
        assert self.step == 1 or self.width == 1, f"the registers of {self.buffer.name} are {self.step} apart"
        return Vector(self.buffer, self.first, self.width)

    def __getitem__(self, k: Expr) -> Vector:
        return Vector(self.buffer, build.add(self.first, build.mul(k, self.step)))

    def load(self, b: Builder, memory: MaskedVector, fill: Expr) -> None:
        run = self._run(b)
        memory.load(b, run, fill)
        for k, register in self._apart(run):
            b.move(register, k)

    def store(self, b: Builder, memory: MaskedVector) -> None:
        memory.store(b, self.consecutive(b))

    def consecutive(self, b: Builder) -> Vector:
        """Return consecutive registers with the values, moved there if the vector's own aren't consecutive."""
        run = self._run(b)
        for k, register in self._apart(run):
            b.move(k, register)
        return run

    def _run(self, b: Builder) -> Vector:
        """Return the registers if they are consecutive, else temporaries; ptxas removes the moves to and from these."""
        if self.step == 1 or self.width == 1:
            return self.run
        return Vector(b.scratch("run", self.buffer.dtype, self.width), build.const(0, int32), self.width)

    def _apart(self, run: Vector) -> Iterator[tuple[Vector, Vector]]:
        """Yield (temporary, register) for each element if `run` consists of temporaries."""
        if run.buffer != self.buffer:
            for k in range(self.width):
                yield Vector(run.buffer, build.const(k, int32)), self[build.const(k, int32)]


@lean(frozen=True, slots=True)
class ReadMask:
    """A mask in bool registers."""

    registers: VectorRegisters

    @property
    def varies(self) -> bool:
        """True if the mask may include some elements of the vector but not others."""
        return self.registers.step != 0

    def at(self, step: Expr) -> Expr:
        """Return the condition that the mask includes element `step`."""
        return Load(self.registers[step])

    def throughout(self, width: int) -> Expr:
        """Return the condition that the mask includes the first `width` elements."""
        every: Expr = TRUE
        for k in range(width if self.varies else 1):
            every = build.logical_and(every, self.at(build.const(k, int32)))
        return every


@dataclass(frozen=True, slots=True)
class ComputedMask:
    """A mask that is a condition on the element's position `step` in its vector; its methods are those of `ReadMask`.

    `throughout` may be false if a sum wraps.
    """

    cond: Expr
    step: Var

    @property
    def varies(self) -> bool:
        return runs.has(self.cond, self.step)

    def at(self, step: Expr) -> Expr:
        return runs.at(self.cond, self.step, step)

    def throughout(self, width: int) -> Expr:
        return runs.throughout(self.cond, self.step, width)


@dataclass(frozen=True, slots=True)
class IndexCondition:
    """A mask as a condition on an element's index, with a variable for each dimension of extent greater than 1."""

    cond: Expr
    index: tuple[Var, ...]

    @staticmethod
    def of(op: TileOp, recomputed: Recomputed | None, name: str = "mask") -> IndexCondition | None:
        """Return the condition of a copy's mask, or another operand; None if it must be read from registers."""
        if recomputed is None:
            return None
        mask = op.region(name)
        shape = op.region("dst").shape
        extents = [n for n in shape if n != 1]
        index = tuple([Var(f"index.{d}", int32, bounds=(0, n - 1)) for d, n in enumerate(extents)])
        cond = recomputed.element(mask, along(mask.shape, shape, index))
        return None if cond is None else IndexCondition(cond, index)

    def element(self, index: Sequence[Expr]) -> Expr:
        """Return the value at an index."""
        value = self.cond
        for var, at in zip(self.index, index, strict=True):
            value = runs.at(value, var, at)
        return value

    def is_tested_by_ends(self, run: Digit, width: int) -> bool:
        """True if the mask of `width` adjacent elements along `run` can be tested at the first and last of them."""
        return run.dim is not None and runs.by_ends(self.cond, self.index[run.dim], width) is not None

    def of_vector(self, first: Sequence[Expr], run: Digit, width: int, b: Builder) -> ComputedMask:
        """Return the mask of a vector along `run` from the element at index `first` on."""
        number = Var(b.name("step"), int32, bounds=(0, width - 1))
        cond = self.cond
        for d, (var, at) in enumerate(zip(self.index, first, strict=True)):
            # named without bounds, because the index of padding exceeds the extent
            at = b.let("index", at)
            cond = runs.at(cond, var, build.add(at, build.mul(number, run.weight)) if d == run.dim else at)
        return ComputedMask(cond, number)


#: the vectors that a pass moves: each vector, only those that move in one access, or only the others
Selection = Literal["each", "whole", "cut"]


@lean(frozen=True, slots=True)
class MaskedVector:
    """Elements [start, start + width) of a vector in memory, except padding and those outside a tensor or the mask."""

    #: the operand over the digits that count vectors
    view: View
    mask: Edges
    #: swizzled address of the vector's first element
    address: Expr
    #: returns the digits' values, from which coordinates are computed
    values: Callable[[], Sequence[Expr]]
    start: int
    width: int
    #: the elements that the operation's mask includes; None for all
    allowed: ReadMask | ComputedMask | None = None
    #: memory order of stores, one of `ORDERS["move"]`
    order: str = ""
    #: the vectors that the current pass moves; ignored if the vector can't be partially excluded
    selection: Selection = "each"

    @property
    def is_accessed(self) -> Expr:
        some: Expr = FALSE
        every = self.width if self.allowed is not None or not self.mask.whole else 1
        for k in range(self.start, self.start + every):
            step = build.const(k, int32)
            some = build.logical_or(some, build.logical_and(self._allows(step), self.inside(step)))
        return some

    @property
    def place(self) -> Vector:
        return Vector(self.view.buffer, build.add(self.address, self.start), self.width)

    def coordinate(self, dim: int, dtype: DType) -> Expr:
        """Return the index of the vector's first element in a dimension of the space."""
        return self.view.coordinate(dim, self.values(), dtype)

    def inside(self, step: Expr | None) -> Expr:
        """Return the condition that element `step` (None: the first) is inside the tensor and isn't padding."""
        return self.mask.inside(self.coordinate, step) if self.mask.windows else TRUE

    def load(self, b: Builder, registers: Vector, fill: Expr) -> None:
        """Load the elements into `registers`, and `fill` in place of elements that aren't accessed."""
        apart = self.view.buffer.space == "global" and registers.buffer.dtype.bits == 16
        for register, memory, inside in self._moves(b, registers, apart=apart):
            b.move(register, memory, inside, fill)

    def store(self, b: Builder, registers: Vector) -> None:
        for register, memory, inside in self._moves(b, registers):
            b.move(memory, register, inside, order=self.order)

    def update(self, b: Builder, registers: Vector, write: Callable[[Vector, Vector], None]) -> None:
        """Call `write` with (memory, registers) for each access, under its condition."""
        for register, memory, inside in self._moves(b, registers):
            with b.when(inside):
                write(memory, register)

    @property
    def may_be_cut(self) -> bool:
        """True if some elements of the vector may be excluded while others aren't."""
        varies = self.allowed is not None and self.allowed.varies
        return self.width > 1 and (varies or not self.mask.whole)

    def _moves(self, b: Builder, registers: Vector, *, apart: bool = False) -> Iterator[tuple[Vector, Vector, Expr]]:
        """Yield (registers, memory, condition) of the access to all elements; if some may be excluded, also to each.

        apart: True to move single elements via separate registers: two loads into one 32-bit register are serialized.
        """
        whole = Vector(registers.buffer, build.add(registers.offset, self.start), self.width)
        start = build.const(self.start, int32)
        if not self.may_be_cut:
            inside = self.inside(start if self.start else None)
            yield whole, self.place, inside if self.allowed is None else build.logical_and(self._allows(start), inside)
            return
        if self.mask.whole:
            inside = b.let("inside", self.inside(start))
        else:
            inside = self.mask.throughout(self.coordinate, start, build.const(self.start + self.width - 1, int32))
        every = TRUE if self.allowed is None else self.allowed.throughout(self.width)
        moves_at_once = b.let("all", build.logical_and(every, inside))
        if self.selection == "whole":
            with b.when(moves_at_once):
                yield whole, self.place, TRUE
            return
        if self.selection == "cut":
            with b.when(build.logical_not(moves_at_once)):
                yield from self._elements(b, registers, inside, apart)
            return
        with b.either(moves_at_once) as otherwise:
            yield whole, self.place, TRUE
            with otherwise:
                yield from self._elements(b, registers, inside, apart)

    def _elements(
        self, b: Builder, registers: Vector, inside: Expr, apart: bool
    ) -> Iterator[tuple[Vector, Vector, Expr]]:
        """Yield accesses to single elements. inside: if `mask.whole`, the condition that the vector is inside."""
        if not apart:
            with b.loop("element", self.width, unrolled=True) as step:
                at = build.add(step, self.start)
                yield Vector(registers.buffer, build.add(registers.offset, at)), *self._single(at, inside)
            return
        own = [Vector(b.scratch("single", registers.buffer.dtype, 1), build.const(0, int32)) for _ in range(self.width)]
        for k, register in enumerate(own):
            yield register, *self._single(build.const(self.start + k, int32), inside)
        for k, register in enumerate(own):
            b.move(Vector(registers.buffer, build.add(registers.offset, self.start + k)), register)

    def _single(self, at: Expr, inside: Expr) -> tuple[Vector, Expr]:
        is_inside = inside if self.mask.whole else self.inside(at)
        place = Vector(self.view.buffer, build.add(self.address, at))
        return place, build.logical_and(is_inside, self._allows(at))

    def _allows(self, step: Expr) -> Expr:
        return TRUE if self.allowed is None else self.allowed.at(step)


#: Up to this many vectors per thread are always predicated if no vector can straddle an edge. A second copy of the code
#: without predicates takes longer to compile (two copies of 8 iterations: 14.0 ms instead of 10.6 from call to PTX) and
#: isn't faster (1 GiB through shared memory on an H100, `tests/bench/bench_copy.py`: 0.974 of the bandwidth of a
#: device-to-device copy instead of 0.986).
_FEW_ROUNDS = 8


def at_edges(
    b: Builder, views: Sequence[View], width: int, rounds: int, *, twice: bool = True
) -> Iterator[Mapping[str, Edges]]:
    """Yield the masks of the operands by name; the caller emits its code at each yield.

    The first yield is for regions inside their tensors, the second for regions at an edge. If separate code doesn't
    pay, a single yield covers both cases.
    views: the operands over the digits of elements; a vector has `width` elements along the last digit.
    twice: False for a single yield.
    """
    edges = {view.name: Edges.of(view, width) for view in views}
    few = rounds <= _FEW_ROUNDS and all(each.whole for each in edges.values())
    is_single = few or not twice or not any(each.dims for each in edges.values())
    # separate code for regions inside their tensors pays only if all of its vectors move in one access
    if is_single or not all(each.without_tensor.whole for each in edges.values()):
        yield {name: each.mask(b, rounds) for name, each in edges.items()}
        return
    cond: Expr = TRUE
    for each in edges.values():
        cond = build.logical_and(cond, each.all_inside)
    with b.either(cond) as otherwise:
        yield {name: each.without_tensor for name, each in edges.items()}
        with otherwise:
            yield {name: each.mask(b, rounds, refuted=cond) for name, each in edges.items()}
