"""Launches on a fake driver, compared by everything that the driver receives."""

import ctypes
import sys
from types import SimpleNamespace

import numpy as np

import tilejit as tj
from tests.runtime.fake_driver import FakeDriver, forget_devices, install
from tests.support.foreign_arrays import Tensor
from tilejit.jit import Kernel
from tilejit.runtime import devices


class TorchTensor(Tensor):
    """A mock of torch's tensor that can change in place as those do.

    negative: its negative bit. is_freed: its memory was given back, as by `untyped_storage().resize_(0)`.
    """

    negative = is_freed = False

    def is_neg(self):
        return self.negative

    def data_ptr(self):
        return 0 if self.is_freed else super().data_ptr()

    @property
    def is_cuda(self):
        return self.device.startswith("cuda")

    def get_device(self):
        return int(self.device.partition(":")[2]) if self.is_cuda else -1

    def t_(self):
        self._hold(self.array.T)

    def resize_(self, *shape):
        resized = tensor(*shape, dtype=self.array.dtype)
        resized.array[...] = np.resize(self.array, shape)
        self._hold(resized.array)

    def _set_data(self, other):
        self._hold(other.array)
        self.dtype = other.dtype

    data = property(None, _set_data)

    def _hold(self, array):
        self.array, self.shape = array, array.shape


class TensorGuards:
    """A mock of torch's comparison of tensors."""

    made = 0

    def __init__(self, *tensors, dynamic_dims_sizes, dynamic_dims_strides):
        assert dynamic_dims_sizes is dynamic_dims_strides is None
        self._looks = [self._look(t) for t in tensors]
        TensorGuards.made += 1

    @staticmethod
    def _look(t):
        # a bit of torch's is one of the dispatch keys that it compares
        return type(t), t.dtype, t.device, t.shape, t.stride(), t.is_neg()

    def check(self, *tensors):
        return [self._look(t) for t in tensors] == self._looks and len(set(map(id, tensors))) == len(tensors)


class CudaOfTorch:
    """`torch.cuda`. streams: the current one's handle, by device."""

    def __init__(self):
        self.streams = {0: 70, 1: 71}

    def is_available(self):
        return False

    def current_stream(self, ordinal):
        return SimpleNamespace(cuda_stream=self.streams[ordinal])


def torch_of(*, guards, raw=True):
    """A mock of torch, with or without what is private to it."""
    of_cuda, private = CudaOfTorch(), SimpleNamespace()
    if raw:
        private._cuda_getCurrentRawStream = lambda ordinal: of_cuda.streams[ordinal]
    if guards:
        private._dynamo = SimpleNamespace(guards=SimpleNamespace(TensorGuards=TensorGuards))
    return SimpleNamespace(Tensor=TorchTensor, cuda=of_cuda, _C=private)


class RecordingDriver(FakeDriver):
    """Says of each launch which PTX it ran and what its parameters held. kernels: whose launches are recorded."""

    def __init__(self):
        super().__init__()
        self.kernels = []
        self.launches = []

    def cuModuleLoadDataEx(self, image, count, options, values):
        return self.CUresult.CUDA_SUCCESS, (image[:-1].decode(), self.contexts[-1])

    def cuModuleGetFunction(self, module, name):
        return self.CUresult.CUDA_SUCCESS, (module[0], name.decode(), module[1])

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        status = super().cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra)
        if not status[0] and function[1] != "flush":
            held = self._bytes(function[0], ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p)))
            self.launches.append(((gx, gy, gz), (bx, by, bz), shared, int(stream), function[2], function[0], held))
        return status

    def _bytes(self, ptx, parameters):
        variants = (v.compiled for k in self.kernels for v in k.signatures)
        params = next(c.executable.params for c in variants if c.ptx == ptx)
        return [ctypes.string_at(parameters[n], p.size_bytes) for n, p in enumerate(params)]

    def taken(self):
        """The launches since the last time."""
        taken, self.launches = self.launches, []
        return taken


def installed(monkeypatch, torch):
    """A recording driver and a torch in the place of what there is."""
    driver = install(RecordingDriver(), monkeypatch.setattr)
    forget_devices()
    monkeypatch.setattr(devices, "_used", {})
    monkeypatch.setattr(devices, "_has_driver", lambda: True)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delenv("TILEJIT_DEVICE", raising=False)
    return driver


def pair(driver, function, **options):
    """Two kernels of one function; the second's launches take the slow path. Both share what is compiled."""
    quick, usual = (tj.kernel(**{"threads": 32, **options})(function) for _ in range(2))
    usual.variants, usual.captured = quick.variants, quick.captured
    usual.generated.notice = lambda *anything: None
    driver.kernels.append(quick)
    return quick, usual


def is_quick(monkeypatch, kernel: Kernel, launch) -> bool:
    """Whether a launch takes the generated function alone."""
    asked = []
    with monkeypatch.context() as patched:
        resolve = kernel.resolve
        patched.setattr(kernel, "resolve", lambda *args: (asked.append(args), resolve(*args))[1])
        launch()
    return not asked


def outcome(driver, launch):
    """The driver calls of a launch, or the error that it ended with and the calls before it."""
    driver.taken()
    try:
        launch()
    except Exception as error:
        return type(error), str(error), driver.taken(), repr(error.__cause__), error.__context__ is error.__cause__
    return driver.taken()


def tensor(*shape, dtype=np.float32, device="cuda:0", offset=0, memory=None):
    """A tensor at a multiple of 64 bytes, plus `offset` elements."""
    item = np.dtype(dtype).itemsize
    count = int(np.prod(shape))
    if memory is None:
        memory = np.zeros((count + offset) * item + 64, np.uint8)
    start = -memory.ctypes.data % 64 + offset * item
    return TorchTensor(memory[start : start + count * item].view(dtype).reshape(shape), device)
