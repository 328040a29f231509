"""Runs a case of the corpus on the simulator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilejit.simulator import Device
from tilejit.simulator.checks.report import Report
from tilejit.simulator.device import DeviceModule

from .case import Case, Launch, stored_ptx


def simulate(case: Case, checks: bool = True, schedule: int = 0) -> Launch:
    """Launch a kernel as often as its case says; returns the arguments afterwards."""
    module, launch = loaded(case, stored_ptx(case.family, case.file))
    for _ in range(case.launches):
        module.launch(
            case.entry or module.kernels[0], case.grid, case.block, launch.args,
            shared_bytes=case.shared_bytes, checks=checks, schedule=schedule, cooperative=case.cooperative,
        )
    return launch


def reports(case: Case, ptx: str, schedule: int) -> Iterator[Report]:
    """The simulator's report on each launch of a case with other PTX; findings don't stop a launch."""
    module, launch = loaded(case, ptx)
    for _ in range(case.launches):
        yield module.launch(
            case.entry or module.kernels[0], case.grid, case.block, launch.args,
            shared_bytes=case.shared_bytes, schedule=schedule, on_finding="collect", cooperative=case.cooperative,
        )


def loaded(case: Case, ptx: str) -> tuple[DeviceModule, Launch]:
    """A module on a device of its own, and the arguments of its launches."""
    device = Device()
    module = device.load(ptx)
    launch = case.make(device)
    for name, value in launch.variables.items():
        module.variable(name)[:] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return module, launch
