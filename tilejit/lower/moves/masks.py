"""Which elements of a vector a mask has: read from its registers, or computed from their indices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ...dataclass import dataclass
from ...dtypes import int32
from ...ir.arithmetic import build, runs
from ...ir.nodes import TRUE, Buffer, Expr, Load, TileOp, Var, Vector
from ..builder import Builder
from ..rematerialized import Recomputed, along

__all__ = ["ComputedMask", "IndexCondition", "ReadMask", "VectorMask"]


class VectorMask(ABC):
    """Which elements of one vector are accessed."""

    __slots__ = ()

    @property
    @abstractmethod
    def varies(self) -> bool:
        """Whether elements of the vector may differ."""

    @abstractmethod
    def at(self, step: Expr) -> Expr:
        """Whether element number `step` is."""

    @abstractmethod
    def throughout(self, width: int) -> Expr:
        """Whether the first `width` elements all are."""


@dataclass(frozen=True, slots=True)
class ReadMask(VectorMask):
    """A mask in registers of bool_: from `first` on, `apart` for neighbours; 0 where one serves them all."""

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
    """A mask that follows from the element's number, `step`, in its vector."""

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
    """A mask as a condition on an element's index: one variable for each dimension without those of extent 1."""

    cond: Expr
    index: tuple[Var, ...]

    @staticmethod
    def of(op: TileOp, recomputed: Recomputed | None) -> IndexCondition | None:
        """That of a copy's mask; None where it has none, or one whose registers must be read."""
        if recomputed is None or "mask" not in op.options:
            return None
        mask = op.region("mask")
        shape = op.region("dst").shape
        extents = [n for n in shape if n != 1]
        index = tuple([Var(f"index.{d}", int32, bounds=(0, n - 1)) for d, n in enumerate(extents)])
        cond = recomputed.element(mask, along(mask.shape, shape, index))
        return None if cond is None else IndexCondition(cond, index)

    def is_tested_by_ends(self, dim: int, width: int) -> bool:
        """Whether `width` neighbours along a dimension need no more tests than that of the first and the last."""
        return runs.by_ends(self.cond, self.index[dim], width) is not None

    def of_vector(self, first: Sequence[Expr], dim: int, step: int, width: int, b: Builder) -> ComputedMask:
        """The mask of a vector along dimension `dim`, `step` apart in it, whose first element's index is given."""
        number = Var(b.name("step"), int32, bounds=(0, width - 1))
        cond = self.cond
        for d, (var, at) in enumerate(zip(self.index, first, strict=True)):
            # padding lies past the extent
            at = b.let("index", at)
            cond = runs.at(cond, var, build.add(at, build.mul(number, step)) if d == dim else at)
        return ComputedMask(cond, number)
