"""A CUDA driver in host memory: enough to see what the runtime asks of the real one, in which order."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from cuda.bindings import driver as real

from tilejit.runtime import (
    cuda,
    cuda_bench,
    cuda_driver,
    cuda_function,
    cuda_memory,
    cuda_scratch,
    devices,
)

#: those that call the driver by their name `driver`
_MODULES = (cuda, cuda_bench, cuda_driver, cuda_function, cuda_memory, cuda_scratch)

SUCCESS = real.CUresult.CUDA_SUCCESS


class FakeEvent:
    """An event that was recorded at a time of the driver's clock."""

    at = 0.0


class FakeTensorMap:
    """128 bytes that say what the map was made of."""

    def __init__(self, numbers):
        self.numbers = numbers

    def getPtr(self):
        return self.numbers.ctypes.data


class FakeDriver:
    """Takes the place of `cuda.bindings.driver`; names that it doesn't define are the real module's.

    kernel: called at each launch with the addresses of the parameters. calls: names and arguments, in order.
    clock: what events record, which a kernel may set forward. said: what its compiler writes of PTX that it takes.
    ordinals: of the GPUs in whose memory addresses lie. captures: ids of the streams' captures, else 1.
    """

    def __init__(self, devices=2, capability=(9, 0)):
        self.devices = devices
        self.capability = capability
        self.contexts = []
        self.memory = {}
        self.calls = []
        self.capturing = set()
        self.captures = {}
        self.stream_ids = {}
        self.compiled = []
        self.promotions = []
        self.errors = {}
        self.kernel = lambda parameters: None
        self.refusal = None
        self.said = b""
        self.refused_cubins = set()
        self.clock = 0.0
        self.attributes = {"NUM_REGS": 32}
        self.ordinals = {}
        self.version = 13000

    def __getattr__(self, name):
        if name.startswith("cu"):
            raise AttributeError(f"the fake driver has no {name}")
        return getattr(real, name)

    def _done(self, name, *values):
        return (self.errors.get(name, SUCCESS), *values)

    def cuInit(self, flags):
        return self._done("cuInit")

    def cuDeviceGetCount(self):
        return SUCCESS, self.devices

    def cuDriverGetVersion(self):
        return SUCCESS, self.version

    def cuDeviceGet(self, ordinal):
        return SUCCESS, ordinal

    def cuDeviceGetName(self, size, device):
        return SUCCESS, b"Fake GPU\0"

    def cuDevicePrimaryCtxRetain(self, device):
        return self._done("cuDevicePrimaryCtxRetain", 100 + device)

    def cuDeviceGetAttribute(self, attribute, device):
        if attribute == real.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            return SUCCESS, 132
        major = attribute == real.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        return SUCCESS, self.capability[0 if major else 1]

    def cuGetErrorString(self, error):
        return SUCCESS, b"what it means"

    # contexts

    def cuCtxPushCurrent(self, context):
        self.contexts.append(context)
        return (SUCCESS,)

    def cuCtxPopCurrent(self):
        return SUCCESS, self.contexts.pop()

    def cuCtxSetCurrent(self, context):
        self.contexts[-1:] = [context]
        return (SUCCESS,)

    def cuCtxGetCurrent(self):
        return SUCCESS, self.contexts[-1] if self.contexts else 0

    def cuCtxSynchronize(self):
        self.calls.append(("synchronize", self.contexts[-1]))
        return self._done("cuCtxSynchronize")

    # modules

    def cuThreadExchangeStreamCaptureMode(self, mode):
        self.calls.append(("capture mode", mode))
        return SUCCESS, "previous"

    def cuModuleLoadDataEx(self, image, count, options, values):
        assert image.endswith(b"\0")
        self.compiled.append(image[:-1].decode())
        if self.refusal is not None:
            values[0][: len(self.refusal[1])] = self.refusal[1]
            return self.refusal[0], None
        if real.CUjit_option.CU_JIT_INFO_LOG_BUFFER in options:
            values[options.index(real.CUjit_option.CU_JIT_INFO_LOG_BUFFER)][: len(self.said)] = self.said
        return SUCCESS, ("module", self.contexts[-1])

    def cuModuleUnload(self, module):
        return (SUCCESS,)

    def cuModuleLoadData(self, image):
        self.calls.append(("cubin", bytes(image)))
        if bytes(image) in self.refused_cubins:
            return real.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU, None
        return SUCCESS, ("module", self.contexts[-1])

    def cuLinkCreate(self, count, options, values):
        self.calls.append(("link", self.contexts[-1]))
        return SUCCESS, ("state", values[0])

    def cuLinkAddData(self, state, kind, data, size, name, count, options, values):
        assert kind == real.CUjitInputType.CU_JIT_INPUT_PTX and data.endswith(b"\0") and size == len(data)
        if self.refusal is not None:
            state[1][: len(self.refusal[1])] = self.refusal[1]
            return (self.refusal[0],)
        # what the driver gives away is its own until the state is destroyed
        self.image = ctypes.create_string_buffer(b"cubin of " + data[:-1])
        return (SUCCESS,)

    def cuLinkComplete(self, state):
        return SUCCESS, ctypes.addressof(self.image), len(self.image) - 1

    def cuLinkDestroy(self, state):
        self.calls.append(("unlinked",))
        return (SUCCESS,)

    def cuModuleGetFunction(self, module, name):
        return SUCCESS, ("function", name.decode(), module[1])

    def cuFuncGetAttribute(self, attribute, function):
        return SUCCESS, self.attributes.get(attribute.name.removeprefix("CU_FUNC_ATTRIBUTE_"), 0)

    def cuFuncSetAttribute(self, function, attribute, value):
        self.calls.append(("attribute", attribute.name, value))
        return (SUCCESS,)

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        if not self.contexts or function[2] != self.contexts[-1]:
            self.calls.append(("refused", function[2], *self.contexts[-1:]))
            errors = real.CUresult
            return (errors.CUDA_ERROR_INVALID_HANDLE if self.contexts else errors.CUDA_ERROR_INVALID_CONTEXT,)
        if function[1] == "flush":
            size = ctypes.cast(parameters, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64)))[1][0]
            self.calls.append(("flush", size, int(stream)))
            return (SUCCESS,)
        self.calls.append(("launch", (gx, gy, gz), (bx, by, bz), shared, int(stream)))
        if self.errors.get("cuLaunchKernel", SUCCESS) == SUCCESS:
            self.kernel(ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p)))
        return self._done("cuLaunchKernel")

    def cuLaunchKernelEx(self, config, function, parameters, extra):
        c = config
        grid, block = (c.gridDimX, c.gridDimY, c.gridDimZ), (c.blockDimX, c.blockDimY, c.blockDimZ)
        assert not c.numAttrs
        return self.cuLaunchKernel(function, *grid, *block, c.sharedMemBytes, c.hStream, parameters, extra)

    def cuLaunchCooperativeKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, parameters):
        self.calls.append(("launch together", (gx, gy, gz), (bx, by, bz), shared, stream))
        if self.errors.get("cuLaunchCooperativeKernel", SUCCESS) == SUCCESS:
            self.kernel(ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p)))
        return self._done("cuLaunchCooperativeKernel")

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function, threads, shared):
        return SUCCESS, 2048 // threads

    # tensor maps

    def cuTensorMapEncodeTiled(
        self, dtype, rank, address, dims, strides, box, element_strides, interleave, swizzle, promotion, fill
    ):
        if not self.contexts:
            return real.CUresult.CUDA_ERROR_INVALID_CONTEXT, None
        assert (len(dims), len(strides), len(box), len(element_strides)) == (rank, rank - 1, rank, rank)
        encoded = (address, *(int(n) for n in (*dims, *strides, *box)), int(swizzle))
        self.promotions.append(promotion.name.removeprefix("CU_TENSOR_MAP_L2_PROMOTION_"))
        self.calls.append(("encode", dtype.name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_"), encoded))
        made = np.zeros(16, np.int64)
        made[: len(encoded)] = encoded
        return self._done("cuTensorMapEncodeTiled", FakeTensorMap(made))

    # memory

    def cuPointerGetAttribute(self, attribute, pointer):
        assert attribute == real.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        if pointer not in self.ordinals:
            return real.CUresult.CUDA_ERROR_INVALID_VALUE, 0
        return SUCCESS, self.ordinals[pointer]

    def cuMemAlloc(self, size):
        buffer = np.full(size + 256, 0xFF, np.uint8)
        at = buffer.ctypes.data
        at += -at % 256
        self.memory[at] = buffer
        return self._done("cuMemAlloc", at)

    def cuMemAllocAsync(self, size, stream):
        return self.cuMemAlloc(size)

    def cuMemFree(self, pointer):
        del self.memory[pointer]
        return (SUCCESS,)

    def cuMemFreeAsync(self, pointer, stream):
        return self.cuMemFree(pointer)

    def cuMemcpyHtoD(self, to, source, size):
        ctypes.memmove(to, source, size)
        return (SUCCESS,)

    cuMemcpyDtoH = cuMemcpyHtoD

    def cuMemcpyDtoDAsync(self, to, source, size, stream):
        self.calls.append(("on the device", size, stream))
        return self.cuMemcpyHtoD(to, source, size)

    def cuMemsetD8Async(self, to, value, count, stream):
        self.calls.append(("clear", count, int(stream)))
        ctypes.memset(to, value, count)
        return self._done("cuMemsetD8Async")

    def cuMemcpyHtoDAsync(self, to, source, size, stream):
        self.calls.append(("in", size, stream))
        return self.cuMemcpyHtoD(to, source, size)

    def cuMemcpyDtoHAsync(self, to, source, size, stream):
        self.calls.append(("out", size, stream))
        return self.cuMemcpyHtoD(to, source, size)

    # streams

    def cuStreamIsCapturing(self, stream):
        status = real.CUstreamCaptureStatus
        if not self.contexts:
            return real.CUresult.CUDA_ERROR_INVALID_CONTEXT, None
        active = status.CU_STREAM_CAPTURE_STATUS_ACTIVE
        return SUCCESS, active if stream in self.capturing else status.CU_STREAM_CAPTURE_STATUS_NONE

    def cuStreamGetCaptureInfo(self, stream):
        return SUCCESS, "active", self.captures.get(stream, 1), None, [], 0

    def cuStreamGetId(self, stream):
        # handles are reused, ids are not
        if stream in self.capturing:
            return (real.CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,)
        return self._done("cuStreamGetId", self.stream_ids.get(stream, 1000 + stream))

    def cuStreamCreate(self, flags):
        assert flags == int(real.CUstream_flags.CU_STREAM_NON_BLOCKING)
        return SUCCESS, 900

    def cuStreamDestroy(self, stream):
        return (SUCCESS,)

    def cuStreamSynchronize(self, stream):
        self.calls.append(("stream synchronize", stream))
        return self._done("cuStreamSynchronize")

    def cuEventCreate(self, flags):
        return SUCCESS, FakeEvent()

    def cuEventRecord(self, event, stream):
        self.calls.append(("record", stream))
        event.at = self.clock
        return (SUCCESS,)

    def cuEventElapsedTime(self, began, ended):
        return SUCCESS, ended.at - began.at

    def cuStreamWaitEvent(self, stream, event, flags):
        self.calls.append(("wait", stream))
        return (SUCCESS,)

    def cuEventDestroy(self, event):
        return (SUCCESS,)


def install(driver: FakeDriver, put: Callable[[object, str, object], None] = setattr) -> FakeDriver:
    """Puts a driver in the place of the real one. put: how, such as `monkeypatch.setattr`, which takes it back."""
    for module in _MODULES:
        put(module, "driver", driver)
    return driver


def forget_devices() -> None:
    """Forget what another driver reported of the GPUs."""
    for cached in (devices.cuda_problem, devices.named, devices._cuda, devices._best):
        cached.cache_clear()
