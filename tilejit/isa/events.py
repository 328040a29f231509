"""Events for performance tools, without other effects."""

from __future__ import annotations

from .row import Row, constant

PMEVENT = Row(
    name="pmevent.mask",
    text="pmevent.mask $events;",
    meaning="triggers the performance monitor events whose bits are set in the 16 bits of $events",
    operands=(constant("events"),), since=75, ptx=(6, 0),
    # a convergent row also has side effects, so LLVM neither removes nor duplicates it
    convergent=True,
    source='PTX ISA, "Miscellaneous Instructions: pmevent"',
)

ROWS = (PMEVENT,)
