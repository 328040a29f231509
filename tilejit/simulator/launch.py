"""Launches a kernel on the simulator: places its arguments, runs the grid chunk by chunk, reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..dataclass import dataclass, field
from ..errors import LaunchError, SimulationError
from .checks.findings import Findings
from .checks.places import Locate, PtxPlaces
from .checks.profile import Profiler
from .checks.report import Report
from .checks.watch import Watch
from .decode.translate import Program, translate
from .decode.variables import initial_bytes
from .machine.access import Access
from .machine.lanes import Lanes
from .machine.machine import Machine
from .machine.memory import LOCAL_BASE, SHARED_BASE, AddressMap, MemoryRegion, Part
from .machine.printf import Printer
from .machine.settings import Settings
from .machine.tensor_map import MAP_BYTES, MapShape, encode
from .opcodes.move import WINDOWS

# Past 16 K to 32 K threads temporaries leave a second-level cache of 1 to 2 MiB; below, calls cost more than work.
CHUNK_THREADS = 16384
CHUNK_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Pointer:
    """An array argument: bytes that the kernel uses in place.

    memory: one-dimensional uint8 view of all bytes that may be accessed.
    offset_bytes: where in it the argument points.
    initialized: False for an output whose elements must be written before they are read.
    counted_at: where the profile counts `memory` as placed, in bytes from a multiple of 256.
    """

    memory: NDArray[np.uint8]
    offset_bytes: int = 0
    name: str = ""
    writable: bool = True
    initialized: bool = True
    counted_at: int = 0


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An argument for 128 opaque bytes, which say how TMA copies boxes of an array; innermost dimension first.

    array: what it is a map of: the tensor begins at its `offset_bytes`. dims: elements. strides: bytes from one element
    to the next along each dimension but the innermost. box: elements of a copy. swizzle: "none", "32B", "64B" or
    "128B", of boxes in shared memory. element_type: "float16", …; what lies outside the tensor reads as zero.
    """

    array: Pointer
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_bytes: int
    element_type: str
    swizzle: str = "none"


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory at an address of its own, which a kernel reaches through any pointer to it."""

    memory: NDArray[np.uint8]
    address: int
    name: str
    initialized: bool


@dataclass(frozen=True, slots=True)
class Resident:
    """What was there before a launch and stays. variables: the module's memory by name; those left out start anew."""

    allocations: tuple[Allocation, ...] = ()
    variables: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)


ParameterValue = Pointer | TensorMap | bytes | np.generic | int
Checks = bool | Literal["strict"]


def run(
    ptx: str,
    entry: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: Sequence[ParameterValue],
    *,
    checks: Checks = True,
    profile: bool = False,
    on_finding: Literal["raise", "collect"] = "raise",
    schedule: int = 0,
    delivery: str = "late",
    shared_map: Sequence[tuple[str, int, int]] = (),
    dynamic_shared_bytes: int = 0,
    locate: Callable[[int, int, int], str] | None = None,
    capability: int = 90,
    write: Callable[[str], object] | None = None,
    resident: Resident | None = None,
) -> Report:
    """Execute kernel `entry` of a PTX text on NumPy.

    args: one per parameter; scalars are written into the parameter's bytes as they are.
    checks: "strict" takes shuffles, votes and matches for no memory barriers, as the PTX ISA does.
    on_finding: "raise" the first error, or "collect" all in the report.
    schedule: another number is another legal order of the threads.
    delivery: when asynchronous operations land: "late", "early", or "random:" and a number, each a legal order too.
    shared_map: names for messages: (name, first byte in shared memory, bytes).
    locate: turns a `.loc` (file, line, column) into text for messages.
    write: takes what the kernel prints; standard output if None.
    resident: memory that outlives the launch.
    raises: SimulationError for what the kernel does wrong, LaunchError for arguments that don't fit.
    """
    _keep_freed_memory()
    program = translate(ptx, entry, dynamic_shared_bytes)
    if on_finding not in ("raise", "collect"):
        raise LaunchError(f"on_finding is 'raise' or 'collect', got {on_finding!r}")
    grid, block = _three(grid, "grid"), _three(block, "block")
    launch = _GridRun(program, grid, block, checks, profile, locate, write, resident or Resident())
    launch.findings.collect = on_finding == "collect"
    launch.settings = Settings(schedule, delivery, shared_map)
    with np.errstate(all="ignore"):
        launch.place(args)
        try:
            launch.run()
        except SimulationError as error:
            if not launch.findings.collect:
                raise
            launch.findings.end(error)
    return launch.report()


@lru_cache(maxsize=1)
def _keep_freed_memory() -> None:
    """Make the C library keep freed memory: giving it back costs a page fault per 4 KiB when it is needed again.

    source: mallopt(3), M_MMAP_THRESHOLD: freeing a large block raises the sizes from which memory is given back.
    """
    np.empty(31 << 20, np.uint8)


def _three(extents: Sequence[int], what: str) -> tuple[int, int, int]:
    x, y, z = (*(int(e) for e in extents), 1, 1, 1)[:3]
    if min(x, y, z) < 1 or len(extents) > 3:
        raise LaunchError(f"{what} {tuple(extents)} must be one to three positive numbers")
    if what == "block" and x * y * z > 1024:
        raise LaunchError(f"a CTA has at most 1024 threads; block {tuple(extents)} has {x * y * z}")
    return x, y, z


def _instruction_limit() -> int:
    """How many thread instructions a launch may execute."""
    return _number_of(os.environ.get("TILEJIT_SIM_LIMIT") or "1e11")


@lru_cache(maxsize=8)
def _number_of(text: str) -> int:
    try:
        limit = int(float(text))
    except (ValueError, OverflowError):
        limit = 0
    if limit < 1:
        raise LaunchError(
            f"TILEJIT_SIM_LIMIT={text!r} is not a number of thread instructions", hint="write a number such as 1e11"
        )
    return limit


class _GridRun:
    def __init__(
        self, program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], checks: Checks, profile: bool,
        locate: Locate | None, write: Callable[[str], object] | None, resident: Resident,
    ) -> None:
        self.program = program
        self.grid = grid
        self.block = block
        self.checks = checks
        self.threads = block[0] * block[1] * block[2]
        self.ctas = grid[0] * grid[1] * grid[2]
        self.places = PtxPlaces(program.module, program.function, locate)
        self.findings = Findings(False, self.places)
        self.settings = Settings(0, "late", ())
        self.limit = _instruction_limit()
        self.memory = AddressMap()
        self.printer = Printer(self.memory, write)
        self.resident = resident
        self.profiler = Profiler() if profile else None
        self.block_lanes = [0] * len(program.blocks)
        self.per_chunk = self.chunk_ctas()
        self.params = b""
        self.arrays: list[Pointer | Allocation] = []

    def chunk_ctas(self) -> int:
        """CTAs per chunk; all of them if the kernel may wait for other CTAs."""
        program = self.program
        if program.courses.waits_for_ctas:
            return self.ctas
        bytes_per_cta = program.shared_bytes * 5 + program.local_bytes * self.threads + 1
        return max(1, min(self.ctas, CHUNK_THREADS // self.threads or 1, CHUNK_BYTES // bytes_per_cta))

    def place(self, args: Sequence[ParameterValue]) -> None:
        """Give arrays device addresses, fill the parameter space, and lay out variables."""
        function = self.program.function
        if len(args) != len(function.params):
            raise LaunchError(f"{function.name} takes {len(function.params)} arguments, got {len(args)}")
        pointers = [a.array if isinstance(a, TensorMap) else a for a in args if isinstance(a, (Pointer, TensorMap))]
        for p in pointers:
            if p.memory.dtype != np.uint8 or p.memory.ndim != 1 or not p.memory.flags.c_contiguous:
                raise LaunchError(f"array {p.name or '?'} must be a contiguous one-dimensional uint8 view")
        addresses = self.memory.add_arrays([(p.memory, p.name, p.writable, p.counted_at) for p in pointers])
        address_of = {id(p): a for p, a in zip(pointers, addresses, strict=True)}
        parts = self.program.param_parts
        space = bytearray(parts[-1].start + parts[-1].size_bytes if parts else 0)
        for param, arg in zip(function.params, args, strict=True):
            data = _scalar_bytes(arg, param.size_bytes, address_of)
            if len(data) != param.size_bytes:
                raise LaunchError(f"parameter {param.name} has {param.size_bytes} bytes; its argument {len(data)}")
            space[param.offset : param.offset + param.size_bytes] = data
        self.params = bytes(space)
        self.place_maps(args, address_of)
        self.place_params()
        self.place_variables()
        for allocation in self.resident.allocations:
            part = Part(allocation.name, 0, allocation.memory.size)
            region = MemoryRegion("global", allocation.address, part.size_bytes, allocation.memory, [part])
            self.memory.add(region)
        self.arrays = [*pointers, *self.resident.allocations]

    def place_maps(self, args: Sequence[ParameterValue], addresses: dict[int, int]) -> None:
        """Encode the tensor maps among the arguments."""
        for param, arg in zip(self.program.function.params, args, strict=True):
            if isinstance(arg, TensorMap):
                shape = MapShape(arg.dims, arg.strides, arg.box, arg.element_bytes, arg.swizzle)
                address = addresses[id(arg.array)] + arg.array.offset_bytes
                at = WINDOWS["param"] + param.offset
                self.memory.maps[at] = encode(arg.array.name, shape, address, arg.array.writable)

    def place_params(self) -> None:
        """Lay out the parameter space; the bytes of tensor maps can't be read."""
        memory = np.frombuffer(self.params, np.uint8)
        for _, dtype, offset in self.program.params:
            encoded = self.memory.map_around("param", offset)
            if encoded is not None:
                raise SimulationError(f"the kernel reads {dtype.itemsize} bytes of {encoded.opaque}")
        parts = self.program.param_parts
        if parts and not self.memory.maps:
            self.memory.add(MemoryRegion("param", 0, memory.size, memory, parts, writable=False))
            return
        for part in parts:
            if self.memory.map_around("param", part.start) is None:
                bytes_ = memory[part.start : part.start + part.size_bytes]
                own = Part(part.name, 0, part.size_bytes, False)
                self.memory.add(MemoryRegion("param", part.start, bytes_.size, bytes_, [own], writable=False))

    def place_variables(self) -> None:
        program = self.program
        for variable, at in program.placed:
            if variable.space not in ("global", "const"):
                continue
            memory = self.resident.variables.get(variable.name)
            if memory is None:
                memory = np.frombuffer(initial_bytes(program.module, variable, program.placed), np.uint8)
            part = Part(variable.name, 0, variable.size_bytes)
            writable = variable.space == "global"
            self.memory.add(MemoryRegion(variable.space, at, variable.size_bytes, memory, [part], writable=writable))

    def shadow_globals(self, watch: Watch, arrays: Sequence[Pointer | Allocation]) -> None:
        """Records for the global memory that the kernel may write; the rest can't race or be uninitialised."""
        stores = any(s.kind != "load" and s.space in ("global", "") for s in self.program.sites)
        fresh = {p.memory.__array_interface__["data"][0] for p in arrays if not p.initialized}
        for region in self.memory.regions:
            if region.space != "global":
                continue
            base = region.memory.__array_interface__["data"][0] if fresh else 0
            parts = [p for p in region.parts if base + p.start in fresh] if fresh else []
            if parts or (stores and region.writable):
                watch.shadow_global(region, parts)

    def chunk_memory(self, lanes: Lanes) -> list[MemoryRegion]:
        """Shared and local memory for the CTAs of one chunk."""
        regions = []
        program = self.program
        shared = _round_up(program.shared_bytes, 256)
        local = _round_up(program.local_bytes, 32)
        backing = {
            "shared": (np.zeros(shared * lanes.ctas, np.uint8), "cta", shared, SHARED_BASE),
            "local": (np.zeros(local * lanes.total, np.uint8), "lane", local, LOCAL_BASE),
        }
        for variable, at in program.placed:
            if variable.space not in backing:
                continue
            memory, owner, stride, base = backing[variable.space]
            size = variable.size_bytes
            if variable.external:
                size = max(program.shared_bytes + SHARED_BASE - at, 0)
            start = at - base
            # A slice keeps one copy per owner `stride` bytes apart; the last one may be shorter.
            part = memory[start:]
            region = MemoryRegion(variable.space, at, size, part, [Part(variable.name, 0, size)], owner, stride)
            regions.append(region)
        return regions

    def run(self) -> None:
        program = self.program
        lanes = Lanes(self.grid, self.block, 0, min(self.per_chunk, self.ctas))
        watch: Watch | None = None
        if self.checks:
            watch = Watch(program, lanes, self.ctas, self.places, self.findings, self.checks == "strict")
            self.shadow_globals(watch, self.arrays)
        for first in range(0, self.ctas, self.per_chunk):
            count = min(self.per_chunk, self.ctas - first)
            if first:
                lanes = Lanes(self.grid, self.block, first, count)
            self.run_chunk(lanes, watch)

    def run_chunk(self, lanes: Lanes, watch: Watch | None) -> None:
        program = self.program
        before = (list(self.memory.regions), list(self.memory.starts))
        for region in self.chunk_memory(lanes):
            if watch is not None:
                watch.shadow_chunk(region)
            self.memory.add(region)
        checker, order = (watch.checker, watch.order) if watch is not None else (None, None)
        access = Access(list(program.sites), self.memory, lanes, self.places, self.findings, checker)
        access.rebind(lanes)
        access.observer = self.profiler
        if self.profiler is not None:
            self.profiler.lanes = lanes
        if watch is not None:
            watch.begin(lanes)
        machine = Machine(
            program, lanes, access, order, self.places, self.params, self.printer, self.settings, self.limit
        )
        machine.run()
        self.limit = machine.left
        for i, count in enumerate(machine.block_lanes):
            self.block_lanes[i] += count
        self.memory.regions, self.memory.starts = before

    def report(self) -> Report:
        traffic = self.profiler.traffic if self.profiler is not None else None
        return Report(
            self.program, self.grid, self.block, bool(self.checks), self.places, self.block_lanes, traffic,
            self.findings.all(),
        )


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _scalar_bytes(arg: ParameterValue, size: int, addresses: dict[int, int]) -> bytes:
    if isinstance(arg, Pointer):
        return (addresses[id(arg)] + arg.offset_bytes).to_bytes(8, "little")
    if isinstance(arg, TensorMap):
        return bytes(MAP_BYTES)
    if isinstance(arg, bytes):
        return arg
    if isinstance(arg, np.generic):
        return arg.tobytes()
    if isinstance(arg, int):
        return (int(arg) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    raise LaunchError(f"argument {arg!r} is neither an array nor a scalar")
