"""Which machine code a GPU runs, seen by a fake driver."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import tilejit as tj

pytest.importorskip("cuda.bindings")

from tests.executable.kernels import EXECUTABLES  # noqa: E402
from tests.runtime.fake_driver import FakeDriver, forget_devices, install  # noqa: E402
from tests.support.programs import source_of  # noqa: E402
from tests.support.ptxas import without_notes  # noqa: E402
from tilejit.compiled import Compiled  # noqa: E402
from tilejit.errors import DeviceError, ResourceError  # noqa: E402
from tilejit.executable import MachineCode  # noqa: E402
from tilejit.runtime import cuda, devices  # noqa: E402


@pytest.fixture
def fake(monkeypatch):
    return install(FakeDriver(), monkeypatch.setattr)


@pytest.fixture
def device(fake):
    return cuda.CudaDevice(0)


def compiled(code=None, entry_registers=None):
    made = EXECUTABLES["nothing"]()
    executable = replace(made.executable, machine_code=code, entry_registers=entry_registers)
    return Compiled(executable, {}, made.origin)


def test_machine_code_that_was_saved_for_this_gpu_is_loaded_as_it_is(fake, device):
    device.load(compiled(MachineCode(b"cubin", 90)))
    assert ("cubin", b"cubin") in fake.calls and not fake.compiled


def test_machine_code_for_another_gpu_is_left_alone(fake, device):
    made = compiled(MachineCode(b"cubin", 80))
    device.load(made)
    assert ("cubin", b"cubin") not in fake.calls and fake.compiled == [made.ptx]


def test_where_the_driver_refuses_machine_code_it_compiles_the_ptx(fake, device):
    fake.refused_cubins = {b"cubin"}
    made = compiled(MachineCode(b"cubin", 90))
    device.load(made)
    assert ("cubin", b"cubin") in fake.calls and fake.compiled == [made.ptx]


def test_the_drivers_linker_gives_machine_code_that_outlives_it(fake, device):
    made = compiled()
    code = device.machine_code(made.executable)
    fake.image.raw = bytes(len(fake.image))
    assert code == MachineCode(b"cubin of " + made.ptx.encode(), 90)
    # in the device's context, and nothing is left open
    assert fake.calls == [("link", 100), ("unlinked",)] and not fake.contexts


def test_ptx_that_the_linker_refuses_is_a_device_error_with_its_log(fake, device):
    fake.refusal = (fake.CUresult.CUDA_ERROR_INVALID_PTX, b"Unknown symbol x")
    with pytest.raises(DeviceError, match=r"rejected the PTX: CUDA_ERROR_INVALID_PTX\nUnknown symbol x"):
        device.machine_code(compiled().executable)
    assert ("unlinked",) in fake.calls


def test_machine_code_of_another_architecture_is_refused_before_the_driver_sees_it(fake, device):
    with pytest.raises(DeviceError, match="can't run code for sm_100a"):
        device.machine_code(EXECUTABLES["pinned"]().executable)
    assert not fake.calls


SLOW = "ptxas info    : (C7517) Potential Performance Loss: wgmma.mma_async instructions are serialized"
IGNORED = "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored"


def test_what_the_compiler_says_that_costs_speed_is_kept_once_and_explained(fake, device):
    fake.said = f"ptxas info    : 0 bytes gmem\n{SLOW}\n{IGNORED}\n  {SLOW}\nptxas info    : Used 24\0x".encode()
    made = compiled()
    assert device.load(made).notes == made.notes == (SLOW, IGNORED)
    assert SLOW in str(made.explain()) and IGNORED in made.explain()._repr_html_().replace("&#x27;", "'")


def test_what_the_driver_says_that_costs_speed_fails_a_test_on_a_gpu(fake, device):
    fake.said = SLOW.encode()
    with pytest.raises(AssertionError, match="^nothing: .*C7517"), without_notes():
        device.load(compiled())
    fake.said = b""
    with without_notes():
        device.load(compiled())


def test_nothing_is_noted_where_the_compiler_says_nothing_of_speed_or_wasnt_asked(fake, device):
    fake.said = b"ptxas info    : Compiling entry function 'nothing' for 'sm_90a'"
    made = compiled()
    assert device.load(made).notes == made.notes == ()
    fake.said = SLOW.encode()
    assert device.load(compiled(MachineCode(b"cubin", 90))).notes == ()


@pytest.fixture
def on_fake_gpu(fake, monkeypatch):
    """Launches go to the fake driver."""
    forget_devices()
    monkeypatch.setattr(devices, "_used", {})
    monkeypatch.setattr(devices, "_has_driver", lambda: True)
    monkeypatch.delenv("TILEJIT_DEVICE", raising=False)
    yield fake
    forget_devices()


def fresh(text="A[tj.thread_id()] = 1", **options):
    return tj.kernel(threads=32, **options)(source_of(f"def k(A: tj.Tensor):\n    {text}\n"))


def launch_silently(kernel):
    with warnings.catch_warnings():
        warnings.simplefilter("error", tj.PerformanceWarning)
        kernel[1](np.zeros(32, np.float32))


SPILLED = "40 bytes of registers are spilled per thread"


@pytest.mark.parametrize("said, local, reported", [
    (SLOW, 0, [SLOW]), ("", 40, [SPILLED]), (SLOW, 40, [SLOW, SPILLED]), (IGNORED, 16, [IGNORED]),
])
def test_the_first_launch_warns_of_what_the_compiler_says_that_costs_speed(on_fake_gpu, said, local, reported):
    on_fake_gpu.said, on_fake_gpu.attributes = said.encode(), {"NUM_REGS": 32, "LOCAL_SIZE_BYTES": local}
    kernel = fresh()
    with pytest.warns(tj.PerformanceWarning) as caught:
        kernel[1](np.zeros(32, np.float32))
    first, *lines, help_ = str(caught[0].message).splitlines()
    assert first == "k is slower than it could be, as the driver's compiler reports:"
    assert [line.strip() for line in lines] == reported and help_.startswith("help: ")
    assert caught[0].filename == __file__
    launch_silently(kernel)
    shown = str(kernel.compile(np.zeros(32, np.float32)).explain())
    assert all(each in shown for each in reported)


def test_a_bound_launch_warns_when_it_is_bound(on_fake_gpu):
    on_fake_gpu.said = SLOW.encode()
    with pytest.warns(tj.PerformanceWarning, match="C7517"):
        fresh()[1].bind(np.zeros(32, np.float32))


def test_nothing_is_warned_of_that_costs_no_speed_or_is_wanted(on_fake_gpu):
    on_fake_gpu.attributes = {"NUM_REGS": 32, "LOCAL_SIZE_BYTES": 16}
    launch_silently(fresh())
    on_fake_gpu.said, on_fake_gpu.attributes = SLOW.encode(), {"NUM_REGS": 32, "LOCAL_SIZE_BYTES": 40}
    launch_silently(fresh(debug=True))
    on_fake_gpu.said = b""
    # vprintf has its arguments in local memory
    launch_silently(fresh("print(A[0])"))


@pytest.mark.parametrize("registers", [168, 170, 175])
def test_a_kernel_that_sets_registers_is_taken_with_those_it_counts_on(fake, device, registers):
    fake.attributes = {"NUM_REGS": registers}
    device.load(compiled(entry_registers=168))


@pytest.mark.parametrize("registers", [160, 167, 176, 255])
def test_a_kernel_that_sets_registers_is_refused_where_it_starts_with_others(fake, device, registers):
    fake.attributes = {"NUM_REGS": registers}
    device.load(compiled())
    with pytest.raises(ResourceError, match=f"assumes 168 per thread.* allocates {registers}") as error:
        device.load(compiled(entry_registers=168))
    assert "max_registers=168" in error.value.hint


@pytest.mark.gpu
def test_a_gpu_runs_what_its_driver_linked(tmp_path):
    import numpy as np

    import tilejit as tj
    from tests.executable.kernels import large

    a = np.arange(64 * 48, dtype=np.float32).reshape(64, 48)
    with tj.use_device("cuda"):
        made = large.compile(tj.spec((64, 48), tj.float32), tj.spec((64, 48), tj.float32))
        for name in ("k.cubin", "k.ptx"):
            made.save(tmp_path / name)
            b = np.zeros_like(a)
            kernel = tj.load_compiled(tmp_path / name)
            kernel[1](a, b)
            np.testing.assert_array_equal(a, b)
            assert not kernel.compiled.usage.is_estimate
