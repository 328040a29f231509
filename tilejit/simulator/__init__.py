"""A simulator that executes PTX with NumPy and checks every memory access."""

from .checks.findings import Finding, Location
from .checks.report import RegionCount, Report
from .decode.ptx import PtxParam
from .device import Device, DeviceModule, Unsupported
from .machine.tensor_map import Share
from .placing import DeviceArray, Pointer, TensorMap
from .run_grid import Checks, run

__all__ = [
    "Checks", "Device", "DeviceArray", "DeviceModule", "Finding", "Location", "Pointer", "PtxParam", "RegionCount",
    "Report", "Share", "TensorMap", "Unsupported", "run",
]
