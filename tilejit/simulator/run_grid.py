"""Launches on the simulator: `run` places the arguments, executes the grid in chunks, and returns a report."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import LaunchError, SimulationError
from ..progress import Progress
from . import placing
from .checks import findings, records
from .checks.profile import Profiler
from .checks.races import AccessChecker
from .checks.report import Report
from .decode.translate import Program, translate
from .decode.variables import RESERVED
from .machine.access import Access
from .machine.lanes import ALONE, Lanes
from .machine.machine import Machine
from .machine.memory import in_bytes
from .machine.operations import Delivery
from .machine.printf import Printer, Stop

if TYPE_CHECKING:
    from .orders.explorer import Explorer

# Limits of a chunk. With more than 24 K to 32 K threads, temporaries exceed an L2 cache of 1 to 2 MiB; with few
# threads, the overhead of NumPy calls exceeds the cost of the arithmetic.
CHUNK_THREADS = 24576
CHUNK_BYTES = 1 << 28
# Cluster sizes above 8 are non-portable: not all GPUs with clusters support them.
# source: CUDA C++ Programming Guide, "Thread Block Clusters"; Hopper Tuning Guide, "Thread Block Clusters"
MOST_RANKS = 16

Checks = bool | Literal["strict"]


def run(
    ptx: str,
    entry: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: Sequence[placing.ParameterValue],
    *,
    checks: Checks = True,
    profile: bool = False,
    on_finding: Literal["raise", "collect"] = "raise",
    schedule: int = 0,
    replicas_differ: Literal["error", "warning"] = "error",
    orders: int | str | None = None,
    limit: int = 10_000,
    seconds: float | None = None,
    delivery: str = "late",
    shared_map: Sequence[placing.SharedName] = (),
    dynamic_shared_bytes: int = 0,
    locate: Callable[[int, int, int], str] | None = None,
    write: Callable[[str], object] | None = None,
    stop: Callable[[Stop], object] | None = None,
    resident: placing.Resident | None = None,
    may_be_empty: bool = False,
    cooperative: bool = False,
    concurrent: int | None = None,
) -> Report:
    """Execute kernel `entry` of the module `ptx` with NumPy, and return its report.

    args: one per parameter. The bytes of a NumPy scalar are used unchanged; an int wraps to the parameter's size.
    checks: False disables the checks for races, unwritten memory and asynchronous copies. With "strict", shuffles,
        votes, matches and warp reductions don't order memory accesses, as in the PTX ISA.
    on_finding: "raise" the first error, or "collect" all findings in the report.
    schedule: seed of the thread order; each seed gives a legal order.
    replicas_differ: the level of findings about threads of a CTA that store different values to a location of shared
        memory by the same execution of one instruction. A warning suits compilers that replicate computations.
    orders: "all" to run the launch in all orders of its synchronizing events, up to a finding, `limit` orders or a
        time in `seconds`; n to run at most n orders; "replay:" and `Orders.choices` to run one order again. The answer
        is `report.orders`. This needs `checks`, and takes no schedule or delivery.
    delivery: when asynchronous operations complete: "late", "early", or "random:" and a seed. All of these are legal.
    shared_map: buffers in shared memory, for messages: (name, PTX variable, byte offset in it, size in bytes).
    locate: converts the file index, line and column of a `.loc` to the string that messages show.
    write: called with each string that the kernel prints; None for standard output.
    stop: called for each group of threads that calls `__breakpoint(text, values)`.
    resident: memory that persists across launches.
    may_be_empty: accept a grid without CTAs, which a driver would reject.
    cooperative: launch as by cuLaunchCooperativeKernel: all CTAs run at once, and the grid can synchronize.
    concurrent: the number of CTAs that run at once, in whole clusters; the next one starts when one ends. None for all.
    raises: SimulationError for errors in the kernel, unless raised by execution and collected; LaunchError for invalid
        arguments; UnsupportedInstructionError for an unknown kernel or unsupported PTX.
    """
    _keep_freed_memory()
    if replicas_differ not in ("error", "warning"):
        raise LaunchError(f"replicas_differ must be 'error' or 'warning', got {replicas_differ!r}")
    if on_finding not in ("raise", "collect"):
        raise LaunchError(f"on_finding must be 'raise' or 'collect', got {on_finding!r}")
    _check_orders(orders)
    if orders and (not checks or profile):
        raise LaunchError("orders can only be examined with checks, and without profile=True")
    if concurrent is not None and orders:
        raise LaunchError("orders= examines launches whose CTAs all run at once, not a limited number of them")
    program = translate(ptx, entry, dynamic_shared_bytes, orders is not None)
    grid, block = _three(grid, "grid", 0 if may_be_empty else 1), _three(block, "block")
    collect = on_finding == "collect"
    saved: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = []

    def start(explorer: Explorer | None, collect: bool) -> GridRun:
        """Place a launch's arguments, which have their first contents."""
        for memory, contents in saved:
            memory[:] = contents
        is_seen = explorer is None or explorer.script is not None
        prints, stops = (write, stop) if is_seen else (lambda text: None, None)
        launch = GridRun(
            program, grid, block, checks, profile, collect, 0 if explorer else schedule,
            "late" if explorer else delivery, shared_map, locate, prints, stops, resident or placing.Resident(),
            replicas_differ == "warning", cooperative, explorer, concurrent,
        )
        launch.placing.place(args, cooperative)
        if explorer is not None and not saved:
            saved.extend((x.memory, x.memory.copy()) for x in launch.memory.regions if x.writable)
        return launch

    with np.errstate(all="ignore"):
        if orders is not None:
            from .orders.explorer import examine

            return examine(start, orders, limit, seconds, collect)
        launch = start(None, collect)
        try:
            with Progress(f"simulating {entry}", launch.ctas) as progress:
                launch.run(progress)
        except SimulationError as error:
            if not collect:
                launch.locate(error)
                raise
            launch.end(error)
        finally:
            launch.note_writes()
    return launch.report()


def _check_orders(orders: int | str | None) -> None:
    """Raise LaunchError for an invalid value of `orders`."""
    valid = orders in (None, "all") or (isinstance(orders, str) and orders.startswith("replay:"))
    if not valid and (isinstance(orders, (bool, str)) or not isinstance(orders, int) or orders < 1):
        raise LaunchError(f"orders must be 'all', a number of orders, 'replay:…' or None, got {orders!r}")


@lru_cache(maxsize=1)
def _keep_freed_memory() -> None:
    """Make glibc reuse freed blocks of up to 31 MiB; if it unmaps them, the next allocation causes page faults.

    source: mallopt(3), M_MMAP_THRESHOLD: freeing a mapped block of at most 32 MiB raises the threshold to its size.
    """
    np.empty(31 << 20, np.uint8)


def _three(extents: Sequence[int], what: str, least: int = 1) -> tuple[int, int, int]:
    x, y, z = (*(int(e) for e in extents), 1, 1, 1)[:3]
    if min(x, y, z) < least or len(extents) > 3:
        raise LaunchError(f"{what} {tuple(extents)} must be one to three integers of at least {least}")
    if what == "block" and x * y * z > 1024:
        raise LaunchError(f"a CTA has at most 1024 threads; block {tuple(extents)} has {x * y * z}")
    return x, y, z


def _cluster_of(cluster: tuple[int, int, int], grid: tuple[int, int, int]) -> tuple[int, int, int]:
    if not 0 < prod(cluster) <= MOST_RANKS:
        raise LaunchError(f"a cluster has 1 to {MOST_RANKS} CTAs, got .reqnctapercluster {cluster}")
    if any(extent % of for extent, of in zip(grid, cluster, strict=True)):
        raise LaunchError(f"grid {grid} must consist of whole clusters of {cluster} CTAs")
    return cluster


@lru_cache(maxsize=8)
def _instruction_limit(text: str) -> int:
    try:
        limit = int(float(text))
    except (ValueError, OverflowError):
        limit = 0
    if limit < 1:
        raise LaunchError(
            f"TILEJIT_SIM_LIMIT={text!r} must be a finite number of thread instructions, at least 1",
            hint="write a number such as 1e11",
        )
    return limit


class GridRun:
    def __init__(
        self, program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], checks: Checks, profile: bool,
        collect: bool, schedule: int, delivery: str, shared_map: Sequence[placing.SharedName],
        locate: findings.Locate | None, write: Callable[[str], object] | None,
        stop: Callable[[Stop], object] | None, resident: placing.Resident, replicas_differ: bool, cooperative: bool,
        explorer: Explorer | None, concurrent: int | None,
    ) -> None:
        self.program = program
        self.grid = grid
        self.block = block
        self.checks = checks
        self.replicas_differ = replicas_differ
        self.cooperative = cooperative
        self.cluster = _cluster_of(program.function.bounds.cluster or ALONE, grid)
        self.threads = block[0] * block[1] * block[2]
        self.ctas = grid[0] * grid[1] * grid[2]
        self.places = findings.PtxPlaces(program.module, program.function, locate)
        self.findings = findings.Findings(collect, self.places)
        self.schedule = schedule
        self.shared_map = shared_map
        self.limit = self.left = _instruction_limit(os.environ.get("TILEJIT_SIM_LIMIT") or "1e11")
        self.delivery = Delivery(delivery)
        # number of asynchronous operations issued by the chunks so far
        self.issued = 0
        self.placing = placing.Placing(program, resident)
        self.memory = self.placing.memory
        self.printer = Printer(self.memory, write, stop)
        self.profiler = Profiler() if profile else None
        self.block_lanes = [0] * len(program.blocks)
        self.explorer = explorer
        self.concurrent = concurrent
        ranks = prod(self.cluster)
        if concurrent is not None and concurrent < ranks:
            raise LaunchError(f"a cluster of {ranks} CTAs runs at once; got {concurrent} CTAs at once")
        self.per_chunk = self.chunk_ctas()

    def chunk_ctas(self) -> int:
        """Return the number of CTAs per chunk: whole clusters, or the grid if a CTA may wait for other clusters."""
        program = self.program
        if self.cooperative or self.explorer is not None or program.control_flow.waits_for_ctas:
            return self.ctas
        bytes_per_cta = program.shared_bytes * 5 + program.local_bytes * self.threads + 1
        ranks = prod(self.cluster)
        return max(1, min(self.ctas, CHUNK_THREADS // self.threads, CHUNK_BYTES // bytes_per_cta) // ranks) * ranks

    def shadow_globals(self) -> None:
        stores = any(s.kind != "load" and s.space in ("global", "") for s in self.program.sites)
        fresh = {p.memory.__array_interface__["data"][0] for p in self.placing.arrays if not p.initialized}
        unwritten = {x.address: x.written for x in self.placing.resident.allocations}
        for region in self.memory.regions:
            if region.space != "global":
                continue
            base = region.memory.__array_interface__["data"][0] if fresh else 0
            parts = [p for p in region.parts if base + p.start in fresh] if fresh else []
            written = unwritten.get(region.base)
            if written is not None:
                shift = records.finest_shift(written, self.program.cell_shift["global"])
                records.add_shadow(region, {"global": shift}, parts)
                region.shadow.mark_unwritten(written)
            elif parts or (stores and region.writable):
                records.add_shadow(region, self.program.cell_shift, parts)

    def note_writes(self) -> None:
        """Add the bytes that the kernel wrote to the masks of the device's arrays; warn of partly written arrays."""
        for x in self.placing.resident.allocations:
            region = self.memory.find("global", x.address)
            if x.written is None or region is None or region.shadow is None:
                continue
            before, x.written = x.written, x.written | region.shadow.written(x.written.size)
            for part in x.parts[:-1] or x.parts:
                own = slice(part.start, part.start + part.size_bytes)
                left = np.flatnonzero(~x.written[own])
                if left.size and np.count_nonzero(x.written[own] & ~before[own]):
                    self.findings.left_unwritten(part, left)
            x.define(0, 0)

    def run(self, progress: Progress | None = None) -> None:
        if not self.ctas:
            return
        program = self.program
        lanes = Lanes(self.grid, self.block, 0, min(self.per_chunk, self.ctas), self.cluster)
        checker: AccessChecker | None = None
        if self.checks:
            strict = self.checks == "strict"
            checker = AccessChecker(program, lanes, self.ctas, self.findings, strict, self.replicas_differ)
            self.shadow_globals()
        for first in range(0, self.ctas, self.per_chunk):
            count = min(self.per_chunk, self.ctas - first)
            if first:
                lanes = Lanes(self.grid, self.block, first, count, self.cluster)
            self.run_chunk(lanes, checker)
            if progress is not None:
                progress.advance(steps=count)

    def run_chunk(self, lanes: Lanes, checker: AccessChecker | None) -> None:
        before = (list(self.memory.regions), list(self.memory.starts))
        for region in self.placing.chunk_memory(lanes, self.shared_map):
            if checker is not None:
                # the system sets its own memory to zero
                written = region.parts[-1].name == RESERVED.name
                records.add_shadow(region, self.program.cell_shift, () if written else None)
            self.memory.add(region)
            if region.space == "shared" and any(site.far for site in self.program.sites):
                if checker is not None:
                    # barriers of a CTA don't order accesses by other CTAs
                    region.shadow.agents = True
                for peer in placing.peers(region, lanes.ranks):
                    self.memory.add(peer)
        if checker is not None:
            checker.begin(lanes)
        access = Access(self.program.sites, self.memory, lanes, self.findings, checker, self.profiler)
        machine = (Machine if self.explorer is None else self.explorer.machine_class)(
            self.program, access, self.placing.params, self.printer, self.schedule, self.delivery, self.limit
        )
        machine.left = self.left
        if self.concurrent is not None and self.program.control_flow.waits_for_ctas:
            machine.run_at_once(self.concurrent)
        machine.run()
        self.left = machine.left
        self.issued += machine.operations.issued
        for i, count in enumerate(machine.block_lanes):
            self.block_lanes[i] += count
        self.memory.regions, self.memory.starts = before

    def report(self) -> Report:
        traffic = self.profiler.traffic if self.profiler is not None else None
        return Report(
            self.program, self.grid, self.block, bool(self.checks), self.places, self.block_lanes, traffic,
            tuple(self.findings.collected.values()), self.delivery.text if self.issued else "",
        )

    def locate(self, error: SimulationError) -> None:
        """Set the column of an error from its first instruction."""
        first = [self.places.location(pc) for pc in error.instructions[:1]]
        error.column = first[0].column if first and first[0] else 0

    def end(self, error: SimulationError) -> None:
        """Collect the error that has ended the launch."""
        self.locate(error)
        self.findings.end(error)

    def digest(self) -> bytes:
        """Return a hash of the memory that the host sees."""
        state = sha256()
        for region in self.memory.regions:
            if region.space == "global":
                state.update(region.memory.data)
        return state.digest()

    def shapes(self) -> str:
        """Name the arrays, with their sizes."""
        regions = sorted((x for x in self.memory.regions if x.space == "global"), key=lambda x: x.parts[0].name)
        parts = [x for region in regions for x in region.parts]
        return ", ".join(f"{x.name} ({in_bytes(x.size_bytes) if x.elements is None else x.elements})" for x in parts)

