"""The executable: everything that a launch needs to know about a compiled kernel."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ..dataclass import dataclass, field
from ..dtypes import DType
from ..ir.clusters import Cluster
from ..ir.params import AssertionsParam, Param, TensorMapParam, written_arguments
from ..ir.types import Signature
from ..ir.values import Expr, Var
from ..ir.watched import WatchedRegion
from ..source import Span
from ..target import Target


@dataclass(frozen=True, slots=True)
class Assertion:
    """An assertion. rule: in `ir.nodes.RULES`. message: text for "assert", else a format string of recorded values."""

    rule: str
    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Reshape:
    """A view of an array in another shape. All sizes are expressions of parameters, which a launch evaluates.

    of: the argument's name. shape, strides: before. new_shape, new_strides: those of the view, as the kernel computes
    them.
    """

    of: str
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    new_shape: tuple[Expr, ...]
    new_strides: tuple[Expr, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class ScratchArray:
    """An array from `tj.scratch`, which each launch allocates. of: its name, to which parameters refer.

    extents: expressions of parameters and the grid. zeroed: see `ScratchShape`. span: the call in the kernel's source.
    """

    of: str
    dtype: DType
    extents: tuple[Expr, ...]
    zeroed: bool
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """The location of a buffer in a CTA's shared memory: it starts at byte `first` of `variable`, a symbol of the PTX.

    span: the allocation in the kernel's source.
    """

    name: str
    variable: str
    first: int
    bytes: int
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class MachineCode:
    """A cubin that the driver compiled from PTX. capability: 10 times its GPU's compute capability, such as 90."""

    image: bytes = field(repr=False)
    capability: int


@dataclass(frozen=True, slots=True)
class Usage:
    """32-bit registers and bytes of spills per thread. is_estimate: False if the driver reported them."""

    registers: int
    spill_bytes: int
    is_estimate: bool = False


@dataclass(frozen=True, slots=True)
class Executable:
    """A kernel compiled for one signature and target. name, entry: its names in Python and PTX. threads: per CTA."""

    name: str
    entry: str
    target: Target
    signature: Signature
    threads: int
    #: CTAs per dimension of a cluster; None without clusters
    cluster: Cluster | None
    cooperative: bool
    #: the parameters of the PTX kernel, in order; without arguments, extents and strides that it doesn't use
    params: tuple[Param, ...]
    shared_bytes: int
    #: True if the launch must request `shared_bytes` as dynamic shared memory
    dynamic_shared: bool
    #: bytes of local memory per thread for buffers, without spilled registers
    local_bytes: int
    ptx: str = field(repr=False)
    #: column c of a `.loc` refers to spans[c - 1]
    spans: tuple[Span, ...] = field(default=(), repr=False)
    #: a failure with code c in the assertion record refers to assertions[c - 1]
    assertions: tuple[Assertion, ...] = ()
    watched: tuple[WatchedRegion, ...] = ()
    #: the views whose shapes each launch checks
    reshapes: tuple[Reshape, ...] = ()
    scratch: tuple[ScratchArray, ...] = ()
    #: True for a checked build with scratch that it must leave zero, which launches then check
    checks_zeroed: bool = False
    shared_map: tuple[SharedPlace, ...] = field(default=(), repr=False)
    #: registers per thread at entry if the kernel contains `tj.set_registers`, else None
    entry_registers: int | None = None
    #: grid axes whose CTA index or extent the kernel reads
    grid_axes: tuple[int, ...] = (0, 1, 2)
    #: names of the float32 scalar arguments that the kernel converts to float64, alone or combined with others
    widened: tuple[str, ...] = ()
    #: registers and spills; None until measured or estimated
    usage: Usage | None = None
    machine_code: MachineCode | None = None

    @property
    def is_checked(self) -> bool:
        """True if a launch checks anything that a launch of the plain build doesn't."""
        return bool(self.watched) or self.checks_zeroed or any(isinstance(p, AssertionsParam) for p in self.params)

    @property
    def has_breakpoint(self) -> bool:
        """True if the kernel calls `__breakpoint`, a function that only the simulator provides."""
        return "__breakpoint, (" in self.ptx

    @property
    def positions(self) -> dict[str, int]:
        """The positions of the arguments and, after them, of the arrays from `tj.scratch`, by name."""
        names = [*(name for name, _ in self.signature.arguments), *(each.of for each in self.scratch)]
        return {name: i for i, name in enumerate(names)}

    @property
    def written(self) -> dict[str, int]:
        """The positions of the arguments that the kernel may write, by name, in order of position."""
        names = written_arguments(self.params)
        return {name: i for i, (name, _) in enumerate(self.signature.arguments) if name in names}

    @property
    def packing(self) -> Packing:
        return Packing([field_of(param) for param in self.params])


#: name of an element type -> format character of `struct`; bfloat16 and fp8 values are packed as their bits
_CODES = {
    "bool_": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float16": "e", "bfloat16": "H", "float32": "f", "float64": "d",
    "float8_e4m3fn": "B", "float8_e5m2": "B",
}


class Field(NamedTuple):
    """A parameter in the block of `Packing`: its `struct` format and its alignment in bytes."""

    code: str
    align_bytes: int


class Packing:
    """Kernel parameters packed into one block of memory, each with its own size and alignment.

    ```
    parameter   pointer A   scalar n: int8        extent A 0   tensor map
    bytes       0 ... 7     8        (9 ... 15)   16 ... 23    (24 ... 63) 64 ... 191
    ```
    offsets: the parameters' offsets in bytes. pack_into: as in `struct.Struct`.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        code, offsets, end = "<", [], 0
        for each in fields:
            padding = -end % each.align_bytes
            offsets.append(end + padding)
            code += f"{padding}x{each.code}"
            end = offsets[-1] + struct.calcsize("<" + each.code)
        self.offsets = tuple(offsets)
        self.align_bytes = max((each.align_bytes for each in fields), default=1)
        self._packer = struct.Struct(code)
        self.size_bytes = self._packer.size
        self.pack_into = self._packer.pack_into


def field_of(param: Param) -> Field:
    if isinstance(param, TensorMapParam):
        return Field(f"{param.size_bytes}s", param.align_bytes)
    # all others are numbers or 64-bit addresses
    code = _CODES[param.defines.dtype.name] if isinstance(param.defines, Var) else "Q"
    return Field(code, param.align_bytes)


def field_of_scalar(dtype: DType) -> Field:
    return Field(_CODES[dtype.name], dtype.bytes)
