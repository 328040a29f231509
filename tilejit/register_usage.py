"""What a thread of a compiled kernel needs."""

from __future__ import annotations

import re

from .dataclass import dataclass

__all__ = ["Measurement", "Usage", "notes_in"]

# ptxas gives these numbers to lost performance: waits, copies or skipped instructions that the program didn't ask for
_IS_NOTE = re.compile(r"\(C75\d\d\)")


def notes_in(output: str) -> tuple[str, ...]:
    """Return the lines of ptxas's output that report lost performance, each once."""
    return tuple(dict.fromkeys(line.strip() for line in output.splitlines() if _IS_NOTE.search(line)))


@dataclass(frozen=True, slots=True)
class Usage:
    """Registers of 32 bits, and bytes of local memory that hold what they can't.

    is_estimate: of the tiles alone; no driver has compiled it yet.
    """

    registers: int
    spill_bytes: int
    is_estimate: bool = False


@dataclass(slots=True, eq=False)
class Measurement:
    """A place for what a driver says of a compiled kernel when it has loaded it.

    notes: what its compiler said that costs speed; nothing where the driver had compiled the kernel before.
    milliseconds: what loading it took, with the driver's compilation; None before.
    """

    usage: Usage | None = None
    notes: tuple[str, ...] = ()
    milliseconds: float | None = None
