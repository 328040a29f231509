"""Triton's driver and launcher on the simulator: unmodified programs run without a GPU, and each launch is checked.

Triton compiles a kernel to PTX, as always; a hook replaces its last stage, the assembler, so that the PTX itself is
the binary. The launcher gives each storage of torch an address on the simulated GPU and runs the PTX there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

import torch
import triton
import triton.testing
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner

from ..errors import LaunchError
from ..simulator import DeviceArray, Report, TensorMap
from .session import Session, SessionOptions
from .torch_cuda import cuda_is_there, properties
from .torch_memory import MarkingMode, TorchMemory
from .torch_tensors import TensorMode, active_in_backward
from .triton_arguments import Argument, described, flatten, scalar, with_file

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
        self.tuned: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
        self._threads = threading.local()

    @contextmanager
    def thread(self) -> Iterator[None]:
        """Let CPU tensors represent CUDA tensors in this thread."""
        with MarkingMode(self.memory), TensorMode(self.memory):
            self._threads.entered = True
            try:
                yield
            finally:
                self._threads.entered = False

    @property
    def is_thread_entered(self) -> bool:
        """True if this thread has entered `thread()`."""
        return getattr(self._threads, "entered", False)

    def tensor_mode(self) -> AbstractContextManager[object]:
        """Return the mode that answers for CUDA tensors, or a context without effect in threads without modes."""
        return TensorMode(self.memory) if self.is_thread_entered else nullcontext()

    def check_thread(self, kernel: str) -> None:
        """Raise LaunchError if this thread has not entered `thread()`."""
        if not self.is_thread_entered:
            name = threading.current_thread().name
            raise LaunchError(
                f"{kernel} is launched by the thread {name}, in which CPU tensors don't represent CUDA tensors: "
                "the modes of torch belong to the thread that entered the context",
                hint="in that thread, write `with session.thread():`",
            )


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
    config = triton.runtime.driver
    former = vars(config).get("_active")
    _active.append(session)
    config.set_active(SimulatedDriver(session))
    bench = _benchmark(session)
    try:
        with (
            mock.patch.object(knobs.runtime, "add_stages_inspection_hook", _end_at_ptx),
            mock.patch.object(triton.testing, "do_bench", bench),
            mock.patch.object(triton.testing, "do_bench_cudagraph", bench),
            mock.patch.object(Autotuner, "run", _tuned_anew(session, Autotuner.run)),
            mock.patch.object(Autotuner, "prune_configs", _pruned(session, Autotuner.prune_configs)),
            cuda_is_there(chosen.target, lambda: session.instructions / _PER_MILLISECOND),
            active_in_backward(session.tensor_mode), session.thread(),
        ):
            yield session
    finally:
        config.set_active(former)
        _active.remove(session)


def _end_at_ptx(
    backend: Any = None, stages: dict[str, Any] | None = None, options: Any = None, language: Any = None,
    capability: Any = None,
) -> Any:
    """Replace the stage that assembles PTX; without arguments, return the text that identifies such kernels in caches.
    """
    if stages is None:
        return "tilejit-ptx", "tilejit-ptx"
    stages[backend.binary_ext] = lambda source, metadata: source.encode()
    return None


def _benchmark(session: TritonSession) -> Callable[..., Any]:
    def bench(
        fn: Callable[[], object], *_: Any, quantiles: Sequence[float] | None = None, return_mode: str = "mean",
        **__: Any,
    ) -> Any:
        """Call a function once; return the millions of thread instructions that its launches executed."""
        before = session.instructions
        fn()
        executed = (session.instructions - before) / _PER_MILLISECOND
        if quantiles is not None:
            return [executed] * len(quantiles) if len(quantiles) > 1 else executed
        return [executed] if return_mode == "all" else executed

    return bench


def _tuned_anew(session: TritonSession, run: Callable[..., Any]) -> Callable[..., Any]:
    def tuned(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an autotuned kernel with the choices of this session, not those made on a GPU or for another target."""
        former = tuner.cache
        tuner.cache = session.tuned.setdefault(tuner, {})
        try:
            return run(tuner, *args, **kwargs)
        finally:
            tuner.cache = former

    return tuned


def _pruned(session: TritonSession, prune: Callable[..., Any]) -> Callable[..., Any]:
    def pruned(tuner: Any, kwargs: dict[str, Any], *args: Any) -> Any:
        configs = prune(tuner, kwargs, *args)
        return configs[:1] if session.options.autotune == "first" else configs

    return pruned


class _Index(int):
    """The index 0 of the simulated GPU. Triton keeps compiled kernels by device, so that it differs by target."""

    target = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Index) and self.target == other.target

    def __hash__(self) -> int:
        return hash(self.target)


class SimulatedDriver(DriverBase):
    """Triton's driver of the simulated GPU."""

    def __init__(self, session: TritonSession) -> None:
        target = session.options.target
        unit = properties(target)
        self.launcher_cls = SimulatedLauncher
        self._target = GPUTarget("cuda", target.number, 32)
        self._index = _Index(0)
        self._index.target = target.name
        self._bench = _benchmark(session)
        self.get_current_device = lambda: self._index
        self.set_current_device = lambda device: None
        self.get_current_stream = lambda device=None: 0
        self.get_device_capability = lambda device=None: (unit.major, unit.minor)
        self.utils = SimpleNamespace(
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
            unload_module=lambda module: None,
            set_printf_fifo_size=lambda size: None,
        )

    @classmethod
    def is_active(cls) -> bool:
        return bool(_active)

    def map_python_to_cpp_type(self, ty: str) -> str:
        raise NotImplementedError(ty)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Any:
        return self._bench

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.zeros(1, dtype=torch.int32)

    def clear_cache(self, cache: torch.Tensor) -> None:
        cache.zero_()

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args


class SimulatedLauncher:
    """Launches one compiled kernel of Triton on the simulator of the active session."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.signature: Mapping[str, Any] = dict(source.signature)
        self.metadata = metadata
        self.boxes = getattr(metadata, "tensordesc_meta", None)
        function = getattr(getattr(source, "fn", None), "fn", None)
        self.file = function.__code__.co_filename if function is not None else ""
        self._ptx = ""

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
            self._ptx = self._ptx or with_file(binary, self.file)
            _Run(self, session, name, self._ptx).launch((x, y, z), values, stream)
        if leave is not None:
            leave(launch_metadata)


class _Run:
    """One launch."""

    def __init__(self, launcher: SimulatedLauncher, session: TritonSession, name: str, ptx: str) -> None:
        self.launcher = launcher
        self.session = session
        self.memory = session.memory
        self.name = name
        self.ptx = ptx
        #: the names of parameters that point to the same elements: array, offset in bytes, type and shape
        self.names: dict[tuple[Any, ...], list[str]] = {}

    def launch(self, programs: tuple[int, int, int], values: Sequence[Any], stream: Any) -> None:
        __tracebackhide__ = True
        metadata = self.launcher.metadata
        ctas = int(getattr(metadata, "num_ctas", 1))
        grid = (programs[0] * ctas, programs[1], programs[2])
        block = (32 * metadata.num_warps, 1, 1)
        held = self.memory.hold()
        arguments = list(flatten(self.launcher.signature, values, self.launcher.boxes))
        args = [self.argument(a) for a in arguments]
        scratch = self.scratch(grid[0] * grid[1] * grid[2], stream)
        args += [_pointer(0 if x is None else self.address("scratch", x)) for x in scratch]
        for (array, first, dtype, width, shape), names in self.names.items():
            array.label(" = ".join(dict.fromkeys(names)), dtype, width, shape, first)
        module = self.session.module(self.ptx)
        checks = self.session.options.checks
        arrays = self.memory.arrays()
        before = [(a, a.memory.copy()) for a in arrays] if self.session.options.schedules > 1 else []

        def run(schedule: int) -> Report:
            # shared memory is the compiler's: where threads replicate a computation, all of them store the result
            return module.launch(
                self.name, grid, block, args, shared_bytes=metadata.shared, checks=checks, on_finding="collect",
                schedule=schedule, replicas_differ="warning",
                orders=None if schedule else self.session.options.orders,
            )

        def restore() -> None:
            for array, contents in before:
                array.memory[...] = contents

        try:
            self.session.launch(self.name, grid, block, run, restore)
        finally:
            for array, *_ in self.names:
                array.unlabel()
            held.clear()

    def scratch(self, ctas: int, stream: Any) -> tuple[Any, Any]:
        """Return the memory for each CTA that Triton's compiler asks for, and that for profiles; None for none."""
        metadata = self.launcher.metadata
        size, profile = metadata.global_scratch_size * ctas, metadata.profile_scratch_size * ctas
        # by the function that the program passed to triton.set_allocator
        made = _allocation._allocator.get()(size, metadata.global_scratch_align, stream) if size else None
        return made, torch.zeros(profile, dtype=torch.int8, device="cuda") if profile else None

    def argument(self, argument: Argument) -> Any:
        """Return the simulator's argument for one of the kernel."""
        if argument.type == "tensormap":
            return self.tensor_map(argument)
        if argument.type.startswith("*"):
            return _pointer(self.address(argument.name, argument.value))
        return scalar(argument)

    def address(self, name: str, value: Any) -> int:
        """Return the address that a pointer argument has on the simulated GPU, and name its array."""
        if value is None:
            return 0
        if isinstance(value, int):
            return value
        # triton.TensorWrapper has the tensor in `base`
        base = getattr(value, "base", None)
        tensor = base if isinstance(base, torch.Tensor) and not isinstance(value, torch.Tensor) else value
        if not isinstance(tensor, torch.Tensor):
            return int(value.data_ptr())
        self.label(name, tensor)
        return self.memory.address(tensor)

    def label(self, name: str, tensor: torch.Tensor) -> DeviceArray | None:
        """Place a tensor, and note that messages name it, its type and, if its elements are contiguous, its shape."""
        array = self.memory.place(tensor)
        if array is None:
            return None
        width = tensor.element_size()
        first = tensor.storage_offset() * width
        shape = tuple(tensor.shape)
        if not tensor.is_contiguous():
            # the elements from the first of the tensor on
            shape = ((array.memory.size - first) // width,)
        key = (array, first, str(tensor.dtype).removeprefix("torch."), width, shape)
        self.names.setdefault(key, []).append(name)
        return array

    def tensor_map(self, argument: Argument) -> TensorMap:
        base = argument.value.base
        array = self.label(argument.name, base)
        if array is None:
            raise LaunchError(
                f"the descriptor {argument.name} is one of an empty tensor", hint="don't launch the kernel for it"
            )
        made = described(argument)
        return TensorMap(
            array, made.dims, made.strides, made.box, made.element_bytes, str(base.dtype).removeprefix("torch."),
            made.swizzle, offset_bytes=base.storage_offset() * base.element_size(),
        )


def _pointer(address: int) -> bytes:
    return (address & ((1 << 64) - 1)).to_bytes(8, "little")
