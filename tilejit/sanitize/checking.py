"""Runs a kernel of a file on the simulator, once per thread order."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from ..dataclass import dataclass
from ..errors import LaunchError, SimulationError
from ..simulator import Device, DeviceArray, Report
from .arguments import WrittenArgument, fitting
from .listing import located, supported
from .loading import KernelFile
from .names import readable
from .report import Result
from .schema import ParameterData, UnsupportedData


@dataclass(frozen=True, slots=True)
class Settings:
    """How a kernel is run. arguments: as the command line writes them. schedules: seeds of thread orders."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[str, ...]
    shared_bytes: int
    strict: bool
    schedules: Sequence[int]
    seed: int


def checked(loaded: KernelFile, kernel: str, settings: Settings) -> Result:
    """Run a kernel with each schedule on equal arguments. raises: LaunchError for bad input.

    A kernel that the simulator doesn't support, or fails to run, gives a result with errors.
    """
    if loaded.refusal:
        return Result(kernel, loaded.file, (), errors=(loaded.refusal,))
    entry = loaded.entry(kernel)
    parameters = loaded.parameters(entry)
    arguments = fitting(readable(entry), parameters, settings.arguments)
    problems = loaded.unsupported(entry)
    if problems:
        return Result(entry, loaded.file, (), errors=(_refusal(problems, loaded),))
    reports: list[Report] = []
    for schedule in settings.schedules:
        try:
            reports.append(_launched(loaded, entry, parameters, arguments, settings, schedule))
        except LaunchError:
            raise
        except SimulationError as error:
            return Result(entry, loaded.file, tuple(reports), tuple(settings.schedules), (error.message,))
        except Exception as error:
            # a fault of the simulator, which the user must not take for one of the kernel
            fault = f"the simulator failed with {type(error).__name__}: {error}; this is a fault of tilejit"
            return Result(entry, loaded.file, tuple(reports), tuple(settings.schedules), (fault,))
    return Result(entry, loaded.file, tuple(reports), tuple(settings.schedules))


def _refusal(problems: Sequence[UnsupportedData], loaded: KernelFile) -> str:
    lines = "".join(f"\n  {located(problem)}" for problem in problems)
    others = ", ".join(supported(loaded)) or "none"
    return f"the simulator does not support it:{lines}\n  kernels of {loaded.file} that are supported: {others}"


def _launched(
    file: KernelFile, entry: str, parameters: Sequence[ParameterData], arguments: Sequence[WrittenArgument],
    settings: Settings, schedule: int,
) -> Report:
    device = Device()
    values: list[DeviceArray | np.generic | bytes] = []
    for position, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True)):
        value = argument.make(settings.seed, position)
        if isinstance(value, np.ndarray):
            name = argument.name or parameter["name"]
            values.append(device.place(value, initialized=argument.kind != "output", name=name))
        else:
            values.append(value)
    return device.load(file.ptx).launch(
        entry, settings.grid, settings.block, values, shared_bytes=settings.shared_bytes,
        checks="strict" if settings.strict else True, on_finding="collect", schedule=schedule, write=sys.stderr.write,
    )
