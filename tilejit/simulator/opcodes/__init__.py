"""The table of instructions: opcode → entries (pattern of the modifiers, emitting function, optional fidelity).

A new instruction is one entry: a regular expression over all modifiers, whose named groups are passed to the emitting
function. The first matching pattern applies; if none matches, the instruction is unsupported.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..decode.emitter import Entries, Entry, Match
from . import bulk, cluster, convert, copies, floats, integer, matrix, mbarrier, memory, move, sync, tensor, wgmma

#: modules with entries; the first lines of their docstrings are headings of the table
TOPICS = (
    integer, floats, convert, move, memory, copies, bulk, mbarrier, sync, cluster, matrix, wgmma, tensor,
)


def _merge() -> dict[str, tuple[tuple[_Lazy, Entry], ...]]:
    merged: dict[str, tuple[tuple[_Lazy, Entry], ...]] = {}
    for topic in TOPICS:
        entries: Entries = topic.ENTRIES
        for root, forms in entries.items():
            merged[root] = merged.get(root, ()) + tuple((_Lazy(form[0]), form[1]) for form in forms)
    return merged


class _Lazy:
    """A pattern that is compiled at its first use, to keep imports fast."""

    __slots__ = ("pattern", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.pattern: re.Pattern[str] | None = None

    def fullmatch(self, text: str) -> re.Match[str] | None:
        if self.pattern is None:
            self.pattern = re.compile(self.source)
        return self.pattern.fullmatch(text)


INSTRUCTIONS = _merge()


@lru_cache(maxsize=4096)
def lookup(root: str, suffix: str) -> tuple[Entry, Match] | None:
    """Return an opcode's emitting function for these modifiers, and the match's groups; None if no pattern matches."""
    for pattern, entry in INSTRUCTIONS.get(root, ()):
        match = pattern.fullmatch(suffix)
        if match:
            return entry, match.groupdict()
    return None
