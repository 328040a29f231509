"""Generated launchers of kernels with scratch: what the driver receives, compared with the slow path."""

import gc
import weakref

import numpy as np
import pytest

import tilejit as tj
from tilejit.errors import LaunchError

pytest.importorskip("cuda.bindings")

from tests.runtime.fake_driver import real  # noqa: E402
from tests.runtime.fast_launch.recording import is_quick, outcome, pair, tensor  # noqa: E402
from tilejit.runtime import devices  # noqa: E402


def sums(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    W = tj.scratch((tj.num_ctas(0), A.shape[1] + 1), tj.float32)
    Z = tj.scratch(8, tj.int32, zeroed=True)
    i, j = tj.cta_id(0), tj.thread_id()
    W[i, 0] = A[0, 0] + n
    Z[j % 8] = 0
    B[0, 0] = W[0, 0]


def boxes(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    """Scratch through TMA, whose map contains its address."""
    W = tj.scratch((tj.num_ctas(0) * 32, 64), tj.float16)
    s = tj.alloc_shared((32, 64), tj.float16, swizzle="128B")
    b = tj.alloc_barrier()
    if tj.thread_id() == 0:
        tj.thread.copy_async(s, W.tile((32, 64), (tj.cta_id(0), 0)), barrier=b)
    b.wait(0)
    B[0, 0] = s[0, 0] + n


def by_number(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    W = tj.scratch(n, tj.float32)
    W[0] = A[0, 0]
    B[0, 0] = W[0]


def warm(launch):
    for _ in range(4):
        launch()


@pytest.mark.parametrize("function", [sums, boxes])
def test_a_generated_launcher_passes_what_the_slow_path_passes(driver, monkeypatch, function):
    quick, usual = pair(driver, function)
    arrays = [tensor(4, columns) for columns in (8, 12)]
    b = tensor(4, 8)
    for a in arrays:
        warm(lambda a=a: quick[4](a, b, 1))
    random = np.random.default_rng(1)
    streams = {0: 70, 1: 50, 2: 60}
    for _ in range(60):
        a, place = arrays[random.integers(2)], ((int(random.integers(1, 9)),), 32, streams[int(random.integers(3))])
        results = [outcome(driver, lambda k=k, a=a, p=place: k[p](a, b, 3)) for k in (usual, quick)]
        assert results[0] == results[1] and len(results[0]) == 1
    assert is_quick(monkeypatch, quick, lambda: quick[5](arrays[0], b, 1))


def test_a_prepared_launch_with_other_arguments_passes_the_same(driver):
    quick, usual = pair(driver, sums)
    a, b, c = (tensor(4, 8) for _ in range(3))
    prepared, plain = quick[4].bind(a, b, 1), usual[4].bind(a, b, 1)
    for _ in range(5):
        assert outcome(driver, lambda: prepared(c, b, 2)) == outcome(driver, lambda: plain(c, b, 2))
        assert outcome(driver, prepared) == outcome(driver, plain)


def test_a_shape_that_depends_on_a_scalar_takes_the_slow_path(driver, monkeypatch):
    quick, usual = pair(driver, by_number)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[4](a, b, 1))
    assert not is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1))
    assert outcome(driver, lambda: quick[4](a, b, 99)) == outcome(driver, lambda: usual[4](a, b, 99))


def test_a_capture_is_noticed_by_a_generated_launcher(driver, monkeypatch):
    quick, _ = pair(driver, sums)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[(4,), 32, 50](a, b, 1))
    driver.taken()
    held = []
    for is_captured in (False, True, True, False):
        driver.capturing = {50} if is_captured else set()
        assert is_quick(monkeypatch, quick, lambda: quick[(4,), 32, 50](a, b, 1))
        held.append(driver.taken()[0][-1])
    assert held[0] == held[3] != held[1] == held[2]


def test_without_memory_the_error_is_that_of_the_slow_path(driver):
    quick, usual = pair(driver, sums)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[4](a, b, 1))
    driver.errors["cuMemAlloc"] = real.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    results = [outcome(driver, lambda k=k: k[4000](a, b, 1)) for k in (usual, quick)]
    assert results[0] == results[1] and results[0][0] is LaunchError and results[0][2] == []
    driver.errors.clear()
    assert outcome(driver, lambda: quick[4000](a, b, 1)) == outcome(driver, lambda: usual[4000](a, b, 1))


def test_a_thread_with_another_context_launches_in_the_devices(driver):
    quick, usual = pair(driver, sums)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[4](a, b, 1))
    driver.cuCtxPushCurrent(999)
    for grid in (4, 4, 4000, 4000, 4000):
        assert outcome(driver, lambda g=grid: quick[g](a, b, 1)) == outcome(driver, lambda g=grid: usual[g](a, b, 1))
    assert driver.cuCtxPopCurrent()[1] == 999


def test_an_entry_keeps_no_array_alive(driver):
    quick, _ = pair(driver, sums)
    arrays = [tensor(4, 8), tensor(4, 8)]
    warm(lambda: quick[4](*arrays, 1))
    seen = weakref.ref(arrays[0])
    arrays.clear()
    gc.collect()
    assert seen() is None


def test_scratch_is_released_between_generated_launches(driver, monkeypatch):
    quick, _ = pair(driver, sums)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[4](a, b, 1))
    (device,) = devices._used.values()
    before = set(driver.memory)
    tj.release_scratch()
    assert len(before - set(driver.memory)) == 2 and not device.scratch._blocks
    assert is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1)) and len(device.scratch._blocks) == 2
