"""Rematerialization of tiles whose elements follow from their indices, instead of converting their layout.

    cta.indices i[0 +: 32]; axis=0
    cta.less m[0 +: 32], i[0 +: 32], n
    cta.where y[...], m.view[0 +: 1, 0 +: 32], x[...], 0     m has its threads along y's rows
    ---
    cta.indices i.1[0 +: 1, 0 +: 32]; axis=1
    cta.less m.1[0 +: 1, 0 +: 32], i.1[0 +: 1, 0 +: 32], n
    cta.where y[...], m.1[0 +: 1, 0 +: 32], x[...], 0

Such tiles are indices, fills, and results of a few cheap elementwise operations on such tiles and scalars, for example
masks. A conversion would take shuffles or shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...dataclass import replace
from ...dtypes import int32
from ...ir import walk
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, Const, Expr, Kernel, Load, Region, TileOp, Var
from ...layout.grid import Projection
from ...ops import axes
from ...ops.copies import ALONG, CAST, FILL, INDICES
from ...ops.elementwise.arithmetic import ADD
from ..weights import ELEMENT
from .axes import AxisJoin, Survey, TileUse, Use, base_of

#: the most elementwise operations that are repeated, and their highest issue weight
_MOST_STEPS, _CHEAP = 2, ELEMENT

#: for each dimension of a tile: the dimension of the wanted part that varies with it, or None, and the part's start
_Window = Sequence[tuple[int | None, Expr]]

_ZERO = Const(0, int32)


class Rematerializer:
    """Finds the tiles of a kernel that can be recomputed, and emits the operations."""

    def __init__(self, kernel: Kernel, survey: Survey) -> None:
        self._body = kernel.body
        self._survey = survey
        self._makers: dict[TileUse, int] = {}
        self._steps: dict[TileUse, int] = {}
        self._number = {id(step.op): number for number, step in enumerate(survey.steps)}
        for number, step in enumerate(survey.steps):
            self._note(number, step)
        self._assigned: frozenset[str] | None = None
        self._places: dict[int, tuple[int, ...]] = {}

    def _note(self, number: int, step: AxisJoin) -> None:
        """Record the destination if its elements follow from their indices by at most `_MOST_STEPS` operations."""
        op, use = step.op, step.uses.get("dst")
        if use is None or use.cuts or not use.tile.is_open or use.region.buffer is not use.tile.buffer:
            return
        if self._survey.written.get(use.tile.buffer.name) != 1:
            return
        if any(isinstance(part, Load) for part in _parts(op)):
            return
        count = 0
        if op.record.relation is not axes.GENERATED:
            arguments = [each for name, each in step.uses.items() if name != "dst"]
            if not _is_cheap(op) or len(step.uses) != len(op.tiles):
                return
            if any(each.cuts or each.tile not in self._steps or _is_retyped(each) for each in arguments):
                return
            count = 1 + sum(self._steps[each.tile] for each in arguments)
        if count <= _MOST_STEPS:
            self._makers[use.tile], self._steps[use.tile] = number, count

    def rematerialized(
        self, step: AxisJoin, use: Use, fresh: Region, layout: Projection, make: Callable[[Buffer], Region]
    ) -> list[TileOp] | None:
        """Return operations that fill `fresh` with the elements of an operand, or None if they can't be recomputed.

        layout: that of `fresh`. make: allocates another tile like its argument.
        """
        if use.tile not in self._makers or _is_retyped(use) or not self._is_visible(use.tile, step):
            return None
        _, along = base_of(use.region.buffer)
        window: list[tuple[int | None, Expr]] = [(None, _ZERO)] * len(use.tile.shape)
        kept = iter(range(len(fresh.shape)))
        for dim, start, extent in zip(along, use.region.starts, use.region.extents, strict=True):
            position = None if extent is None else next(kept)
            if dim is not None:
                window[dim] = position, start
        return [replace(op, span=step.op.span) for op in self._made(use.tile, window, fresh, layout, make)]

    def _is_visible(self, tile: TileUse, step: AxisJoin) -> bool:
        """True if all scalars that a tile depends on have the same values at a later operation."""
        maker = self._survey.steps[self._makers[tile]]
        scalars = [part for part in _parts(maker.op) if isinstance(part, Var)]
        if scalars:
            if self._assigned is None:
                self._assigned = walk.assigned(self._body)
                self._find_blocks()
            here, there = self._places[id(step.op)], self._places[id(maker.op)]
            is_later = self._number[id(maker.op)] < self._number[id(step.op)] and here[: len(there)] == there
            if not is_later or any(var.name in self._assigned for var in scalars):
                return False
        return all(self._is_visible(each.tile, step) for name, each in maker.uses.items() if name != "dst")

    def _find_blocks(self) -> None:
        waiting: list[tuple[walk.Block, tuple[int, ...]]] = [(self._body, ())]
        while waiting:
            block, around = waiting.pop()
            for stmt in block:
                self._places[id(stmt)] = around
                waiting += [(inner, (*around, id(inner))) for inner in walk.blocks(stmt)]

    def _made(
        self, tile: TileUse, window: _Window, fresh: Region, layout: Projection, make: Callable[[Buffer], Region]
    ) -> Iterator[TileOp]:
        maker = self._survey.steps[self._makers[tile]]
        op, dst = maker.op, maker.uses["dst"]
        if op.name == INDICES.name:
            yield from _indices(op, window, fresh)
            return
        operands: list[Region | Expr | None] = [fresh, *op.operands[1:]]
        for name, use in maker.uses.items():
            if name == "dst":
                continue
            inner = [(None, _ZERO) if label is None else window[dst.labels.index(label)] for label in use.labels]
            has = {position for position, _ in inner if position is not None}
            dims = [d if d in has else None for d in range(len(fresh.shape))]
            part = layout.along(fresh.shape, dims)
            shape = tuple(1 if d is None else fresh.shape[d] for d in dims)
            like = replace(use.tile.buffer, shape=shape, layout=part.layout, slots=part.concise(shape).slots)
            region = make(like)
            yield from self._made(use.tile, inner, region, part, make)
            operands[op.record.position(name)] = region
        yield replace(op, operands=tuple(operands))


def _parts(op: TileOp) -> Iterator[Expr]:
    return (part for expr in walk.expressions(op) for part in walk.subexpressions(expr))


def _is_retyped(use: Use) -> bool:
    return use.region.dtype != use.tile.buffer.dtype


def _is_cheap(op: TileOp) -> bool:
    elementwise = op.record.elementwise
    return op.name == CAST.name or (elementwise is not None and elementwise.issue <= _CHEAP)


def _indices(op: TileOp, window: _Window, fresh: Region) -> Iterator[TileOp]:
    """Yield operations that fill `fresh` with the part `window` of the indices that `op` computes."""
    axis = dict(op.attrs)[ALONG.name]
    assert isinstance(axis, int)
    position, start = window[axis]
    first = build.cast(start, fresh.dtype)
    if position is None:
        yield TileOp(FILL.name, op.scope, (fresh, first))
        return
    attrs = tuple((name, position if name == ALONG.name else value) for name, value in op.attrs)
    yield replace(op, operands=(fresh, *op.operands[1:]), attrs=attrs)
    if not (isinstance(first, Const) and first.value == 0):
        yield TileOp(ADD.name, op.scope, (fresh, fresh, first))
