"""Register usage of compiled kernels."""

from __future__ import annotations

import re

from .dataclass import dataclass

# codes of ptxas's advisories on performance: waits and copies that it added, or instructions that it ignored
_IS_NOTE = re.compile(r"\(C75\d\d\)")


def notes_in(output: str) -> tuple[str, ...]:
    """Return the distinct lines of ptxas's output that contain an advisory on performance."""
    return tuple(dict.fromkeys(line.strip() for line in output.splitlines() if _IS_NOTE.search(line)))


@dataclass(frozen=True, slots=True)
class Usage:
    """32-bit registers and bytes of spills per thread. is_estimate: True if no driver has compiled the kernel yet."""

    registers: int
    spill_bytes: int
    is_estimate: bool = False


@dataclass(slots=True, eq=False)
class Measurement:
    """Measurements by the driver, filled in when it loads a compiled kernel."""

    usage: Usage | None = None
    #: advisories of the driver's compiler; empty if the driver had the kernel in its cache
    notes: tuple[str, ...] = ()
    #: duration of loading, including the driver's compilation
    milliseconds: float | None = None
