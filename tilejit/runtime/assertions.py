"""The record of a failed assertion in a kernel, and the error raised for it.

The kernel receives the address of a record (`AssertionsParam`), which the first failing thread fills in. Only checked
builds contain assertions: `assert` statements, and checks that the compiler inserts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataclass import dataclass
from ..errors import (
    DeviceAssertionError,
    DeviceCheckError,
    DivisionByZeroError,
    OutOfBoundsError,
    SimulatedAssertionError,
    SimulationError,
    UninitializedReadError,
)
from ..ir.params import AssertionsParam
from ..target import WARP as WARP_THREADS
from .device import Launch

if TYPE_CHECKING:
    from ..executable import Assertion, Executable

_SIMULATED: dict[str, type[SimulationError]] = {
    "assert": SimulatedAssertionError,
    "bounds": OutOfBoundsError,
    "front": OutOfBoundsError,
    "overlap": SimulationError,
    "unwritten": UninitializedReadError,
    "uniform": SimulationError,
    "division": DivisionByZeroError,
}

_HINTS: dict[str, str] = {
    "bounds": "test the index before it is used; only regions of whole global tensors may extend past the edges",
    "front": "store only elements inside the tensor, or use tj.cta.copy, which masks others; a GPU aborts the kernel",
    "overlap": "copy the source to a local tile first, so that everything is read before anything is written",
    "unwritten": "write it on every path, for example by a fill at the beginning",
    "division": "test the divisor first: q = m // n if n != 0 else 0; without checks the result is 0",
    "uniform": "give it a value that all threads of the scope share",
}


@dataclass(frozen=True, slots=True)
class FailedAssertion:
    """A decoded record. thread: the failing thread's index in its CTA. values: all value slots, used or not."""

    assertion: Assertion
    thread: int
    cta: tuple[int, ...]
    values: tuple[int, ...]

    @property
    def message(self) -> str:
        text, cta = self.assertion.message, f"CTA ({', '.join(map(str, self.cta))})"
        if self.assertion.rule != "assert":
            warp, lane = divmod(self.thread, WARP_THREADS)
            return f"{text.format(*self.values)}, in thread {self.thread} (warp {warp}, lane {lane}) of {cta}"
        where = f"thread {self.thread} of {cta}"
        return f"assert failed in {where}: {text}" if text else f"assert failed in {where}"

    def simulated(self, launch: Launch) -> SimulationError:
        (x, y, z), (width, height, _) = self.cta, launch.grid
        thread = (x + width * (y + height * z)) * launch.threads + self.thread
        rule = self.assertion.rule
        return _SIMULATED[rule](self.message, span=self.assertion.span, hint=_HINTS.get(rule), threads=(thread,))

    def on_a_gpu(self) -> DeviceCheckError:
        error = DeviceAssertionError if self.assertion.rule == "assert" else DeviceCheckError
        return error(self.message, span=self.assertion.span, hint=_HINTS.get(self.assertion.rule))


def failed(executable: Executable, record: np.ndarray[Any, Any]) -> FailedAssertion | None:
    """Decode the bytes of a record; return None if no assertion failed."""
    size = AssertionsParam.WORDS_BYTES
    words = dict(zip(AssertionsParam.WORDS, record[:size].view(np.int32).tolist(), strict=True))
    if words["code"] == 0:
        return None
    cta = (words["cta_x"], words["cta_y"], words["cta_z"])
    values = tuple(record[size:].view(np.int64).tolist())
    return FailedAssertion(executable.assertions[words["code"] - 1], words["thread"], cta, values)
