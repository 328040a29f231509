"""Numba-CUDA on the simulator: unmodified programs run without a GPU, and each launch is checked.

Numba compiles a kernel to PTX, as always, with line information. Its arrays are its own; below them, the functions of
CUDA's driver are replaced by those of `numba_driver.py`.
"""

from __future__ import annotations

import ctypes
import inspect
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from numba.cuda import dispatcher, types
from numba.cuda.core import config
from numba.cuda.cudadrv import devicearray, devices, driver
from numba.cuda.np import numpy_support

from ..errors import LaunchError
from ..simulator import DeviceModule, PtxParam, Report
from .numba_driver import NumbaDriver
from .session import Session, SessionOptions

_active: list[NumbaSession] = []
#: threads per CTA of `forall`, for which CUDA's driver computes the number
_THREADS = 128


class NumbaSession(Session):
    """The launches of Numba's kernels in a program."""

    def __init__(self, chosen: SessionOptions) -> None:
        super().__init__(chosen)
        self.driver = NumbaDriver(self.device)


class _Context(driver.Context):
    """The context of the simulated device. Its memory is freed at once, by functions that don't need Numba's driver.

    Numba's own finalizers would call functions that are replaced only until the context of the session ends.
    """

    def __init__(self, device: Any, memory: NumbaDriver) -> None:
        # a handle that is not that of a context of CUDA
        super().__init__(device, 1)
        self.memory = memory

    def reset(self) -> None:
        pass

    def memalloc(self, bytesize: int) -> Any:
        pointer = self.memory.cuMemAlloc(bytesize)
        return self._owned(driver.AutoFreePointer, pointer, bytesize, self.memory.cuMemFree)

    def memallocmanaged(self, bytesize: int, attach_global: bool = True) -> Any:
        raise LaunchError("managed arrays can't be simulated", hint="use cuda.to_device or cuda.mapped_array")

    def memhostalloc(self, bytesize: int, mapped: bool = False, portable: bool = False, wc: bool = False) -> Any:
        pointer = self.memory.cuMemHostAlloc(bytesize, 0)
        return self._of_host(None, pointer, bytesize, mapped)

    def mempin(self, owner: Any, pointer: int, size: int, mapped: bool = False) -> Any:
        self.memory.cuMemHostRegister(pointer, size, 0)
        return self._of_host(owner, pointer, size, mapped)

    def _of_host(self, owner: Any, pointer: int, size: int, mapped: bool) -> Any:
        free = self.memory.cuMemHostUnregister
        if mapped:
            return self._owned(driver.MappedMemory, pointer, size, free, owner)
        return driver.PinnedMemory(weakref.proxy(self), pointer, size, owner, partial(free, pointer))

    def _owned(self, kind: Any, pointer: Any, size: int, free: Callable[[Any], None], owner: Any = None) -> Any:
        """Return memory that is freed with the last reference to it."""
        key, allocations = int(pointer), self.allocations

        def finalize() -> None:
            allocations.pop(key, None)
            free(key)

        allocations[key] = memory = kind(weakref.proxy(self), pointer, size, owner, finalize)
        return memory.own()

    def create_stream(self) -> Any:
        return driver.Stream(self.memory.cuStreamCreate(0))

    def create_event(self, timing: bool = True) -> Any:
        return driver.Event(self.memory.cuEventCreate(0))


class _Gpu(driver.Device):
    """The simulated device. Numba reads other properties through `cuDeviceGetAttribute`."""

    def __init__(self, chosen: SessionOptions, memory: NumbaDriver) -> None:
        self.id = 0
        self.compute_capability = divmod(int("".join(filter(str.isdigit, chosen.target.name))), 10)
        self.name = f"simulated {chosen.target.name}"
        self.uuid = "GPU-00000000-0000-0000-0000-000000000000"
        self.primary_context = None
        self.context = _Context(self, memory)

    def get_primary_context(self) -> Any:
        return self.context

    def reset(self) -> None:
        self.context.reset()


@contextmanager
def simulated_numba(chosen: SessionOptions) -> Iterator[NumbaSession]:
    """Run Numba's kernels on the simulator until the context ends."""
    if _active:
        raise LaunchError("a context of tilejit.sanitize.numba is active", hint="don't nest contexts")
    if config.ENABLE_CUDASIM:
        raise LaunchError("NUMBA_ENABLE_CUDASIM=1 is set, so that Numba doesn't compile", hint="unset it")
    session = NumbaSession(chosen)
    _active.append(session)
    kernel = dispatcher._Kernel
    try:
        with ExitStack() as patches:

            def patch(owner: Any, name: str, value: Any) -> None:
                patches.enter_context(mock.patch.object(owner, name, value))

            patches.callback(_restore(driver.driver, dict(session.driver.functions())))
            patch(driver.Driver, "is_available", True)
            gpu = _Gpu(chosen, session.driver)
            manager = devices._DeviceContextManager(gpu)
            patch(devices._DeviceList, "lst", [manager])
            patch(devices._DeviceList, "current", manager)
            patch(devices._runtime, "get_or_create_context", lambda number=None: gpu.context)
            patch(devices._runtime, "ensure_context", nullcontext)
            patch(devices._runtime, "reset", lambda: None)
            patch(devices._DeviceContextManager, "__enter__", lambda manager: None)
            patch(devices._DeviceContextManager, "__exit__", lambda manager, *error: None)
            patch(devicearray, "_to_strided_memory_view", _on_device(devicearray._to_strided_memory_view))
            patch(devicearray, "_make_strided_memory_view", _of_host)
            patch(kernel, "__init__", _with_lines(kernel.__init__))
            patch(kernel, "bind", lambda kernel: None)
            patch(kernel, "launch", _launcher(session))
            # cached kernels may have no line information
            patch(dispatcher.CUDACache, "load_overload", lambda *args: None)
            patch(dispatcher.CUDACache, "save_overload", lambda *args: None)
            patch(dispatcher.ForAll, "_compute_thread_per_block", lambda all, _: all.thread_per_block or _THREADS)
            # a warning about the speed on a GPU
            patch(config, "CUDA_LOW_OCCUPANCY_WARNINGS", 0)
            yield session
    finally:
        _active.remove(session)


def _restore(numba_driver: Any, functions: dict[str, Any]) -> Callable[[], None]:
    """Set functions of Numba's driver, which it looks up when they are first needed; return a function to undo it."""
    former = {name: vars(numba_driver)[name] for name in functions if name in vars(numba_driver)}
    vars(numba_driver).update(functions)

    def undo() -> None:
        for name in functions:
            del vars(numba_driver)[name]
        vars(numba_driver).update(former)

    return undo


def _with_lines(init: Callable[..., None]) -> Callable[..., None]:
    def with_lines(kernel: Any, py_func: Any, argtypes: Any, **options: Any) -> None:
        """Compile a kernel with line information."""
        init(kernel, py_func, argtypes, **{**options, "lineinfo": not options.get("debug")})

    return with_lines


class _View(devicearray._StridedMemoryViewShim):
    """A description of a device array, which it keeps alive."""

    def __init__(self, array: Any) -> None:
        shim = array._strided_memory_view_shim
        super().__init__(
            ptr=shim.ptr or 0, shape=shim.shape, dtype=shim.dtype, size=shim.size, _layout=shim._layout
        )
        self.array = array


def _of_host(obj: Any, *, stream_ptr: object) -> SimpleNamespace:
    """Return a description of an array's or a record's memory on the host."""
    return SimpleNamespace(ptr=obj.__array_interface__["data"][0])


def _on_device(view: Callable[..., Any]) -> Callable[..., Any]:
    def on_device(obj: Any, stream: Any = 0, copy: bool = True, user_explicit: bool = False) -> tuple[Any, bool]:
        """Return a description of an argument's memory on the device, and True if it is new."""
        if driver.is_device_memory(obj):
            found: tuple[Any, bool] = view(obj, stream, copy, user_explicit)
            return found
        array, is_new = devicearray.auto_device(obj, stream=stream, copy=copy, user_explicit=True)
        return _View(array), is_new

    return on_device


def _launcher(session: NumbaSession) -> Callable[..., None]:
    def launch(
        kernel: Any, args: Sequence[Any], griddim: tuple[int, ...], blockdim: tuple[int, ...], stream: Any = 0,
        sharedmem: int = 0,
    ) -> None:
        """Run a compiled kernel, then copy arrays back to the host."""
        module = session.module(kernel._codelibrary.get_asm_str())
        write_back: list[Callable[[], object]] = []
        flat: list[Any] = []
        labels: list[_Label] = []
        names = inspect.signature(kernel.py_func).parameters
        for name, kind, value in zip(names, kernel.argument_types, args, strict=True):
            start = len(flat)
            kernel._prepare_args(kind, value, stream, write_back, flat)
            if isinstance(kind, types.Array):
                labels.append(_Label(name, numpy_support.as_dtype(kind.dtype), kind.ndim, flat[start:]))
        values = _values(kernel.py_func.__name__, module.parameters(kernel.entry_name), flat)
        with _labelled(session.driver, labels), _error_codes(kernel, module) as check:
            _run(session, kernel, module, values, griddim, blockdim, sharedmem)
        check()
        for write in write_back:
            write()

    return launch


class _Label:
    """An array argument: its name, and its part of the kernel's parameters."""

    def __init__(self, name: str, dtype: np.dtype[Any], ndim: int, values: Sequence[Any]) -> None:
        self.name = name
        self.dtype = dtype
        # two unused pointers, the number of elements and the size of one come first
        self.address = int(values[4])
        self.shape = tuple(int(extent) for extent in values[5 : 5 + ndim])
        strides = tuple(int(stride) for stride in values[5 + ndim :])
        contiguous = np.empty(self.shape, dtype).strides if 0 not in self.shape else strides
        self.is_contiguous = strides == contiguous


@contextmanager
def _labelled(memory: NumbaDriver, labels: Sequence[_Label]) -> Iterator[None]:
    """Give the arrays the names of the parameters until the context ends."""
    labelled = []
    for label in labels:
        if 0 in label.shape:
            continue
        array, offset = memory.find(label.address)
        size = label.dtype.itemsize
        # the elements of other arrays are numbered in the order of their addresses
        shape = label.shape if label.is_contiguous else ((array.memory.size - offset) // size,)
        array.label(label.name, label.dtype.name, size, shape, offset)
        labelled.append(array)
    try:
        yield
    finally:
        for array in labelled:
            array.unlabel()


def _values(kernel: str, parameters: Sequence[PtxParam], flat: Sequence[Any]) -> list[bytes]:
    """Return the bytes of a kernel's parameters. flat: integers and values of ctypes, one per parameter."""
    if len(parameters) != len(flat):
        raise LaunchError(
            f"{kernel} has {len(parameters)} parameters in PTX, and Numba passes {len(flat)}",
            hint="the supported versions of numba-cuda are those that `pip install 'tilejit[numba]'` selects",
        )
    values = []
    for parameter, value in zip(parameters, flat, strict=True):
        size = parameter.size_bytes
        if isinstance(value, ctypes._SimpleCData):
            values.append(bytes(value).ljust(size, b"\0"))
        else:
            values.append((int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little"))
    return values


def _run(
    session: NumbaSession, kernel: Any, module: DeviceModule, values: Sequence[bytes], grid: tuple[int, ...],
    block: tuple[int, ...], shared_bytes: int,
) -> None:
    arrays = session.device.allocations()
    memory = [x.memory.copy() for x in arrays] if session.options.schedules > 1 else []
    written = [None if x.written is None else x.written.copy() for x in arrays]

    def run(schedule: int) -> Report:
        return module.launch(
            kernel.entry_name, grid, block, values, shared_bytes=int(shared_bytes), checks=session.options.checks,
            on_finding="collect", schedule=schedule, orders=None if schedule else session.options.orders,
        )

    def restore() -> None:
        for array, bytes_, mask in zip(arrays, memory, written, strict=True):
            array.memory[:] = bytes_
            array.written = None if mask is None else mask.copy()

    (x, y, z), (i, j, k) = ((*map(int, extents), 1, 1)[:3] for extents in (grid, block))
    session.launch(kernel.py_func.__name__, (x, y, z), (i, j, k), run, restore)


@contextmanager
def _error_codes(kernel: Any, module: DeviceModule) -> Iterator[Callable[[], None]]:
    """Yield a function that raises the exception that a thread of a kernel with debug=True has raised, if any."""

    def variable(name: str) -> Any:
        return module.variable(f"{kernel.entry_name}__{name}__").view(np.int32)

    def check() -> None:
        if not kernel.debug or not variable("errcode")[0]:
            return
        error, arguments, location = kernel.call_helper.get_exception(int(variable("errcode")[0]))
        thread, cta = ([int(variable(f"{what}{axis}")[0]) for axis in "xyz"] for what in ("tid", "ctaid"))
        where = f"{location[1]}:{location[2]}: " if location else ""
        raise error(f"{where}thread {thread} of CTA {cta}: {' '.join(map(str, arguments))}")

    if kernel.debug:
        variable("errcode")[0] = 0
    yield check
