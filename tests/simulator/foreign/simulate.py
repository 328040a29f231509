"""Runs a case of the corpus on the simulator."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tilejit.simulator import Pointer, run

from .case import Case, Launch, stored_ptx


def simulate(case: Case) -> Launch:
    """Launch a kernel as often as its case says; returns the arguments afterwards."""
    ptx = stored_ptx(case.family, case.file)
    entry = case.entry or re.findall(r"\.entry ([\w$]+)", ptx)[0]
    launch = case.make(None)
    arguments = [argument(x) for x in launch.args]
    for _ in range(case.launches):
        run(ptx, entry, case.grid, case.block, arguments, dynamic_shared_bytes=case.shared_bytes)
    return launch


def argument(value: Any) -> Any:
    return Pointer(value.reshape(-1).view(np.uint8)) if isinstance(value, np.ndarray) else value
