"""What the CUDA device asks of the driver, seen by a fake one."""

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import tilejit as tj
from tilejit import dtypes
from tilejit.errors import DeviceError, LaunchError
from tilejit.executable.record import Field, Packing
from tilejit.frontend import Parameter, ParameterKind
from tilejit.ir.nodes import (
    TRUE,
    Assert,
    Buffer,
    Var,
)
from tilejit.ir.params import (
    AssertionsParam,
    BarrierParam,
    ExtentParam,
    PointerParam,
    ScalarParam,
    StrideParam,
)
from tilejit.ir.types import Signature
from tilejit.layout import TileLayout
from tilejit.lower.passes import grid_barrier
from tilejit.runtime.arrays import DeviceArray
from tilejit.runtime.device import Launch
from tilejit.runtime.signature import Call
from tilejit.target import target

pytest.importorskip("cuda.bindings")

from tests.runtime.fake_driver import FakeDriver, forget_devices, install, real  # noqa: E402
from tests.support.foreign_arrays import (
    Interface,
    Tensor,  # noqa: E402
)
from tilejit.executable import Executable, Usage  # noqa: E402
from tilejit.runtime import cuda, cuda_function, devices  # noqa: E402
from tilejit.runtime.assertions import DeviceAssertionError, DeviceCheckError  # noqa: E402

GRID = Launch((3, 1, 1), 64)


@pytest.fixture
def fake(monkeypatch):
    return install(FakeDriver(), monkeypatch.setattr)


@pytest.fixture
def device(fake):
    return cuda.CudaDevice(0)


def pointer(name, written=False):
    return PointerParam(name, Buffer(name, "global", dtypes.float32, (8,), TileLayout.row_major((8,)), 16), written)


def scalar(name, dtype):
    return ScalarParam(name, Var(name, dtype))


def compiled(*params, names="A B C", **changes):
    arguments = tuple((name, None) for name in names.split())
    made = {
        "params": params, "signature": Signature(arguments), "ptx": "ptx", "entry": "k", "shared_bytes": 0,
        "dynamic_shared": False, "cluster": None, "cooperative": False, "name": "k", "assertions": (),
        "target": target("sm_90a"), "local_bytes": 0, "threads": 64, **changes
    }
    return SimpleNamespace(executable=Executable(**made))


def parameter(parameters, n, kind):
    return ctypes.cast(parameters[n], ctypes.POINTER(kind))[0]


def call(*values):
    return Call([Parameter(f"p{n}", ParameterKind.ANY) for n in range(len(values))], values)


def array_at(address, shape, dtype=np.float32):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)


def launches(fake):
    return [c for c in fake.calls if c[0] == "launch"]


def test_parameters_are_packed_by_their_kinds(fake, device):
    seen = []
    kinds = (ctypes.c_uint64, ctypes.c_int64, ctypes.c_int64, ctypes.c_float, ctypes.c_int8, ctypes.c_bool)
    fake.kernel = lambda p: seen.append([parameter(p, n, kind) for n, kind in enumerate(kinds)])
    f = device.load(
        compiled(
            pointer("A"), ExtentParam("A", Var("m", dtypes.int64), 1), StrideParam("A", Var("s", dtypes.int64), 0),
            scalar("B", dtypes.float32), scalar("C", dtypes.int8), scalar("D", dtypes.bool_), names="A B C D",
        )
    )
    a = Tensor(np.zeros((4, 8), np.float32)[:, ::2])
    f.launch(GRID, call(a, 2.5, -3, True))
    assert seen == [[a.data_ptr(), 4, 8, 2.5, -3, True]]
    assert launches(fake) == [("launch", (3, 1, 1), (64, 1, 1), 0, 0)]


def test_a_loaded_kernel_learns_its_registers_and_spills_without_its_own_local_memory(fake, device):
    fake.attributes = {"NUM_REGS": 40, "LOCAL_SIZE_BYTES": 200}
    made = compiled(pointer("A"), local_bytes=64)
    device.load(made)
    assert made.measured == Usage(40, 136)


def test_a_parameters_offset_is_a_multiple_of_its_alignment():
    # a tensor map has 128 bytes, 64-byte aligned
    packed = cuda_function.Packed(Packing([Field("b", 1), Field("128s", 64)]))
    packed.fill((7, bytes(range(128))))
    first, second = (ctypes.c_uint64 * 2).from_address(packed.address)
    assert second % 64 == 0 and ctypes.string_at(second, 128) == bytes(range(128))
    assert ctypes.string_at(first, 1) == b"\7"


@pytest.mark.parametrize("name", dtypes.DTYPES)
def test_a_scalar_of_every_type_arrives(fake, device, name):
    dtype = dtypes.DTYPES[name]
    seen = []
    fake.kernel = lambda p: seen.append(array_at(p[0], (1,), dtype.numpy)[0].copy())
    device.load(compiled(scalar("A", dtype))).launch(GRID, call(1.5 if dtype.is_float else 1))
    assert seen == [dtype.numpy.type(1.5 if dtype.is_float else 1)]


def test_host_arrays_are_copied_in_and_those_written_back(fake, device):
    a, b = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)

    def kernel(p):
        array_at(parameter(p, 1, ctypes.c_uint64), 6)[:] = 2 * array_at(parameter(p, 0, ctypes.c_uint64), 6)
        array_at(parameter(p, 0, ctypes.c_uint64), 6)[:] = -1

    fake.kernel = kernel
    device.load(compiled(pointer("A"), pointer("B", written=True))).launch(GRID, call(a, b))
    np.testing.assert_array_equal(b, 2 * np.arange(6))
    np.testing.assert_array_equal(a, np.arange(6))
    assert not fake.memory, "the copies were not freed"
    assert ("stream synchronize", 0) in fake.calls


def test_overlapping_host_arrays_share_one_copy(fake, device):
    memory = np.arange(10, dtype=np.float32)
    a, b = memory[:8], memory[4:]
    addresses = []
    fake.kernel = lambda p: addresses.extend(parameter(p, n, ctypes.c_uint64) for n in (0, 1))
    device.load(compiled(pointer("A", written=True), pointer("B"))).launch(GRID, call(a, b))
    assert addresses[1] - addresses[0] == 16
    assert [c for c in fake.calls if c[0] == "in"] == [("in", 40, 0)]
    assert [c for c in fake.calls if c[0] == "out"] == [("out", 32, 0)]


@pytest.mark.parametrize("offset", [0, 4, 8, 12, 20])
def test_a_copy_keeps_the_address_alignment(fake, device, offset):
    memory = np.zeros(256, np.uint8)
    start = -memory.ctypes.data % 32 + offset
    a = memory[start : start + 64].view(np.float32)
    addresses = []
    fake.kernel = lambda p: addresses.append(parameter(p, 0, ctypes.c_uint64))
    device.load(compiled(pointer("A"))).launch(GRID, call(a))
    assert addresses[0] % 32 == a.ctypes.data % 32


def test_what_lies_between_the_elements_is_not_written_back(fake, device):
    memory = np.zeros((4, 6), np.float32)
    a = memory[::-1, 1:4]

    def kernel(p):
        first = parameter(p, 0, ctypes.c_uint64)
        for row in range(4):
            array_at(first - 24 * row, 3)[:] = row + 1
        memory[:, 5] = 9  # another thread of the host, meanwhile

    fake.kernel = kernel
    device.load(compiled(pointer("A", written=True))).launch(GRID, call(a))
    np.testing.assert_array_equal(a, np.arange(1, 5)[:, None] * np.ones(3))
    np.testing.assert_array_equal(memory[:, 5], 9)


def test_a_read_only_array_is_an_input_only(fake, device):
    a = np.zeros(4, np.float32)
    a.flags.writeable = False
    device.load(compiled(pointer("A"))).launch(GRID, call(a))
    with pytest.raises(LaunchError, match="A is a read-only array, but the kernel writes it"):
        device.load(compiled(pointer("A", written=True))).launch(GRID, call(a))
    assert len(launches(fake)) == 1


def test_an_empty_host_array_needs_no_copy(fake, device):
    device.load(compiled(pointer("A", written=True))).launch(GRID, call(np.zeros((3, 0), np.float32)))
    assert [c[0] for c in fake.calls if c[0] in ("in", "out")] == []


def test_host_arrays_are_refused_while_a_graph_is_captured(fake, device):
    fake.capturing.add(7)
    f = device.load(compiled(pointer("A")))
    with pytest.raises(LaunchError, match="while a graph is being captured"):
        f.launch(GRID._replace(stream=7), call(np.zeros(4, np.float32)))
    f.launch(GRID._replace(stream=7), call(Tensor(np.zeros(4, np.float32))))
    assert len(launches(fake)) == 1


def test_host_arrays_are_refused_while_torch_captures(fake, device, monkeypatch):
    cuda_of_torch = TorchCuda()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, cuda=cuda_of_torch))
    f, a = device.load(compiled(pointer("A"))), np.zeros(4, np.float32)
    f.launch(GRID, call(a))
    cuda_of_torch.capturing = True
    with pytest.raises(LaunchError, match="while a graph is being captured"):
        f.launch(GRID, call(a))


def test_a_launch_that_fails_leaves_host_arrays_alone(fake, device):
    fake.errors["cuLaunchKernel"] = fake.CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    a = np.arange(4, dtype=np.float32)
    with pytest.raises(LaunchError, match="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES from cuLaunchKernel"):
        device.load(compiled(pointer("A", written=True))).launch(GRID, call(a))
    np.testing.assert_array_equal(a, np.arange(4))
    assert not fake.memory


class Protocol:
    def __cuda_stream__(self):
        return 0, 11


class Torch:
    cuda_stream = 12


class TorchCuda:
    capturing = False

    def is_available(self):
        return True

    def is_current_stream_capturing(self):
        return self.capturing


class Closed:
    is_closed = True


@pytest.mark.parametrize(("stream", "handle"), [(None, 0), (10, 10), (Protocol(), 11), (Torch(), 12)])
def test_every_kind_of_stream_is_taken(fake, device, stream, handle):
    device.load(compiled()).launch(GRID._replace(stream=stream), call())
    assert launches(fake)[0][-1] == handle


@pytest.mark.parametrize(("stream", "message"), [("s", "str is not a stream"), (Closed(), "was closed")])
def test_what_is_no_stream_is_refused(fake, device, stream, message):
    with pytest.raises(LaunchError, match=message):
        device.load(compiled()).launch(GRID._replace(stream=stream), call())


def test_the_default_is_the_current_stream_of_the_first_device_arrays_framework(fake, device, monkeypatch):
    current = {0: 77}
    private = SimpleNamespace(_cuda_getCurrentRawStream=current.__getitem__)
    torch = SimpleNamespace(Tensor=Tensor, cuda=TorchCuda(), _C=private)
    monkeypatch.setitem(sys.modules, "torch", torch)
    f = device.load(compiled(pointer("A"), pointer("B")))
    tensor, other = Tensor(np.zeros(4, np.float32)), Interface(np.zeros(4, np.float32))
    f.launch(GRID, call(tensor, other))
    f.launch(GRID, call(other, tensor))
    f.launch(GRID._replace(stream=5), call(tensor, other))
    assert [c[-1] for c in launches(fake)] == [77, 0, 5]


def test_an_array_made_on_another_stream_is_waited_for(fake, device):
    a = Interface(np.zeros(4, np.float32), stream=9)
    device.load(compiled(pointer("A"))).launch(GRID._replace(stream=5), call(a))
    assert fake.calls[-3:-1] == [("record", 9), ("wait", 5)]


def test_each_device_launches_in_its_own_context(fake):
    devices = [cuda.CudaDevice(n) for n in (0, 1)]
    functions = [d.load(compiled()) for d in devices]
    for f in (functions[1], functions[0], functions[1]):
        f.launch(GRID, call())
    assert len(launches(fake)) == 3
    assert fake.contexts == [101], "the first launch's context was kept, and no other remained"


def test_a_device_that_is_not_there_is_a_device_error(fake):
    with pytest.raises(DeviceError, match=r"no device cuda:2(.|\n)*the driver reports 2 devices"):
        cuda.CudaDevice(2)


def test_a_target_that_the_device_can_not_run_is_a_device_error(device):
    device.check(target("sm_80"))
    device.check(target("sm_90a"))
    with pytest.raises(DeviceError, match=r"cuda:0 has compute capability 9\.0 and can't run code for sm_100a"):
        device.check(target("sm_100a"))


def test_ptx_that_the_driver_refuses_is_a_device_error_with_its_log(fake, device):
    fake.refusal = (fake.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION, b"Unsupported .version 9.9")
    with pytest.raises(DeviceError, match=r"CUDA 13\.0\) rejected the PTX: CUDA_ERROR_UNSUPPORTED(.|\n)*version 9\.9"):
        device.load(compiled())


@tj.kernel(threads=32)
def stopping(A: tj.Tensor):
    A[tj.thread_id()] = 1
    breakpoint()


def test_a_breakpoint_is_a_launch_error_that_names_the_simulator(fake, device):
    made = stopping.compile(np.zeros(32, np.float32), target="sm_90a")
    for load in (device.load, lambda made: device.machine_code(made.executable)):
        with pytest.raises(LaunchError, match=r"stopping has a breakpoint\(\)(.|\n)*use_device\(\"sim\"\)") as caught:
            load(made)
        assert caught.value.span.text.strip() == "breakpoint()"


def test_a_driver_that_is_older_than_the_ptx_is_named_with_both_versions(fake, device):
    fake.refusal = (fake.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION, b"")
    fake.version = 12020
    with pytest.raises(DeviceError, match=r"CUDA 12\.2\) rejected .*_VERSION: the kernel needs PTX 8\.4\nhelp: "):
        device.load(compiled(ptx=".version 8.4\n.target sm_90a"))


def test_a_function_that_the_driver_lacks_is_named_with_both_versions(fake, device, monkeypatch):
    def missing(*_):
        raise RuntimeError('Function "cuEventElapsedTime_v2" not found')

    fake.version = 12020
    monkeypatch.setattr(fake, "cuFuncGetAttribute", missing)
    with pytest.raises(DeviceError, match=r'"cuEvent.*" not found: cuda-bindings \d+\.\S+ needs .* CUDA 12\.2\nhelp: '):
        device.load(compiled())


def test_loading_is_allowed_during_capture(fake, device):
    device.load(compiled())
    relaxed = fake.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    assert fake.calls == [("capture mode", relaxed), ("capture mode", "previous")]


def test_a_cluster_of_more_ctas_than_every_gpu_runs_is_asked_for(fake, device):
    wanted = ("attribute", "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
    device.load(compiled(cluster=(4, 2, 1)))
    assert wanted not in fake.calls
    device.load(compiled(cluster=(3, 3, 1)))
    assert wanted in fake.calls


def test_large_dynamic_shared_memory_is_asked_for(fake, device):
    device.load(compiled(shared_bytes=100_000, dynamic_shared=True)).launch(GRID, call())
    assert ("attribute", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 100_000) in fake.calls
    assert launches(fake)[0][3] == 100_000
    device.load(compiled(shared_bytes=40_000)).launch(GRID, call())
    assert launches(fake)[1][3] == 0


@pytest.mark.parametrize(("devices", "error", "message"), [(0, None, "no device"), (1, "NO_DEVICE", "NO_DEVICE")])
def test_the_reason_for_a_missing_gpu_is_reported(fake, devices, error, message):
    fake.devices = devices
    if error:
        fake.errors["cuInit"] = getattr(fake.CUresult, f"CUDA_ERROR_{error}")
    assert message in cuda.problem()


def test_a_device_array_owns_memory_until_it_is_freed(fake, device):
    d = DeviceArray(device.allocate(24), dtypes.float32, (6,))
    d.copy_from(np.arange(6, dtype=np.float32))
    np.testing.assert_array_equal(d.numpy(), np.arange(6))
    assert d.device == "cuda:0" and len(fake.memory) == 1
    d.free()
    assert not fake.memory
    e = DeviceArray(device.allocate(24), dtypes.float32, (6,))
    del e
    assert not fake.memory


def test_an_assert_that_failed_is_raised_at_the_next_synchronisation_and_once(fake, device):
    record = AssertionsParam()
    f = device.load(compiled(record, assertions=(Assert(TRUE, "n > 0"), Assert(TRUE, "n < 9"))))

    def kernel(p):
        array_at(parameter(p, 0, ctypes.c_uint64), 5, np.int32)[:] = (2, 31, 4, 0, 0)

    fake.kernel = kernel
    f.launch(GRID, call())
    with pytest.raises(DeviceAssertionError, match=r"thread 31 of CTA \(4, 0, 0\): n < 9"):
        device.synchronize()
    device.synchronize()
    assert issubclass(DeviceAssertionError, (tj.LaunchError, AssertionError))


def test_a_check_that_failed_tells_the_numbers_that_its_record_keeps(fake, device):
    outside = Assert(TRUE, "index {0} is outside dimension 1 of A, whose extent is {1}", "bounds")
    f = device.load(compiled(AssertionsParam(), assertions=(outside,)))

    def kernel(p):
        words = array_at(parameter(p, 0, ctypes.c_uint64), AssertionsParam.RECORD_BYTES // 4, np.int32)
        words[:5] = (1, 40, 0, 3, 0)
        words[len(AssertionsParam.WORDS) :].view(np.int64)[:2] = (-(2**40), 2**33)

    fake.kernel = kernel
    f.launch(GRID, call())
    who = r"thread 40 \(warp 1, lane 8\) of CTA \(0, 3, 0\)"
    message = f"index -{2**40} is outside dimension 1 of A, whose extent is {2**33}, in {who}"
    with pytest.raises(DeviceCheckError, match=message) as caught:
        device.synchronize()
    assert not isinstance(caught.value, AssertionError)
    device.synchronize()


def test_an_assert_is_raised_when_results_are_copied_back(fake, device):
    record = AssertionsParam()
    f = device.load(compiled(pointer("A", written=True), record, assertions=(Assert(TRUE, ""),)))

    def kernel(p):
        array_at(parameter(p, 1, ctypes.c_uint64), 5, np.int32)[:] = (1, 0, 0, 0, 0)

    fake.kernel = kernel
    with pytest.raises(DeviceAssertionError, match="thread 0"):
        f.launch(GRID, call(np.zeros(4, np.float32)))


@pytest.mark.parametrize("prepared", [False, True])
def test_each_cooperative_launch_has_a_barrier_of_its_own(fake, device, prepared):
    seen = []

    def kernel(p):
        address = parameter(p, 0, ctypes.c_uint64)
        seen.append((address, array_at(address, 1, np.uint32)[0]))

    fake.kernel = kernel
    f = device.load(compiled(BarrierParam(grid_barrier.BARRIER), cooperative=True))
    run = f.prepare(GRID, call()).run if prepared else lambda: f.launch(GRID, call())
    for _ in range(300):
        run()
    launched = [c for c in fake.calls if c[0].startswith("launch")]
    assert launched == [("launch together", (3, 1, 1), (64, 1, 1), 0, 0)] * 300
    addresses = [address for address, _ in seen]
    assert len(set(addresses)) == 256 and addresses[:44] == addresses[256:]
    assert all(address % 32 == 0 for address in addresses) and {word for _, word in seen} == {0}


def test_a_cooperative_launch_without_a_barrier_is_one_too(fake, device):
    device.load(compiled(cooperative=True)).launch(GRID, call())
    device.load(compiled()).launch(GRID, call())
    assert [c[0] for c in fake.calls if c[0].startswith("launch")] == ["launch together", "launch"]


def test_a_grid_that_cant_be_resident_is_refused_with_the_limit(fake, device):
    fake.errors["cuLaunchCooperativeKernel"] = real.CUresult.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
    f = device.load(compiled(cooperative=True))
    words = "the 5,000 CTAs.*cuda:0 runs 4,224 of k with 64 threads each: 32 on each of 132 multiprocessors"
    with pytest.raises(tj.LaunchError, match=words):
        f.launch(Launch((5000, 1, 1), 64), call())
    fake.errors["cuLaunchCooperativeKernel"] = real.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(tj.LaunchError, match="CUDA_ERROR_INVALID_VALUE from cuLaunchCooperativeKernel"):
        f.launch(GRID, call())


def test_a_prepared_launch_packs_once(fake, device):
    seen = []
    fake.kernel = lambda p: seen.append((parameter(p, 0, ctypes.c_uint64), parameter(p, 1, ctypes.c_int32)))
    f = device.load(compiled(pointer("A"), scalar("B", dtypes.int32)))
    a, b = (Tensor(np.zeros(4, np.float32)) for _ in range(2))
    p, q = f.prepare(GRID, call(a, 1)).run, f.prepare(GRID, call(b, 2)).run
    for run in (p, q, p):
        run()
    assert seen == [(a.data_ptr(), 1), (b.data_ptr(), 2), (a.data_ptr(), 1)]


def test_a_prepared_launch_copies_host_arrays_each_time(fake, device):
    a = np.zeros(4, np.float32)

    def kernel(p):
        array_at(parameter(p, 0, ctypes.c_uint64), 4)[:] += 1

    fake.kernel = kernel
    run = device.load(compiled(pointer("A", written=True))).prepare(GRID, call(a)).run
    run()
    a *= 10
    run()
    np.testing.assert_array_equal(a, 11)


def test_a_prepared_launch_does_not_use_freed_memory(fake, device):
    d = DeviceArray(device.allocate(16), dtypes.float32, (4,))
    run = device.load(compiled(pointer("A"))).prepare(GRID, call(d)).run
    run()
    d.free()
    with pytest.raises(LaunchError, match="was freed"):
        run()
    assert len(launches(fake)) == 1


@pytest.fixture
def found(fake, monkeypatch):
    """The fake driver's GPUs are in use."""
    monkeypatch.setattr(devices, "_has_driver", lambda: True)
    monkeypatch.setattr(devices, "_used", {})
    forget_devices()
    yield fake
    forget_devices()


def test_in_a_forked_child_every_call_says_that_contexts_do_not_survive(found, monkeypatch):
    @tj.kernel(threads=32)
    def k(A: tj.Tensor):
        A[tj.thread_id()] = 1

    with tj.use_device("cuda:0"):
        a, host = tj.to_device(np.zeros(32, np.float32)), np.zeros(32, np.float32)
        prepared = k[1].bind(a)
        for _ in range(3):
            k[1](a)
            prepared()
        # as the driver answers in a process that was forked
        lost = real.CUresult.CUDA_ERROR_NOT_INITIALIZED
        for name in dir(FakeDriver):
            if name.startswith("cu") and name != "cuGetErrorString":
                # also for launchers that have the function already
                found.errors[name] = lost
                monkeypatch.setattr(found, name, lambda *_, n=name: (lost,) if n == "cuInit" else (lost, None))
        late = tj.kernel(threads=32)(k.__wrapped__)
        launches = [
            lambda: k[1](a), prepared, lambda: k[1](host), lambda: late[1](a), a.numpy, lambda: tj.empty(8, "float32"),
            tj.synchronize,
        ]
        for launch in launches:
            with pytest.raises(LaunchError, match="do not survive a fork") as caught:
                launch()
            assert 'get_context("spawn")' in caught.value.hint
    assert "do not survive a fork" in cuda.problem() and "spawn" in cuda.problem()
