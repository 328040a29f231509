"""Compiled kernels in the form that launches use, and their encoding as JSON, files and C headers."""

from .record import Assertion, Executable, MachineCode, SharedPlace, Usage

__all__ = ["Assertion", "Executable", "MachineCode", "SharedPlace", "Usage"]
