"""The embedded device: executes emitted PTX text on NumPy and checks it."""

from .checks.places import Location
from .checks.report import Report
from .launch import Pointer, run

__all__ = ["Location", "Pointer", "Report", "run"]
