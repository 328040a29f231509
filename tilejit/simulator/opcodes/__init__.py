"""The table of instructions: opcode → forms (pattern of the modifiers, emitting function, optional fidelity).

A new instruction is one form in its topic's `ENTRIES`. A pattern is a regular expression for all modifiers, whose named
groups are passed to the emitting function. The first match applies; without a match, an instruction is unsupported.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from ..decode.emitter import Entry, Fidelity, Form, Match
from . import (
    bulk,
    cluster,
    convert,
    copies,
    floats,
    integer,
    matrix,
    mbarrier,
    memory,
    move,
    sync,
    tensor,
    tensormap,
    wgmma,
)

#: modules with `ENTRIES`; `python -m tilejit simulator` prints the first lines of their docstrings as headings
TOPICS = (
    integer, floats, convert, move, memory, copies, bulk, tensormap, mbarrier, sync, cluster, matrix, wgmma, tensor,
)


def _merge() -> dict[str, tuple[Form, ...]]:
    merged: dict[str, tuple[Form, ...]] = {}
    for entries in (*(topic.ENTRIES for topic in TOPICS), sync.INTERNAL):
        for root, forms in entries.items():
            merged[root] = merged.get(root, ()) + forms
    return merged


INSTRUCTIONS = _merge()


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern at its first use, which keeps imports fast."""
    return re.compile(pattern)


@lru_cache(maxsize=4096)
def _form(root: str, suffix: str) -> tuple[Form, Match] | None:
    """Return the form of an opcode with these modifiers, and the match's groups; None if no pattern matches."""
    for form in INSTRUCTIONS.get(root, ()):
        match = _compiled(form[0]).fullmatch(suffix)
        if match:
            return form, match.groupdict()
    return None


def lookup(root: str, suffix: str) -> tuple[Entry, Match] | None:
    """Return an opcode's emitting function for these modifiers, and the match's groups; None if no pattern matches."""
    found = _form(root, suffix)
    return found and (found[0][1], found[1])


def fidelity(root: str, suffix: str) -> Fidelity:
    """Return an instruction's fidelity. raises: KeyError if no pattern matches."""
    found = _form(root, suffix)
    if found is None:
        raise KeyError(root + suffix)
    return found[0][2] if len(found[0]) == 3 else Fidelity()
