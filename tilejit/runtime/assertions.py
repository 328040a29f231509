"""What a failed `assert` in a kernel leaves behind, and the error it becomes.

The kernel gets the address of a record of five 32-bit words: code (0: none failed, else 1 + the index of the
assertion), thread, and the three CTA ids of the first thread that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import LaunchError, SimulationError

if TYPE_CHECKING:
    from ..pipeline import Compiled

#: the kind of the kernel parameter that takes the record's address
KIND = "assertions"
WORDS = 5


class DeviceAssertionError(LaunchError, AssertionError):
    """An `assert` that failed on a GPU."""


class SimulatedAssertionError(SimulationError, AssertionError):
    """An `assert` that failed on the simulator."""


def takes_record(compiled: Compiled) -> bool:
    """Whether the kernel has assertions compiled in."""
    return any(p.kind == KIND for p in compiled.params)


def check(
    compiled: Compiled,
    record: np.ndarray[Any, Any],
    error: type[DeviceAssertionError] | type[SimulatedAssertionError],
) -> None:
    """Raises `error` where the record tells of a failed assertion."""
    code, thread, *cta = (int(word) for word in record)
    if code == 0:
        return
    message, span = compiled.assertions[code - 1]
    where = f"thread {thread} of CTA ({', '.join(map(str, cta))})"
    raise error(f"assert failed in {where}: {message}" if message else f"assert failed in {where}", span=span)
