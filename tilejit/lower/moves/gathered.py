"""Addresses of gathered regions, whose boxes are selected by an index.

    E.at(tokens)[:, 0:64], a row of E for each of 32 tokens, to the registers of a CTA of 128 threads

    digit                      token        quarter      element
    stride in "registers"      Thread(4)    Thread(1)    1
    stride in "memory"         -            16           1            plus the token times E's row stride
    stride in "index"          Thread(4)    -            -
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from ...dataclass import dataclass
from ...dtypes import int64
from ...ir.arithmetic import build
from ...ir.nodes import Expr, Load, Region, TileOp, Vector
from ..builder import Builder
from ..schedule.placement import gathered_offsets
from ..schedule.strides import total_along
from ..schedule.windows import each_inside


@dataclass(frozen=True, slots=True)
class Index:
    """The index of a gathered region. scalar: None if the index is a tile in registers."""

    region: Region
    scalar: Expr | None

    @staticmethod
    def of(op: TileOp) -> Index | None:
        gathered, index = op.gathered, op.index
        return None if gathered is None else Index(gathered, None if isinstance(index, Region) else index)

    def number(self, b: Builder, register: Vector | None) -> Expr:
        """Return the index of a vector's box. register: holds the index; None if the index is a scalar."""
        value = self.scalar
        if value is None:
            assert register is not None, "an index that is a tile is an operand of the schedule"
            value = Load(register)
        return b.let("index", build.cast(value, int64))

    def distance(self, number: Expr) -> Expr:
        """Return the distance of box `number` from box 0, in elements before swizzling."""
        terms = [(offset.stride, offset.index) for offset in gathered_offsets(self.region, number)]
        return total_along(terms, self.region.buffer.index_dtype)

    def checks(self, b: Builder) -> AbstractContextManager[Callable[[Expr, Expr], None]]:
        """Return a context that on exit emits an assertion that examined indices are in bounds; see `each_inside`."""
        gathered = self.region.gathered
        assert gathered is not None, "the region isn't gathered"
        return each_inside(b, self.region, gathered.dim)
