"""Translation of a kernel's Python source to tile IR, once per signature.

This package exports what a launch needs; `kernel.build`, which emits the IR, is imported only to compile.
"""

from .captures import captures, changes, functions, token
from .parameters import NO_DEFAULT, Parameter, ParameterKind, parameters
from .source import KernelSource

__all__ = [
    "NO_DEFAULT", "KernelSource", "Parameter", "ParameterKind", "captures", "changes", "functions", "parameters",
    "token",
]
