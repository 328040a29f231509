"""Findings: errors and warnings about a kernel. `Findings.add` merges those of equal rule, level and locations.

A location is the source position of a `.loc` or, without one, the PTX line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...dataclass import dataclass
from ...errors import (
    AsyncHazardError,
    DeadlockError,
    DivergenceError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    SimulationError,
    UninitializedReadError,
    UnsupportedInstructionError,
    shown_file,
)
from ...fast_unique import fast_unique
from ..decode.ptx import Loc, Module, PtxFunction
from ..machine.lanes import Index
from ..machine.memory import MemoryPart

#: rule → the class of the error that a launch raises for it
RULES: dict[str, type[SimulationError]] = {
    "race": RaceError,
    "scope": RaceError,
    "replicas": RaceError,
    "read-only": RaceError,
    "undefined": UninitializedReadError,
    "unwritten": UninitializedReadError,
    "in-flight": AsyncHazardError,
    "barrier": AsyncHazardError,
    "bounds": OutOfBoundsError,
    "alignment": MisalignedError,
    "divergence": DivergenceError,
    "deadlock": DeadlockError,
    "unsupported": UnsupportedInstructionError,
    "failure": SimulationError,
    "registers": SimulationError,
}
#: maximum number of threads listed in a finding
NAMED_THREADS = 32


@dataclass(frozen=True, slots=True)
class Place:
    """An instruction: its PTX line, the line's text, and its source location."""

    #: 0 if only the source location is known
    ptx_line: int
    text: str
    location: Location | None


@dataclass(slots=True)
class Finding:
    """An error or a warning about a kernel."""

    #: a key of RULES
    rule: str
    #: "error" or "warning"; the first error is raised, unless errors are collected
    level: str
    message: str
    #: the instruction at fault and the other one involved; None if there is none or it is unknown
    first: Place | None
    second: Place | None
    #: the first few threads at fault, as linear indices in the grid
    threads: tuple[int, ...]
    #: number of faulty accesses, counted per thread and, in most checks of accesses, per memory cell
    count: int

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.level} [{self.rule}]{times}: {self.message}"

    def error(self, more: str = "") -> SimulationError:
        """Return the error that a launch raises for this finding. more: text at the end of its message."""
        return RULES[self.rule](self.message + more, threads=self.threads)


def rule_of(error: SimulationError) -> str:
    return next(name for name, kind in RULES.items() if isinstance(error, kind))


class Findings:
    """The findings of a launch. Errors are raised or collected; warnings are collected."""

    def __init__(self, collect: bool, places: PtxPlaces) -> None:
        self.collect = collect
        self.places = places
        #: key: rule, level and both source locations, or PTX lines if there are no `.loc`s; or ("end", message)
        self.collected: dict[tuple[object, ...], Finding] = {}

    def add(
        self, rule: str, message: str, pc: int, other_pc: int | None = None, threads: Sequence[int] = (),
        count: int = 1, hint: str | None = None, level: str = "error", then: str = "", more: str = "",
    ) -> Finding:
        """Return the new finding, or the earlier one that it extends; raise an error instead unless they are collected.

        The message consists of `message`, the location of `pc`, `then`, the location of `other_pc` if `then` isn't
        empty, and `more`. threads: linear indices in the grid. level: "error" or "warning"; warnings are never raised.
        """
        message = self.places.located(message, pc, then, other_pc) + more
        if level == "error" and not self.collect:
            instructions = [x for x in (pc, other_pc) if x is not None]
            raise RULES[rule](message, hint=hint, instructions=instructions, threads=threads)
        first, second = self.place(pc), self.place(other_pc)
        key = (rule, level, self.line(first), self.line(second))
        earlier = self.collected.get(key)
        if earlier is None:
            earlier = Finding(rule, level, message, first, second, tuple(threads[:NAMED_THREADS]), count)
            self.collected[key] = earlier
            return earlier
        earlier.count += count
        others = [t for t in threads if t not in earlier.threads]
        earlier.threads = (*earlier.threads, *others)[:NAMED_THREADS]
        return earlier

    def escalate(self, finding: Finding, instructions: Sequence[int], hint: str) -> None:
        """Promote a collected warning to an error; raise it if errors aren't collected."""
        if not self.collect:
            raise RULES[finding.rule](finding.message, hint=hint, instructions=instructions, threads=finding.threads)
        finding.level = "error"

    def left_unwritten(self, part: MemoryPart, left: Index) -> None:
        """Warn of an array that the launch has written in part. left: offsets of its unwritten bytes, ascending."""
        size = part.elements.size_bytes if part.elements else 1
        count = fast_unique(left // size).size
        where = part.place(int(left[0]) // size * size, 1)
        message = f"{count} of {part.size_bytes // size} elements were not written, although others were: first {where}"
        self.collected["unwritten", part.name] = Finding("unwritten", "warning", message, None, None, (), count)

    def end(self, error: SimulationError) -> None:
        pc, other_pc = (*error.instructions, None, None)[:2]
        places = self.place(pc), self.place(other_pc)
        threads = error.threads[:NAMED_THREADS]
        self.collected["end", error.message] = Finding(rule_of(error), "error", error.message, *places, threads, 1)

    def place(self, pc: int | None) -> Place | None:
        if pc is None:
            return None
        line = self.places.function.body[pc].line
        return Place(line, self.places.module.source.line_text(line).strip(), self.places.location(pc))

    def line(self, at: Place | None) -> object:
        if at is None:
            return None
        return at.location or at.ptx_line


Locate = Callable[[int, int, int], str]


@dataclass(frozen=True, slots=True)
class Location:
    """A source line that the PTX was compiled from."""

    file: int
    line: int
    #: as in the `.loc`; a compiler may use it as an index into a table
    column: int
    text: str


def calls(loc: Loc | None) -> Iterator[Loc]:
    """Yield a location and those of the calls through which it was inlined, innermost first."""
    while loc is not None:
        yield loc
        loc = loc.caller


class PtxPlaces:
    def __init__(self, module: Module, function: PtxFunction, locate: Locate | None) -> None:
        self.module = module
        self.function = function
        self.locate = locate

    def location(self, pc: int) -> Location | None:
        loc = self.function.body[pc].loc
        if loc is None or loc.line == 0:
            return None
        if self.locate is not None:
            return Location(*loc[:3], self.locate(*loc[:3]))
        files = self.module.files
        texts = [f"{shown_file(files.get(x.file, f'file {x.file}'))}:{x.line}" for x in calls(loc)]
        return Location(*loc[:3], "\n      called from ".join(texts))

    def source_line(self, pc: int) -> int:
        """Return the line in the kernel's source, that of the outermost call for inlined functions; 0 if unknown."""
        return [0, *(x.line for x in calls(self.function.body[pc].loc))][-1]

    def opcode(self, pc: int) -> str:
        ins = self.function.body[pc]
        return ins.root + ins.suffix

    def located(self, message: str, pc: int, then: str = "", other_pc: int | None = None) -> str:
        """Return a message, the location of `pc` and, unless `then` is empty, `then` and the location of `other_pc`."""
        text = f"{message}\n  {self.describe(pc)}"
        if then:
            text += f"\n{then}"
            text += "" if other_pc is None else f"\n  {self.describe(other_pc)}"
        return text

    def describe(self, pc: int) -> str:
        line = self.function.body[pc].line
        text = f"PTX line {line}: {self.module.source.shown(line)}"
        location = self.location(pc)
        return f"{text}\n    from {location.text}" if location else text
