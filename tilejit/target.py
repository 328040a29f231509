"""Properties of GPU architectures."""

from __future__ import annotations

import re

from .dataclass import dataclass, field
from .errors import DeviceError

WARP = 32
WARPGROUP = 128
MAX_THREADS = 1024

#: the units in which a GPU transfers global memory (sectors) and caches it (lines)
SECTOR_BYTES, LINE_BYTES = 32, 128

#: maximum number of CTAs of a grid along each axis
#: source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
MAX_GRID = (2**31 - 1, 65535, 65535)

#: maximum number of CTAs of a cluster: on every GPU with clusters, and on some of these GPUs if a kernel opts in
#: source: CUDA C++ Programming Guide, "Thread Block Clusters"; Hopper Tuning Guide, "Thread Block Clusters"
PORTABLE_CLUSTER = 8
MAX_CLUSTER = 16

#: maximum shared memory per CTA without opt-in
STATIC_SHARED_BYTES = 48 * 1024

#: number of 32-bit columns of a multiprocessor's tensor memory
TMEM_COLUMNS = 512

#: address step from one lane of tensor memory to the next; columns are in the low bits
TMEM_LANE = 1 << 16

#: source: PTX ISA, "TensorCore 5th Generation Family Instructions", target ISA notes of tcgen05.alloc
TENSOR_MEMORY_TARGETS = ("sm_100a", "sm_103a", "sm_110a")

#: number of 32-bit registers of a multiprocessor, and the maximum per thread
REGISTERS = 64 * 1024
MAX_REGISTERS = 255

#: allocation granularity of a thread's registers
THREAD_UNIT = 8

#: number of warp schedulers per multiprocessor, among which its warps and registers are divided
_SCHEDULERS = 4
#: allocation granularity of a warp's registers
_REGISTER_UNIT = 256


def most_registers(threads: int, limit: int | None) -> int:
    """Return the most registers per thread in a CTA of `threads` threads. limit: the kernel's `max_registers`."""
    return min(MAX_REGISTERS, limit or MAX_REGISTERS, REGISTERS // threads // THREAD_UNIT * THREAD_UNIT)


def entry_registers(threads: int, limit: int | None) -> int:
    """Return a thread's registers at entry to a kernel with `tj.set_registers`: the largest allowed multiple of 8."""
    return most_registers(threads, limit) // THREAD_UNIT * THREAD_UNIT


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """The resources of a multiprocessor for resident CTAs. reserved_bytes: shared memory per CTA that CUDA reserves.

    source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; cuda_occupancy.h.
    """

    warps: int
    ctas: int
    shared_bytes: int
    reserved_bytes: int

    def resident(self, threads: int, registers: int, shared_bytes: int) -> int:
        """Return the maximum number of resident CTAs. registers: per thread. shared_bytes: per CTA."""
        warps = -(-threads // WARP)
        of_warp = -(-max(registers, 1) * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
        with_registers = REGISTERS // _SCHEDULERS // of_warp * _SCHEDULERS
        by_registers = with_registers // (-(-warps // _SCHEDULERS) * _SCHEDULERS)
        by_shared = self.shared_bytes // max(shared_bytes + self.reserved_bytes, 1)
        return min(self.ctas, self.warps // warps, by_registers, by_shared)

    def occupancy(self, threads: int, registers: int, shared_bytes: int) -> float:
        """Return the maximum fraction of the multiprocessor's warp slots that resident CTAs occupy."""
        return self.resident(threads, registers, shared_bytes) * -(-threads // WARP) / self.warps


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """An architecture, such as sm_90 or sm_90a. Each has exactly one object, so targets compare by identity.

    number: 90 for sm_90a.
    ptx: the oldest PTX version, as (major, minor), whose `.target` accepts it.

    source: PTX ISA, "PTX Module Directives: .target" and "Release Notes";
    CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
    """

    name: str
    ptx: tuple[int, int]
    number: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", int(re.sub(r"\D", "", self.name)))

    @property
    def multiprocessor(self) -> Multiprocessor:
        return _MULTIPROCESSORS[self.number]

    @property
    def shared_bytes(self) -> int:
        """The maximum shared memory per CTA, with opt-in."""
        return self.multiprocessor.shared_bytes - self.multiprocessor.reserved_bytes

    @property
    def is_arch_specific(self) -> bool:
        """True if code for this target runs only on this architecture (the `a` in sm_90a)."""
        return self.name.endswith("a")

    @property
    def array_align(self) -> int:
        """The size in bytes of the widest access to global memory, and so the largest useful alignment of an array."""
        return 32 if self.number >= 100 else 16

    @property
    def has_tensor_memory(self) -> bool:
        return self.name in TENSOR_MEMORY_TARGETS

    @property
    def has_barriers(self) -> bool:
        """True if mbarriers can count the bytes of copies, and threads can suspend until a phase is complete."""
        return self.number >= 90

    @property
    def has_clusters(self) -> bool:
        """True if CTAs can form clusters, in which they can access each other's shared memory."""
        return self.number >= 90

    def runs_on(self, capability: int) -> bool:
        """True if a device of compute capability `capability` (90 for 9.0) can run code for this target."""
        return capability == self.number if self.is_arch_specific else capability >= self.number

    def __str__(self) -> str:
        return self.name


_KB = 1024

#: compute capability -> resources of a multiprocessor
_MULTIPROCESSORS = {
    75: Multiprocessor(32, 16, 64 * _KB, 0),
    80: Multiprocessor(64, 32, 164 * _KB, _KB),
    86: Multiprocessor(48, 16, 100 * _KB, _KB),
    87: Multiprocessor(48, 16, 164 * _KB, _KB),
    89: Multiprocessor(48, 24, 100 * _KB, _KB),
    90: Multiprocessor(64, 32, 228 * _KB, _KB),
    100: Multiprocessor(64, 32, 228 * _KB, _KB),
    103: Multiprocessor(64, 32, 228 * _KB, _KB),
    110: Multiprocessor(48, 24, 228 * _KB, _KB),
    120: Multiprocessor(48, 24, 100 * _KB, _KB),
    121: Multiprocessor(48, 24, 100 * _KB, _KB),
}

#: name -> target
TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target("sm_75", (6, 3)),
        Target("sm_80", (7, 0)),
        Target("sm_86", (7, 1)),
        Target("sm_87", (7, 4)),
        Target("sm_89", (7, 8)),
        Target("sm_90", (7, 8)),
        Target("sm_90a", (8, 0)),
        Target("sm_100", (8, 6)),
        Target("sm_100a", (8, 6)),
        Target("sm_103", (8, 8)),
        Target("sm_103a", (8, 8)),
        Target("sm_110", (9, 0)),
        Target("sm_110a", (9, 0)),
        Target("sm_120", (8, 7)),
        Target("sm_120a", (8, 7)),
        Target("sm_121", (8, 8)),
        Target("sm_121a", (8, 8)),
    )
}


def target(name: str | Target) -> Target:
    """Return the target named `name`, or `name` if it is a Target; raise DeviceError if the name is unknown."""
    if isinstance(name, Target):
        return name
    if name not in TARGETS:
        raise DeviceError(f"unknown target {name!r}", hint=f"write one of {', '.join(TARGETS)}")
    return TARGETS[name]


def for_capability(major: int, minor: int) -> Target:
    """Return the most specific target for a device's compute capability; raise DeviceError if the device is too old."""
    for name in (f"sm_{major}{minor}a", f"sm_{major}{minor}"):
        if name in TARGETS:
            return TARGETS[name]
    older = [t for t in TARGETS.values() if not t.is_arch_specific and t.number <= 10 * major + minor]
    if not older:
        raise DeviceError(
            f"compute capability {major}.{minor} is too old", hint="use a GPU with sm_75 (Turing) or newer"
        )
    return older[-1]
