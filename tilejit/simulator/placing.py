"""Placement of a launch's memory: arguments, tensor maps, variables, and resident, shared and local memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dataclass import dataclass, field, replace
from ..errors import LaunchError, SimulationError
from .decode.translate import Program
from .decode.variables import RESERVED, initial_bytes
from .machine.lanes import RANK_SHIFT, Lanes
from .machine.memory import LOCAL_BASE, SHARED_BASE, AddressMap, Elements, MemoryPart, MemoryRegion, in_bytes
from .machine.tensor_map import MAP_BYTES, EncodedMap, MapShape, Share, encode
from .opcodes.move import WINDOWS

# The memory of a cooperative launch at the address in %envreg1 (upper half) and %envreg2. Cooperative groups keep the
# grid's barrier in the word at offset 4. The address exceeds 32 bits and is below those of variables.
# source: CUDA's cooperative_groups/details, which nvcc compiles into kernels
WORKSPACE, WORKSPACE_BYTES = 1 << 32, 256
#: the byte that fresh device memory consists of
POISON = 0xFF


@dataclass(frozen=True, slots=True)
class Pointer:
    """An array argument: bytes that the kernel uses in place."""

    #: one-dimensional contiguous uint8 view of all bytes that the kernel may access through the argument
    memory: NDArray[np.uint8]
    #: the index in `memory` of the byte that the argument points to
    offset_bytes: int = 0
    name: str = ""
    writable: bool = True
    #: False if the kernel must write each byte before it reads it
    initialized: bool = True
    #: the offset of `memory` from a multiple of 256 bytes that the profile assumes
    counted_at: int = 0


class DeviceArray:
    """An array at a fixed address in a device's memory, which kernels may access through any pointer to it.

    array: the elements; writes by the host are seen by the next launch. address: in bytes.
    written: a mask of the bytes that the host or a kernel has written; None if all are.
    """

    def __init__(self, array: NDArray[Any], address: int, written: NDArray[np.bool_] | None, name: str = "") -> None:
        self.array = array
        self.address = address
        self.written = written
        self.parts: list[MemoryPart] = []
        self.label(name or repr(self), array.dtype.name, array.itemsize, array.shape)

    def __repr__(self) -> str:
        return f"DeviceArray({self.array.dtype}{list(self.array.shape)} at {self.address:#x})"

    @property
    def name(self) -> str:
        return self.parts[0].name

    @property
    def memory(self) -> NDArray[np.uint8]:
        return self.array.reshape(-1).view(np.uint8)

    def label(
        self, name: str, type_name: str, element_bytes: int, shape: tuple[int, ...], offset_bytes: int = 0
    ) -> None:
        """Name the array, or a contiguous part of it, in messages. offset_bytes: where the part begins."""
        elements = Elements(type_name, element_bytes, shape)
        part = MemoryPart(name, offset_bytes, element_bytes * prod(shape), elements=elements)
        self.parts.insert(0, part)

    def unlabel(self) -> None:
        """Remove the names that `label` has given."""
        del self.parts[:-1]

    def define(self, offset_bytes: int = 0, size_bytes: int | None = None) -> None:
        """Declare bytes as written, by default all: the host may have written values that equal fresh memory's."""
        if self.written is not None:
            end = None if size_bytes is None else offset_bytes + size_bytes
            self.written[offset_bytes:end] = True
            if self.written.all():
                self.written = None

    def note_writes(self) -> None:
        """Before a launch, take bytes that differ from those of fresh memory as written by the host."""
        if self.written is not None:
            self.written |= self.memory != POISON
            self.define(0, 0)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map argument: 128 opaque bytes that describe a tensor and the box that TMA copies.

    Dimensions are listed innermost first. Elements outside the tensor read as zero.
    """

    #: the array, which a device array's launch uses in place; the tensor begins where a pointer points to
    array: Pointer | DeviceArray
    #: extents of the tensor, in elements
    dims: tuple[int, ...]
    #: strides in bytes of all dimensions but the innermost
    strides: tuple[int, ...]
    #: extents of the box, in elements
    box: tuple[int, ...]
    element_bytes: int
    #: the name of a tilejit element type, such as "float16"
    element_type: str
    #: the swizzle of the box in shared memory: "none", "32B", "64B" or "128B"
    swizzle: str = "none"
    #: for messages, the array dimension that each dimension of the map covers; empty if the map reverses their order
    axes: tuple[int, ...] = ()
    #: The distance between the boxes that consecutive receivers of a multicast copy contribute. If it is given, these
    #: copies are checked against it, except global addresses of boxes at coordinates of -2^31 or at least 2^31 - 16.
    share: Share | None = None
    #: the distance in bytes from the start of a device array to the tensor's first element
    offset_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Resident:
    """Memory that persists across launches."""

    allocations: tuple[DeviceArray, ...] = ()
    #: bytes of global and constant variables by name; a variable that is missing has its initial value at each launch
    variables: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)


#: a buffer in shared memory, for messages: (name, PTX variable, byte offset in the variable, size in bytes)
SharedName = tuple[str, str, int, int]
#: the value of a kernel parameter; bytes and NumPy scalars are passed unchanged, an int wraps to the parameter's size
ParameterValue = Pointer | TensorMap | DeviceArray | bytes | np.generic | int


class Placing:
    """The memory of a launch. params: bytes of the parameter space. arrays: those of arguments, then allocations."""

    def __init__(self, program: Program, resident: Resident) -> None:
        self.program = program
        self.resident = resident
        self.memory = AddressMap()
        self.params = b""
        self.arrays: list[Pointer] = []

    def place(self, args: Sequence[ParameterValue], cooperative: bool = False) -> None:
        """Place the arguments, variables and resident memory, and fill the parameter space.

        raises: LaunchError if `args` are invalid; SimulationError if the kernel loads bytes of a tensor map;
            UnsupportedInstructionError if an initializer names an unknown symbol.
        """
        function = self.program.function
        if len(args) != len(function.params):
            count = len(function.params)
            raise LaunchError(f"{function.name} takes {count} argument{'s' * (count != 1)}, got {len(args)}")
        pointers = [a for a in (x.array if isinstance(x, TensorMap) else x for x in args) if isinstance(a, Pointer)]
        for p in pointers:
            if p.memory.dtype != np.uint8 or p.memory.ndim != 1 or not p.memory.flags.c_contiguous:
                raise LaunchError(f"array {p.name or '?'} must be a contiguous one-dimensional uint8 view")
        addresses = self.memory.add_arrays([(p.memory, p.name, p.writable, p.counted_at) for p in pointers])
        address_of = {id(p): a for p, a in zip(pointers, addresses, strict=True)}
        space = bytearray(max((p.offset + p.size_bytes for p in function.params), default=0))
        for i, (param, arg) in enumerate(zip(function.params, args, strict=True)):
            data = _scalar_bytes(arg, i, param.size_bytes, address_of)
            if len(data) != param.size_bytes:
                size = in_bytes(param.size_bytes)
                raise LaunchError(f"parameter {param.name} has {size}; its argument has {len(data)}")
            space[param.offset : param.offset + param.size_bytes] = data
        self.params = bytes(space)
        self.place_maps(args, address_of)
        self.place_params()
        self.place_variables()
        if cooperative:
            self.memory.workspace = WORKSPACE
            memory = np.zeros(WORKSPACE_BYTES, np.uint8)
            part = MemoryPart("the workspace of the cooperative launch", 0, WORKSPACE_BYTES)
            self.memory.add(MemoryRegion("global", WORKSPACE, WORKSPACE_BYTES, memory, [part]))
        for x in self.resident.allocations:
            self.memory.add(MemoryRegion("global", x.address, x.memory.size, x.memory, x.parts))
        self.arrays = pointers

    def place_maps(self, args: Sequence[ParameterValue], addresses: dict[int, int]) -> None:
        for param, arg in zip(self.program.function.params, args, strict=True):
            at = WINDOWS["param"] + param.offset
            if isinstance(arg, bytes) and arg == bytes(MAP_BYTES):
                self.memory.empty_maps.add(at)
            if isinstance(arg, TensorMap):
                array = arg.array
                if isinstance(array, Pointer):
                    address, writable = addresses[id(array)] + array.offset_bytes, array.writable
                else:
                    address, writable = array.address + arg.offset_bytes, True
                shape = MapShape(arg.dims, arg.strides, arg.box, arg.element_bytes, arg.swizzle)
                reason = shape.refusal(address)
                if reason is not None:
                    raise LaunchError(f"cannot create a tensor map of {array.name or 'the tensor'}: {reason}")
                self.memory.maps[at] = EncodedMap(array.name, address, shape, writable, arg.axes, arg.share)

    def place_params(self) -> None:
        """Add the parameter space without tensor maps; raise SimulationError if the kernel loads bytes of a map.

        Kernels with tensormap instructions may load them, to make maps of their own.
        """
        maps = self.memory.maps
        readable = not maps or any(ins.root == "tensormap" for ins in self.program.function.body)
        if maps and readable:
            space = bytearray(self.params)
            for at, given in maps.items():
                start = at - WINDOWS["param"]
                space[start : start + MAP_BYTES] = encode(given)
            self.params = bytes(space)
        memory = np.frombuffer(self.params, np.uint8)
        for _, dtype, offset in self.program.params:
            encoded = self.memory.map_around("param", offset)
            if encoded is not None and not readable:
                raise SimulationError(f"the kernel reads {in_bytes(dtype.itemsize)} of {encoded.opaque}")
        params = self.program.function.params
        runs = [params] if readable else [[p] for p in params if self.memory.map_around("param", p.offset) is None]
        for run in filter(None, runs):
            start, end = run[0].offset, run[-1].offset + run[-1].size_bytes
            parts = [MemoryPart(p.name, p.offset - start, p.size_bytes) for p in run]
            self.memory.add(MemoryRegion("param", start, end - start, memory[start:end], parts, writable=False))

    def place_variables(self) -> None:
        program = self.program
        for variable, at in program.placed:
            if variable.space not in ("global", "const"):
                continue
            memory = self.resident.variables.get(variable.name)
            if memory is None:
                memory = np.frombuffer(initial_bytes(program.module, variable, program.placed), np.uint8)
            part = MemoryPart(variable.name, 0, variable.size_bytes)
            writable = variable.space == "global"
            self.memory.add(MemoryRegion(variable.space, at, variable.size_bytes, memory, [part], writable=writable))

    def chunk_memory(self, lanes: Lanes, shared_map: Sequence[SharedName]) -> list[MemoryRegion]:
        regions = []
        program = self.program
        shared, local = -(-program.shared_bytes // 256) * 256, -(-program.local_bytes // 32) * 32
        backing = {
            "shared": (np.zeros(shared * lanes.ctas, np.uint8), "cta", shared, SHARED_BASE),
            "local": (np.zeros(local * lanes.total, np.uint8), "lane", local, LOCAL_BASE),
            RESERVED.name: (np.zeros(RESERVED.size_bytes * lanes.ctas, np.uint8), "cta", RESERVED.size_bytes, 0),
        }
        for variable, at in program.placed:
            key = RESERVED.name if variable is RESERVED else variable.space
            if key not in backing:
                continue
            memory, owner, stride, base = backing[key]
            size = variable.size_bytes
            if variable.external:
                size = max(program.shared_bytes + SHARED_BASE - at, 0)
            start = at - base
            # Copies for consecutive CTAs or lanes start `stride` bytes apart; the last one may have fewer in `part`.
            part = memory[start:]
            named = shared_map if variable.space == "shared" else ()
            parts = [MemoryPart(name, first, n, buffer=True) for name, of, first, n in named if of == variable.name]
            parts.append(MemoryPart(variable.name, 0, size))
            regions.append(MemoryRegion(variable.space, at, size, part, parts, owner, stride))
        return regions


def peers(region: MemoryRegion, ranks: int) -> Iterator[MemoryRegion]:
    """Yield the regions by which threads access a shared variable of another CTA of their cluster, one per rank."""
    for rank in range(ranks):
        base = region.base + ((rank + 1) << RANK_SHIFT)
        yield replace(region, base=base, counted_base=base, owner=str(rank))


def _scalar_bytes(arg: ParameterValue, position: int, size: int, addresses: dict[int, int]) -> bytes:
    if isinstance(arg, Pointer):
        return (addresses[id(arg)] + arg.offset_bytes).to_bytes(8, "little")
    if isinstance(arg, DeviceArray):
        return arg.address.to_bytes(8, "little")
    if isinstance(arg, TensorMap):
        return bytes(MAP_BYTES)
    if isinstance(arg, bytes):
        return arg
    if isinstance(arg, np.generic):
        return arg.tobytes()
    if isinstance(arg, int):
        return (int(arg) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if isinstance(arg, float):
        raise LaunchError(f"argument {position} is a Python float: pass np.float32 or np.float64 to specify its width")
    raise LaunchError(
        f"argument {position}, {arg!r}, is not a NumPy array or scalar, a DeviceArray, a Pointer, a TensorMap, an int "
        "or bytes"
    )
