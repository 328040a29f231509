"""Collection of the compiler's decisions about a kernel, for `Explanation`."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from .codegen.storage import local_memory
from .errors import shown_file
from .explanation import Decisions, ElementAccess, InsertedInstruction, LocalTile, VerdictRow
from .ir import walk
from .ir.analyses.precision import float64_arithmetic
from .ir.analyses.uniformity import repeated_additions
from .ir.clusters import ctas_along
from .ir.nodes import Alloc, Atomic, Const, Expect, Instruction, Kernel, Let, Load, Store, TileOp, Var, Vector
from .ir.values import Strided
from .isa import ROWS
from .isa.fences import PROXY_ASYNC_OF
from .isa.mbarrier import ARRIVE_AT_PEER, ARRIVE_EXPECT, EXPECT
from .lower.plans import Plan, VectorPlan
from .ops.copies import CAST
from .ops.inline import IS_PURE, PTX, TEXT
from .source import Span
from .target import SECTOR_BYTES, WARP
from .wording import counted

if TYPE_CHECKING:
    from .compiled import Derivation
    from .lower import Verdict


def decisions(record: Derivation) -> Decisions:
    """Extract the compiler's decisions from the record of a compilation."""
    local = [(b, record.addressed[b.name]) for b in local_memory(record.lane.body) if b.name in record.addressed]
    return Decisions(
        rows=tuple([row(verdict) for verdict in record.verdicts if not _is_renaming(verdict)]),
        local=tuple([LocalTile(b.name, b.size_bytes, None if span is None else _line(span)) for b, span in local]),
        layouts=tuple(map(str, record.layouts)),
        elements=element_accesses(record.tile),
        inserted=insertions(record.tile, record.lane),
        remarks=(*inline_texts(record.tile), *repetitions(record.tile), *double_precision(record.open)),
    )


def _is_renaming(verdict: Verdict[Any]) -> bool:
    """True if the operation is a cast that only renames registers, for example where control flow joins."""
    op = verdict.op
    if op.name != CAST.name:
        return False
    dst, src = op.tiles["dst"].buffer, op.tiles["src"].buffer
    return (dst.space, dst.dtype, dst.layout, dst.slots) == ("local", src.dtype, src.layout, src.slots)


def row(verdict: Verdict[Any]) -> VerdictRow:
    """Return the row of the explanation's table that shows a verdict."""
    span, facts = verdict.span, verdict.plan.facts()
    return VerdictRow(
        line=_line(span), source=span.text.strip() if span is not None else "",
        operation=f"{verdict.op.scope}.{verdict.op.name}", variant=verdict.variant, width=facts.width,
        rounds=str(facts.rounds or "-"), instructions=tuple(verdict.plan.instructions), limit=facts.limit or None,
        declines=tuple((name, tuple(reasons)) for name, reasons in verdict.declines.items()), cuts=facts.cuts or None,
        elsewhere=verdict.elsewhere, sectors=_sectors(verdict.plan),
    )


def _sectors(plan: Plan) -> str | None:
    """Describe the sectors that the first warp's first access to an operand in global memory touches.

    None if at most one per operand is unnecessary, or if the plan doesn't transfer vectors to or from global memory.
    """
    if not isinstance(plan, VectorPlan):
        return None
    sides = [side for side, region in enumerate(plan.regions) if region.buffer.space == "global"]
    moves = plan.moves() if sides else None
    for side in sides:
        assert moves is not None
        threads, places = moves.elements(moves.issue.min(initial=0))
        size, elements = plan.regions[side].dtype.bytes, set(places[threads[:, side] < WARP, side].tolist())
        touched = len({element * size // SECTOR_BYTES for element in elements})
        filled = -(-len(elements) * size // SECTOR_BYTES)
        # a contiguous run of elements that isn't aligned to sectors may touch one more
        if touched > filled + 1:
            root = plan.regions[side].buffer.root
            # strides that are known only at launch are assumed to be minimal
            strides = root.layout.strides if isinstance(root.layout, Strided) else ()
            least = "at least " if any(isinstance(stride, Var) for stride in strides) else ""
            return (
                f"a warp's access to {root.name} touches {least}{touched} sectors of {SECTOR_BYTES} bytes; its "
                f"{len(elements) * size} bytes would fill {filled}"
            )
    return None


def element_accesses(kernel: Kernel) -> tuple[ElementAccess, ...]:
    """Return the accesses to single elements of buffers that aren't local, in program order. kernel: at tile level."""
    times: Counter[tuple[str, str, str, int]] = Counter()
    for stmt in walk.statements(kernel.body):
        if isinstance(stmt, Let) and isinstance(stmt.value, Load):
            kind, place = "load", stmt.value.place
        elif isinstance(stmt, (Store, Atomic)):
            kind, place = "store" if isinstance(stmt, Store) else f"atomic {stmt.op}", stmt.place
        else:
            continue
        buffer = place.buffer.root
        if buffer.space != "local":
            what = f"{buffer.name}: {buffer.space} {place.buffer.dtype}"
            times[_line(stmt.span), kind, what, place.buffer.dtype.bytes * 8] += 1
    return tuple(ElementAccess(*access, count) for access, count in times.items())


def inline_texts(kernel: Kernel) -> tuple[str, ...]:
    """Return a remark for each inline PTX: whether it is pure, and its text."""
    called = [(op, dict(op.attrs)) for op in walk.each(kernel.body, TileOp) if op.name == PTX.name]
    kinds = {True: "pure: may be moved, merged and dropped", False: "volatile: stays in place"}
    return tuple(dict.fromkeys([
        f"{_line(op.span)}: inline PTX, {kinds[bool(attrs[IS_PURE.name])]}: {attrs[TEXT.name]}" for op, attrs in called
    ]))


def repetitions(kernel: Kernel) -> tuple[str, ...]:
    """Return a remark for each atomic addition of the same value to the same element by several threads."""
    return tuple(
        f"{_line(stmt.span)}: each of {counted(times, 'thread')} adds the same value to the same element of "
        f"{stmt.place.buffer.root.name}; to add it once, guard it with `if tj.thread_id() == 0:`"
        for stmt, times in repeated_additions(kernel)
    )


def double_precision(kernel: Kernel) -> tuple[str, ...]:
    """Return a remark for each line that computes in float64; () if an array argument is float64."""
    operations: dict[str, dict[str, None]] = {}
    for stmt, name in float64_arithmetic(kernel):
        operations.setdefault(_line(stmt.span), {})[name] = None
    return tuple(
        f"{line}: {', '.join(names)} in float64, though no array of {kernel.name} is float64"
        for line, names in operations.items()
    )


def insertions(tile: Kernel, lane: Kernel) -> tuple[InsertedInstruction, ...]:
    """Return the expected byte counts, proxy fences and remote arrivals that the compiler inserted, in program order.

    tile, lane: the kernel before and after dispatch. An `Expect` in `tile` is a byte count that the user wrote.
    """
    written = {stmt.span for stmt in walk.statements(tile.body) if isinstance(stmt, Expect)}
    spaces = {row.name: space for space, row in PROXY_ASYNC_OF.items()}
    times: Counter[tuple[str, str, str]] = Counter()
    for stmt in walk.statements(lane.body):
        if not isinstance(stmt, Instruction):
            continue
        if stmt.name in spaces:
            reason = f"orders ordinary accesses to {spaces[stmt.name]} memory before asynchronous ones"
        elif stmt.name == ARRIVE_EXPECT.name or (stmt.name == EXPECT.name and stmt.span not in written):
            reason = _awaited(stmt)
        elif stmt.name == ARRIVE_AT_PEER.name:
            reason = _reached(stmt, lane)
        else:
            continue
        times[_line(stmt.span), ROWS[stmt.name].mnemonic, reason] += 1
    return tuple(InsertedInstruction(*inserted, count) for inserted, count in times.items())


def _awaited(stmt: Instruction) -> str:
    place, size = stmt.inputs[:2]
    assert isinstance(place, Vector)
    count = f"{size.value:,}" if isinstance(size, Const) else "copied"
    return f"a phase of {place.buffer.root.name} awaits {count} bytes"


def _reached(stmt: Instruction, lane: Kernel) -> str:
    place = stmt.inputs[0]
    assert isinstance(place, Vector)
    name = place.buffer.root.name
    axis = next(alloc.along for alloc in walk.each(lane.body, Alloc) if alloc.buffer.name == name)
    return f"a release arrives at {name} in all {ctas_along(lane.cluster, axis)} CTAs along axis {axis} of the cluster"


def _line(span: Span | None) -> str:
    return f"{os.path.basename(shown_file(span.file))}:{span.line}" if span is not None else "-"
