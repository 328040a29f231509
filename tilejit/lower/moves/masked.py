"""Vectors in memory of which an edge of a tensor or a mask may have only a part.

Where both have all of a vector, it moves at once. One that straddles an edge, or of which a mask has a part, goes
element by element: a branch that few threads take.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal

from ...dataclass import lean
from ...dtypes import DType, int32
from ...ir.arithmetic import build
from ...ir.nodes import FALSE, TRUE, Expr, Vector
from ..builder import Builder
from ..schedule.views import View
from ..schedule.windows import Edges, Mask
from .masks import VectorMask

__all__ = ["MaskedVector", "Selection", "at_edges"]

#: which vectors are moved in a turn over all of them: each; those that move at once; those that go element by element
Selection = Literal["each", "whole", "cut"]


@lean(frozen=True, slots=True)
class MaskedVector:
    """Elements [start, start + width) of a vector in memory, of which only those inside the tensor are accessed.

    view: its operand over the digits that count vectors. values: gives those that lead to it, where somebody asks for
    coordinates. mask: what of it is inside.
    address: of the vector's first element, swizzled.
    allowed: which elements are accessed; None for all.
    order: in which it is stored, one of `ORDERS["move"]`.
    turn: in which turn this is, of a vector that an edge or a mask may cut; one that none cuts moves in any.
    """

    view: View
    mask: Mask
    address: Expr
    values: Callable[[], Sequence[Expr]]
    start: int
    width: int
    allowed: VectorMask | None = None
    order: str = ""
    selection: Selection = "each"

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
        return Vector(self.view.buffer, _advanced(self.address, self.start), self.width)

    def coordinate(self, dim: int, dtype: DType) -> Expr:
        """The index of the vector's first element in a dimension of the space."""
        return self.view.coordinate(dim, self.values(), dtype)

    def inside(self, step: Expr | None) -> Expr:
        """Whether the vector's element number `step`, or its first, lies inside the tensor."""
        return self.mask.inside(self.coordinate, step) if self.mask.windows else TRUE

    def load(self, b: Builder, registers: Vector, fill: Expr) -> None:
        """Moves the elements to those of the vector `registers`; what lies outside the tensor is `fill`."""
        apart = self.view.buffer.space == "global" and registers.buffer.dtype.bits == 16
        for register, memory, inside in self._moves(b, registers, apart=apart):
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

    def _moves(
        self, b: Builder, registers: Vector, *, apart: bool = False
    ) -> Iterator[tuple[Vector, Vector, Expr]]:
        """(registers, memory, whether it is accessed): all at once; where an edge or a mask cuts them, each element.

        apart: single elements go to registers of their own first. Of elements that share a register each would have
        to be there before the next is loaded.
        """
        whole = Vector(registers.buffer, _advanced(registers.offset, self.start), self.width)
        start = build.const(self.start, int32)
        varies = self.allowed is not None and self.allowed.varies
        if self.width == 1 or (self.mask.whole and not varies):
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
        """inside: whether all of them lie inside the tensor; apart: as `_moves` has it."""
        if not apart:
            yield from self._single_moves(b, registers, inside)
            return
        own = [Vector(b.scratch("single", registers.buffer.dtype, 1), build.const(0, int32)) for _ in range(self.width)]
        for k, register in enumerate(own):
            yield register, *self._single(build.const(self.start + k, int32), inside)
        for k, register in enumerate(own):
            b.move(Vector(registers.buffer, build.add(registers.offset, self.start + k)), register)

    def _single_moves(self, b: Builder, registers: Vector, inside: Expr) -> Iterator[tuple[Vector, Vector, Expr]]:
        """inside: whether all of them lie inside the tensor."""
        with b.loop("element", self.width, unrolled=True) as k:
            at = build.add(k, self.start)
            yield Vector(registers.buffer, build.add(registers.offset, at)), *self._single(at, inside)

    def _single(self, at: Expr, inside: Expr) -> tuple[Vector, Expr]:
        """Where element number `at` is, and whether it is accessed; inside: whether all of them are in the tensor."""
        is_inside = inside if self.mask.whole else self.inside(at)
        place = Vector(self.view.buffer, build.add(self.address, at))
        return place, build.logical_and(is_inside, self._allows(at))

    def _allows(self, step: Expr) -> Expr:
        """Whether the mask has element number `step` of the vector."""
        return TRUE if self.allowed is None else self.allowed.at(step)


def _advanced(offset: Expr, start: int) -> Expr:
    """Most vectors begin at element 0."""
    return build.add(offset, start) if start else offset


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
    if few or not twice or not _gains(edges.values()):
        yield {name: each.mask(b, rounds) for name, each in edges.items()}
        return
    cond: Expr = TRUE
    for each in edges.values():
        cond = build.logical_and(cond, each.all_inside)
    with b.either(cond) as otherwise:
        yield {name: each.without_tensor for name, each in edges.items()}
        with otherwise:
            yield {name: each.mask(b, rounds, refuted=cond) for name, each in edges.items()}


def _gains(edges: Collection[Edges]) -> bool:
    """Whether code for regions inside their tensors tests nothing."""
    return any(each.dims for each in edges) and all(each.without_tensor.whole for each in edges)
