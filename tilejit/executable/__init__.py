"""What a launch needs of a compiled kernel: one record, as bytes, as a file, and as a C header."""

from .record import Assertion, Executable, MachineCode, SharedPlace

__all__ = ["Assertion", "Executable", "MachineCode", "SharedPlace"]
