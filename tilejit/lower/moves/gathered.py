"""Where the boxes of a gathered region lie: what its index says, vector by vector.

    E.at(tokens)[:, 0:D], a row of E for each of 32 tokens, to the registers of a CTA

    digit                      token        quarter      element
    stride in "registers"      Thread(4)    Thread(1)    1
    stride in "memory"         -            16           1            and number * D, of the token's number
    stride in "index"          Thread(1)    -            -
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...dataclass import dataclass
from ...dtypes import bool_, int64
from ...ir.arithmetic import build
from ...ir.checks.indices import title
from ...ir.nodes import Assert, Assign, Declare, Expr, Load, Region, TileOp, Var, Vector
from ..builder import Builder
from ..schedule.placement import extent_of, gathered_offsets
from ..schedule.strides import total_along

__all__ = ["Index"]


@dataclass(frozen=True, slots=True)
class Index:
    """By which numbers a region is gathered.

    region: the gathered one. scalar: the one number, None where registers hold several.
    """

    region: Region
    scalar: Expr | None

    @staticmethod
    def of(op: TileOp) -> Index | None:
        """That of an operation; None where no region of it is gathered."""
        gathered, index = op.gathered, op.index
        return None if gathered is None else Index(gathered, None if isinstance(index, Region) else index)

    def number(self, b: Builder, register: Vector | None) -> Expr:
        """The number that says where a vector lies. register: the one that holds it."""
        value = self.scalar
        if value is None:
            assert register is not None, "an index that is a tile is an operand of the schedule"
            value = Load(register)
        return b.let("index", build.cast(value, int64))

    def distance(self, number: Expr) -> Expr:
        """How far the box of a number lies from that of 0, before swizzling."""
        terms = [(offset.stride, offset.index) for offset in gathered_offsets(self.region, number)]
        return total_along(terms, self.region.buffer.index_dtype)

    @contextmanager
    def checks(self, b: Builder) -> Iterator[Callable[[Expr, Expr], None]]:
        """Asserts at its end that each number which is examined lies inside.

        The statements inside tell it of each: the number, and whether it is examined. One assertion for all costs less
        than one each.
        """
        gathered, buffer = self.region.gathered, self.region.buffer
        assert gathered is not None, "only numbers of a gathered region are checked"
        extent = extent_of(buffer, gathered.dim)
        is_wrong, wrong = Var(b.name("is_wrong"), bool_), Var(b.name("wrong"), int64)
        b.append(Declare(is_wrong, build.const(False, bool_), b.span))
        b.append(Declare(wrong, build.const(0, int64), b.span))

        def tell(number: Expr, is_examined: Expr) -> None:
            is_outside = build.logical_or(build.less(number, 0), build.greater_equal(number, extent))
            here = b.let("outside", build.logical_and(is_examined, is_outside))
            b.append(Assign(wrong, build.where(here, number, wrong), b.span))
            b.append(Assign(is_wrong, build.logical_or(here, is_wrong), b.span))

        yield tell
        message = f"index {{0}} is outside dimension {gathered.dim} of {title(buffer)}, whose extent is {{1}}"
        values = wrong, build.cast(extent, int64)
        b.append(Assert(build.logical_not(is_wrong), message, "bounds", values, self.region.span or b.span))
