"""Counts of the executions of operations, and of the executions in which a region overlaps its global tensor.

An access entirely outside its tensor is valid (a load yields fill values, a store writes nothing), so nothing is
asserted. Each count is a performance event, without effect on a GPU; the simulator counts the threads that execute it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dataclass import replace
from ...dtypes import int32, int64
from ...isa.miscellaneous import PMEVENT
from ...scopes import SCOPES
from ...source import Span
from .. import nodes as ir
from ..arithmetic import build, facts
from ..watched import WatchedRegion
from .conditions import Conditions
from .in_place import shown

#: maximum event number: the operand of `pmevent.mask` has 16 bits, and is used as a number instead of a bit mask
_MOST_EVENTS = (1 << 16) - 1


class WatchedRegions:
    def __init__(self, kernel: ir.Kernel) -> None:
        self._threads = kernel.threads
        self._watched: list[WatchedRegion] = []
        # names of the tensors with a region that isn't watched
        self._others: set[str] = set()

    @property
    def all(self) -> tuple[WatchedRegion, ...]:
        return tuple([replace(w, tensor="") if w.tensor in self._others else w for w in self._watched])

    def before(self, stmt: ir.Stmt, conditions: Conditions) -> Iterator[ir.Stmt]:
        """Yield statements that count executions and overlaps for each region not proved to overlap its tensor."""
        if not isinstance(stmt, ir.TileOp):
            return
        for region in dict.fromkeys(stmt.tiles.values()):
            cond = _overlaps_tensor(region, conditions)
            event, tensor = 2 * len(self._watched) + 1, region.buffer.root.name
            if cond == ir.TRUE or event >= _MOST_EVENTS:
                self._others.add(tensor)
                continue
            threads = SCOPES[stmt.scope].threads(self._threads)
            self._watched.append(WatchedRegion(_source_text(region), stmt.span, threads, event, event + 1, tensor))
            yield _counted(event, stmt.span)
            if cond != ir.FALSE:
                yield ir.If(cond, (_counted(event + 1, stmt.span),), span=stmt.span)


def _source_text(region: ir.Region) -> str:
    """Return a region's source text, or the result of `shown` if the source text is missing or only a name."""
    text = region.span.marked if region.span is not None else ""
    return shown(region) if not text or text.isidentifier() else text


def _counted(event: int, span: Span | None) -> ir.Stmt:
    return ir.Instruction(PMEVENT.name, inputs=(build.const(event, int32),), span=span)


def _overlaps_tensor(region: ir.Region, conditions: Conditions) -> ir.Expr:
    """Return the condition that a region overlaps its tensor; TRUE if that is known, or the region isn't global."""
    if region.buffer.space != "global" or region.in_bounds:
        return ir.TRUE
    cond: ir.Expr = ir.TRUE
    for d in region.box_dims:
        start, count, size = region.starts[d], region.counts[d], region.buffer.shape[d]
        least, _ = facts.bounds(start)
        first = build.cast(start, int64)
        if least is None or least <= -count:
            cond = build.logical_and(cond, build.greater(first, -count))
        if not conditions.is_below(first, size if isinstance(size, ir.Var) else build.const(size, int64)):
            cond = build.logical_and(cond, build.less(first, size))
    return ir.TRUE if conditions.holds(cond) else cond
