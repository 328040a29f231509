"""Locations in the user's source, and their rendering in messages."""

from __future__ import annotations

import unicodedata

from .dataclass import lean
from .errors import shown_file


@lean(frozen=True, slots=True)
class Span:
    """A range of source text, with the call sites through which it was inlined.

    line, end_line: 1-based.
    column, end_column: 0-based, in characters; the range ends before `end_column`.
    text: the source line `line`, so that rendering doesn't read the file; "" if unknown.
    caller: the call site of the helper function that contains this location, None in the kernel itself.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str = ""
    caller: Span | None = None

    def render(self) -> str:
        """Return `file:line:column`, the source line (if known) with carets below it, and the same for each caller."""
        shown = [f"  at {shown_file(self.file)}:{self.line}:{self.column + 1}"]
        if self.text:
            stripped = self.text.lstrip()
            dropped = len(self.text) - len(stripped)
            end = self.end_column if self.end_line == self.line else len(self.text)
            before = display_width(self.text[dropped : self.column])
            marked = display_width(self.text[self.column : max(end, self.column + 1)])
            shown.append(f"    {stripped}")
            shown.append("    " + " " * before + "^" * max(marked, 1))
        if self.caller is not None:
            shown.append("  called from")
            shown.append(self.caller.render())
        return "\n".join(shown)

    def __str__(self) -> str:
        return f"{shown_file(self.file)}:{self.line}"

    @property
    def marked(self) -> str:
        """The part of `text` that is in the range."""
        return self.text[self.column : self.end_column if self.end_line == self.line else None]

    @property
    def called(self) -> Span:
        """The location in the kernel itself: the outermost call site, or this location if it wasn't inlined."""
        return self if self.caller is None else self.caller.called


def display_width(text: str) -> int:
    """Return the width of `text` in terminal columns: 2 per wide East Asian character, 0 per combining one, else 1."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )
