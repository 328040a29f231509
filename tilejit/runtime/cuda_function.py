"""Kernels loaded on a CUDA device."""

from __future__ import annotations

import ctypes
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings import driver

from ..errors import DeviceCheckError, LaunchError, ResourceError, entry_point
from ..executable import Executable
from ..executable.record import Packing
from ..forks import renewed_at_fork
from ..ir.params import AssertionsParam, BarrierParam, TensorMapParam, TensorMapSpec
from ..target import PORTABLE_CLUSTER, THREAD_UNIT
from . import arrays, assertions, cuda_driver, cuda_scratch, scratch
from .cuda_driver import call
from .cuda_memory import CudaMemory, staged
from .device import DirectLaunch, Launch, PreparedRun, check_writable
from .grid import stream_handle
from .packing import ParameterBlock, Workspace, getter
from .signature import Call
from .tensor_maps import MappedArray, ParameterMaps

if TYPE_CHECKING:
    from ..compiled import Compiled
    from .cuda import CudaDevice

_LONG, _SHORT = driver.cuuint64_t, driver.cuuint32_t

#: dtypes with their own tensor map type; copies don't interpret elements, so others use unsigned types of equal width
_MAPPED_TYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64")

#: the maximum number of a kernel's layouts of scratch that are kept
_LAYOUTS = 1024

_STATIC_SHARED_BYTES = 48 * 1024
_RECORD_BYTES = AssertionsParam.RECORD_BYTES

#: the number of words for grid barriers, which successive launches of one kernel use in rotation, and their stride in
#: bytes. A GPU runs fewer launches concurrently than there are words, and no two words share a sector
_BARRIERS, _BARRIER_BYTES = 256, 32


def _check_registers(executable: Executable, registers: int) -> None:
    wanted = executable.entry_registers
    if wanted is None or registers // THREAD_UNIT * THREAD_UNIT == wanted:
        return
    raise ResourceError(
        f"{executable.name} sets the registers of warpgroups, and assumes {wanted} per thread at its entry; the "
        f"driver's compiler allocates {registers}, so the register pool differs in size and threads may wait forever",
        hint=f"write max_registers={wanted}, or remove tj.set_registers",
    )


class CudaFunction:
    """A kernel loaded on one CUDA device.

    direct: for launches with parameters packed by the caller; None if only `launch` can launch the kernel.
    """

    def __init__(self, device: CudaDevice, compiled: Compiled) -> None:
        executable = compiled.executable
        self.compiled = compiled
        self.device = device
        self.asserts = any(isinstance(p, AssertionsParam) for p in executable.params)
        self._module, self._function, self.notes = cuda_driver.load(executable, device.capability)
        usage = cuda_driver.usage(self._function, executable.local_bytes)
        _check_registers(executable, usage.registers)
        compiled.measured, compiled.notes = usage, self.notes
        self._dynamic_bytes = executable.shared_bytes if executable.dynamic_shared else 0
        if self._dynamic_bytes > _STATIC_SHARED_BYTES:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call(driver.cuFuncSetAttribute, self._function, attribute, self._dynamic_bytes)
        if math.prod(executable.cluster or ()) > PORTABLE_CLUSTER:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            call(driver.cuFuncSetAttribute, self._function, attribute, 1)
        self._is_cooperative = executable.cooperative
        self._record = self._zeros(_RECORD_BYTES if self.asserts else 0)
        words = _BARRIERS if any(isinstance(p, BarrierParam) for p in executable.params) else 0
        self._barriers = self._zeros(words * _BARRIER_BYTES)
        word_numbers = itertools.cycle(range(words))
        mapped = [p for p in executable.params if isinstance(p, TensorMapParam)]
        maps = {param: ParameterMaps(param, self._encode) for param in mapped}
        workspace = Workspace(
            self._record.pointer, lambda: self._barriers.pointer + _BARRIER_BYTES * next(word_numbers), maps.__getitem__
        )
        index = executable.positions
        self._getters = tuple([getter(p, index, workspace) for p in executable.params])
        self._written = executable.written
        self._layouts: dict[tuple[Any, ...], scratch.ScratchLayout] = {}
        self._packing = executable.packing
        self._lock = renewed_at_fork(threading.Lock())
        self._packed = Packed(self._packing)
        is_indirect = self._is_cooperative or words or executable.checks_zeroed
        self.direct = None if is_indirect else self._direct(workspace)

    def _zeros(self, size: int) -> CudaMemory:
        memory = CudaMemory(size, self.device.number, self.device.context)
        memory.copy_in(np.zeros(size, np.uint8))
        return memory

    def launch(self, launch: Launch, call: Call) -> None:
        """Launch the kernel; arguments are in the order of its Python parameters."""
        check_writable(self._written, call.arguments)
        stream = self.device.stream(launch.stream, call)
        if self.device.is_current():
            self._launch(launch, call, stream)
            return
        with cuda_driver.current(self.device.context):
            self._launch(launch, call, stream)

    def prepare(self, launch: Launch, call: Call) -> PreparedRun:
        """Return functions that launch the kernel with these arguments each time they are called."""
        check_writable(self._written, call.arguments)
        # `call` keeps the arrays alive, so check only those that can be freed or deleted explicitly
        owners = [view.owner for view in call.arguments if type(view) is arrays.ArrayView]
        owned = [owner for owner in owners if isinstance(owner, arrays.DeviceArray)]
        deletable = [a for a in owners if callable(getattr(a, "is_deleted", None))]

        def run() -> None:
            for array in owned:
                array.check()
            for array in deletable:
                if array.is_deleted():
                    raise arrays.unreadable(array, "it has been deleted")
            self.launch(launch, call)

        is_slow = self._is_cooperative or bool(self.compiled.executable.scratch)
        if call.has_host or is_slow or call.first is None or 0 in launch.grid:
            # host arrays are staged at each launch, cooperative launches use another driver function, scratch depends
            # on the stream, `_quick` finds the stream by a device array, and an empty grid launches nothing
            return PreparedRun(lambda: False, run)
        quick = self._quick(launch, call, call.first, owned)
        if deletable:
            return PreparedRun(lambda: not any(array.is_deleted() for array in deletable) and quick(), run)
        return PreparedRun(quick, run)

    def _quick(
        self, launch: Launch, call: Call, first: arrays.ArrayView, owned: Sequence[arrays.DeviceArray]
    ) -> Callable[[], bool]:
        packed = Packed(self._packing)
        packed.fill(self._values(call.arguments))
        waited = None if not call.waits else _streams_of(call.arguments)
        stream_of, ordinal = cuda_driver.stream_of_framework(first.owner), self.device.number
        if launch.stream is not None:
            handle = entry_point(stream_handle)
            stream_of = lambda _: handle(launch.stream)  # noqa: E731
        configured = cuda_driver.ByStream(
            partial(cuda_driver.launch_config, launch.grid, launch.threads, self._dynamic_bytes)
        )
        enqueue, function, address = driver.cuLaunchKernelEx, self._function, packed.address

        # the default value keeps the memory at `address` alive
        def quick(_: Packed = packed) -> bool:
            for array in owned:
                # not the property `memory`, which is slower
                if array._memory is None:
                    return False
            stream = stream_of(ordinal)
            if waited is not None and stream not in waited:
                return False
            return not enqueue(configured[stream], function, address, 0)[0]

        return quick

    def _direct(self, workspace: Workspace) -> DirectLaunch:
        launch, context = driver.cuLaunchKernel, self.device.context

        def launch_in_context(*args: Any) -> tuple[Any, ...]:
            with cuda_driver.current(context):
                status: tuple[Any, ...] = launch(*args)
                return status

        return DirectLaunch(
            launch, launch_in_context, self.device.is_current, self._function, self._dynamic_bytes,
            cuda_driver.ByStream(), workspace, self.pin_scratch, cuda_scratch.unpin,
        )

    def _encode(self, spec: TensorMapSpec, address: int, array: MappedArray) -> bytes:
        with cuda_driver.current(self.device.context):
            return encode_map(spec, address, array)

    def check_assertions(self) -> None:
        """Raise the error for a failed assertion, if there is one, and clear the record."""
        record = np.zeros(_RECORD_BYTES, np.uint8)
        self._record.copy_out(record)
        failed = assertions.failed(self.compiled.executable, record)
        if failed is None:
            return
        self._record.copy_in(np.zeros_like(record))
        # the failed kernel may have left scratch nonzero
        self.device.scratch.mark()
        raise failed.on_a_gpu()

    def _launch(self, launch: Launch, call: Call, stream: int) -> None:
        if call.waits:
            _order(stream, call.arguments)
        if call.has_host:
            self._launch_staged(launch, call, stream)
            return
        if self.compiled.executable.scratch:
            with self._with_scratch(launch.grid, call.arguments, stream) as arguments:
                self._submit(launch, arguments, stream)
            return
        self._submit(launch, call.arguments, stream)

    def _submit(self, launch: Launch, arguments: Sequence[arrays.Argument], stream: int) -> None:
        values = self._values(arguments)
        with self._lock:
            self._packed.fill(values)
            self._enqueue(launch, stream, self._packed)

    @contextmanager
    def _with_scratch(
        self, grid: tuple[int, int, int], arguments: Sequence[arrays.Argument], stream: int
    ) -> Iterator[Sequence[arrays.Argument]]:
        """Yield a launch's arguments, followed by its scratch, which stays valid until the block has enqueued it.

        raises: LaunchError if the GPU has too little memory, or if the kernel is a checked build and left scratch
        nonzero that it must leave zero.
        """
        executable = self.compiled.executable
        layout, blocks = self.pin_scratch(grid, arguments, stream)
        try:
            views = layout.views(blocks)
            yield (*arguments, *views)
            if executable.checks_zeroed and not cuda_driver.is_capturing(stream):
                self._check_zeroed(layout, views, stream)
        except BaseException:
            # whatever was raised, the kernel may not have left its scratch zero
            self.device.scratch.mark(blocks)
            raise
        finally:
            cuda_scratch.unpin(blocks)

    def pin_scratch(
        self, grid: tuple[int, int, int], arguments: Sequence[arrays.Argument], stream: int
    ) -> tuple[scratch.ScratchLayout, list[cuda_scratch.ScratchBlock]]:
        """Return the layout and the blocks of a launch's scratch; see `ScratchPool.pin`."""
        layout = self._layout(grid, arguments)
        try:
            return layout, self.device.scratch.pin(stream, layout.sizes)
        except MemoryError:
            raise scratch.too_large(self.compiled.executable, layout) from None

    def _layout(self, grid: tuple[int, int, int], arguments: Sequence[arrays.Argument]) -> scratch.ScratchLayout:
        key = grid, *[a.facts.number if type(a) is arrays.ArrayView else a for a in arguments]
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            layout = scratch.scratch_layout(self.compiled.executable, grid, arguments, self.device.number)
            self._layouts[key] = layout
        return layout

    def _check_zeroed(self, layout: scratch.ScratchLayout, views: Sequence[arrays.ArrayView], stream: int) -> None:
        call(driver.cuStreamSynchronize, stream)
        if self.asserts:
            self.check_assertions()
        for index, view in enumerate(views):
            if layout.places[index][1] and view.facts.high_bytes:
                memory = np.empty(view.facts.high_bytes, np.uint8)
                call(driver.cuMemcpyDtoH, memory.ctypes.data, view.pointer, memory.nbytes)
                scratch.check_zeroed(self.compiled.executable, index, memory, DeviceCheckError)

    def _launch_staged(self, launch: Launch, call: Call, stream: int) -> None:
        if cuda_driver.is_capturing(stream):
            raise LaunchError(
                "a host array can't be an argument while a graph is being captured: the graph can't include its copies",
                hint="pass device arrays, such as tj.to_device(a)",
            )
        with staged(call.arguments, tuple(self._written.values()), stream) as moved:
            packed = Packed(self._packing)
            has_scratch = bool(self.compiled.executable.scratch)
            with self._with_scratch(launch.grid, moved, stream) if has_scratch else nullcontext(moved) as arguments:
                packed.fill(self._values(arguments))
                self._enqueue(launch, stream, packed)
        if self.asserts and any(arrays.is_host(call.arguments[p]) for p in self._written.values()):
            self.check_assertions()

    def _values(self, arguments: Sequence[arrays.Argument]) -> list[Any]:
        return [get(arguments) for get in self._getters]

    def _enqueue(self, launch: Launch, stream: int, packed: Packed) -> None:
        x, y, z = launch.grid
        if 0 in launch.grid:
            # the driver rejects empty grids
            return
        configuration = self._function, x, y, z, launch.threads, 1, 1, self._dynamic_bytes, stream, packed.address
        if self._is_cooperative:
            (error,) = driver.cuLaunchCooperativeKernel(*configuration)
        else:
            (error,) = driver.cuLaunchKernel(*configuration, 0)
        if error == cuda_driver.SUCCESS:
            return
        if error == driver.CUresult.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
            raise self._too_many(launch)
        raise cuda_driver.failure(error, "cuLaunchCooperativeKernel" if self._is_cooperative else "cuLaunchKernel")

    def _too_many(self, launch: Launch) -> LaunchError:
        each = int(call(
            driver.cuOccupancyMaxActiveBlocksPerMultiprocessor, self._function, launch.threads, self._dynamic_bytes
        ))
        count, name = self.device.multiprocessors, self.compiled.executable.name
        return LaunchError(
            f"the {math.prod(launch.grid):,} CTAs of a cooperative launch must run at the same time; "
            f"{self.device.name} runs {each * count:,} of {name} with {launch.threads} threads each: "
            f"{each} on each of {count} multiprocessors",
            hint="launch fewer CTAs that do more work each, or reduce a CTA's shared memory and registers",
        )


class Packed(ParameterBlock):
    """A parameter block with the layout of a kernel's parameters; `fill` overwrites all their values."""

    __slots__ = ("_pack_into",)

    def __init__(self, packing: Packing) -> None:
        super().__init__(packing.size_bytes, packing.align_bytes, packing.offsets)
        self._pack_into = packing.pack_into

    def fill(self, values: Sequence[Any]) -> None:
        self._pack_into(self.memory, 0, *values)


def _order(stream: int, arguments: Sequence[arrays.Argument]) -> None:
    for producer in _producers(arguments) - _same_stream(stream):
        cuda_driver.wait_for(stream, producer)


def _producers(arguments: Sequence[arrays.Argument]) -> set[int]:
    return {a.producer for a in arguments if type(a) is arrays.ArrayView and a.producer is not None}


def _same_stream(stream: int) -> set[int]:
    # 0 and 1 both name the legacy stream
    return {0, 1} if stream in (0, 1) else {stream}


def _streams_of(arguments: Sequence[arrays.Argument]) -> set[int]:
    """Return all handles of the producers' common stream, on which launches needn't wait; empty if producers differ."""
    producers = _producers(arguments)
    same = _same_stream(min(producers))
    return same if producers <= same else set()


def encode_map(spec: TensorMapSpec, address: int, array: MappedArray) -> bytes:
    """Return the 128-byte tensor map of an array at `address`; raise LaunchError if the driver rejects it."""
    kind = spec.dtype.name if spec.dtype.name in _MAPPED_TYPES else f"uint{spec.dtype.bits}"
    made = call(
        driver.cuTensorMapEncodeTiled,
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind.upper()}"),
        len(array.dims),
        address,
        [_LONG(extent) for extent in array.dims],
        [_LONG(stride) for stride in array.strides],
        [_SHORT(extent) for extent in spec.box],
        [_SHORT(1)] * len(spec.box),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{spec.swizzle.upper()}"),
        getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_L2_{spec.fetch}"),
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    return ctypes.string_at(int(made.getPtr()), TensorMapParam.size_bytes)
