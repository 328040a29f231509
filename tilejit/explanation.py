"""The explanation of a compiled kernel, as text and as tables in Jupyter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dataclass import dataclass
from .html_tables import aligned, box, escaped, rows_table
from .ir.params import TensorMapSpec
from .wording import counted

if TYPE_CHECKING:
    from .executable.census import Census

_HEADINGS = ("line", "operation", "variant", "width", "rounds", "instructions per thread")


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """The outcome of dispatching one tile operation."""

    #: `file.py:7`; "-" if unknown
    line: str
    source: str
    operation: str
    variant: str
    width: str
    #: number of iterations over vectors, of instructions or of results, depending on the variant; "-" if there are none
    rounds: str
    #: (mnemonic, number of times that a thread executes it)
    instructions: tuple[tuple[str, int], ...]
    #: the reason why the width is not larger, if the plan states one
    limit: str | None
    #: (variant, the reasons why it was not chosen); variants of higher priority first
    declines: tuple[tuple[str, tuple[str, ...]], ...]
    #: a description of the vectors that are transferred element by element, None if there are none
    cuts: str | None = None
    #: the variants in `declines` that are for operands in other memory spaces
    elsewhere: tuple[str, ...] = ()
    #: a description of the global memory sectors that a warp's access touches, None if at most one is unnecessary
    sectors: str | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        instructions = ", ".join(f"{trips} x {name}" for name, trips in self.instructions) or "-"
        return self.line, self.operation, self.variant, self.width, self.rounds, instructions


@dataclass(frozen=True, slots=True)
class LocalTile:
    """A tile in local memory instead of registers. line: `file.py:7` of an access with run-time indices, the reason."""

    name: str
    size_bytes: int
    line: str | None

    def __str__(self) -> str:
        where = f"{self.line}: " if self.line is not None else ""
        return (
            f"{where}{self.name} is in local memory, {self.size_bytes:,} bytes per thread, because "
            "its indices are known only at run time"
        )


@dataclass(frozen=True, slots=True)
class ElementAccess:
    """Scalar accesses on one line: each thread that executes one accesses a single element of memory.

    kind: `load`, `store`, or `atomic` with the operation.
    place: the buffer, its memory space and its element type.
    times: occurrences on the line; the body of a run-time loop counts once, an unrolled one once per iteration.
    """

    line: str
    kind: str
    place: str
    bits: int
    times: int = 1

    @property
    def cells(self) -> tuple[str, ...]:
        return self.line, self.kind, self.place, f"{self.bits} bits", str(self.times)


@dataclass(frozen=True, slots=True)
class InsertedInstruction:
    """An instruction that the compiler inserted for a copy or a barrier. times: occurrences on the line."""

    line: str
    instruction: str
    reason: str
    times: int = 1

    @property
    def cells(self) -> tuple[str, ...]:
        return self.line, self.instruction, self.reason, str(self.times)


@dataclass(frozen=True, slots=True)
class Decisions:
    """The compiler's decisions about a kernel that its PTX doesn't show, as text and numbers that JSON supports."""

    rows: tuple[VerdictRow, ...] = ()
    local: tuple[LocalTile, ...] = ()
    layouts: tuple[str, ...] = ()
    elements: tuple[ElementAccess, ...] = ()
    inserted: tuple[InsertedInstruction, ...] = ()
    remarks: tuple[str, ...] = ()


#: name -> class, of `Decisions` and the objects that it contains
RECORDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Decisions, VerdictRow, LocalTile, ElementAccess, InsertedInstruction)
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a compiled kernel, which prints as text and displays as tables in Jupyter.

    maps: the tensor maps that a launch creates.
    remarks: remarks other than those in `decisions`.
    shows_all: True to include the variants for operands in other memory spaces.
    """

    kernel: str
    target: str
    decisions: Decisions
    density: Census | None = None
    maps: tuple[TensorMapSpec, ...] = ()
    remarks: tuple[str, ...] = ()
    shows_all: bool = False

    @property
    def rows(self) -> tuple[VerdictRow, ...]:
        """The outcomes of dispatching tile operations, in program order, without casts that only rename registers."""
        return self.decisions.rows

    @property
    def elements(self) -> tuple[ElementAccess, ...]:
        """The scalar accesses, in which each thread accesses a single element of global or shared memory."""
        return self.decisions.elements

    @property
    def inserted(self) -> tuple[InsertedInstruction, ...]:
        """The instructions that the compiler inserted for copies and barriers."""
        return self.decisions.inserted

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the chosen layouts, on tiles in local memory and on instruction counts, and the remarks."""
        whole = () if self.density is None else (str(self.density),)
        made = self.decisions
        return (*made.layouts, *map(str, made.local), *whole, *made.remarks, *self.remarks)

    @property
    def _tables(self) -> tuple[tuple[tuple[str, ...], list[tuple[str, ...]]], ...]:
        every = (
            (("line", "element", "memory", "width", "times"), [access.cells for access in self.elements]),
            (
                ("tensor map of", "elements", "dimensions, fastest first", "box", "swizzle"),
                [_map_cells(spec) for spec in self.maps],
            ),
            (("line", "inserted", "because", "times"), [each.cells for each in self.inserted]),
        )
        return tuple([(headings, rows) for headings, rows in every if rows])

    def __repr__(self) -> str:
        return f"<explanation of {self.kernel} for {self.target}: {counted(len(self.rows), 'tile operation')}>"

    def __str__(self) -> str:
        head = f"{self.kernel} for {self.target}: {counted(len(self.rows), 'tile operation')}"
        shown = [head]
        if self.rows:
            shown += ["", *aligned((_HEADINGS, *(r.cells for r in self.rows)))]
        for r in self.rows:
            shown.extend(self._reasons(r))
        for headings, rows in self._tables:
            shown += ["", *aligned((headings, *rows))]
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
        return [(name, reasons) for name, reasons in r.declines if self.shows_all or name not in r.elsewhere]

    def _reasons(self, r: VerdictRow) -> list[str]:
        """Return the lines about the limits of the chosen variant and about the variants not chosen, [] if none."""
        shown = [f"  by elements: {r.cuts}"] if r.cuts else []
        shown += [f"  not wider: {r.limit}"] if r.limit else []
        shown += [f"  uncoalesced: {r.sectors}"] if r.sectors else []
        shown += [f"  not {name}: {'; '.join(reasons)}" for name, reasons in self._others(r)]
        return ["", f"{r.line}: {r.source}" if r.source else r.line, *shown] if shown else []

    def _html_cells(self, r: VerdictRow) -> tuple[str, ...]:
        """Return the HTML cells of a row: `cells`, the first with the source as tooltip, and the reasons."""
        wider = [("wider", (r.limit,))] if r.limit else []
        facts = [("by elements", r.cuts), ("uncoalesced", r.sectors)]
        others = "<br>".join((*(f"{name}: {escaped(fact)}" for name, fact in facts if fact), *(
            f"not <b>{escaped(name)}</b>: {escaped('; '.join(reasons))}"
            for name, reasons in (*wider, *self._others(r))
        )))
        line, *shown = map(escaped, r.cells)
        return f"<span title='{escaped(r.source)}'>{line}</span>", *shown, others


def _map_cells(spec: TensorMapSpec) -> tuple[str, ...]:
    swizzle = spec.swizzle if spec.fetch == spec.FETCH else f"{spec.swizzle}, fetches {spec.fetch} into L2"
    return spec.of, str(spec.dtype), ", ".join(map(str, spec.axes)), " x ".join(map(str, spec.box)), swizzle
