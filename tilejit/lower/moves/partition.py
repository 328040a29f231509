"""Vectors in memory that are distributed cyclically over the threads of a scope.

A copy of 2 rows of 20 float32 by 4 threads, in vectors of 4 with index v:

    row 0    v 0    1    2    3    4        iteration 0: threads 0 to 3 move v 0 to 3
    row 1    v 5    6    7    8    9        iteration 1: they move v 4 to 7
                                            iteration 2: threads 0 and 1 move v 8 and 9
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...dataclass import dataclass
from ...dtypes import int32
from ...ir.arithmetic import build
from ...ir.nodes import Const, Expr, Region, TileOp, Vector
from ...isa.cp_async import COPIES, Copy
from ..builder import WRITTEN_OUT, Builder
from ..plans import VectorPlan
from ..schedule.access import Edges, widest_vector
from ..schedule.addresses import Scaled
from ..schedule.views import DigitSchedule, View
from .masked import MaskedVector, at_edges
from .vectors import fill_value, pieces


@dataclass(frozen=True, slots=True)
class Partition(VectorPlan):
    """Vector v is handled in iteration v // threads by thread v % threads; the last iteration may be partial."""

    count: int
    #: the digits that count elements, in the order in which vectors cover them; the first operand is the destination
    elements: DigitSchedule
    #: the digits that count vectors
    vectors: DigitSchedule
    #: names of operands that broadcast one element to a whole vector
    single: tuple[str, ...]
    #: True if one cp.async copies each whole vector
    is_async: bool = False

    @staticmethod
    def of(
        schedule: DigitSchedule, threads: int, *, vectorized: bool = True, broadcasts: bool = False,
        is_async: bool = False,
    ) -> Partition:
        """Plan the widest provably aligned vectors, ordered as in the destination, or a copy's global source.

        vectorized: False for single elements. broadcasts: True if an element of an input may be broadcast to a vector.
        is_async: True to copy by cp.async.
        """
        # follow the order of a global source, so that consecutive threads read consecutive addresses
        is_read = not broadcasts and schedule["src"].buffer.space == "global"
        elements = _ordered(schedule, "src" if is_read else "dst").joined()
        inputs = tuple(elements.operands)[1:] if broadcasts and elements.digits else ()
        single = tuple(name for name in inputs if elements.digits[-1].strides[name] == 0)
        provable = widest_vector(elements, [name for name in elements.operands if name not in single], ragged=True)
        width, limit = provable.elements, provable.limit
        if not vectorized:
            width, limit = 1, "moves single elements"
        cut = next((name for name in single if not Edges.of(elements[name], width).whole), None)
        if cut is not None:
            buffer = elements[cut].buffer
            width, limit = 1, f"{buffer.name} is broadcast, and the edge of {buffer.name} may lie inside a vector"
        vectors = elements.in_vectors(width)
        rounds = -(-vectors.count // threads)
        return Partition(width, rounds, threads, limit, vectors.count, elements, vectors, single, is_async)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.elements.operands)

    @property
    def tail(self) -> int:
        """The number of elements of the last vector of each run along the fastest digit."""
        return (self.elements.digits[-1].extent % self.vector_width or self.vector_width) if self.elements.digits else 1

    @property
    def vector_bits(self) -> int:
        return self.vector_width * self.elements[self.names[0]].buffer.dtype.bits

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, count per thread) of the accesses to whole vectors, without those to parts of vectors."""
        if self.is_async:
            return ((COPIES.row(Copy(self.vector_bits // 8)).mnemonic, self.rounds),)
        dst, *inputs = self.names
        widths = {name: 1 if name in self.single else self.vector_width for name in self.names}
        accesses = [*(("ld", name) for name in inputs), ("st", dst)]
        return tuple((self.elements[name].access(verb, widths[name]), self.rounds) for verb, name in accesses)

    def edges(self, name: str) -> Edges:
        return Edges.of(self.elements[name], self.vector_width)

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(view.placement.region for view in self.vectors.views)

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(0 if name in self.single else 1 for name in self.names)

    def vector(self, thread: Expr, iteration: Expr) -> Expr:
        return build.add(build.mul(iteration, self.threads), thread)

    def is_active(self, thread: Expr, iteration: Expr) -> Expr:
        return build.less(self.vector(thread, iteration), self.count)

    def places(self, thread: Expr, iteration: Expr) -> tuple[Expr, ...]:
        return tuple(view.address(self.vector(thread, iteration)) for view in self.vectors.views)

    def width_of(self, thread: Expr, iteration: Expr) -> Expr:
        if self.tail == self.vector_width:
            return build.const(self.vector_width, int32)
        values = self.vectors.digits_of(self.vector(thread, iteration))
        widths = (build.const(width, int32) for width in (self.vector_width, self.tail))
        return build.where(self.is_whole(values), *widths)

    def is_whole(self, values: Sequence[Expr]) -> Expr:
        """Return the condition that the vector at these digits isn't the last of its run, which may be partial."""
        return build.less(values[-1], self.vectors.digits[-1].extent - 1)


def _ordered(schedule: DigitSchedule, lead: str) -> DigitSchedule:
    """Sort digits by descending absolute stride in `lead`.

    With run-time strides there, only move the digit of stride 1 to the end; with folded strides, keep the order.
    """
    if schedule.folded:
        return schedule
    if any(isinstance(digit.strides[lead], Scaled) for digit in schedule.digits):
        return schedule.ordered(lambda digit: digit.strides[lead] != 1)
    # a broadcast digit must not be the fastest
    return schedule.ordered(lambda digit: abs(digit.elements(lead)) or float("inf"))


def each_vector(
    plan: Partition, op: TileOp, b: Builder, *, unrolled: bool = False, twice: bool = True
) -> Iterator[Mapping[str, MaskedVector]]:
    """Yield a thread's vector in every operand, in a loop over the iterations.

    The caller emits its code at each yield: separately for regions inside their tensors and at their edges, for the
    loop and the partial last iteration, and for each piece of a partial vector.
    twice: False if regions inside their tensors get no separate code.
    """
    thread = b.thread(op.scope, plan.threads)
    addresses = {name: _addresses(plan, name, thread, b) for name in plan.names}
    if twice:
        masked = at_edges(b, plan.elements.views, plan.vector_width, plan.rounds)
    else:
        # with 64-bit tests in its loop the product of `examples/matmul.py` is 2 to 7 % slower (H100, bench_matmul.py)
        masked = iter([{name: plan.edges(name).clamped(b) for name in plan.names}])
    for masks in masked:
        for first in _first_vectors(plan, b, thread, unrolled):
            values = plan.vectors.digits_of(build.add(first, thread))
            every = [(view, masks[view.name], addresses[view.name](first)) for view in plan.vectors.views]
            if plan.tail == plan.vector_width:
                yield _part(plan, every, values, 0, plan.vector_width)
                continue
            with b.either(plan.is_whole(values)) as otherwise:
                yield _part(plan, every, values, 0, plan.vector_width)
                with otherwise:
                    for start, width in pieces(plan.tail):
                        yield _part(plan, every, values, start, width)


def _first_vectors(plan: Partition, b: Builder, thread: Expr, unrolled: bool) -> Iterator[Expr]:
    """Yield the vector of thread 0 in each iteration, in a loop; the last iteration may be partial."""
    whole, partial = divmod(plan.count, plan.threads)
    if whole <= WRITTEN_OUT:
        for iteration in range(whole):
            yield build.const(iteration * plan.threads, int32)
    else:
        with b.loop("round", whole, unrolled=unrolled) as at:
            yield build.mul(at, plan.threads)
    if partial:
        with b.when(build.less(thread, partial)):
            yield build.const(whole * plan.threads, int32)


def _part(
    plan: Partition, every: Sequence[tuple[View, Edges, Expr]], values: Sequence[Expr], start: int, width: int
) -> Mapping[str, MaskedVector]:
    """Return elements [start, start + width) of a vector in every operand, or the element that is broadcast.

    every: each operand's view, mask and address of the vector. values: those of the digits that count vectors.
    """
    vectors: dict[str, MaskedVector] = {}
    for view, mask, address in every:
        part = (0, 1) if view.name in plan.single else (start, width)
        vectors[view.name] = MaskedVector(view, mask, address, lambda: values, *part)
    return vectors


def copy_vectors(plan: Partition, op: TileOp, b: Builder) -> None:
    """Emit a copy whose vectors are loaded from "src" into registers and stored to "dst"."""
    width, fill = plan.vector_width, fill_value(op)
    registers = Vector(b.scratch(op.name, plan.elements["dst"].buffer.dtype, width), build.const(0, int32), width)
    for vectors in each_vector(plan, op, b):
        vectors["src"].load(b, registers, fill)
        vectors["dst"].store(b, registers)


def _addresses(plan: Partition, name: str, thread: Expr, b: Builder) -> Callable[[Expr], Expr]:
    """Return a function from the first vector of an iteration to the swizzled address of the thread's vector."""
    view = plan.vectors[name]
    if plan.rounds > 1 and not view.adds_up(plan.threads, plan.rounds * plan.threads):
        return lambda first: view.address(build.add(first, thread))
    # in all threads, later vectors have the same offsets from the thread's first one
    plain = view.located(thread)
    base = b.let("dst" if name == plan.names[0] else "src", view.swizzled(plain))

    def address(first: Expr) -> Expr:
        is_first = isinstance(first, Const) and first.value == 0
        return base if is_first else view.advanced(base, plain, view.steps(first))

    return address
