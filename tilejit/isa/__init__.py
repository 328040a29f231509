"""The one table of instructions beyond scalar code, a file for each topic.

LLVM does scalar arithmetic, addresses, plain loads and stores, and control flow. Every other instruction stands here
once: its text, its operands, the oldest target and PTX version that have it, who executes it together, what it starts
or completes, and its meaning.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from .row import AsyncWork, Capability, Direction, Family, Kind, Operand, Register, Row

__all__ = [
    "ASYNC_CALLS", "ROWS", "TOPICS", "WAITS", "AsyncWork", "Capability", "Direction", "Family", "Kind", "Operand",
    "Register", "Row", "nearest",
]

_MODULES = tuple(import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))

#: the files here that have rows
TOPICS: tuple[ModuleType, ...] = tuple(module for module in _MODULES if hasattr(module, "ROWS"))

#: name -> row
ROWS: dict[str, Row] = {row.name: row for topic in TOPICS for row in topic.ROWS}

#: asynchronous work -> the instruction that waits for it
WAITS: dict[AsyncWork, Row] = {row.completes: row for row in ROWS.values() if row.completes is not None}

#: what users call after `tj.` -> the instruction, a commit of asynchronous work or a wait for it
ASYNC_CALLS: dict[str, Row] = {
    row.spelling: row for row in ROWS.values() if row.completes or (row.commits and row.commits.commit)
}


def nearest(name: str) -> list[str]:
    """Names in the table that look like `name`, the nearest first."""
    return get_close_matches(name, ROWS, 3)
