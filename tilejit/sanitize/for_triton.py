"""Triton's driver and launcher on the simulator: unmodified programs run without a GPU, and each launch is checked.

Triton compiles a kernel to PTX, as always; a hook replaces its last stage, the assembler, so that the PTX itself is
the binary. The launcher gives each storage of torch an address on the simulated GPU and runs the PTX there.
"""

from __future__ import annotations

import linecache
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

import torch
import triton
import triton.testing
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner

from ..errors import LaunchError
from ..simulator import Report
from .session import Session, SessionOptions
from .torch_arguments import Arguments
from .torch_cuda import cuda_is_there, properties
from .torch_memory import GPU, MarkingMode, TorchMemory
from .torch_tensors import TensorMode

#: registers per thread that a compiled kernel reports: only ptxas knows the number
_REGISTERS = 64
_MOST_THREADS = 1024
#: thread instructions per unit of simulated time
_PER_MILLISECOND = 1e6

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_FIRST_LOCATION = re.compile(r"^\s*\.loc\s+(\d+)\s", re.MULTILINE)
_run_backward = torch.autograd._engine_run_backward

_active: list[TritonSession] = []


class TritonSession(Session):
    """The launches of Triton's kernels in a program.

    The modes of torch by which CPU tensors represent CUDA tensors belong to the thread that entered the context.
    Another thread that launches kernels enters `thread()`.
    """

    def __init__(self, chosen: SessionOptions) -> None:
        super().__init__(chosen)
        self.memory = TorchMemory(self.device)
        self._threads: set[int] = set()

    @contextmanager
    def thread(self) -> Iterator[None]:
        """Let CPU tensors represent CUDA tensors in this thread."""
        thread = threading.get_ident()
        with MarkingMode(self.memory), TensorMode(self.memory):
            self._threads.add(thread)
            try:
                yield
            finally:
                self._threads.discard(thread)

    def check_thread(self, kernel: str) -> None:
        """Raise LaunchError if this thread has not entered `thread()`."""
        if threading.get_ident() not in self._threads:
            name = threading.current_thread().name
            raise LaunchError(
                f"{kernel} is launched by the thread {name}, in which CPU tensors don't represent CUDA tensors: "
                "the modes of torch belong to the thread that entered the context",
                hint="in that thread, write `with session.thread():`",
            )

    def backward(self, *args: Any, **kwargs: Any) -> Any:
        """Run a backward pass, of which torch disables modes, with the mode for the Python functions that it calls."""
        with TensorMode(self.memory):
            return _run_backward(*args, **kwargs)

    def milliseconds(self) -> float:
        """Return the simulated time."""
        return self.instructions / _PER_MILLISECOND

    def benchmark(
        self, fn: Callable[[], object], *_: Any, quantiles: Sequence[float] | None = None, return_mode: str = "mean",
        **__: Any,
    ) -> Any:
        """Call a function once; return the simulated time that its launches took."""
        before = self.milliseconds()
        fn()
        return triton.testing._summarize_statistics([self.milliseconds() - before], quantiles, return_mode)


@contextmanager
def simulated_triton(chosen: SessionOptions) -> Iterator[TritonSession]:
    """Run Triton's kernels on the simulator until the context ends."""
    if _active:
        raise LaunchError(
            "a context of tilejit.sanitize.triton is active: contexts can't be nested", hint="use the active session"
        )
    if knobs.runtime.interpret:
        raise LaunchError(
            "TRITON_INTERPRET=1 is set, so that Triton doesn't compile kernels", hint="unset TRITON_INTERPRET"
        )
    session = TritonSession(chosen)
    _active.append(session)
    try:
        with (
            mock.patch.object(triton.runtime.driver, "_active", _driver(session)),
            mock.patch.object(knobs.runtime, "add_stages_inspection_hook", _end_at_ptx),
            mock.patch.multiple(triton.testing, do_bench=session.benchmark, do_bench_cudagraph=session.benchmark),
            mock.patch.multiple(Autotuner, **_autotuner(session)),
            cuda_is_there(chosen.target, session.milliseconds),
            mock.patch.object(torch.autograd, "_engine_run_backward", session.backward),
            session.thread(),
        ):
            yield session
    finally:
        _active.remove(session)


def _end_at_ptx(*stage: Any) -> Any:
    """Replace the stage that assembles PTX; without arguments, return the text that identifies such kernels in caches.
    """
    if not stage:
        return "tilejit-ptx", "tilejit-ptx"
    backend, stages, *_ = stage
    stages[backend.binary_ext] = lambda source, metadata: source.encode()
    return None


def _autotuner(session: TritonSession) -> dict[str, Any]:
    """Return the attributes of `Autotuner` by which the session chooses configurations on its own.

    Choices and benchmarks that a tuner keeps, also in files, are those of a GPU, or of another session.
    """
    run, prune = Autotuner.run, Autotuner.prune_configs
    choices: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()

    def run_anew(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        with mock.patch.multiple(tuner, cache=choices.setdefault(tuner, {}), cache_results=False):
            return run(tuner, *args, **kwargs)

    def pruned(tuner: Any, kwargs: dict[str, Any]) -> Any:
        configs = prune(tuner, kwargs)
        return configs[:1] if session.options.autotune == "first" else configs

    return {"run": run_anew, "prune_configs": pruned, "do_bench": property(lambda tuner: session.benchmark)}


class _Index(int):
    """The index 0 of the simulated GPU. Triton keeps compiled kernels by device, so that it differs by target."""

    target: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Index) and self.target == other.target

    def __hash__(self) -> int:
        return hash(self.target)


def _driver(session: TritonSession) -> SimpleNamespace:
    """Return the simulated GPU's driver, with the attributes of `triton.backends.driver.DriverBase` that are used."""
    target = session.options.target
    unit = properties(target)
    index = _Index(0)
    index.target = target.name
    return SimpleNamespace(
        launcher_cls=SimulatedLauncher,
        get_current_target=lambda: GPUTarget("cuda", target.number, 32),
        get_current_device=lambda: index,
        set_current_device=lambda device: None,
        get_current_stream=lambda device=None: 0,
        get_device_capability=lambda device=None: (unit.major, unit.minor),
        get_active_torch_device=lambda: GPU,
        get_device_interface=lambda: torch.cuda,
        get_benchmarker=lambda: session.benchmark,
        get_empty_cache_for_benchmark=lambda: torch.zeros(1, dtype=torch.int32),
        clear_cache=lambda cache: cache.zero_(),
        utils=SimpleNamespace(
            get_device_properties=lambda device: {
                "max_shared_mem": target.shared_bytes, "max_num_regs": unit.regs_per_multiprocessor,
                "multiprocessor_count": unit.multi_processor_count, "warpSize": 32,
                "sm_clock_rate": unit.clock_rate, "mem_clock_rate": unit.memory_clock_rate,
                "mem_bus_width": unit.memory_bus_width,
            },
            # no module: Triton would ask the driver to unload it, even after the context has ended
            load_binary=lambda name, binary, shared, device: (
                None, (name, binary.decode()), _REGISTERS, 0, _MOST_THREADS
            ),
            set_printf_fifo_size=lambda size: None,
        ),
    )


class SimulatedLauncher:
    """Launches one compiled kernel of Triton on the simulator of the active session."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.signature = dict(source.signature)
        self.metadata = metadata
        function = getattr(getattr(source, "fn", None), "fn", None)
        self.file = function.__code__.co_filename if function is not None else ""

    def __call__(
        self, x: int, y: int, z: int, stream: Any, function: tuple[str, str], packed: Any, launch_metadata: Any,
        enter: Callable[[Any], object] | None, leave: Callable[[Any], object] | None, *values: Any,
    ) -> None:
        __tracebackhide__ = True
        name, binary = function
        if not _active:
            raise LaunchError(
                f"{name} was compiled for the simulator, and no context of tilejit.sanitize.triton is active",
                hint="launch it in `with tilejit.sanitize.triton():`",
            )
        session = _active[-1]
        session.check_thread(name)
        if enter is not None:
            enter(launch_metadata)
        if x * y * z > 0:
            ctas = int(getattr(self.metadata, "num_ctas", 1))
            self.launch(session, name, with_file(binary, self.file), (x * ctas, y, z), stream, values)
        if leave is not None:
            leave(launch_metadata)

    def launch(
        self, session: TritonSession, name: str, ptx: str, grid: tuple[int, int, int], stream: Any,
        values: Sequence[Any],
    ) -> None:
        """Run the kernel in all schedules of the session."""
        __tracebackhide__ = True
        metadata = self.metadata
        block = (32 * metadata.num_warps, 1, 1)
        held = session.memory.hold()
        arguments = Arguments(session.memory, getattr(metadata, "tensordesc_meta", None))
        args: list[Any] = []
        for (parameter, type_), value in zip(self.signature.items(), values, strict=True):
            args += arguments.flat(str(parameter), type_, value)
        # the launch needs the tensors, which nothing else refers to
        scratch = self.scratch(grid[0] * grid[1] * grid[2], stream)
        args += [arguments.address("scratch", x) for x in scratch]
        module = session.module(ptx)
        arrays = session.device.allocations() if session.options.schedules > 1 else ()
        before = [(a, a.memory.copy(), None if a.written is None else a.written.copy()) for a in arrays]

        def run(schedule: int) -> Report:
            # shared memory is the compiler's: where threads replicate a computation, all of them store the result
            return module.launch(
                name, grid, block, args, shared_bytes=metadata.shared, checks=session.options.checks,
                on_finding="collect", schedule=schedule, replicas_differ="warning",
                orders=None if schedule else session.options.orders,
            )

        def restore() -> None:
            for array, contents, written in before:
                array.memory[...] = contents
                array.written = None if written is None else written.copy()

        try:
            with arguments.labelled():
                session.launch(name, grid, block, run, restore)
        finally:
            # a traceback may keep the list
            held.clear()

    def scratch(self, ctas: int, stream: Any) -> tuple[Any, Any]:
        """Return the memory for each CTA that Triton's compiler asks for, and that for profiles; None for none."""
        metadata = self.metadata
        size, profile = metadata.global_scratch_size * ctas, metadata.profile_scratch_size * ctas
        # by the function that the program passed to triton.set_allocator
        made = _allocation._allocator.get()(size, metadata.global_scratch_align, stream) if size else None
        return made, torch.zeros(profile, dtype=torch.int8, device="cuda") if profile else None


def with_file(ptx: str, file: str) -> str:
    """Return PTX whose kernel is in the file `file`; "" for an unknown one.

    Triton's cache doesn't know the names of files: the PTX may be that of a program elsewhere with the same text. Files
    of the other program's folder become those with the same name in the folder of `file`, if there are any.
    """
    files = dict(_FILE.findall(ptx))
    location = _FIRST_LOCATION.search(ptx)
    former = files.get(location[1]) if location is not None else None
    if former is None or file in ("", former):
        return ptx
    moved = {former: file}
    for path in files.values():
        here = os.path.join(os.path.dirname(file), os.path.basename(path))
        # linecache also has the cells of notebooks
        is_here = os.path.isfile(here) or here in linecache.cache
        if path != former and os.path.dirname(path) == os.path.dirname(former) and is_here:
            moved[path] = here
    return _FILE.sub(lambda found: found[0].replace(f'"{found[2]}"', f'"{moved.get(found[2], found[2])}"'), ptx)
