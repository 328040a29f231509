"""The table of instructions: opcode → (pattern of its modifiers, what emits it, fidelity if it isn't exact).

A new instruction is one entry: a regular expression over everything after the opcode, whose named groups the
emitting function receives. Where several patterns match, the first one counts; where none does, the instruction is
unsupported.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..decode.emitter import Entries, Entry, Match
from . import bulk, cluster, convert, copies, floats, integer, matrix, mbarrier, memory, move, sync, tensor, wgmma

#: by topic: the docstring of each says what its entries are
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
    """A pattern that is compiled when it is first needed: start-up matters more than a first use."""

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
    """The entry for an opcode with its modifiers, and what its pattern's groups matched."""
    for pattern, entry in INSTRUCTIONS.get(root, ()):
        match = pattern.fullmatch(suffix)
        if match:
            return entry, match.groupdict()
    return None
