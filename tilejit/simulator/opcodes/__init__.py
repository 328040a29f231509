"""The table of instructions: opcode → (pattern of its modifiers, what emits it).

A new instruction is one entry: a regular expression over everything after the opcode, whose named groups the
emitting function receives. Where several patterns match, the first one counts; where none does, the instruction is
unsupported.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..decode.emitter import Entries, Entry, Match
from . import bulk, cluster, convert, copies, floats, integer, matrix, mbarrier, memory, move, sync, tensor, wgmma

_TABLES: tuple[Entries, ...] = (
    bulk.ENTRIES, integer.ENTRIES, floats.ENTRIES, convert.ENTRIES, move.ENTRIES, memory.ENTRIES, sync.ENTRIES,
    matrix.ENTRIES, copies.ENTRIES, tensor.ENTRIES, mbarrier.ENTRIES, wgmma.ENTRIES, cluster.ENTRIES,
)


def _merge() -> dict[str, tuple[tuple[_Lazy, Entry], ...]]:
    merged: dict[str, tuple[tuple[_Lazy, Entry], ...]] = {}
    for table in _TABLES:
        for root, forms in table.items():
            merged[root] = merged.get(root, ()) + tuple((_Lazy(pattern), entry) for pattern, entry in forms)
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
