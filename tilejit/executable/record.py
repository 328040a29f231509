"""The record of what a launch needs, on a GPU and on the simulator."""

from __future__ import annotations

from ..dataclass import dataclass, field
from ..ir.clusters import Cluster
from ..ir.params import AssertionsParam, Param, written_arguments
from ..ir.types import Signature
from ..ir.watched import WatchedRegion
from ..register_usage import Usage
from ..source import Span
from ..target import Target


@dataclass(frozen=True, slots=True)
class Assertion:
    """What is told when an assertion fails. rule: one of `ir.nodes.RULES`. message: with `{0}`, … for its numbers."""

    rule: str
    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """Where a buffer lies in a CTA's shared memory. span: where the kernel makes it.

    variable: of the PTX, in which it lies. first: its first byte there.
    """

    name: str
    variable: str
    first: int
    bytes: int
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class MachineCode:
    """What a driver made of PTX. image: a cubin. capability: of the GPU that it is for, 90 for 9.0."""

    image: bytes = field(repr=False)
    capability: int


@dataclass(frozen=True, slots=True)
class Executable:
    """What a launch needs of a kernel that was compiled for one signature and target.

    name: in Python. entry: in the PTX. threads: of a CTA. cluster: CTAs in each dimension, or None.
    params: what the launch must pass, in the order of the PTX's parameters: of those of the tile kernel, the ones
    that are used, and the `AssertionsParam` of a kernel that asserts something.
    dynamic_shared: the launch must ask for `shared_bytes`. local_bytes: that a thread's buffers take.
    spans: column c of a `.loc` (1-based) stands for spans[c - 1].
    assertions: those that are compiled in, by a record's code - 1. watched: the regions that are counted.
    shared_map: what lies where in shared memory.
    entry_registers: what each thread must start with, where warpgroups set their registers; else None.
    grid_axes: of the grid, those along which its CTAs ask where they are, or how many.
    widened: float32 scalars among the arguments that the kernel converts to float64.
    usage: what a thread needs, as far as was known when it was kept or saved; None of what was compiled just now.
    machine_code: for one GPU, where it was saved.
    """

    name: str
    entry: str
    target: Target
    signature: Signature
    threads: int
    cluster: Cluster | None
    cooperative: bool
    params: tuple[Param, ...]
    shared_bytes: int
    dynamic_shared: bool
    local_bytes: int
    ptx: str = field(repr=False)
    spans: tuple[Span, ...] = field(default=(), repr=False)
    assertions: tuple[Assertion, ...] = ()
    watched: tuple[WatchedRegion, ...] = ()
    shared_map: tuple[SharedPlace, ...] = field(default=(), repr=False)
    entry_registers: int | None = None
    grid_axes: tuple[int, ...] = (0, 1, 2)
    widened: tuple[str, ...] = ()
    usage: Usage | None = None
    machine_code: MachineCode | None = None

    @property
    def is_checked(self) -> bool:
        """Whether anything is asserted or counted in it: else the plain build is the same."""
        return bool(self.watched) or any(isinstance(p, AssertionsParam) for p in self.params)

    @property
    def positions(self) -> dict[str, int]:
        """Argument name -> its position in a call."""
        return {name: i for i, (name, _) in enumerate(self.signature.arguments)}

    @property
    def written(self) -> dict[str, int]:
        """The arguments that it writes, with their positions in a call, in that order."""
        names = written_arguments(self.params)
        return {name: position for name, position in self.positions.items() if name in names}

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each parameter stands in the block of all, in bytes."""
        offsets, end = [], 0
        for param in self.params:
            offsets.append(end + -end % param.align_bytes)
            end = offsets[-1] + param.size_bytes
        return tuple(offsets)
