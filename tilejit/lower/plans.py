"""What a variant says of how it carries out an operation: a `Plan`.

It says what `explain` shows, its `Facts`, and what is moved, its `Moves`, which `proof/` compares with the layouts.
Of a `VectorPlan` both follow from where its vectors begin.

    round    one pass of a loop over vectors: every thread of the scope that takes part moves or computes one
    turn     one thread in one round: `Iterations` has them all
    issue    an instruction that a warp carries out together, such as ldmatrix, counted along the plan
    row      of `Moves`, a piece that one thread moves: the vector of a turn, or one of several pieces of an issue
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ..dataclass import dataclass
from ..dtypes import int32
from ..ir.arithmetic import build
from ..ir.nodes import TRUE, Expr, Region, TileOp
from .schedule.iterations import Iterations

__all__ = [
    "AllMoves", "Array", "Facts", "Folds", "JointAccess", "Moves", "Passes", "Plan", "Products", "Reductions",
    "SharedFactor", "Staged", "VectorPlan", "WarpgroupProducts",
]

Array = np.ndarray


class Plan(ABC):
    """How a variant carries out one operation: frozen and printable."""

    __slots__ = ()

    @property
    @abstractmethod
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(PTX mnemonic, times a thread)."""

    @abstractmethod
    def facts(self) -> Facts:
        """The figures that listings show and `require_bits` reads."""

    @abstractmethod
    def moves(self) -> AllMoves:
        """All that is moved, multiplied or combined, for `proof.prove`."""

    @abstractmethod
    def schedule(self) -> Array:
        """A table for users; what its columns are depends on the variant."""


@dataclass(frozen=True, slots=True)
class VectorPlan(Plan):
    """A plan in which each thread moves or computes vectors, one a round.

    vector_width: elements of a vector. rounds: vectors a thread, at most. threads: of the scope.
    limit: why vectors aren't wider, "" where nothing keeps them from it.
    A subclass that extends a method names its base, as `VectorPlan.moves(self)`: until Python 3.14 `super()` in a
    dataclass with slots means the class before it got them, and raises TypeError.
    """

    vector_width: int
    rounds: int
    threads: int
    limit: str

    @property
    @abstractmethod
    def regions(self) -> tuple[Region, ...]:
        """The operation's tiles, the destination first."""

    @abstractmethod
    def places(self, thread: Expr, round: Expr) -> tuple[Expr, ...]:
        """Where the vector of a thread in a round begins in each tile: its address, swizzled, or its register."""

    def is_active(self, thread: Expr, round: Expr) -> Expr:
        """Whether a thread moves or computes anything in a round."""
        return TRUE

    def width_of(self, thread: Expr, round: Expr) -> Expr:
        """How many elements a thread's vector in a round has."""
        return build.const(self.vector_width, int32)

    @property
    def steps(self) -> tuple[int, ...]:
        """For each tile how far a vector's elements lie apart: 1, or 0 where one element serves them all."""
        return (1,) * len(self.regions)

    @property
    def vector_bits(self) -> int | None:
        """Bits of a memory access; None of work in registers."""
        return None

    def facts(self) -> Facts:
        width = "1 element" if self.vector_width == 1 else f"{self.vector_width} elements"
        return Facts(width, self.rounds, self.vector_bits, self.limit)

    def moves(self) -> Moves:
        """What the expressions come to, for every round of every thread."""
        iterations = Iterations(self.rounds, self.threads, self.regions)
        rows = iterations.holding(self.is_active(*iterations.variables))
        places = iterations.values(*self.places(*iterations.variables))[rows]
        (width,) = iterations.values(self.width_of(*iterations.variables))[rows].T
        return Moves(iterations.rounds_of[rows], iterations.threads_of[rows], places, width, self.steps)

    def schedule(self) -> Array:
        """One row a vector: (round, thread, place on each source ..., place on the destination).

        Run-time starts are as near to 0 as they may be; run-time strides as those of a row-major tensor.
        """
        moves = self.moves()
        return np.column_stack([moves.issue, moves.thread, moves.places[:, 1:], moves.places[:, 0]])


@dataclass(frozen=True, slots=True)
class Facts:
    """A plan's figures.

    width: what one transfer moves, as text, "-" where a plan has no transfers.
    rounds: of a loop over vectors, or instructions of a warp.
    vector_bits: of one transfer's memory access; None where widths don't matter. limit: why it isn't wider, or "".
    cuts: which vectors go element by element, or "".
    """

    width: str
    rounds: int
    vector_bits: int | None = None
    limit: str = ""
    cuts: str = ""

    def __str__(self) -> str:
        return f"{self.width} in {self.rounds} rounds" + (f" (not wider: {self.limit})" if self.limit else "")


@dataclass(frozen=True, slots=True)
class JointAccess:
    """What several threads read or write together, or one for all: pieces of one side's memory.

    side: which tile of the operation. starts: addresses in elements. width: elements of each piece.
    align: of what each address must be a multiple, in elements.
    """

    side: int
    starts: Array
    width: int
    align: int


@dataclass(frozen=True, slots=True)
class Moves:
    """What the threads of one scope move or compute, a row for each piece that a thread moves.

    issue, thread: in which round, or by which of a warp's instructions, and by which thread of the scope; each of
    shape (rows,). An instruction that moves several pieces of a thread's has a row for each.
    places: of shape (rows, sides), where the first element lies on each side. The sides are the operation's tiles in
    its order, the destination first. A place in memory is an address in elements, after swizzling; in registers
    one of the thread's, in elements; in tensor memory lane * `target.TMEM_LANE` + column, in elements.
    width: of shape (rows,), how many elements.
    steps: for each side how far a row's elements lie apart: 1, or 0 where one element serves them all.
    accesses: a side's memory accesses where they aren't the rows themselves, at most one for each side.
    Run-time starts are as near to 0 as they may be, run-time strides as `launch_values` says; what lies past a
    tensor's edge is included.
    """

    issue: Array
    thread: Array
    places: Array
    width: Array
    steps: tuple[int, ...]
    accesses: tuple[JointAccess, ...] = ()

    def __post_init__(self) -> None:
        rows = len(self.issue)
        assert self.thread.shape == self.width.shape == (rows,)
        assert self.places.shape == (rows, len(self.steps))
        sides = [access.side for access in self.accesses]
        assert len(set(sides)) == len(sides) and set(sides) <= set(range(len(self.steps)))


@dataclass(frozen=True, slots=True)
class Products:
    """Which registers a warp's tensor instructions take, a row an instruction.

    m, n, k, bits: the instruction's shape, and the bits of a factor's element. threads: of the scope.
    acc, a, b: of shape (instructions, elements), the register of each element of a thread's fragments, in the order
    of the instruction: the same for every thread; -1 for sums that have no register of the accumulator.
    a_zeros, b_zeros: of shape (threads, instructions, elements), which elements count as 0, whatever the register has.
    """

    m: int
    n: int
    k: int
    bits: int
    threads: int
    acc: Array
    a: Array
    b: Array
    a_zeros: Array
    b_zeros: Array


@dataclass(frozen=True, slots=True)
class SharedFactor:
    """A factor that products read in shared memory. descriptors: of each, the buffer beginning at address 0.

    is_mn_major: rows of A, or columns of B, lie together.
    """

    descriptors: Array
    is_mn_major: bool


@dataclass(frozen=True, slots=True)
class WarpgroupProducts:
    """Which registers and memory a warpgroup's tensor instructions take, a row an instruction of 64 x n by k.

    acc, a: of shape (instructions, elements), the register of each element of a thread's fragments, in the order of the
    instruction: the same for every thread.
    """

    n: int
    k: int
    acc: Array
    a: Array | SharedFactor
    b: SharedFactor


@dataclass(frozen=True, slots=True)
class Reductions:
    """Which elements a reduction combines.

    dst: of shape (results,), each result's register. src: of shape (results, values), the registers of which a thread
    makes it. taken: of shape (threads, values), whether a thread takes these registers. partners: of shape
    (threads, partners), the threads whose values become each thread's result, itself among them.
    """

    dst: Array
    src: Array
    taken: Array
    partners: Array


@dataclass(frozen=True, slots=True)
class Folds:
    """Which elements a reduction combines, in which order.

    dst: of shape (values, results), each result's register of each value that is combined. src: of shape
    (values, results, slots), the registers that it is made of. order: of shape (threads, length), for each thread what
    its results are made of, in order: thread * slots + slot, and -1 where there is nothing.
    """

    dst: Array
    src: Array
    order: Array


@dataclass(frozen=True, slots=True)
class Passes:
    """What the threads of warps pass to each other, a row a round.

    sent, kept: of shape (rounds, threads), the first register of the source that each thread sends, and of the
    destination in which each keeps what it receives. sender: of the same shape, the thread from which it receives.
    width: elements of each.
    """

    sent: Array
    sender: Array
    kept: Array
    width: int


@dataclass(frozen=True, slots=True)
class Staged:
    """Operations that follow each other, each with its plan: what one writes the next one reads."""

    steps: tuple[tuple[TileOp, Plan], ...]


#: all that a plan moves
AllMoves = Moves | Products | WarpgroupProducts | Reductions | Folds | Passes | Staged
