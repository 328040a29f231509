"""What a failed `assert` in a kernel leaves behind, and the error it becomes.

The kernel gets the address of a record (`AssertionsParam`), which the first thread that failed has filled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import LaunchError, SimulationError
from ..ir.nodes import AssertionsParam

if TYPE_CHECKING:
    from ..pipeline import Compiled

WORDS = len(AssertionsParam.WORDS)


class DeviceAssertionError(LaunchError, AssertionError):
    """An `assert` that failed on a GPU."""


class SimulatedAssertionError(SimulationError, AssertionError):
    """An `assert` that failed on the simulator."""


def takes_record(compiled: Compiled) -> bool:
    """Whether the kernel has assertions compiled in."""
    return any(isinstance(p, AssertionsParam) for p in compiled.params)


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
