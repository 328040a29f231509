"""Arrays without elements: regions of them lie outside, and loops over them have no iterations."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tilejit.runtime.device import Device

EMPTY = [(0, 33), (5, 0), (0, 0)]


@tj.kernel(threads=64)
def filled(X: tj.Tensor, Y: tj.Tensor, sums: tj.Tensor, turns: tj.Tensor):
    x = tj.cta.load(X[0:5, 0:33], fill=2)
    tj.cta.store(Y[0:5, 0:33], x + 1)
    tj.cta.store(sums[0:5], tj.sum(x, axis=1).astype(sums.dtype))
    count = 0
    for _i in range(X.shape[0]):
        for _k in range(X.shape[1]):
            count += 1
    turns[tj.thread_id()] = count


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_an_array_without_elements_reads_as_the_fill_and_keeps_none(
    shape: tuple[int, int], dtype: type, device: Device
) -> None:
    x, y = np.zeros(shape, dtype), np.zeros(shape, dtype)
    sums, turns = np.zeros(5, np.float32), np.full(64, -1, np.int32)
    with tj.use_device(device.name):
        filled[1](x, y, sums, turns)
    np.testing.assert_array_equal(sums, np.full(5, 66))
    np.testing.assert_array_equal(turns, np.zeros(64))


@tj.kernel(threads=64)
def copied(X: tj.Tensor, Y: tj.Tensor):
    s = tj.alloc_shared((5, 33), X.dtype)
    tj.cta.copy(s, X[0:5, 0:33], fill=7)
    tj.cta_sync()
    tj.cta.copy(Y[0:5, 0:33], s)


@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_copies_of_an_array_without_elements_move_the_fill_alone(shape: tuple[int, int], device: Device) -> None:
    y = np.zeros((5, 33), np.float32)
    with tj.use_device(device.name):
        copied[1](np.zeros(shape, np.float32), y)
        copied[1](y, np.zeros(shape, np.float32))
    np.testing.assert_array_equal(y, np.full((5, 33), 7))


@tj.kernel(threads=64)
def tile_of(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr):
    tj.cta.store(Y[0:3], tj.sum(tj.cta.load(X[0:3, 0:N]), axis=1))


def test_an_array_without_elements_gives_a_tile_without_elements(device: Device) -> None:
    y = np.ones(3, np.float32)
    with tj.use_device(device.name):
        tile_of[1](np.zeros((3, 0), np.float32), y, 0)
    np.testing.assert_array_equal(y, np.zeros(3))


def test_a_grid_without_ctas_launches_nothing(device: Device) -> None:
    y = np.ones((5, 33), np.float32)
    with tj.use_device(device.name):
        copied[0](np.zeros((0, 33), np.float32), np.zeros((0, 33), np.float32))
        copied[lambda m: m.X.shape[0]](np.zeros((0, 33), np.float32), y)
    assert (y == 1).all()


@tj.kernel(threads=64, target="sm_90a")
def loaded(X: tj.Tensor, turns: tj.Tensor, at_least: tj.int32):
    s = tj.alloc_shared((64, 64), X.dtype, swizzle="128B")
    full = tj.alloc_barrier()
    count = max(tj.cdiv(X.shape[0], 64), at_least)
    for i in range(count):
        tj.cta.copy_async(s, X.tile((64, 64), (i, 0)), barrier=full)
        tj.cta.arrive(full)
        full.wait(i)
    turns[tj.thread_id()] = count


def test_an_array_without_elements_has_no_tensor_map_and_needs_none() -> None:
    turns = np.full(64, -1, np.int32)
    tj.simulate(loaded, 1, np.zeros((0, 64), np.float16), turns, 0)
    np.testing.assert_array_equal(turns, np.zeros(64))
    with pytest.raises(tj.SimulationError, match="starts a copy of an array without elements, which has no"):
        tj.simulate(loaded, 1, np.zeros((0, 64), np.float16), turns, 1)
