"""What part of a region lies inside its tensor, counted in the region: worked out once, in 32 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...dtypes import int32, int64, uint32
from ...ir import build, facts
from ...ir.nodes import Expr
from ..builder import Builder
from .addresses import extent_of, index_within
from .placement import Side
from .schedule import Atom

__all__ = ["Window", "windows"]


@dataclass(frozen=True, slots=True)
class Window:
    """In one dimension coordinates [first, end) of a region lie inside the tensor.

    dim: the region's dimension, None where it has one coordinate, 0.
    """

    dim: int | None
    first: Expr
    end: Expr

    def coordinate(self, atoms: Sequence[Atom], values: Sequence[Expr]) -> Expr:
        """The coordinate at digits `values` of `atoms`."""
        return build.const(0, int32) if self.dim is None else index_within(self.dim, atoms, values, int32)

    def holds(self, at: Expr) -> Expr:
        """Whether a coordinate lies in the window: one comparison, for what lies before it is a great unsigned one."""
        if self.first == build.const(0, int32):
            return build.less(at, self.end)
        past, size = build.sub(at, self.first), build.sub(self.end, self.first)
        return build.less(build.cast(past, uint32), build.cast(size, uint32))

    def left(self, at: Expr, width: int) -> Expr:
        """How many of `width` coordinates from `at` on lie before the window's end."""
        return build.minimum(build.maximum(build.sub(self.end, at), 0), width)


def windows(side: Side, dims: Sequence[int], b: Builder) -> tuple[Window, ...]:
    """The windows of a region in dimensions `dims` of its buffer."""
    return tuple(_window(side, d, b) for d in dims)


def _window(side: Side, d: int, b: Builder) -> Window:
    start = build.cast(side.region.starts[d], int64)
    most = side.region.extents[d] or 1
    low = facts.bounds(start)[0]
    first = build.const(0, int32) if low is not None and low >= 0 else _clamped(build.neg(start), most)
    end = _clamped(build.sub(extent_of(side, d), start), most)
    dim = side.places.index(d) if d in side.places else None
    return Window(dim, b.let("first", first), b.let("end", end))


def _clamped(x: Expr, most: int) -> Expr:
    return build.cast(build.minimum(build.maximum(x, 0), most), int32)
