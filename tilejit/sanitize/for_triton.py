"""Triton's driver and launcher on the simulator: unmodified programs run without a GPU, and each launch is checked.

Triton compiles a kernel to PTX, as always; a hook replaces its last stage, the assembler, so that the PTX itself is
the binary. The launcher gives each storage of torch an address on the simulated GPU and runs the PTX there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
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
from ..simulator import DeviceArray, Report
from .session import Session, SessionOptions
from .torch_cuda import cuda_is_there, properties
from .torch_memory import GPU, MarkingMode, TorchMemory
from .torch_tensors import TensorMode, active_in_backward
from .triton_arguments import Argument, flatten, scalar, tensor_map, with_file

#: registers per thread that a compiled kernel reports: only ptxas knows the number
_REGISTERS = 64
_MOST_THREADS = 1024
#: thread instructions per unit of simulated time
_PER_MILLISECOND = 1e6

_active: list[TritonSession] = []


class TritonSession(Session):
    """The launches of Triton's kernels in a program.

    The modes of torch by which CPU tensors represent CUDA tensors belong to the thread that entered the context.
    Another thread that launches kernels enters `thread()`.
    """

    def __init__(self, chosen: SessionOptions) -> None:
        super().__init__(chosen)
        self.memory = TorchMemory(self.device)
        #: the choices of autotuners, which belong to this session's target
        self.tuned: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
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
            active_in_backward(partial(TensorMode, session.memory)), session.thread(),
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

    def run_anew(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        with mock.patch.multiple(tuner, cache=session.tuned.setdefault(tuner, {}), cache_results=False):
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
        arguments = _Arguments(session.memory)
        args = [arguments.value(a) for a in flatten(self.signature, values, getattr(metadata, "tensordesc_meta", None))]
        args += [arguments.address("scratch", x) for x in self.scratch(grid[0] * grid[1] * grid[2], stream)]
        module = session.module(ptx)
        arrays = session.device.allocations() if session.options.schedules > 1 else ()
        before = [(a, a.memory.copy(), None if a.written is None else a.written.copy()) for a in arrays]

        def run(schedule: int) -> Report:
            # shared memory is the compiler's: where threads replicate a computation, all of them store the result
            return module.launch(
                name, grid, block, args, shared_bytes=metadata.shared, checks=session.options.checks,
                on_finding="collect", schedule=schedule, replicas_differ="warning",
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


class _Arguments:
    """The arguments of one launch as the simulator's."""

    def __init__(self, memory: TorchMemory) -> None:
        self.memory = memory
        #: array, and what its label says of a part -> the names of parameters that point to the part
        self.names: dict[tuple[DeviceArray, str, int, tuple[int, ...], int], list[str]] = {}

    def value(self, argument: Argument) -> Any:
        """Return the simulator's argument for one of the kernel."""
        if argument.type == "tensormap":
            array = self.place(argument.name, argument.value.base)
            if array is None:
                raise LaunchError(
                    f"the descriptor {argument.name} is one of an empty tensor", hint="don't launch the kernel for it"
                )
            return tensor_map(argument, array)
        return self.address(argument.name, argument.value) if argument.type.startswith("*") else scalar(argument)

    def address(self, name: str, value: Any) -> bytes:
        """Return the address that a pointer argument has on the simulated GPU."""
        # triton.TensorWrapper has the tensor in `base`
        tensor = getattr(value, "base", value)
        if isinstance(tensor, torch.Tensor):
            self.place(name, tensor)
            address = self.memory.address(tensor)
        elif value is None or isinstance(value, int):
            address = value or 0
        else:
            address = value.data_ptr()
        return (address & ((1 << 64) - 1)).to_bytes(8, "little")

    def place(self, name: str, tensor: torch.Tensor) -> DeviceArray | None:
        """Place a tensor, and note that messages name it, its type and, if its elements are contiguous, its shape."""
        array = self.memory.place(tensor)
        if array is not None:
            width = tensor.element_size()
            first = tensor.storage_offset() * width
            # else the elements from the first of the tensor on
            shape = tuple(tensor.shape) if tensor.is_contiguous() else ((array.memory.size - first) // width,)
            key = (array, str(tensor.dtype).removeprefix("torch."), width, shape, first)
            self.names.setdefault(key, []).append(name)
        return array

    @contextmanager
    def labelled(self) -> Iterator[None]:
        """Let messages name the arrays by the parameters until the context ends."""
        for (array, dtype, width, shape, first), names in self.names.items():
            array.label(" = ".join(dict.fromkeys(names)), dtype, width, shape, first)
        try:
            yield
        finally:
            for array, *_ in self.names:
                array.unlabel()
