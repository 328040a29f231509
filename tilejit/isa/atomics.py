"""Atomic operations on memory."""

from __future__ import annotations

from .row import B32, Direction, Row, address, register

__all__ = ["COMPARE_AND_SWAP", "ROWS"]

COMPARE_AND_SWAP = Row(
    name="atom.global.cas.b32",
    text="atom.global.cas.b32 $before, [$place], $expected, $desired;",
    meaning="the word at $place, which becomes $desired where it was $expected",
    operands=(
        register("before", B32, Direction.OUT),
        address("place", "global", Direction.INOUT, 4),
        register("expected", B32),
        register("desired", B32),
    ),
    since=75,
    ptx=(6, 0),
    memory=True,
    source='PTX ISA, "Parallel Synchronization and Communication Instructions: atom"',
)

ROWS = (COMPARE_AND_SWAP,)
