"""Why a kernel became what it is, as text and as a table in Jupyter.

What it holds is text and numbers: `explain` makes it of a compilation, and it is kept on disk beside the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .dataclass import dataclass
from .dtypes import DType
from .executable.census import Census
from .html_tables import box, escaped, rows_table
from .ir.params import Param, TensorMapParam
from .wording import counted

__all__ = [
    "Decisions", "Density", "ElementAccess", "Explanation", "InsertedInstruction", "LocalTile", "MapLine", "VerdictRow",
    "map_lines",
]

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
    elsewhere: the variants among them for operands in other memory spaces.
    sectors: how many sectors of memory a warp's access touches, or None if it touches no more than it needs.
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
    elsewhere: tuple[str, ...] = ()
    sectors: str | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """In the order of the table's headings."""
        instructions = ", ".join(f"{trips} x {name}" for name, trips in self.instructions) or "-"
        return self.line, self.operation, self.variant, self.width, self.rounds, instructions


@dataclass(frozen=True, slots=True)
class LocalTile:
    """A local buffer that lives in local memory. line: of what is known only at run time, and so makes it."""

    name: str
    size_bytes: int
    line: str | None

    def __str__(self) -> str:
        where = f"{self.line}: " if self.line is not None else ""
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


def map_lines(params: Sequence[Param]) -> tuple[MapLine, ...]:
    """The tensor maps among a kernel's parameters."""
    specs = [param.map for param in params if isinstance(param, TensorMapParam)]
    return tuple([MapLine(spec.of, spec.dtype, spec.axes, spec.box, spec.swizzle) for spec in specs])


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
class Decisions:
    """What the compiler decided, that a kernel's PTX no longer says; of text and numbers alone, so that it can be kept.

    layouts: how threads are spread over the axes of tiles that nobody laid out. elements: what single threads access.
    inserted: what nobody wrote. remarks: what else is to be said. A text each for layouts and remarks.
    """

    rows: tuple[VerdictRow, ...] = ()
    local: tuple[LocalTile, ...] = ()
    layouts: tuple[str, ...] = ()
    elements: tuple[ElementAccess, ...] = ()
    inserted: tuple[InsertedInstruction, ...] = ()
    remarks: tuple[str, ...] = ()

    def to_json(self) -> list[Any]:
        """The fields in their order, each record as a list of its own fields."""
        return [
            [_parts(item) if name in _RECORDS else item for item in getattr(self, name)]
            for name in type(self).__match_args__
        ]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Decisions:
        """What `to_json` gave."""
        given = dict(zip(cls.__match_args__, fields, strict=True))
        records = {name: [kind(*map(_tuples, parts)) for parts in given[name]] for name, kind in _RECORDS.items()}
        return cls(**{name: tuple(items) for name, items in (given | records).items()})


#: the fields of `Decisions` that hold records
_RECORDS: dict[str, type[Any]] = {
    "rows": VerdictRow, "local": LocalTile, "elements": ElementAccess, "inserted": InsertedInstruction,
}


def _parts(record: Any) -> list[Any]:
    return [getattr(record, name) for name in record.__match_args__]


def _tuples(value: Any) -> Any:
    """Lists as tuples, inner ones too."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Explanation:
    """The dispatcher's verdicts on one compiled kernel; prints as text, shows as a table in Jupyter.

    decisions: what the compiler decided. maps: that a launch makes. remarks: of this process, one text each.
    shows_all: True to list the variants for operands in other memory spaces, too.
    """

    kernel: str
    target: str
    decisions: Decisions
    density: Density | None = None
    maps: tuple[MapLine, ...] = ()
    remarks: tuple[str, ...] = ()
    shows_all: bool = False

    @property
    def rows(self) -> tuple[VerdictRow, ...]:
        """What became of each tile operation, in the order of the text."""
        return self.decisions.rows

    @property
    def elements(self) -> tuple[ElementAccess, ...]:
        """What single threads access."""
        return self.decisions.elements

    @property
    def inserted(self) -> tuple[InsertedInstruction, ...]:
        """The instructions that copies need and that nobody wrote."""
        return self.decisions.inserted

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of the kernel as a whole."""
        whole = () if self.density is None else (str(self.density),)
        made = self.decisions
        return (*made.layouts, *map(str, made.local), *whole, *made.remarks, *self.remarks)

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
            shown.extend(self._reasons(r))
        for headings, rows in self._tables:
            shown += ["", *_aligned((headings, *rows))]
        if self.notes:
            shown += ["", *self.notes]
        return "\n".join(shown)

    def _repr_html_(self) -> str:
        operations = rows_table((*_HEADINGS, "why not another"), map(self._html_cells, self.rows), is_html=True)
        others = [rows_table(headings, rows) for headings, rows in self._tables]
        notes = "".join(f"<p style='white-space:pre-wrap'>{escaped(note)}</p>" for note in self.notes)
        title = f"<b>{escaped(self.kernel)}</b> for {escaped(self.target)}"
        return box(title, operations, *others, notes)

    def _others(self, r: VerdictRow) -> list[tuple[str, tuple[str, ...]]]:
        """The variants that declined, with their reasons."""
        return [(name, reasons) for name, reasons in r.declines if self.shows_all or name not in r.elsewhere]

    def _reasons(self, r: VerdictRow) -> list[str]:
        """Why it isn't wider, and why the other variants declined: what a reason names is what to change."""
        shown = [f"  by elements: {r.cuts}"] if r.cuts else []
        shown += [f"  not wider: {r.limit}"] if r.limit else []
        shown += [f"  lanes apart: {r.sectors}"] if r.sectors else []
        shown += [f"  not {name}: {'; '.join(reasons)}" for name, reasons in self._others(r)]
        return ["", f"{r.line}: {r.source}" if r.source else r.line, *shown] if shown else []

    def _html_cells(self, r: VerdictRow) -> tuple[str, ...]:
        """The cells of a row in HTML, the source where the line is pointed at, and why the other variants declined."""
        wider = [("wider", (r.limit,))] if r.limit else []
        facts = [("by elements", r.cuts), ("lanes apart", r.sectors)]
        others = "<br>".join((*(f"{name}: {escaped(fact)}" for name, fact in facts if fact), *(
            f"not <b>{escaped(name)}</b>: {escaped('; '.join(reasons))}"
            for name, reasons in (*wider, *self._others(r))
        )))
        line, *shown = map(escaped, r.cells)
        return f"<span title='{escaped(r.source)}'>{line}</span>", *shown, others


def _aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows of cells as columns of text."""
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]
