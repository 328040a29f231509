"""A simulator that executes PTX with NumPy and checks every memory access."""

from .checks.findings import Finding, Location
from .checks.report import RegionCount, Report
from .device import Device, DeviceArray, DeviceModule
from .machine.tensor_map import Share
from .placing import Pointer, TensorMap
from .run_grid import Checks, run

__all__ = [
    "Checks", "Device", "DeviceArray", "DeviceModule", "Finding", "Location", "Pointer", "RegionCount", "Report",
    "Share", "TensorMap", "run",
]
