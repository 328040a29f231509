"""Translation of a kernel's source to tile IR by `kernel.build`, which is imported only to compile."""

from .captures import captures, changes, functions, token
from .parameters import NO_DEFAULT, Parameter, ParameterKind, parameters
from .source import KernelSource

__all__ = [
    "NO_DEFAULT", "KernelSource", "Parameter", "ParameterKind", "captures", "changes", "functions", "parameters",
    "token",
]
