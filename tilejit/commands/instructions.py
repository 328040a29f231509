"""`python -m tilejit simulator`: the PTX instructions that the simulator knows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..isa import ROWS
from ..simulator.instructions import HEADER, instruction_rows, instruction_table, unknown_instructions
from .schema import VERSION, InstructionDocument

_OPCODE = re.compile(r"(?:^|[;{])\s*(?:@\S+\s+)?([a-z]\w*)([.\w:]*)")


def as_text() -> Iterator[str]:
    """Return the lines of the simulator's instruction table, then the emitted instructions that it doesn't support."""
    return instruction_table(_emitted())


def report(version: str) -> InstructionDocument:
    """Return the table as data. version: that of tilejit."""
    return {
        "version": VERSION, "tilejit": version, "notation": HEADER,
        "instructions": [
            {
                "topic": topic, "opcodes": list(row.opcodes), "modifiers": row.modifiers,
                "fidelity": row.fidelity.kind, "note": row.fidelity.how, "is_checked_for_races": row.fidelity.races,
            }
            for topic, rows in instruction_rows().items()
            for row in rows
        ],
        "unknown": unknown_instructions(_emitted()),
    }


def _emitted() -> Iterator[tuple[str, str]]:
    """Yield the opcode and modifiers of each instruction that the compiler may emit."""
    return ((opcode, modifiers) for row in ROWS.values() for opcode, modifiers in _OPCODE.findall(row.text))
