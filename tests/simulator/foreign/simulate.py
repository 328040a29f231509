"""Runs a case of the corpus on the simulator."""

from __future__ import annotations

import numpy as np

from tilejit.simulator import Device

from .case import Case, Launch, stored_ptx


def simulate(case: Case, checks: bool = True, schedule: int = 0) -> Launch:
    """Launch a kernel as often as its case says; returns the arguments afterwards."""
    device = Device()
    module = device.load(stored_ptx(case.family, case.file))
    launch = case.make(device)
    for name, value in launch.variables.items():
        module.variable(name)[:] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    entry = case.entry or module.kernels[0]
    for _ in range(case.launches):
        module.launch(
            entry, case.grid, case.block, launch.args,
            shared_bytes=case.shared_bytes, checks=checks, schedule=schedule,
        )
    return launch
