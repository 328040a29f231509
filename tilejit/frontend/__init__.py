"""From a kernel's Python source to tile IR, by reading it once for each signature."""

from .captures import captures, changes
from .kernel import build
from .parameters import NO_DEFAULT, Parameter, ParameterKind, parameters, with_overlaps
from .source import KernelSource

__all__ = [
    "NO_DEFAULT", "KernelSource", "Parameter", "ParameterKind", "build", "captures", "changes", "parameters",
    "with_overlaps",
]
