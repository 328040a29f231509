"""Plans: how a variant carries out an operation.

A plan has `Facts`, which `explain` shows, and `Moves`, which `draw` shows. The proof uses neither. A `VectorPlan`
derives the moves from the start offsets of its vectors.

    iteration    one pass of the loop over vectors, in which each active thread moves or computes one vector
    issue        one iteration, or one warp-wide instruction, such as ldmatrix, numbered in the order of the plan
    row          of `Moves`: a piece that one thread moves, which is a vector or one of several pieces of an issue
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from ..dataclass import dataclass
from ..dtypes import int32
from ..ir.arithmetic import build
from ..ir.arithmetic.evaluate import evaluate
from ..ir.nodes import TRUE, Expr, Region, Strided, TileOp, Var
from ..wording import counted

Array = np.ndarray


class Plan(ABC):
    """A variant's plan for one operation; immutable and printable."""

    __slots__ = ()

    @property
    def ranks(self) -> Sequence[Mapping[str, int]]:
        """The special registers of each CTA of a cluster that carries out a part of the operation."""
        return ({},)

    @property
    @abstractmethod
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(name, count per thread) of each instruction. A name is a PTX mnemonic, or an operation and its type."""

    def facts(self) -> Facts:
        """Return the figures that listings show and `require_bits` checks; by default, the last instruction's count."""
        return Facts("-", self.instructions[-1][1])

    def moves(self) -> Moves | None:
        """Return the elements that the plan moves, for pictures; None if it doesn't move them one by one."""
        return None

    def stages(self, op: TileOp) -> Sequence[tuple[TileOp, Plan]]:
        """Return the consecutive operations that carry out `op`, each with its plan."""
        return ((op, self),)

    @abstractmethod
    def schedule(self) -> Array:
        """Return a table of the plan for users; its columns depend on the variant."""


@dataclass(frozen=True, slots=True)
class VectorPlan(Plan):
    """A plan in which each thread moves or computes at most one vector per iteration.

    vector_width: in elements. rounds: number of iterations, the largest number of vectors of any thread. threads:
    number of threads of the scope. limit: why vectors aren't wider, or "".
    A subclass that extends a method calls it as `VectorPlan.moves(self)`: before Python 3.14 `super()` in a dataclass
    with slots refers to the class before slots were added, and raises TypeError.
    """

    vector_width: int
    rounds: int
    threads: int
    limit: str

    @property
    @abstractmethod
    def regions(self) -> tuple[Region, ...]:
        """The operation's tiles, destination first."""

    @abstractmethod
    def places(self, thread: Expr, iteration: Expr) -> tuple[Expr, ...]:
        """Return the start of a thread's vector in each tile: its swizzled address, or its register."""

    def is_active(self, thread: Expr, iteration: Expr) -> Expr:
        """Return the condition under which a thread moves or computes anything in an iteration."""
        return TRUE

    def width_of(self, thread: Expr, iteration: Expr) -> Expr:
        return build.const(self.vector_width, int32)

    @property
    def steps(self) -> tuple[int, ...]:
        """The distance between adjacent elements of a vector in each tile: 1, or 0 if one element is broadcast."""
        return (1,) * len(self.regions)

    @property
    def vector_bits(self) -> int | None:
        """Bits of an access to the first tile in memory; None for work in registers."""
        sizes = [region.dtype.bits for region in self.regions if region.buffer.space != "local"]
        return self.vector_width * sizes[0] if sizes else None

    def facts(self) -> Facts:
        width = "1 element" if self.vector_width == 1 else f"{self.vector_width} elements"
        return Facts(width, self.rounds, self.vector_bits, self.limit)

    def moves(self) -> Moves:
        """Return the moves, from the plan's expressions evaluated for every iteration of every thread."""
        iterations = Iterations(self.rounds, self.threads, self.regions)
        rows = iterations.holding(self.is_active(*iterations.variables))
        places = iterations.values(*self.places(*iterations.variables))[rows]
        (width,) = iterations.values(self.width_of(*iterations.variables))[rows].T
        return Moves(iterations.rounds_of[rows], iterations.threads_of[rows], places, width, self.steps)

    def schedule(self) -> Array:
        """Return one row per vector: (iteration, thread, place on each source ..., place on the destination).

        Variables in starts take their possible values nearest 0; run-time strides are those of `launch_values`.
        """
        moves = self.moves()
        return np.column_stack([moves.issue, moves.thread, moves.places[:, 1:], moves.places[:, 0]])


@dataclass(frozen=True, slots=True)
class Facts:
    """The figures that listings show about a plan."""

    #: the size or shape of one transfer, such as "4 elements"; "-" if not applicable
    width: str
    #: number of iterations over vectors, of instructions or of results, by variant
    rounds: int
    #: bits moved at a time, compared with `require_bits`; None if widths don't matter
    vector_bits: int | None = None
    #: why vectors aren't wider, or ""
    limit: str = ""
    #: the vectors that are moved element by element, or ""
    cuts: str = ""

    def __str__(self) -> str:
        limit = f" (not wider: {self.limit})" if self.limit else ""
        return f"{self.width} in {counted(self.rounds, 'round')}{limit}"


@dataclass(frozen=True, slots=True)
class Moves:
    """The elements that the threads of a scope move or compute, one row per piece that a thread moves.

    Variables in starts take their possible values nearest 0; run-time strides are those of `launch_values`. Elements
    past a tensor's edge are included.
    """

    #: the iteration, or the index of a warp's instruction, of shape (rows,)
    issue: Array
    #: the thread's index in the scope, of shape (rows,); if one thread sends and another receives, of (rows, sides)
    thread: Array
    #: the first element on each side, of shape (rows, sides), destination first. In memory this is an address in
    #: elements, after swizzling; in registers, the index in the thread's tile; in tensor memory,
    #: lane * `target.TMEM_LANE` + column, in elements.
    places: Array
    #: elements of each piece, of shape (rows,)
    width: Array
    #: distance between adjacent elements of a piece on each side: 1, or 0 if one element is broadcast
    steps: tuple[int, ...]

    def __post_init__(self) -> None:
        rows = len(self.issue)
        assert self.places.shape == (rows, len(self.steps)) and self.width.shape == (rows,)
        assert self.thread.shape in (self.width.shape, self.places.shape)

    def elements(self, issue: int) -> tuple[Array, Array]:
        """Return (thread, place) on each side of each element moved in one issue, of shape (elements, sides)."""
        rows = self.issue == issue
        width = self.width[rows]
        step = np.arange(width.sum()) - np.repeat(np.cumsum(width) - width, width)
        places = np.repeat(self.places[rows], width, axis=0) + step[:, None] * np.array(self.steps)
        threads = np.repeat(self.thread[rows].reshape(len(width), -1), width, axis=0)
        return np.broadcast_to(threads, places.shape), places


@dataclass(frozen=True, slots=True)
class Folds:
    """The elements that a reduction of one or several tiles by a user's function combines, in order.

    dst: the register of each result, of shape (tiles, results). src: the registers combined for it, of shape (tiles,
    results, slots). order: the slots whose elements are combined into each thread's results, as thread * slots + slot,
    of shape (threads, length), padded with -1.
    """

    dst: Array
    src: Array
    order: Array


@dataclass(frozen=True, slots=True)
class Iterations:
    """All pairs of an iteration and a thread of a scope, as rows ordered by iteration.

    A plan's expressions are evaluated for all of them at once, at compile time.
    """

    rounds: int
    threads: int
    #: regions whose run-time strides get placeholder values, those of `launch_values`
    regions: Sequence[Region] = ()

    @property
    def round(self) -> Var:
        return Var("iterations.round", int32, bounds=(0, max(self.rounds - 1, 0)))

    @property
    def thread(self) -> Var:
        return Var("iterations.thread", int32, bounds=(0, self.threads - 1))

    @property
    def variables(self) -> tuple[Var, Var]:
        return self.thread, self.round

    @property
    def rounds_of(self) -> Array:
        return np.arange(self.rounds * self.threads, dtype=np.int64) // self.threads

    @property
    def threads_of(self) -> Array:
        return np.arange(self.rounds * self.threads, dtype=np.int64) % self.threads

    def values(self, *exprs: Expr) -> Array:
        """Evaluate expressions of `thread` and `round` in each row; the result has shape (rows, expressions)."""
        names: dict[str, Array | int] = {**launch_values(self.regions)}
        names |= {"iterations.round": self.rounds_of, "iterations.thread": self.threads_of}
        shape = (self.rounds * self.threads,)
        return np.stack([np.broadcast_to(evaluate(expr, names), shape) for expr in exprs], axis=1)

    def holding(self, cond: Expr) -> Array:
        """Return the indices of the rows for which `cond` holds."""
        return np.flatnonzero(self.values(cond)[:, 0])


def launch_values(regions: Sequence[Region]) -> dict[str, int]:
    """Return placeholder values of run-time strides by name, so that plans can be evaluated at compile time.

    The values are those of contiguous tensors padded to the strides' known multiples, with extents of the regions in
    place of run-time extents.
    """
    values: dict[str, int] = {}
    for region in regions:
        layout = region.buffer.layout
        if isinstance(layout, Strided):
            values.update(_strides(region, layout))
    return values


def _strides(region: Region, layout: Strided) -> dict[str, int]:
    values: dict[str, int] = {}
    size = 1
    order = sorted(range(len(layout.strides)), key=lambda d: (d == layout.unit_dim, d))
    for d in reversed(order):
        stride, extent = layout.strides[d], region.buffer.shape[d]
        reach = extent if isinstance(extent, int) else region.counts[d]
        if isinstance(stride, Var):
            multiple = max(stride.multiple_of, 1)
            size = -(-size // multiple) * multiple
            values[stride.name] = size
        size = max(size, (size if isinstance(stride, Var) else stride) * reach)
    return values
