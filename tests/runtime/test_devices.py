"""Which device a launch runs on."""

import numpy as np
import pytest

import tilejit as tj
from tests.support.foreign_arrays import Tensor
from tilejit import dtypes
from tilejit.errors import DeviceError, LaunchError
from tilejit.frontend import Parameter, ParameterKind
from tilejit.runtime import devices
from tilejit.runtime.signature import Call
from tilejit.runtime.simulated import SimulatedDevice
from tilejit.target import target

without_gpu = pytest.mark.skipif(devices.cuda_problem() is None, reason="there is a GPU")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("TILEJIT_DEVICE", raising=False)


def call(*arrays):
    return Call([Parameter("A", ParameterKind.ANY)] * len(arrays), arrays)


def host():
    return np.zeros(4, np.float32)


@without_gpu
def test_without_a_gpu_the_simulator_is_used_and_says_why():
    assert tj.device() == "sim"
    assert devices.reason() == devices.cuda_problem()
    assert devices.gpus() == []


def test_the_environment_is_read_at_each_launch(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim:sm_100a")
    assert tj.device() == "sim:sm_100a"
    assert devices.of(call(host())).target.name == "sm_100a"
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    assert tj.device() == "sim"
    assert devices.reason() == "TILEJIT_DEVICE=sim"


def test_use_device_comes_before_the_environment_and_nests(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    with tj.use_device("sim:sm_100a"):
        assert tj.device() == "sim:sm_100a"
        assert devices.reason() == "set by tj.use_device"
        with tj.use_device("sim:sm_80"):
            assert tj.device() == "sim:sm_80"
        assert tj.device() == "sim:sm_100a"
    assert tj.device() == "sim"


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "sim:sm_1", "", "cuda:-1"])
def test_a_name_that_is_no_device_is_a_device_error(name):
    with pytest.raises(DeviceError, match=r"unknown (device|target)"), tj.use_device(name):
        pass


@without_gpu
def test_a_gpu_that_is_not_there_is_a_device_error(monkeypatch):
    with pytest.raises(DeviceError, match="no device cuda:1"), tj.use_device("cuda:1"):
        pass
    monkeypatch.setenv("TILEJIT_DEVICE", "cuda")
    with pytest.raises(DeviceError, match=r"no device cuda:0.*\n.*TILEJIT_DEVICE=sim"):
        tj.device()


def test_arrays_on_two_devices_are_refused():
    a, b = (Tensor(np.zeros(4, np.float32), f"cuda:{n}") for n in (0, 1))
    with pytest.raises(LaunchError, match="two devices, cuda:0 and cuda:1"):
        call(host(), a, 3, b)


def test_a_device_array_is_refused_on_the_simulator():
    a = Tensor(np.zeros(4, np.float32))
    with tj.use_device("sim"), pytest.raises(LaunchError, match="simulator can't read a GPU's memory"):
        devices.of(call(a))


def test_an_array_of_a_gpu_in_use_is_refused_where_the_environment_asks_for_the_simulator(monkeypatch):
    a = Tensor(np.zeros(4, np.float32))
    monkeypatch.setitem(devices._used, 0, object())
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    # at each launch only what costs nothing is asked; the environment where arguments like these are new
    assert devices.of(call(a)) is devices._used[0]
    with pytest.raises(LaunchError, match="simulator can't read a GPU's memory"):
        devices.check_environment(call(a))


def test_an_array_of_the_simulator_runs_there():
    with tj.use_device("sim"):
        a = tj.empty((4,), dtypes.float32)
    assert devices.of(call(a)).name == "sim"
    with tj.use_device("sim:sm_100a"):
        assert devices.of(call(a)).name == "sim:sm_100a"


def test_to_device_copies_with_shape_and_dtype():
    a = np.arange(12, dtype=np.int16).reshape(3, 4)
    d = tj.to_device(a.T, "sim")
    np.testing.assert_array_equal(d.numpy(), a.T)
    assert (d.shape, d.dtype, d.strides) == ((4, 3), dtypes.int16, (3, 1))
    assert tj.to_device(np.float32(3), "sim").shape == ()
    assert tj.empty(3, np.float16, "sim").dtype == dtypes.float16
    with pytest.raises(LaunchError, match="is not an element type"):
        tj.to_device(np.zeros(3, complex), "sim")
    with pytest.raises(LaunchError, match="can't have shape"):
        tj.empty((-1,), dtypes.float32, "sim")


def test_a_simulator_of_one_architecture_refuses_others():
    device = SimulatedDevice(target("sm_90a"))
    device.check(target("sm_80"))
    with pytest.raises(DeviceError, match="sim:sm_90a can't run code for sm_100a"):
        device.check(target("sm_100a"))
    SimulatedDevice(None).check(target("sm_100a"))
