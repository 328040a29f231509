"""How messages name a place: the PTX line and, through `.loc`, the Python line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..decode.ptx import Module, PtxFunction

Locate = Callable[[int, int, int], str]


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the source that the PTX was made from.

    column: what stood in the `.loc`; a compiler may use it as an index into a table of its own.
    """

    file: int
    line: int
    column: int
    text: str


class PtxPlaces:
    """Turns the index of an instruction into words."""

    def __init__(self, module: Module, function: PtxFunction, locate: Locate | None) -> None:
        self.module = module
        self.function = function
        self.locate = locate

    def location(self, pc: int) -> Location | None:
        loc = self.function.body[pc].loc
        if loc is None:
            return None
        if self.locate is not None:
            text = self.locate(*loc)
        else:
            text = f"{self.module.files.get(loc[0], f'file {loc[0]}')}:{loc[1]}"
        return Location(*loc, text)

    def source_line(self, pc: int) -> int:
        """The line of the source, 0 where there is none."""
        loc = self.function.body[pc].loc
        return loc[1] if loc else 0

    def opcode(self, pc: int) -> str:
        ins = self.function.body[pc]
        return ins.root + ins.suffix

    def describe(self, pc: int) -> str:
        """Two lines at most: the PTX line with its text, and where it comes from."""
        line = self.function.body[pc].line
        text = f"PTX line {line}: {self.module.line_text(line)}"
        location = self.location(pc)
        return f"{text}\n    from {location.text}" if location else text
