"""The simulator as a device, which runs PTX on host memory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..callers import stack_level
from ..errors import DeviceError, LaunchError, OutsideWarning, SimulationError, assert_never
from ..ir.params import (
    AddressParam,
    AssertionsParam,
    BarrierParam,
    ExtentParam,
    Param,
    PointerParam,
    ScalarParam,
    StrideParam,
    TensorMapParam,
)
from ..simulator import Checks, Location, Pointer, RegionCount, Report, Share, TensorMap, run
from ..source import Span
from ..target import Target
from ..target import target as find_target
from . import assertions, packing, scratch, tensor_maps
from .arrays import SIMULATOR, Argument, ArrayView, DeviceArray, device_name, host_bytes, offset_in_base
from .device import Launch, PreparedRun, check_writable, checks_wanted, ledger, watching
from .grid import stream_handle
from .signature import Call

if TYPE_CHECKING:
    from ..compiled import Compiled
    from ..executable import Executable
    from ..ir.watched import WatchedRegion
    from ..simulator.machine.printf import Stop

_DEFAULT_TARGET = "sm_90a"
_POISON = 0xFF

#: a placeholder: with the simulator, `packing.getter` computes only extents, strides and addresses
_NO_WORKSPACE = packing.Workspace(0, lambda: 0, dict[TensorMapParam, tensor_maps.ParameterMaps]().__getitem__)


#: cycles of one H100 multiprocessor per event. Four schedulers each issue one warp instruction per cycle;
#: shared memory delivers one wavefront of 128 bytes per cycle; global memory one sector of 32 bytes in 2.2 cycles
#: (3,350 GB/s for 132 multiprocessors at 1.755 GHz). The sum assumes no overlap, so it ranks kernels by work, not by
#: how well they hide latency.
THREAD_INSTRUCTION = 1 / 128
WAVEFRONT = 1.0
SECTOR = 2.2


class SimulatedMemory:
    """Host memory that represents device memory. It initially contains 0xFF bytes, which are NaN as floats.

    initialized: False until a copy or a launch may have written it; until then, checks report reads of unwritten bytes.
    """

    __slots__ = ("host", "initialized")

    device = SIMULATOR

    def __init__(self, size: int) -> None:
        self.host: np.ndarray[Any, Any] = np.full(size, _POISON, np.uint8)
        self.initialized = False

    @property
    def pointer(self) -> int:
        return self.host.ctypes.data

    def copy_in(self, array: np.ndarray[Any, Any]) -> None:
        self.host[:] = array.reshape(-1).view(np.uint8)
        self.initialized = True

    def copy_out(self, array: np.ndarray[Any, Any]) -> None:
        array.reshape(-1).view(np.uint8)[:] = self.host

    def free(self) -> None:
        self.host = np.empty(0, np.uint8)


def cost(report: Report) -> float:
    """Return the cost in cycles of a profiled launch."""
    traffic = [line.traffic for line in report.lines.values()]
    return (
        THREAD_INSTRUCTION * report.thread_instructions
        + WAVEFRONT * sum(t.wavefronts for t in traffic)
        + SECTOR * sum(t.sectors for t in traffic)
    )


class CountingBench:
    """Counts the cost of work on the simulator, with the interface of `CudaBench`."""

    unit = "cycles (counted)"
    is_exact = True

    def __init__(self, entries: list[float], kept: Sequence[ArrayView]) -> None:
        self._ledger = entries
        memories = [host_bytes(view.pointer, view.facts, view.owner) for view in kept]
        self._kept = [(memory, memory.copy()) for memory in memories]

    def staged(self, call: Call) -> Call:
        return call

    def round(self, works: Sequence[Callable[[], object]]) -> list[float]:
        costs = []
        for work in works:
            self.restore()
            self._ledger.clear()
            work()
            costs.append(float(sum(self._ledger)))
        return costs

    def restore(self) -> None:
        for memory, before in self._kept:
            memory[:] = before


@contextmanager
def counting(call: Call | None, kept: Sequence[int]) -> Iterator[CountingBench]:
    """Yield a bench on the simulator. kept: positions of arrays of `call` to restore before each run and at the end."""
    entries: list[float] = []
    views = [] if call is None else [call.arguments[position] for position in kept]
    bench = CountingBench(entries, [view for view in views if isinstance(view, ArrayView)])
    token = ledger.set(entries)
    try:
        yield bench
    finally:
        ledger.reset(token)
        bench.restore()


class SimulatedDevice:
    """The simulator, with the interface of `CudaDevice`.

    chosen: the architecture that the user selected; None for any that a kernel needs.
    """

    number = SIMULATOR
    #: few, so that CTAs that loop over tiles run several iterations even in small launches
    multiprocessors = 4

    def __init__(self, chosen: Target | None) -> None:
        self.chosen = chosen

    @property
    def name(self) -> str:
        return "sim" if self.chosen is None else f"sim:{self.chosen}"

    @property
    def target(self) -> Target:
        return self.chosen or find_target(_DEFAULT_TARGET)

    @property
    def checks(self) -> bool:
        return bool(checks_wanted())

    def check(self, target: Target) -> None:
        if self.chosen is not None and not target.runs_on(self.chosen.number):
            raise DeviceError(
                f"{self.name} can't run code for {target}",
                hint=f"use plain sim or sim:{target}, or another target for the kernel",
            )

    def prepare(self) -> None:
        """Do nothing; loading a kernel waits for nothing."""

    def open(self) -> None:
        """Do nothing; the simulator is always available."""

    def load(self, compiled: Compiled) -> SimulatedFunction:
        return SimulatedFunction(compiled)

    def allocate(self, size: int) -> SimulatedMemory:
        return SimulatedMemory(size)

    @property
    def identity(self) -> str:
        return self.name

    def bench(self, call: Call | None, stream: Any, kept: Sequence[int]) -> AbstractContextManager[CountingBench]:
        return counting(call, kept)

    def synchronize(self) -> None:
        """Do nothing; launches are synchronous."""


class SimulatedFunction:
    """A kernel loaded on the simulator, with the interface of `CudaFunction`."""

    direct = None

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._positions = compiled.executable.positions
        self._written = compiled.executable.written

    def prepare(self, launch: Launch, call: Call) -> PreparedRun:
        return PreparedRun(lambda: False, lambda: self.launch(launch, call))

    def launch(self, launch: Launch, call: Call) -> None:
        if launch.stream is not None:
            # streams have no effect here, but reject values that a GPU would reject
            stream_handle(launch.stream)
        watch = watching.get()
        if watch is not None:
            watch.reports.append(
                self.simulate(launch, call.arguments, checks=True, on_finding="collect", schedule=watch.schedule)
            )
            return
        entries = ledger.get()
        report = self.simulate(launch, call.arguments, checks=checks_wanted(), profile=entries is not None)
        if entries is not None:
            entries.append(cost(report))

    def simulate(
        self, launch: Launch, arguments: Sequence[Argument], *, checks: Checks, profile: bool = False,
        on_finding: Literal["raise", "collect"] = "raise", schedule: int = 0, delivery: str = "late",
        orders: int | str | None = None, limit: int = 10_000, seconds: float | None = None,
        resident: int | None = None,
    ) -> Report:
        executable = self.compiled.executable
        if resident is not None and executable.cooperative and math.prod(launch.grid) > resident:
            raise LaunchError(
                f"the {math.prod(launch.grid):,} CTAs of a cooperative launch must run at the same time; "
                f"resident={resident} is less",
                hint="launch fewer CTAs that do more work each, or simulate more resident CTAs",
            )
        check_writable(self._written, arguments)
        added = _scratch(executable, launch.grid, arguments) if executable.scratch else ()
        arguments = (*arguments, *[array.view() for array in added])
        record = np.zeros(AssertionsParam.RECORD_BYTES, np.uint8)
        values = [parameter_value(param, self._positions, arguments, record, profile) for param in executable.params]
        lines = SourceLines(executable.spans)
        try:
            report = run(
                executable.ptx,
                executable.entry,
                launch.grid,
                (launch.threads, 1, 1),
                values,
                checks=checks,
                profile=profile,
                on_finding=on_finding,
                schedule=schedule,
                delivery=delivery,
                orders=orders,
                limit=limit,
                seconds=seconds,
                concurrent=resident,
                dynamic_shared_bytes=executable.shared_bytes if executable.dynamic_shared else 0,
                locate=lines.locate,
                may_be_empty=True,
                shared_map=[(p.name, p.variable, p.first, p.bytes) for p in executable.shared_map],
                stop=lambda stop: self._stopped(stop, arguments),
            )
        except SimulationError as error:
            # the error may be a consequence: other threads may wait for a thread that exited at a failed assertion
            failed = assertions.failed(executable, record)
            if failed is not None:
                raise failed.simulated(launch) from None
            error.span = error.span or lines.first_in(error)
            raise
        self._note_written(arguments)
        failed = assertions.failed(executable, record)
        if failed is not None:
            if on_finding == "raise":
                raise failed.simulated(launch)
            report.note(failed.simulated(launch), lines.location(failed.assertion.span))
        elif not any(each.level == "error" for each in report.findings):
            self._check_zeroed(added, report, on_finding, lines)
        report.regions = tuple(_counted(region, report.events) for region in executable.watched)
        self._warn_of_outside(report, arguments)
        return report

    def _stopped(self, stop: Stop, arguments: Sequence[Argument]) -> None:
        # imports the modules of Python's debugger
        from . import breakpoints

        named = {name: arguments[position] for name, position in self._positions.items()}
        breakpoints.stopped(stop, self.compiled.executable.spans, named)

    def _check_zeroed(
        self, arrays: Sequence[DeviceArray], report: Report, on_finding: str, lines: SourceLines
    ) -> None:
        executable = self.compiled.executable
        for index, array in enumerate(arrays):
            if not executable.scratch[index].zeroed:
                continue
            try:
                scratch.check_zeroed(executable, index, array.numpy().reshape(-1).view(np.uint8), SimulationError)
            except SimulationError as error:
                if on_finding == "raise":
                    raise
                report.note(error, lines.location(error.span))

    def _warn_of_outside(self, report: Report, arguments: Sequence[Argument]) -> None:
        """Warn about each non-empty tensor of which tile operations accessed only regions entirely out of bounds."""
        executable = self.compiled.executable
        by_tensor: dict[str, list[tuple[WatchedRegion, RegionCount]]] = {}
        for watched, counted in zip(executable.watched, report.regions, strict=True):
            if watched.tensor and counted.instances:
                by_tensor.setdefault(watched.tensor, []).append((watched, counted))
        for name, regions in by_tensor.items():
            view = arguments[self._positions[name]]
            if isinstance(view, ArrayView) and 0 not in view.facts.shape and not any(c.inside for _, c in regions):
                lines = dict.fromkeys(f"  {w.span.called if w.span else '-'}: {w.text}" for w, _ in regions)
                warnings.warn(
                    f"in this launch, every region of {name} that {executable.name} accessed was entirely outside "
                    f"{name}, whose shape is {view.facts.shape}\n{chr(10).join(lines)}\n"
                    "help: check where these regions start; elements outside are read as fill values and never written",
                    OutsideWarning, stacklevel=stack_level(),
                )

    def _note_written(self, arguments: Sequence[Argument]) -> None:
        for position in self._written.values():
            view = arguments[position]
            if isinstance(view, ArrayView) and isinstance(view.owner, DeviceArray):
                memory = view.owner.memory
                assert isinstance(memory, SimulatedMemory)
                memory.initialized = True


class SourceLines:
    """Maps `.loc` directives to Python lines, and finds the line that an error refers to."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._located: dict[str, Span] = {}

    def locate(self, file: int, line: int, column: int) -> str:
        """Describe the Python line of a `.loc` directive, with the calls through which it was inlined."""
        if not 0 < column <= len(self._spans):
            return f"line {line}"
        # where LLVM merges instructions of several lines, the line is 0, and the column is the previous instruction's
        near = "" if line else "near "
        span: Span | None = self._spans[column - 1]
        texts = []
        while span is not None:
            texts.append(f"{span}: {span.text.strip()}" if span.text else str(span))
            span = span.caller
        text = near + "\n      called from ".join(texts)
        self._located[text] = self._spans[column - 1]
        return text

    def location(self, span: Span | None) -> Location | None:
        if span is None:
            return None
        column = self._spans.index(span) + 1 if span in self._spans else 0
        return Location(1, span.line, column, self.locate(1, span.line, column) if column else str(span))

    def first_in(self, error: SimulationError) -> Span | None:
        """Return the span of the first line named in the message (the error's own span if on that line or if none is).

        It is None if neither is known.
        """
        named = [text for text in self._located if text in error.message]
        if not named:
            return self._spans[error.column - 1] if 0 < error.column <= len(self._spans) else None
        first = min(named, key=error.message.index)
        is_party = 0 < error.column <= len(self._spans) and self.locate(1, 1, error.column) in first
        return self._spans[error.column - 1] if is_party else self._located[first]


def _scratch(
    executable: Executable, grid: tuple[int, int, int], arguments: Sequence[Argument]
) -> tuple[DeviceArray, ...]:
    """Return new arrays for a launch's scratch."""
    layout, arrays = scratch.scratch_layout(executable, grid, arguments, SIMULATOR), list[DeviceArray]()
    for facts, is_zeroed, _ in layout.places:
        try:
            memory = SimulatedMemory(math.prod(facts.shape) * facts.dtype.bytes)
        except MemoryError:
            raise scratch.too_large(executable, layout) from None
        if is_zeroed:
            memory.copy_in(np.zeros_like(memory.host))
        arrays.append(DeviceArray(memory, facts.dtype, facts.shape))
    return tuple(arrays)


def _counted(region: WatchedRegion, events: Mapping[int, int]) -> RegionCount:
    instances, inside = (events.get(event, 0) // region.threads for event in (region.instances, region.inside))
    return RegionCount(region.span.called.line if region.span else 0, region.text, instances, inside)


def parameter_value(
    param: Param, positions: Mapping[str, int], arguments: Sequence[Argument], record: np.ndarray[Any, Any],
    profile: bool,
) -> Pointer | TensorMap | bytes | np.generic:
    """Return a parameter's value for the simulator. record: memory of the assertion record."""
    match param:
        case PointerParam():
            return _pointer(arguments[positions[param.of]], param.of, param.written, profile)
        case TensorMapParam():
            return _tensor_map(arguments[positions[param.of]], param, profile)
        case ScalarParam():
            with np.errstate(over="ignore"):
                number: np.generic = param.var.dtype.numpy.type(arguments[positions[param.of]])
            return number
        case ExtentParam() | StrideParam() | AddressParam():
            size: np.generic = np.int64(packing.getter(param, positions, _NO_WORKSPACE)(arguments))
            return size
        case AssertionsParam():
            return Pointer(record, name="assertions")
        case BarrierParam():
            return Pointer(np.zeros(param.buffer.dtype.bytes, np.uint8), name="barrier")
        case _:
            return assert_never(param)


def _tensor_map(view: Argument, param: TensorMapParam, profile: bool) -> TensorMap | bytes:
    assert isinstance(view, ArrayView)
    spec, array = param.map, tensor_maps.mapped(param.map, view.facts)
    if array is None:
        return bytes(param.size_bytes)
    memory = _pointer(view, param.of, param.written, profile)
    # if multicast copies split boxes in several ways, the split of a given box is unknown
    shares = [Share(share.coordinates, share.bytes) for share in param.shares]
    return TensorMap(
        memory, array.dims, array.strides, spec.box, spec.dtype.bytes, spec.dtype.name, spec.swizzle, spec.axes,
        shares[0] if len(shares) == 1 else None,
    )


def _pointer(view: Argument, of: str, written: bool, profile: bool) -> Pointer:
    """Return a pointer to the array's first element, which isn't always at the lowest address."""
    assert isinstance(view, ArrayView)
    if view.host is None:
        raise LaunchError(
            f"{of} is on {device_name(view.facts.device)}, and the simulator can't read a GPU's memory",
            hint="copy it to host memory first: a.cpu() in PyTorch, cupy.asnumpy(a), or a.numpy() of a DeviceArray",
        )
    facts = view.facts
    memory = host_bytes(view.pointer, facts, view.owner)
    # only profiles use the array's offset in its allocation
    counted_at = offset_in_base(view) if profile else 0
    return Pointer(memory, -facts.low_bytes, of, written, _is_initialized(view), counted_at)


def _is_initialized(view: ArrayView) -> bool:
    memory = view.owner.memory if isinstance(view.owner, DeviceArray) else None
    return memory.initialized if isinstance(memory, SimulatedMemory) else True
