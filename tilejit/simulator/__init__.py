"""The embedded device: executes emitted PTX text on NumPy and checks it."""

from .checks.places import Location
from .checks.report import Report
from .device import Device, DeviceArray, DeviceModule
from .launch import Pointer, run

__all__ = ["Device", "DeviceArray", "DeviceModule", "Location", "Pointer", "Report", "run"]
