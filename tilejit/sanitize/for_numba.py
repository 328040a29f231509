"""Numba-CUDA on the simulator: unmodified programs run without a GPU, and each launch is checked.

Numba compiles a kernel to PTX, as always, with line information. Its arrays are its own; below them, the functions of
CUDA's driver are replaced by those of `numba_driver.py`.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from threading import Lock
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from numba.cuda import dispatcher, types
from numba.cuda.core import config
from numba.cuda.cudadrv import devicearray, devices, driver
from numba.cuda.np import numpy_support

from ..errors import LaunchError
from ..simulator import DeviceArray, DeviceModule, PtxParam, Report
from .numba_driver import NumbaDevice, NumbaDriver
from .session import Session, SessionOptions

#: held while a context is active
_active = Lock()
#: threads per CTA of `forall`, for which CUDA's driver computes the number
_THREADS = 128


@contextmanager
def simulated_numba(chosen: SessionOptions) -> Iterator[Session]:
    """Run Numba's kernels on the simulator until the context ends."""
    if config.ENABLE_CUDASIM:
        raise LaunchError("NUMBA_ENABLE_CUDASIM=1 is set, so that Numba doesn't compile", hint="unset it")
    if not _active.acquire(blocking=False):
        raise LaunchError("a context of tilejit.sanitize.numba is active", hint="don't nest contexts")
    with ExitStack() as stack:
        stack.callback(_active.release)
        session = Session(chosen)
        memory = NumbaDriver(session.device)
        # Numba adds a function to its driver when it is first needed
        stack.enter_context(mock.patch.dict(vars(driver.driver), memory.functions()))
        for owner, name, value in _replaced(session, memory):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield session


def _replaced(session: Session, memory: NumbaDriver) -> tuple[tuple[Any, str, Any], ...]:
    """Return the objects of Numba with the attributes that a session replaces, and their values."""
    device = NumbaDevice(session.options.target)
    manager = devices._DeviceContextManager(device)
    kernel = dispatcher._Kernel
    return (
        (driver, "_memory_manager", driver.NumbaCUDAMemoryManager),
        *((driver, name, value) for name, value in memory.finalizers().items()),
        (driver.Context, "reset", lambda context: None),
        (driver.Driver, "is_available", True),
        (driver.Driver, "__getattr__", _refuse),
        (devices._DeviceList, "lst", [manager]),
        (devices._DeviceList, "current", manager),
        (devices._runtime, "get_or_create_context", lambda number=None: device.primary_context),
        (devices._runtime, "ensure_context", nullcontext),
        (devices._runtime, "reset", lambda: None),
        (devices._DeviceContextManager, "__enter__", lambda manager: None),
        (devices._DeviceContextManager, "__exit__", lambda manager, *error: None),
        (devicearray, "_to_strided_memory_view", _on_device(devicearray._to_strided_memory_view)),
        (devicearray, "_make_strided_memory_view", _of_host),
        (kernel, "__init__", _with_lines(kernel.__init__)),
        (kernel, "bind", lambda kernel: None),
        (kernel, "launch", _launcher(session, memory)),
        # cached kernels may have no line information
        (dispatcher.CUDACache, "load_overload", lambda *args: None),
        (dispatcher.CUDACache, "save_overload", lambda *args: None),
        (dispatcher.ForAll, "_compute_thread_per_block", lambda all, _: all.thread_per_block or _THREADS),
        # a warning about the speed on a GPU
        (config, "CUDA_LOW_OCCUPANCY_WARNINGS", 0),
    )


def _refuse(_: Any, name: str) -> Any:
    """Refuse a function of Numba's driver that isn't replaced."""
    if not name.startswith("cu"):
        raise AttributeError(name)
    raise LaunchError(f"{name} of CUDA's driver can't be simulated", hint="leave out what calls it, or use a GPU")


def _with_lines(init: Callable[..., None]) -> Callable[..., None]:
    def with_lines(kernel: Any, py_func: Any, argtypes: Any, **options: Any) -> None:
        """Compile a kernel with line information."""
        init(kernel, py_func, argtypes, **{**options, "lineinfo": not options.get("debug")})

    return with_lines


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
        of = array._strided_memory_view_shim
        # it keeps the array alive
        return SimpleNamespace(
            ptr=of.ptr or 0, shape=of.shape, dtype=of.dtype, size=of.size, _layout=of._layout, array=array
        ), is_new

    return on_device


def _launcher(session: Session, memory: NumbaDriver) -> Callable[..., None]:
    def launch(
        kernel: Any, args: Sequence[Any], griddim: tuple[int, ...], blockdim: tuple[int, ...], stream: Any = 0,
        sharedmem: int = 0,
    ) -> None:
        """Run a compiled kernel, then copy arrays back to the host."""
        module = session.module(kernel._codelibrary.get_asm_str())
        write_back: list[Callable[[], object]] = []
        flat: list[Any] = []
        labelled: list[DeviceArray] = []
        names = inspect.signature(kernel.py_func).parameters
        try:
            for name, kind, value in zip(names, kernel.argument_types, args, strict=True):
                start = len(flat)
                kernel._prepare_args(kind, value, stream, write_back, flat)
                if isinstance(kind, types.Array):
                    labelled += _labelled(memory, name, kind, flat[start:])
            _run(session, kernel, module, flat, griddim, blockdim, sharedmem)
        finally:
            for array in labelled:
                array.unlabel()
        if kernel.debug:
            _check_error_code(kernel, module)
        for write in write_back:
            write()

    return launch


def _labelled(memory: NumbaDriver, name: str, kind: Any, values: Sequence[Any]) -> list[DeviceArray]:
    """Name the memory of an array argument, and return it if it isn't empty. values: the kernel's parameters for it."""
    # two unused pointers, the number of elements and the size of one come first
    address, extents = values[4], values[5:]
    shape, strides = (tuple(map(int, part)) for part in (extents[: kind.ndim], extents[kind.ndim :]))
    if 0 in shape:
        return []
    array, offset = memory.find(address)
    dtype = numpy_support.as_dtype(kind.dtype)
    if strides != np.empty(shape, dtype).strides:
        # the elements are numbered in the order of their addresses
        shape = ((array.memory.size - offset) // dtype.itemsize,)
    array.label(name, dtype.name, dtype.itemsize, shape, offset)
    return [array]


def _run(
    session: Session, kernel: Any, module: DeviceModule, flat: Sequence[Any], grid: Sequence[int],
    block: Sequence[int], shared_bytes: int,
) -> None:
    name = kernel.py_func.__name__
    values = _values(name, module.parameters(kernel.entry_name), flat)
    if kernel.debug:
        _variable(kernel, module, "errcode")[0] = 0
    saved = [
        (array, array.memory.copy(), None if array.written is None else array.written.copy())
        for array in session.device.allocations() if session.options.schedules > 1
    ]
    (x, y, z), (i, j, k) = ((*map(int, extents), 1, 1)[:3] for extents in (grid, block))

    def run(schedule: int) -> Report:
        return module.launch(
            kernel.entry_name, (x, y, z), (i, j, k), values, shared_bytes=int(shared_bytes),
            checks=session.options.checks, on_finding="collect", schedule=schedule,
            orders=None if schedule else session.options.orders,
        )

    def restore() -> None:
        for array, memory, written in saved:
            array.memory[:] = memory
            array.written = None if written is None else written.copy()

    session.launch(name, (x, y, z), (i, j, k), run, restore)


def _values(kernel: str, parameters: Sequence[PtxParam], flat: Sequence[Any]) -> list[bytes]:
    """Return the bytes of a kernel's parameters. flat: integers and values of ctypes, one per parameter."""
    if len(parameters) != len(flat):
        raise LaunchError(
            f"{kernel} has {len(parameters)} parameters in PTX, and Numba passes {len(flat)}",
            hint="the supported versions of numba-cuda are those that `pip install 'tilejit[numba]'` selects",
        )
    return [
        bytes(value).ljust(parameter.size_bytes, b"\0") if isinstance(value, ctypes._SimpleCData)
        else (int(value) % (1 << 8 * parameter.size_bytes)).to_bytes(parameter.size_bytes, "little")
        for parameter, value in zip(parameters, flat, strict=True)
    ]


def _variable(kernel: Any, module: DeviceModule, name: str) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return a variable in which a kernel with debug=True records an exception."""
    return module.variable(f"{kernel.entry_name}__{name}__").view(np.int32)


def _check_error_code(kernel: Any, module: DeviceModule) -> None:
    """Raise the exception that a thread of a kernel has raised, if any."""
    code = int(_variable(kernel, module, "errcode")[0])
    if code:
        error, arguments, location = kernel.call_helper.get_exception(code)
        thread, cta = ([int(_variable(kernel, module, f"{of}{axis}")[0]) for axis in "xyz"] for of in ("tid", "ctaid"))
        where = f"{location[1]}:{location[2]}: " if location else ""
        raise error(f"{where}thread {thread} of CTA {cta}: {' '.join(map(str, arguments))}")
