"""The table of instructions that are emitted as inline assembly, one module per topic.

LLVM generates most scalar code (arithmetic, addresses, special registers), plain loads and stores, and control flow.
Every other instruction has a row here: its assembly, its operands, the oldest target and PTX version, the threads that
execute it together, the asynchronous work that it starts or completes, and its meaning. Operations and the IR refer to
instructions by the names of their rows.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from .row import AsyncWork, Capability, Direction, Family, Kind, OpenFamily, Operand, Register, Row

__all__ = [
    "ASYNC_CALLS", "ROWS", "TOPICS", "WAITS", "AsyncWork", "Capability", "Direction", "Family", "Kind",
    "OPEN_FAMILIES", "OpenFamily", "Operand", "Register", "Row", "nearest", "row_called",
]

_MODULES = tuple(import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))

TOPICS: tuple[ModuleType, ...] = tuple(module for module in _MODULES if hasattr(module, "ROWS"))

#: all families of rows that are created at first use
OPEN_FAMILIES: tuple[OpenFamily[Any], ...] = tuple(
    each for topic in TOPICS for each in vars(topic).values() if isinstance(each, OpenFamily)
)


class _Table(dict[str, Row]):
    """Rows by name. Iteration omits the rows of open families, which are created on lookup."""

    def __missing__(self, name: str) -> Row:
        for family in OPEN_FAMILIES:
            row = family.named(name)
            if row is not None:
                return row
        raise KeyError(name)


ROWS: dict[str, Row] = _Table({row.name: row for topic in TOPICS for row in topic.ROWS})


def row_called(name: str) -> Row | None:
    """Return the row of this name, or None."""
    try:
        return ROWS[name]
    except KeyError:
        return None


#: asynchronous work -> the instruction that waits for its completion
WAITS: dict[AsyncWork, Row] = {
    row.completes: row for row in ROWS.values() if row.completes is not None and not row.called
}

#: name after `tj.` -> the instruction that commits asynchronous work or waits for it
ASYNC_CALLS: dict[str, Row] = {
    row.spelling: row for row in ROWS.values() if row.completes or (row.commits and row.commits.commit)
}


def nearest(name: str) -> list[str]:
    """Return up to three row names similar to `name`, most similar first; rows of open families are omitted."""
    return get_close_matches(name, ROWS, 3)
