"""The embedded device: executes emitted PTX text on NumPy and checks it."""

from tilejit.simulator.launch import Pointer, run
from tilejit.simulator.places import Location
from tilejit.simulator.report import Report

__all__ = ["Location", "Pointer", "Report", "run"]
