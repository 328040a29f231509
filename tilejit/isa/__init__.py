"""The one table of instructions beyond scalar code, a file for each topic.

LLVM does scalar arithmetic, addresses, plain loads and stores, and control flow. Every other instruction stands here
once: its text, its operands, the oldest target and PTX version that have it, who executes it together, what it starts
or completes, and its meaning.
"""

from __future__ import annotations

from difflib import get_close_matches

from . import approximate, atomics, barriers, convert, cp_async, fences, matrix, mma, tcgen05, warp
from .row import AsyncWork, Capability, Direction, Family, Kind, Operand, Register, Row

__all__ = ["ROWS", "Direction", "Capability", "Family", "Kind", "Operand", "Register", "Row", "AsyncWork", "nearest"]

#: name -> row
ROWS: dict[str, Row] = {
    row.name: row
    for topic in (barriers, warp, convert, approximate, atomics, matrix, mma, cp_async, tcgen05, fences)
    for row in topic.ROWS
}


def nearest(name: str) -> list[str]:
    """Names in the table that look like `name`, the nearest first."""
    return get_close_matches(name, ROWS, 3)
