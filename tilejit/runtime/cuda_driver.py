"""Calls to the CUDA driver, its errors, contexts and streams, and loading and compilation of kernels.

To keep launches fast, cuda.bindings is called directly, and with kernel parameters that are already packed.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from cuda.bindings import __version__ as bindings_version
from cuda.bindings import driver

from ..errors import DeviceError, LaunchError
from ..executable import Executable, MachineCode, Usage
from ..executable.assembler import notes_in

SUCCESS = driver.CUresult.CUDA_SUCCESS

#: the driver's error in a process that was forked after its parent initialized the driver
NOT_INITIALIZED = driver.CUresult.CUDA_ERROR_NOT_INITIALIZED
FORKED = "this process was forked from one that uses a GPU, and CUDA contexts do not survive a fork"
SPAWN = 'start processes with multiprocessing.get_context("spawn"), or use the GPU in the forked processes only'

LOG_BYTES = 16384

_PTX_VERSION = re.compile(r"^\.version (\S+)", re.MULTILINE)

#: the maximum number of entries in a cache of stream objects or of launch configurations
_STREAMS = 1024
_INVALID_PTX = (
    driver.CUresult.CUDA_ERROR_INVALID_PTX,
    driver.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
    driver.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU,
    driver.CUresult.CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
)


def call(function: Callable[..., tuple[Any, ...]], *args: Any) -> Any:
    """Call a driver function and return its result; raise LaunchError for errors, DeviceError if it is missing."""
    try:
        error, *values = function(*args)
    except RuntimeError as missing:
        raise DeviceError(
            f"{missing}: cuda-bindings {bindings_version} needs it, and the driver supports CUDA {driver_version()}",
            hint="update the driver, or install a cuda-python that isn't newer than the driver",
        ) from None
    if error != SUCCESS:
        raise failure(error, function.__name__)
    return values[0] if len(values) == 1 else tuple(values) or None


def failure(error: Any, doing: str) -> LaunchError:
    """Return the exception for an error status of the driver. doing: the operation that failed, for the message."""
    if error == NOT_INITIALIZED:
        return LaunchError(f"{name(error)} from {doing}: {FORKED}", hint=SPAWN)
    if error == driver.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS:
        hint = "a kernel accessed memory outside its arrays: run it with TILEJIT_DEVICE=sim, which shows the statement"
    elif error == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        hint = "free arrays, or work on smaller ones"
    else:
        hint = "an earlier launch may have caused it: CUDA reports errors late"
    status, text = driver.cuGetErrorString(error)
    description = text.decode() if status == SUCCESS and text else "no description"
    return LaunchError(f"{name(error)} from {doing}: {description}", hint=hint)


def name(error: Any) -> str:
    """Return CUDA's name for an error, such as `CUDA_ERROR_INVALID_VALUE`."""
    return str(getattr(error, "name", error))


@contextmanager
def current(context: Any) -> Iterator[None]:
    """Make a context current for the calling thread within the `with` block."""
    call(driver.cuCtxPushCurrent, context)
    try:
        yield
    finally:
        call(driver.cuCtxPopCurrent)


class Loaded(NamedTuple):
    """A loaded module and its kernel. notes: the driver's warnings about lost performance."""

    module: Any
    function: Any
    notes: tuple[str, ...] = ()


def load(executable: Executable, capability: int) -> Loaded:
    """Load a kernel in the current context: its machine code if made for `capability` and loadable, else its PTX."""
    _refuse_breakpoint(executable)
    code = executable.machine_code
    loaded = None if code is None or code.capability != capability else _loaded(code, executable.entry)
    # no cache is needed here: the driver caches the code that it compiles from PTX
    return loaded or load_ptx(executable.ptx, executable.entry)


def _refuse_breakpoint(executable: Executable) -> None:
    if executable.has_breakpoint:
        raise LaunchError(
            f"{executable.name} has a breakpoint(), which a GPU can't stop at",
            span=next((span for span in executable.spans if span.marked == "breakpoint()"), None),
            hint='run it on the simulator: with tj.use_device("sim"); or remove the breakpoint()',
        )


def _loaded(code: MachineCode, entry: str) -> Loaded | None:
    error, module = driver.cuModuleLoadData(code.image)
    return Loaded(module, function_of(module, entry)) if error == SUCCESS else None


def load_ptx(ptx: str, entry: str) -> Loaded:
    """Compile PTX with the driver, and load it in the current context; raise DeviceError if it is rejected."""
    log, info = bytearray(LOG_BYTES), bytearray(LOG_BYTES)
    options, values = error_log(log)
    kinds = driver.CUjit_option
    options += [kinds.CU_JIT_INFO_LOG_BUFFER, kinds.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, kinds.CU_JIT_LOG_VERBOSE]
    values += [info, len(info), 1]
    error, module = driver.cuModuleLoadDataEx(ptx.encode() + b"\0", len(options), options, values)
    if error != SUCCESS:
        raise refusal(error, log, ptx)
    return Loaded(module, function_of(module, entry), notes_in(_text_of(info)))


def link(executable: Executable, capability: int) -> MachineCode:
    """Compile PTX with the driver's linker for the current context's GPU; raise DeviceError if the PTX is rejected.

    The code is relocatable, which makes it slower: see `runtime/disk.py`.
    """
    _refuse_breakpoint(executable)
    log = bytearray(LOG_BYTES)
    options, values = error_log(log)
    state = call(driver.cuLinkCreate, len(options), options, values)
    try:
        image = executable.ptx.encode() + b"\0"
        kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
        (error,) = driver.cuLinkAddData(state, kind, image, len(image), executable.entry.encode(), 0, [], [])
        if error == SUCCESS:
            error, place, size = driver.cuLinkComplete(state)
        if error != SUCCESS:
            raise refusal(error, log, executable.ptx)
        # copied, because destroying the state frees the image
        return MachineCode(ctypes.string_at(int(place), size), capability)
    finally:
        call(driver.cuLinkDestroy, state)


def _text_of(log: bytearray) -> str:
    return bytes(log).split(b"\0", 1)[0].decode(errors="replace").strip()


def error_log(log: bytearray) -> tuple[list[Any], list[Any]]:
    """Return compilation options, and their values, that make the driver write errors to `log`."""
    options = driver.CUjit_option
    return [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES], [log, len(log)]


def function_of(module: Any, entry: str) -> Any:
    """Return a module's kernel, with its code loaded on the device."""
    function = call(driver.cuModuleGetFunction, module, entry.encode())
    # the driver loads code lazily at its first use, which may be during a capture; reading an attribute loads it now
    call(driver.cuFuncGetAttribute, driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, function)
    return function


def usage(function: Any, local_bytes: int) -> Usage:
    """Return a loaded kernel's registers and spills per thread. local_bytes: size of its buffers in local memory."""
    attributes = driver.CUfunction_attribute
    registers = call(driver.cuFuncGetAttribute, attributes.CU_FUNC_ATTRIBUTE_NUM_REGS, function)
    local = call(driver.cuFuncGetAttribute, attributes.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function)
    return Usage(registers, max(local - local_bytes, 0))


def refusal(error: Any, log: bytearray, ptx: str) -> DeviceError | LaunchError:
    """Return the error for a failed compilation of PTX."""
    if error not in _INVALID_PTX:
        return failure(error, "the compilation of PTX")
    text = _text_of(log)
    is_newer = error == driver.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    wanted = _PTX_VERSION.search(ptx) if is_newer else None
    needs = f": the kernel needs PTX {wanted[1]}" if wanted else ""
    return DeviceError(
        f"the driver (CUDA {driver_version()}) rejected the PTX: {name(error)}{needs}" + (f"\n{text}" if text else ""),
        hint="install the driver's PTX compiler, libnvidia-ptxjitcompiler"
        if error == driver.CUresult.CUDA_ERROR_JIT_COMPILER_NOT_FOUND
        else "update the driver, or choose an older target",
    )


def driver_version() -> str:
    """Return the CUDA version that the driver supports, such as `13.0`."""
    version = int(driver.cuDriverGetVersion()[1])
    return f"{version // 1000}.{version % 1000 // 10}"


@contextmanager
def uncaptured() -> Iterator[None]:
    """Within the `with` block, allow calls that aren't stream operations, such as module loads, during a capture."""
    mode = call(driver.cuThreadExchangeStreamCaptureMode, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    try:
        yield
    finally:
        call(driver.cuThreadExchangeStreamCaptureMode, mode)


class ByStream(dict[int, Any]):
    """Objects of cuda.bindings by stream handle, made on first lookup. make: returns the object for a `CUstream`.

    Passing a `CUstream` to a launch is 0.2 us faster than passing its handle.
    """

    def __init__(self, make: Callable[[Any], Any] = lambda stream: stream) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, handle: int) -> Any:
        if len(self) >= _STREAMS:
            self.clear()
        made = self[handle] = self._make(driver.CUstream(handle))
        return made


def launch_config(grid: tuple[int, int, int], threads: int, dynamic_bytes: int, stream: Any) -> Any:
    """Return a `CUlaunchConfig`. threads: per CTA. dynamic_bytes: dynamic shared memory. stream: a `CUstream`."""
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes, config.hStream = dynamic_bytes, stream
    return config


def stream_of_framework(owner: Any) -> Callable[[int], int]:
    """Return a function from a GPU's ordinal to the current stream of array `owner`'s framework, 0 if unknown."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(owner, torch.Tensor):
        # the function that torch.compile's kernels use: it takes 0.1 us, current_stream() 1.5 us
        raw: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        return raw or (lambda ordinal: int(torch.cuda.current_stream(ordinal).cuda_stream))
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(owner, cupy.ndarray):
        return lambda ordinal: int(cupy.cuda.get_current_stream(ordinal).ptr)
    return lambda ordinal: 0


def current_stream(ordinal: int) -> int:
    """Return torch's current stream if it has initialized CUDA, else CuPy's if it is imported, else 0 (legacy)."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return int(torch.cuda.current_stream(ordinal).cuda_stream)
    cupy = sys.modules.get("cupy")
    return int(cupy.cuda.get_current_stream(ordinal).ptr) if cupy is not None else 0


def ordinal_at(pointer: int) -> int:
    """Return the ordinal of the GPU that owns an address; 0 if the driver doesn't know it, or isn't installed."""
    try:
        error, ordinal = driver.cuPointerGetAttribute(
            driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer
        )
    except RuntimeError:
        return 0
    return int(ordinal) if error == SUCCESS else 0


def is_capturing(stream: int) -> bool:
    """True if the stream, or the current stream of torch, is being captured into a graph."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return True
    status = call(driver.cuStreamIsCapturing, stream)
    return bool(status != driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)


def wait_for(stream: int, producer: int) -> None:
    """Make later work on `stream` wait for the work that has been enqueued on `producer` so far."""
    event = call(driver.cuEventCreate, int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    try:
        call(driver.cuEventRecord, event, producer)
        call(driver.cuStreamWaitEvent, stream, event, 0)
    finally:
        call(driver.cuEventDestroy, event)
