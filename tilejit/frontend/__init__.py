"""From a kernel's Python source to tile IR, by reading it once for each signature.

Here is what a launch asks for. `kernel.build` makes the tile IR; nothing that it needs is imported before.
"""

from .captures import captures, changes, functions, token
from .parameters import NO_DEFAULT, Parameter, ParameterKind, parameters
from .source import KernelSource

__all__ = [
    "NO_DEFAULT", "KernelSource", "Parameter", "ParameterKind", "captures", "changes", "functions", "parameters",
    "token",
]
