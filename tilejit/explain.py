"""Which variant each tile operation got, and why not another: as text and as a table in Jupyter."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .cells import box, rows_table
from .codegen.census import Census
from .dataclass import dataclass, replace
from .dtypes import DType
from .errors import shown_file
from .ir import walk
from .ir.analyses.uniformity import repeated_additions
from .ir.clusters import ctas_along
from .ir.nodes import Alloc, Atomic, Const, Expect, Instruction, Kernel, Let, Load, Store, Vector
from .ir.params import TensorMapParam
from .isa import ROWS
from .isa.fences import PROXY_ASYNC_OF
from .isa.mbarrier import ARRIVE_AT_PEER, ARRIVE_EXPECT, EXPECT
from .ops.copies import CAST
from .source import Span
from .target import Target
from .wording import counted

if TYPE_CHECKING:
    from .lower import Verdict
    from .lower.open import LayoutChoice

_ELEMENT_HEADINGS = ("line", "element", "memory", "width", "times")
_MAP_HEADINGS = ("tensor map of", "elements", "dimensions, nearest first", "box", "swizzle")
_INSERTED_HEADINGS = ("line", "inserted", "because", "times")
_HEADINGS = ("line", "operation", "variant", "width", "rounds", "instructions per thread")


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """What became of one tile operation.

    line: `file.py:7`. source: the line's text. width: of one transfer, as text. rounds: transfers a thread, or issues.
    instructions: (mnemonic, how often a thread carries it out). limit: what kept it from being wider, or None.
    cuts: which vectors go element by element, or None.
    declines: variant -> its reasons, those that would have come first at the front.
    """

    line: str
    source: str
    operation: str
    variant: str
    width: str
    rounds: str
    instructions: tuple[tuple[str, int], ...]
    limit: str | None
    declines: tuple[tuple[str, tuple[str, ...]], ...]
    cuts: str | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """In the order of the table's headings."""
        instructions = ", ".join(f"{trips} x {name}" for name, trips in self.instructions) or "-"
        return self.line, self.operation, self.variant, self.width, self.rounds, instructions


@dataclass(frozen=True, slots=True)
class LocalTile:
    """A local buffer that lives in local memory. span: what is known only at run time, and so makes it."""

    name: str
    size_bytes: int
    span: Span | None

    def __str__(self) -> str:
        where = f"{_line(self.span)}: " if self.span is not None else ""
        return (
            f"{where}{self.name} goes through local memory: {self.size_bytes:,} bytes a thread; "
            "where in it is known only at run time"
        )


@dataclass(frozen=True, slots=True)
class ElementAccess:
    """Accesses of single elements of memory, each by one thread on its own.

    kind: `load`, `store`, or `atomic` with the operation. place: the memory, and what is in it. times: how often the
    line does that; a loop's body counts once.
    """

    line: str
    kind: str
    place: str
    bits: int
    times: int = 1

    @property
    def cells(self) -> tuple[str, ...]:
        """In the order of `_ELEMENT_HEADINGS`."""
        return self.line, self.kind, self.place, f"{self.bits} bits", str(self.times)


def element_accesses(kernel: Kernel) -> tuple[ElementAccess, ...]:
    """The accesses of single elements in a kernel at tile level, in the order of the text."""
    times: dict[ElementAccess, int] = {}
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
            access = ElementAccess(_line(stmt.span), kind, what, place.buffer.dtype.bytes * 8)
            times[access] = times.get(access, 0) + 1
    return tuple(replace(access, times=count) for access, count in times.items())


def repetitions(kernel: Kernel) -> tuple[str, ...]:
    """What is to be said of atomic additions that several threads carry out alike."""
    return tuple(
        f"{_line(stmt.span)}: each of {counted(times, 'thread')} adds the same value to the same element of "
        f"{stmt.place.buffer.root.name}; to add it once, write `if tj.thread_id() == 0:` in front"
        for stmt, times in repeated_additions(kernel)
    )


@dataclass(frozen=True, slots=True)
class MapLine:
    """A tensor map, which a launch makes of an argument.

    dimensions: the argument's, in the order of the hardware, the one with stride 1 first; box: elements along each.
    """

    of: str
    dtype: DType
    dimensions: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str

    @property
    def cells(self) -> tuple[str, ...]:
        """In the order of `_MAP_HEADINGS`."""
        dimensions, box = ", ".join(map(str, self.dimensions)), " x ".join(map(str, self.box))
        return self.of, str(self.dtype), dimensions, box, self.swizzle


def map_lines(kernel: Kernel) -> tuple[MapLine, ...]:
    """The tensor maps that a kernel at lane level takes."""
    specs = [param.map for param in kernel.params if isinstance(param, TensorMapParam)]
    return tuple([MapLine(spec.of, spec.dtype, spec.axes, spec.box, spec.swizzle) for spec in specs])


@dataclass(frozen=True, slots=True)
class InsertedInstruction:
    """An instruction that copies need and that nobody wrote. times: how often the line has it."""

    line: str
    instruction: str
    reason: str
    times: int = 1

    @property
    def cells(self) -> tuple[str, ...]:
        """In the order of `_INSERTED_HEADINGS`."""
        return self.line, self.instruction, self.reason, str(self.times)


def insertions(tile: Kernel, lane: Kernel) -> tuple[InsertedInstruction, ...]:
    """What the compiler tells barriers of copies, its proxy fences, arrivals in other CTAs, in the order of the text.

    tile, lane: the kernel before and after dispatch: what the user wrote is in both.
    """
    written = {stmt.span for stmt in walk.statements(tile.body) if isinstance(stmt, Expect)}
    spaces = {row.name: space for space, row in PROXY_ASYNC_OF.items()}
    times: dict[InsertedInstruction, int] = {}
    for stmt in walk.statements(lane.body):
        if not isinstance(stmt, Instruction):
            continue
        if stmt.name in spaces:
            reason = f"asynchronous accesses see ordinary ones of {spaces[stmt.name]} memory"
        elif stmt.name == ARRIVE_EXPECT.name or (stmt.name == EXPECT.name and stmt.span not in written):
            reason = _awaited(stmt)
        elif stmt.name == ARRIVE_AT_PEER.name:
            reason = _reached(stmt, lane)
        else:
            continue
        inserted = InsertedInstruction(_line(stmt.span), ROWS[stmt.name].mnemonic, reason)
        times[inserted] = times.get(inserted, 0) + 1
    return tuple(replace(inserted, times=count) for inserted, count in times.items())


def _awaited(stmt: Instruction) -> str:
    """What a barrier is told of."""
    place, size = stmt.inputs[:2]
    assert isinstance(place, Vector)
    count = f"{size.value:,}" if isinstance(size, Const) else "copied"
    return f"a phase of {place.buffer.root.name} awaits {count} bytes"


def _reached(stmt: Instruction, lane: Kernel) -> str:
    """Why a release arrives in other CTAs."""
    place = stmt.inputs[0]
    assert isinstance(place, Vector)
    name = place.buffer.root.name
    axis = next(alloc.along for alloc in walk.each(lane.body, Alloc) if alloc.buffer.name == name)
    return f"a release reaches {name} of all {ctas_along(lane.cluster, axis)} CTAs along axis {axis} of the cluster"


#: instructions of the machine per byte of global memory from which on an H100's time grows: with 24 of a float16's
#: arithmetic or 56 of a float32's a copy kept its speed, with 32 and 64 it lost 4 to 6 %
KNEE = 7


@dataclass(frozen=True, slots=True)
class Density:
    """The PTX instructions of a kernel against the bytes of global memory that they move; a loop's body counts once.

    dtype: that of the elements which are counted: of the widest array that the kernel writes.
    """

    census: Census
    dtype: DType | None

    @property
    def bytes(self) -> int:
        return self.census.loaded_bytes + self.census.stored_bytes

    @property
    def per_byte(self) -> float | None:
        """None where no instruction moves global memory, or asynchronous copies do."""
        return self.census.instructions / self.bytes if self.bytes and not self.census.copies else None

    @property
    def per_element(self) -> float | None:
        """For each element written; None where none is, or asynchronous copies may write more."""
        if self.dtype is None or not self.census.stored_bytes or self.census.copies:
            return None
        return self.census.instructions * self.dtype.bytes / self.census.stored_bytes

    def __str__(self) -> str:
        if self.census.copies:
            copies = f"{self.census.copies} of which copy global memory asynchronously"
            return f"{self.census.instructions} PTX instructions, {copies}"
        if self.per_byte is None:
            return f"{self.census.instructions} PTX instructions, none of which moves global memory"
        elements = f", {self.per_element:.3g} per {self.dtype} written" if self.per_element is not None else ""
        return (
            f"{self.census.instructions} PTX instructions for {self.bytes} bytes of global memory: "
            f"{self.per_byte:.2g} per byte{elements} (arithmetic hides behind memory up to about {KNEE} per byte)"
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """The dispatcher's verdicts on one compiled kernel; prints as text, shows as a table in Jupyter.

    layouts: how threads are spread over the axes of tiles that nobody laid out. elements: what single threads access.
    remarks: what else is to be said, one text each. maps: that a launch makes. inserted: what nobody wrote.
    """

    kernel: str
    target: str
    rows: tuple[VerdictRow, ...]
    local: tuple[LocalTile, ...] = ()
    layouts: tuple[LayoutChoice, ...] = ()
    density: Density | None = None
    remarks: tuple[str, ...] = ()
    elements: tuple[ElementAccess, ...] = ()
    maps: tuple[MapLine, ...] = ()
    inserted: tuple[InsertedInstruction, ...] = ()

    @staticmethod
    def of(
        kernel: str,
        target: Target,
        verdicts: Sequence[Verdict[Any]],
        local: Sequence[LocalTile] = (),
        layouts: Sequence[LayoutChoice] = (),
        density: Density | None = None,
        elements: Sequence[ElementAccess] = (),
        remarks: Sequence[str] = (),
        maps: Sequence[MapLine] = (),
        inserted: Sequence[InsertedInstruction] = (),
    ) -> Explanation:
        rows = tuple(row(v) for v in verdicts if not _is_renaming(v))
        whole = tuple(local), tuple(layouts), density, tuple(remarks), tuple(elements), tuple(maps), tuple(inserted)
        return Explanation(kernel, target.name, rows, *whole)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of the kernel as a whole."""
        whole = () if self.density is None else (str(self.density),)
        return (*map(str, self.layouts), *map(str, self.local), *whole, *self.remarks)

    @property
    def _tables(self) -> tuple[tuple[tuple[str, ...], list[tuple[str, ...]]], ...]:
        """The tables behind that of the operations: their headings and rows, those that have any."""
        every = (
            (_ELEMENT_HEADINGS, [access.cells for access in self.elements]),
            (_MAP_HEADINGS, [line.cells for line in self.maps]),
            (_INSERTED_HEADINGS, [each.cells for each in self.inserted]),
        )
        return tuple([(headings, rows) for headings, rows in every if rows])

    def __repr__(self) -> str:
        return f"<explanation of {self.kernel} for {self.target}: {counted(len(self.rows), 'tile operation')}>"

    def __str__(self) -> str:
        head = f"{self.kernel} for {self.target}: {counted(len(self.rows), 'tile operation')}"
        shown = [head]
        if self.rows:
            shown += ["", *_aligned((_HEADINGS, *(r.cells for r in self.rows)))]
        for r in self.rows:
            shown.extend(_reasons(r))
        for headings, rows in self._tables:
            shown += ["", *_aligned((headings, *rows))]
        if self.notes:
            shown += ["", *self.notes]
        return "\n".join(shown)

    def _repr_html_(self) -> str:
        operations = rows_table((*_HEADINGS, "why not another"), map(_html_cells, self.rows), is_html=True)
        others = [rows_table(headings, rows) for headings, rows in self._tables]
        notes = "".join(f"<p style='white-space:pre-wrap'>{html.escape(note)}</p>" for note in self.notes)
        title = f"<b>{html.escape(self.kernel)}</b> for {html.escape(self.target)}"
        return box(title, operations, *others, notes)


def _is_renaming(verdict: Verdict[Any]) -> bool:
    """Whether registers only change their names, as where the values of a variable meet."""
    op = verdict.op
    if op.name != CAST.name:
        return False
    dst, src = op.tiles["dst"].buffer, op.tiles["src"].buffer
    return (dst.space, dst.dtype, dst.layout, dst.slots) == ("local", src.dtype, src.layout, src.slots)


def row(verdict: Verdict[Any]) -> VerdictRow:
    """A verdict as a row of the table."""
    span, facts = verdict.span, verdict.plan.facts()
    return VerdictRow(
        line=_line(span),
        source=span.text.strip() if span is not None else "",
        operation=f"{verdict.op.scope}.{verdict.op.name}",
        variant=verdict.variant,
        width=facts.width,
        rounds=str(facts.rounds or "-"),
        instructions=tuple(verdict.plan.instructions),
        limit=facts.limit or None,
        declines=tuple((name, tuple(reasons)) for name, reasons in verdict.declines.items()),
        cuts=facts.cuts or None,
    )


def _line(span: Span | None) -> str:
    return f"{os.path.basename(shown_file(span.file))}:{span.line}" if span is not None else "-"


def _aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows of cells as columns of text."""
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]


def _reasons(r: VerdictRow) -> list[str]:
    """Why it isn't wider, and why the other variants declined: what a reason names is what to change."""
    shown = [f"  by elements: {r.cuts}"] if r.cuts else []
    shown += [f"  not wider: {r.limit}"] if r.limit else []
    shown += [f"  not {name}: {'; '.join(reasons)}" for name, reasons in r.declines]
    return ["", f"{r.line}: {r.source}" if r.source else r.line, *shown] if shown else []


def _html_cells(r: VerdictRow) -> tuple[str, ...]:
    """The cells of a row in HTML, the source where the line is pointed at, and why the other variants declined."""
    wider = [("wider", (r.limit,))] if r.limit else []
    cuts = [f"by elements: {html.escape(r.cuts)}"] if r.cuts else []
    others = "<br>".join((*cuts, *(
        f"not <b>{html.escape(name)}</b>: {html.escape('; '.join(reasons))}" for name, reasons in (*wider, *r.declines)
    )))
    line, *shown = map(html.escape, r.cells)
    return f"<span title='{html.escape(r.source, quote=True)}'>{line}</span>", *shown, others
