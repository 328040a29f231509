"""The simulator as a device: runs the PTX on host memory, in place."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DeviceError, LaunchError
from ..simulator import Pointer, Report, run
from ..source import Span
from ..target import Target
from ..target import target as find_target
from . import assertions
from .arrays import SIMULATOR, Argument, ArrayView
from .device import Launch, WriteCheck, positions
from .signature import Call

if TYPE_CHECKING:
    from ..ir.nodes import Param
    from ..pipeline import Compiled

_DEFAULT_TARGET = "sm_90a"
_POISON = 0xFF


class SimulatedMemory:
    """Host memory that stands for a device's; all ones at first, which floats read as NaN."""

    __slots__ = ("host",)

    def __init__(self, size: int) -> None:
        self.host: np.ndarray[Any, Any] = np.full(size, _POISON, np.uint8)

    @property
    def pointer(self) -> int:
        return self.host.ctypes.data

    @property
    def device(self) -> int:
        return SIMULATOR

    def copy_in(self, array: np.ndarray[Any, Any]) -> None:
        self.host[:] = array.reshape(-1).view(np.uint8)

    def copy_out(self, array: np.ndarray[Any, Any]) -> None:
        array.reshape(-1).view(np.uint8)[:] = self.host

    def free(self) -> None:
        self.host = np.empty(0, np.uint8)


class SimulatedDevice:
    """The simulator; chosen: the architecture it is asked to be, or None for whatever a kernel needs."""

    def __init__(self, chosen: Target | None) -> None:
        self.chosen = chosen

    @property
    def name(self) -> str:
        return "sim" if self.chosen is None else f"sim:{self.chosen}"

    @property
    def number(self) -> int:
        return SIMULATOR

    @property
    def target(self) -> Target:
        return self.chosen or find_target(_DEFAULT_TARGET)

    def check(self, target: Target) -> None:
        if self.chosen is not None and not target.runs_on(self.chosen.number):
            raise DeviceError(
                f"{self.name} can't run code for {target}",
                hint=f"use plain sim or sim:{target}, or another target for the kernel",
            )

    def load(self, compiled: Compiled) -> SimulatedFunction:
        return SimulatedFunction(compiled)

    def allocate(self, size: int) -> SimulatedMemory:
        return SimulatedMemory(size)

    def synchronize(self) -> None:
        """Launches have ended when they return."""


class SimulatedFunction:
    """A kernel on the simulator."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._positions = positions(compiled)
        self._check_written = WriteCheck(compiled)

    def prepare(self, launch: Launch, call: Call) -> Callable[[], None]:
        return lambda: self.launch(launch, call)

    def launch(self, launch: Launch, call: Call) -> None:
        self.simulate(launch, call.arguments, checks=checks_wanted())

    def simulate(
        self, launch: Launch, arguments: Sequence[Argument], *, checks: bool, profile: bool = False
    ) -> Report:
        """Runs the kernel and returns what the simulator saw."""
        compiled = self.compiled
        self._check_written(arguments)
        record = np.zeros(assertions.WORDS, np.int32)
        values = [self._value(param, arguments, record) for param in compiled.params]
        report = run(
            compiled.ptx,
            compiled.entry,
            launch.grid,
            (launch.threads, 1, 1),
            values,
            checks=checks,
            profile=profile,
            dynamic_shared_bytes=compiled.shared_bytes if compiled.dynamic_shared else 0,
            locate=self._locate,
            capability=compiled.target.number,
        )
        assertions.check(compiled, record, assertions.SimulatedAssertionError)
        return report

    def _value(
        self, param: Param, arguments: Sequence[Argument], record: np.ndarray[Any, Any]
    ) -> Pointer | np.generic:
        if param.kind == assertions.KIND:
            return Pointer(record)
        argument = arguments[self._positions[param.of]]
        if not isinstance(argument, ArrayView):
            with np.errstate(over="ignore"):
                return param.dtype.numpy.type(argument)  # type: ignore[no-any-return]
        if param.kind == "pointer":
            return _pointer(argument)
        assert param.axis is not None
        facts = argument.facts
        return np.int64((facts.shape if param.kind == "extent" else facts.strides)[param.axis])

    def _locate(self, file: int, line: int, column: int) -> Span | None:
        spans = self.compiled.spans
        return spans[column - 1] if 0 < column <= len(spans) else None


def checks_wanted() -> bool:
    """Whether `TILEJIT_SIM_CHECKS` leaves the simulator's checks on."""
    return os.environ.get("TILEJIT_SIM_CHECKS", "1") != "0"


def _pointer(view: ArrayView) -> Pointer:
    """The bytes that the array reaches, for a kernel that gets the address of its first element."""
    if view.host is None:
        raise LaunchError(
            f"an array lies on cuda:{view.facts.device}, and the simulator can't read a GPU's memory",
            hint="copy it to host memory first (.cpu(), cupy.asnumpy)",
        )
    return Pointer(view.host)
