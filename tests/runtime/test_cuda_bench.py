"""What timing on a CUDA device asks of the driver, seen by a fake one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tilejit.frontend import parameters
from tilejit.frontend.source import KernelSource
from tilejit.runtime.arrays import ArrayView
from tilejit.runtime.signature import Call

pytest.importorskip("cuda.bindings")

from tests.runtime.fake_driver import FakeDriver, install, real  # noqa: E402
from tests.simulator.small_kernels import pointer  # noqa: E402
from tests.support.ptxas import ptxas_accepts  # noqa: E402
from tilejit.runtime import cuda, cuda_bench  # noqa: E402
from tilejit.simulator import run  # noqa: E402


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    monkeypatch.setattr(cuda_bench, "_FLUSH_BYTES", 4096)
    monkeypatch.setattr(cuda_bench, "_LEAST_BYTES", 1024)
    return install(FakeDriver(), monkeypatch.setattr)


@pytest.fixture
def device(fake: FakeDriver) -> cuda.CudaDevice:
    return cuda.CudaDevice(0)


def a_call(*values: Any) -> Call:
    def kernel(A: tj.Tensor, B: tj.Tensor):
        pass

    return Call(tuple(parameters(KernelSource.of(kernel))), values)


def takes(fake: FakeDriver, ms: float) -> Callable[[], None]:
    """Work that takes so long on the fake device."""

    def work() -> None:
        fake.clock += ms
        fake.calls.append(("work", ms))

    return work


def test_each_timing_flushes_the_cache_and_all_are_awaited_once(fake: FakeDriver, device: cuda.CudaDevice) -> None:
    with device.bench(None, 7, ()) as bench:
        assert bench.unit == "ms" and not bench.is_exact
        fake.calls.clear()
        assert bench.round([takes(fake, 2.5), takes(fake, 4.0)]) == [2.5, 4.0]
        one = [("flush", 4096, 7), ("record", 7)]
        assert fake.calls == [
            *one, ("work", 2.5), ("record", 7), *one, ("work", 4.0), ("record", 7), ("stream synchronize", 7),
        ]
    assert not fake.contexts


@pytest.mark.parametrize("size", [16, 1008, 4096])
def test_the_flush_reads_each_byte_once_and_writes_none(size: int) -> None:
    memory = np.zeros(size, np.uint8)
    report = run(cuda_bench._FLUSH, "flush", (2,), (32,), [pointer(memory, "memory"), size], profile=True)
    assert report.instructions["ld.volatile.global.v4.u32"] == size // 16
    assert sum(line.traffic.sectors for line in report.lines.values()) == -(-size // 32)
    assert not [name for name in report.instructions if name.startswith(("st.", "atom.", "red."))]
    for target in ("sm_75", "sm_90", "sm_120"):
        ptxas_accepts(cuda_bench._FLUSH, target)


def test_kept_arrays_are_restored_before_each_timing_and_at_the_end(fake: FakeDriver, device: cuda.CudaDevice) -> None:
    array = np.arange(6, dtype=np.float32)
    on_device = tj.runtime.arrays.DeviceArray(device.allocate(24), tj.float32, (6,))
    on_device.copy_from(array)
    seen = []

    def work() -> None:
        seen.append(on_device.numpy().tolist())
        on_device.copy_from(array * 0)

    with device.bench(a_call(on_device, np.zeros(3, np.float32)), None, (0,)) as bench:
        bench.round([work, work])
    assert seen == [array.tolist()] * 2
    assert on_device.numpy().tolist() == array.tolist()


def test_host_arrays_are_copied_once_and_stay_as_they_are(fake: FakeDriver, device: cuda.CudaDevice) -> None:
    a, b = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    call = a_call(a, b)
    with device.bench(call, None, ()) as bench:
        assert [c for c in fake.calls if c[0] == "in"] == [("in", 24, 0)] * 2
        staged = bench.staged(call)
        assert call.has_host and not staged.has_host
        views = [view for view in staged.arguments if isinstance(view, ArrayView)]
        assert len(views) == 2 and all(v.pointer not in (a.ctypes.data, b.ctypes.data) for v in views)
        assert bench.staged(staged) is staged
        held = len(fake.memory)
    assert not [c for c in fake.calls if c[0] == "out"]
    assert len(fake.memory) <= held - 2, "the copies are not freed"


def test_a_small_memory_gives_a_smaller_flush(
    fake: FakeDriver, device: cuda.CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocate = fake.cuMemAlloc

    def little(size: int) -> Any:
        if size > 2048:
            return real.CUresult.CUDA_ERROR_OUT_OF_MEMORY, 0
        return allocate(size)

    monkeypatch.setattr(fake, "cuMemAlloc", little, raising=False)
    with device.bench(None, None, ()) as bench:
        bench.round([takes(fake, 1)])
    assert ("flush", 2048, 0) in fake.calls
    monkeypatch.setattr(cuda_bench, "_LEAST_BYTES", 4096)
    with pytest.raises(tj.LaunchError, match="OUT_OF_MEMORY"), device.bench(None, None, ()):
        pass
    assert not fake.contexts


def test_nothing_is_timed_while_a_graph_is_captured(fake: FakeDriver, device: cuda.CudaDevice) -> None:
    fake.capturing.add(9)
    message = "nothing can be timed while a graph is being captured"
    with pytest.raises(tj.LaunchError, match=message) as caught, device.bench(None, 9, ()):
        pass
    assert caught.value.hint == "time it before the capture"


def test_times_hold_for_one_product_and_driver(device: cuda.CudaDevice) -> None:
    assert device.identity == "Fake GPU 90 driver 13.0"
