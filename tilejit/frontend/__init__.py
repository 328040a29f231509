"""Translation of kernel source to tile IR. The translator, `kernel.build`, is imported only for compilation."""

from .inputs import NO_DEFAULT, Parameter, ParameterKind, captures, changes, fields, functions, parameters, token
from .source import KernelSource

__all__ = [
    "NO_DEFAULT", "KernelSource", "Parameter", "ParameterKind", "captures", "changes", "fields", "functions",
    "parameters", "token",
]
