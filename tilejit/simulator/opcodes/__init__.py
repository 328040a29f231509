"""The table of instructions: opcode → forms (pattern of the modifiers, emitting function, optional fidelity).

A new instruction is one form in its topic's `ENTRIES`. A pattern is a regular expression for all modifiers, whose named
groups are passed to the emitting function. The first match applies; without a match, an instruction is unsupported.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from ..decode.emitter import Entries, Entry, Match
from . import bulk, cluster, convert, copies, floats, integer, matrix, mbarrier, memory, move, sync, tensor, wgmma

#: modules with `ENTRIES`; `python -m tilejit simulator` prints the first lines of their docstrings as headings
TOPICS = (
    integer, floats, convert, move, memory, copies, bulk, mbarrier, sync, cluster, matrix, wgmma, tensor,
)


def _merge() -> dict[str, tuple[tuple[str, Entry], ...]]:
    merged: dict[str, tuple[tuple[str, Entry], ...]] = {}
    for topic in TOPICS:
        entries: Entries = topic.ENTRIES
        for root, forms in entries.items():
            merged[root] = merged.get(root, ()) + tuple(form[:2] for form in forms)
    return merged


INSTRUCTIONS = _merge()


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern at its first use, which keeps imports fast."""
    return re.compile(pattern)


@lru_cache(maxsize=4096)
def lookup(root: str, suffix: str) -> tuple[Entry, Match] | None:
    """Return an opcode's emitting function for these modifiers, and the match's groups; None if no pattern matches."""
    for pattern, entry in INSTRUCTIONS.get(root, ()):
        match = _compiled(pattern).fullmatch(suffix)
        if match:
            return entry, match.groupdict()
    return None
