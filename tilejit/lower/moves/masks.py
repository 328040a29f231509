"""Masks of vectors: read from registers, or computed from the indices of the elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ...dataclass import dataclass
from ...dtypes import int32
from ...ir.arithmetic import build, runs
from ...ir.nodes import TRUE, Buffer, Expr, Load, TileOp, Var, Vector
from ..builder import Builder
from ..rematerialized import Recomputed, along


class VectorMask(ABC):
    """The elements of one vector that an operation's mask includes."""

    __slots__ = ()

    @property
    @abstractmethod
    def varies(self) -> bool:
        """True if the mask may include some elements of the vector but not others."""

    @abstractmethod
    def at(self, step: Expr) -> Expr:
        """Return the condition that the mask includes element `step`."""

    @abstractmethod
    def throughout(self, width: int) -> Expr:
        """Return the condition that the mask includes all of the first `width` elements."""


@dataclass(frozen=True, slots=True)
class ReadMask(VectorMask):
    """A mask in bool registers: from `first` on, `apart` registers apart. apart: 0 if all elements share a register."""

    buffer: Buffer
    first: Expr
    apart: int

    @property
    def varies(self) -> bool:
        return self.apart != 0

    def at(self, step: Expr) -> Expr:
        return Load(Vector(self.buffer, build.add(self.first, build.mul(step, self.apart))))

    def throughout(self, width: int) -> Expr:
        every: Expr = TRUE
        for k in range(width if self.varies else 1):
            every = build.logical_and(every, self.at(build.const(k, int32)))
        return every


@dataclass(frozen=True, slots=True)
class ComputedMask(VectorMask):
    """A mask that is a condition on the element's position `step` in its vector."""

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
    def of(op: TileOp, recomputed: Recomputed | None) -> IndexCondition | None:
        """Return the condition of a copy's mask; None if it has no mask or the mask must be read from registers."""
        if recomputed is None or "mask" not in op.options:
            return None
        mask = op.region("mask")
        shape = op.region("dst").shape
        extents = [n for n in shape if n != 1]
        index = tuple([Var(f"index.{d}", int32, bounds=(0, n - 1)) for d, n in enumerate(extents)])
        cond = recomputed.element(mask, along(mask.shape, shape, index))
        return None if cond is None else IndexCondition(cond, index)

    def is_tested_by_ends(self, dim: int, width: int) -> bool:
        """True if a mask includes `width` adjacent elements along `dim` whenever it includes the first and the last."""
        return runs.by_ends(self.cond, self.index[dim], width) is not None

    def of_vector(self, first: Sequence[Expr], dim: int, step: int, width: int, b: Builder) -> ComputedMask:
        """Return the mask of a vector along dimension `dim`, its elements `step` apart, from the index `first` on."""
        number = Var(b.name("step"), int32, bounds=(0, width - 1))
        cond = self.cond
        for d, (var, at) in enumerate(zip(self.index, first, strict=True)):
            # named without bounds, because the index of padding exceeds the extent
            at = b.let("index", at)
            cond = runs.at(cond, var, build.add(at, build.mul(number, step)) if d == dim else at)
        return ComputedMask(cond, number)
