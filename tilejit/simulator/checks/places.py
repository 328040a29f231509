"""Locations of instructions for messages: the PTX line and, through `.loc`, the source line."""

from __future__ import annotations

from collections.abc import Callable

from ...dataclass import dataclass
from ...errors import shown_file
from ..decode.ptx import Loc, Module, PtxFunction

Locate = Callable[[int, int, int], str]


@dataclass(frozen=True, slots=True)
class Location:
    """A source line that the PTX was compiled from."""

    file: int
    line: int
    #: as in the `.loc`; a compiler may use it as an index into a table
    column: int
    text: str


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
        texts = []
        call: Loc | None = loc
        while call is not None:
            texts.append(f"{shown_file(self.module.files.get(call.file, f'file {call.file}'))}:{call.line}")
            call = call.caller
        return Location(*loc[:3], "\n      called from ".join(texts))

    def source_line(self, pc: int) -> int:
        """Return the line in the kernel's source, that of the outermost call for inlined functions; 0 if unknown."""
        loc = self.function.body[pc].loc
        while loc is not None and loc.caller is not None:
            loc = loc.caller
        return loc.line if loc else 0

    def opcode(self, pc: int) -> str:
        ins = self.function.body[pc]
        return ins.root + ins.suffix

    def describe(self, pc: int) -> str:
        line = self.function.body[pc].line
        text = f"PTX line {line}: {self.module.source.shown(line)}"
        location = self.location(pc)
        return f"{text}\n    from {location.text}" if location else text
