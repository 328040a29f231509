"""Calls of the CUDA driver: errors by their names, contexts, streams, loading of PTX."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from cuda.bindings import __version__ as bindings_version
from cuda.bindings import driver

from ..errors import DeviceError, LaunchError
from ..register_usage import Usage, notes_in

SUCCESS = driver.CUresult.CUDA_SUCCESS

#: what the driver says in a process that was forked from one that uses it: all others initialize it first
NOT_INITIALIZED = driver.CUresult.CUDA_ERROR_NOT_INITIALIZED
FORKED = "this process was forked from one that uses a GPU, and CUDA contexts do not survive a fork"
SPAWN = 'start processes with multiprocessing.get_context("spawn"), or use the GPU in the forked processes only'

LOG_BYTES = 16384

_PTX_VERSION = re.compile(r"^\.version (\S+)", re.MULTILINE)

#: stream objects that are kept
_STREAMS = 1024
_INVALID_PTX = (
    driver.CUresult.CUDA_ERROR_INVALID_PTX,
    driver.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
    driver.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU,
    driver.CUresult.CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
)


def call(function: Callable[..., tuple[Any, ...]], *args: Any) -> Any:
    """The result of a driver call: None, a value or a tuple of values.

    raises: LaunchError with CUDA's name for what went wrong; DeviceError where the driver has no such function.
    """
    try:
        error, *values = function(*args)
    except RuntimeError as missing:
        raise DeviceError(
            f"{missing}: cuda-bindings {bindings_version} asks for it, and the driver is for CUDA {driver_version()}",
            hint="update the driver, or install a cuda-python that is no newer than it",
        ) from None
    if error != SUCCESS:
        raise failure(error, function.__name__)
    return values[0] if len(values) == 1 else tuple(values) or None


def failure(error: Any, doing: str) -> LaunchError:
    """What a driver call's status says. doing: the call's name."""
    if error == NOT_INITIALIZED:
        return LaunchError(f"{name(error)} from {doing}: {FORKED}", hint=SPAWN)
    if error == driver.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS:
        hint = "a kernel read or wrote outside its arrays: run it with TILEJIT_DEVICE=sim, which says where"
    elif error == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        hint = "free arrays, or work on smaller ones"
    else:
        hint = "an earlier launch may have caused it: CUDA reports late"
    return LaunchError(f"{name(error)} from {doing}: {_text(error)}", hint=hint)


def name(error: Any) -> str:
    """`CUDA_ERROR_INVALID_VALUE`."""
    return str(getattr(error, "name", error))


def _text(error: Any) -> str:
    status, text = driver.cuGetErrorString(error)
    return text.decode() if status == SUCCESS and text else "no description"


@contextmanager
def current(context: Any) -> Iterator[None]:
    """Makes a context the calling thread's for a while."""
    call(driver.cuCtxPushCurrent, context)
    try:
        yield
    finally:
        call(driver.cuCtxPopCurrent)


class Loaded(NamedTuple):
    """A module and its kernel; notes: what the driver's compiler said that costs speed."""

    module: Any
    function: Any
    notes: tuple[str, ...] = ()


def load(ptx: str, entry: str) -> Loaded:
    """The module and its kernel, compiled by the driver for the current context.

    raises: DeviceError with the driver's log where it refuses the PTX.
    """
    log, said = bytearray(LOG_BYTES), bytearray(LOG_BYTES)
    options, values = error_log(log)
    kinds = driver.CUjit_option
    options += [kinds.CU_JIT_INFO_LOG_BUFFER, kinds.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, kinds.CU_JIT_LOG_VERBOSE]
    values += [said, len(said), 1]
    error, module = driver.cuModuleLoadDataEx(ptx.encode() + b"\0", len(options), options, values)
    if error != SUCCESS:
        raise refusal(error, log, ptx)
    return Loaded(module, function_of(module, entry), notes_in(_text_of(said)))


def _text_of(log: bytearray) -> str:
    return bytes(log).split(b"\0", 1)[0].decode(errors="replace").strip()


def error_log(log: bytearray) -> tuple[list[Any], list[Any]]:
    """Options of a compilation, and their values, by which the driver writes what it refuses into `log`."""
    options = driver.CUjit_option
    return [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES], [log, len(log)]


def function_of(module: Any, entry: str) -> Any:
    """A module's kernel, with its code on the device."""
    function = call(driver.cuModuleGetFunction, module, entry.encode())
    # under lazy loading the code comes with the first use; asking for an attribute makes that now, before a capture
    call(driver.cuFuncGetAttribute, driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, function)
    return function


def usage(function: Any, local_bytes: int) -> Usage:
    """What a thread of a loaded kernel needs. local_bytes: of buffers that live in local memory."""
    attributes = driver.CUfunction_attribute
    registers = call(driver.cuFuncGetAttribute, attributes.CU_FUNC_ATTRIBUTE_NUM_REGS, function)
    local = call(driver.cuFuncGetAttribute, attributes.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function)
    return Usage(registers, max(local - local_bytes, 0))


def refusal(error: Any, log: bytearray, ptx: str) -> DeviceError | LaunchError:
    """What a driver says that compiles PTX and doesn't take it."""
    if error not in _INVALID_PTX:
        return failure(error, "the compilation of PTX")
    text = _text_of(log)
    is_newer = error == driver.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    wanted = _PTX_VERSION.search(ptx) if is_newer else None
    needs = f": the kernel needs PTX {wanted[1]}" if wanted else ""
    return DeviceError(
        f"the driver (CUDA {driver_version()}) refused the PTX: {name(error)}{needs}" + (f"\n{text}" if text else ""),
        hint="update the driver, or choose an older target",
    )


def driver_version() -> str:
    """The CUDA version that the driver supports: `13.0`."""
    version = int(driver.cuDriverGetVersion()[1])
    return f"{version // 1000}.{version % 1000 // 10}"


@contextmanager
def uncaptured() -> Iterator[None]:
    """Inside, calls that are no stream operations, such as loading a module, work while a stream is captured."""
    mode = call(driver.cuThreadExchangeStreamCaptureMode, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    try:
        yield
    finally:
        call(driver.cuThreadExchangeStreamCaptureMode, mode)


class StreamObjects(dict[int, Any]):
    """Streams as the driver's binding has them, by their handles: a launch takes one in 0.2 us less than a number."""

    def __missing__(self, handle: int) -> Any:
        if len(self) >= _STREAMS:
            self.clear()
        stream = self[handle] = driver.CUstream(handle)
        return stream


class LaunchConfigs(dict[int, Any]):
    """What launches a grid, as the driver's binding has it, by the streams' handles; none of them changes."""

    def __init__(self, grid: tuple[int, int, int], threads: int, dynamic_bytes: int) -> None:
        super().__init__()
        self._grid, self._threads, self._dynamic_bytes = grid, threads, dynamic_bytes

    def __missing__(self, handle: int) -> Any:
        if len(self) >= _STREAMS:
            self.clear()
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = self._grid
        config.blockDimX, config.blockDimY, config.blockDimZ = self._threads, 1, 1
        config.sharedMemBytes, config.hStream = self._dynamic_bytes, driver.CUstream(handle)
        self[handle] = config
        return config


def stream_of_framework(owner: Any) -> Callable[[int], int]:
    """Tells a device's current stream of the framework that made `owner`; 0, the legacy stream, if none did."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(owner, torch.Tensor):
        # what torch.compile's own kernels use: 0.1 us, where current_stream() takes 1.5
        raw: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        return raw or (lambda ordinal: int(torch.cuda.current_stream(ordinal).cuda_stream))
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(owner, cupy.ndarray):
        return lambda ordinal: int(cupy.cuda.get_current_stream(ordinal).ptr)
    return _legacy_stream


def _legacy_stream(ordinal: int) -> int:
    return 0


def current_stream(ordinal: int) -> int:
    """The current stream of the framework that is in use; 0, the legacy stream, if none is."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return int(torch.cuda.current_stream(ordinal).cuda_stream)
    cupy = sys.modules.get("cupy")
    return int(cupy.cuda.get_current_stream(ordinal).ptr) if cupy is not None else 0


def ordinal_at(pointer: int) -> int:
    """The ordinal of the GPU to which an address belongs; 0 if the driver does not know the address."""
    try:
        error, ordinal = driver.cuPointerGetAttribute(
            driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer
        )
    except RuntimeError:
        # there is no driver
        return 0
    return int(ordinal) if error == SUCCESS else 0


def is_capturing(stream: int) -> bool:
    """Whether work on a stream goes into a graph, or a framework's current stream does."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return True
    status = call(driver.cuStreamIsCapturing, stream)
    return bool(status != driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)


def wait_for(stream: int, producer: int) -> None:
    """Makes what `stream` gets from now on wait for what `producer` has now."""
    event = call(driver.cuEventCreate, int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    try:
        call(driver.cuEventRecord, event, producer)
        call(driver.cuStreamWaitEvent, stream, event, 0)
    finally:
        call(driver.cuEventDestroy, event)
