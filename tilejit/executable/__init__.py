"""Compiled kernels as launches need them, and their encoding as JSON, files and C headers."""

from .record import Assertion, Executable, MachineCode, SharedPlace

__all__ = ["Assertion", "Executable", "MachineCode", "SharedPlace"]
