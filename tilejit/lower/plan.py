"""What every variant's plan says of itself: figures for listings, and what it moves, for the proof."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

__all__ = ["TMEM_LANE", "JointAccess", "Facts", "Moves", "Plan", "Products", "VectorPlan"]

Array = np.ndarray

#: from one lane of tensor memory to the next, in places of `Moves`; columns count below it
TMEM_LANE = 1 << 16


@dataclass(frozen=True, slots=True)
class Facts:
    """A plan's figures.

    width: what one transfer moves, as text, "-" where a plan has no transfers.
    rounds: transfers of a thread, or instructions of a warp.
    vector_bits: of one transfer's memory access; None where widths don't matter. limit: why it isn't wider, or "".
    """

    width: str
    rounds: int
    vector_bits: int | None = None
    limit: str = ""

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
    """What the threads of one scope move or compute, a row a transfer.

    issue, thread: which transfer of which thread of the scope; each of shape (rows,).
    places: of shape (rows, sides), where the first element lies on each side. The sides are the operation's tiles in
    its order, the destination first. A place in memory is an address in elements, after swizzling; in registers
    one of the thread's, in elements; in tensor memory lane * TMEM_LANE + column, in elements.
    width: of shape (rows,), how many elements.
    steps: for each side how far a transfer's elements lie apart: 1, or 0 where one element serves them all.
    accesses: a side's memory accesses where they aren't the rows themselves, at most one for each side.
    Run-time starts count as 0, run-time strides as `launch_values` says; what lies past a tensor's edge is included.
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
    of the instruction: the same for every thread.
    """

    m: int
    n: int
    k: int
    bits: int
    threads: int
    acc: Array
    a: Array
    b: Array


class Plan(ABC):
    """How a variant carries out one operation: frozen and printable."""

    __slots__ = ()

    @property
    @abstractmethod
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(PTX mnemonic, trips a thread)."""

    @abstractmethod
    def facts(self) -> Facts:
        """The figures that listings show and `require_bits` reads."""

    @abstractmethod
    def moves(self) -> Moves | Products:
        """All that is moved, or multiplied, for `proof.prove`."""

    @abstractmethod
    def schedule(self) -> Array:
        """A table for users; what its columns are depends on the variant."""


@dataclass(frozen=True, slots=True)
class VectorPlan(Plan):
    """A plan in which each thread moves or computes vectors, one a round.

    vector_width: elements of a vector. rounds: vectors a thread, at most. threads: of the scope.
    limit: why vectors aren't wider, "" where nothing keeps them from it.
    """

    vector_width: int
    rounds: int
    threads: int
    limit: str

    @property
    def vector_bits(self) -> int | None:
        """Bits of a memory access; None of work in registers."""
        return None

    def facts(self) -> Facts:
        width = "1 element" if self.vector_width == 1 else f"{self.vector_width} elements"
        return Facts(width, self.rounds, self.vector_bits, self.limit)

    @abstractmethod
    def moves(self) -> Moves: ...

    def schedule(self) -> Array:
        """One row a vector: (round, thread, place on each source ..., place on the destination).

        Run-time starts count as 0; run-time strides as those of a row-major tensor.
        """
        moves = self.moves()
        return np.column_stack([moves.issue, moves.thread, moves.places[:, 1:], moves.places[:, 0]])
