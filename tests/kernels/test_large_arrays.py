"""Arrays of more than 2^31 elements: indices, offsets and strides in 64 bits.

On the simulator only the pages that a kernel touches take memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tilejit.runtime.device import Device

Array = np.ndarray

#: an index that 32 bits don't hold, signed; and one of which 32 bits are another index of the array
PLACES = [2**31 + 96, 2**32 + 32]
#: rows of which each index fits 32 bits, and no offset of the last ones
ROWS, COLUMNS = 2**15 + 64, 2**16 + 16
STRIDE = 2**31 + 64


def _large(device: Device, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array that nothing has written."""
    return np.zeros(shape, dtype) if device.name == "sim" else tj.empty(shape, dtype, device.name)


@tj.kernel(threads=64)
def tiles_written(X: tj.Tensor, lines: tj.int64):
    n = lines * 32
    i = tj.cta.indices((256,), axis=0)
    tj.cta.store(X[n : n + 256], i.astype(X.dtype))
    tj.cta.store(X[n + 256 : n + 512], (i * 3).astype(X.dtype), mask=i % 2 == 0)
    tj.cta.store(X[n + 257 : n + 513], (i * 5).astype(X.dtype), mask=i % 2 == 0)
    X[n + 600 + tj.thread_id()] = tj.thread_id() + 5
    s = tj.alloc_shared((256,), X.dtype)
    tj.cta.fill(s, 9)
    tj.cta_sync()
    end = X.shape[0]
    tj.cta.copy(X[end - 50 : end + 206], s)


@tj.kernel(threads=64)
def tiles_read(X: tj.Tensor, OUT: tj.Tensor, lines: tj.int64):
    n = lines * 32
    s = tj.alloc_shared((2, 256), X.dtype)
    tj.cta.copy(s[0, :], X[n : n + 256])
    tj.cta.copy_async(s[1, :], X[n + 256 : n + 512])
    tj.cp_async.commit()
    tj.cp_async.wait(0)
    tj.cta_sync()
    tj.cta.copy(OUT[0:2, 0:256], s)
    tj.cta.store(OUT[2, 0:256], tj.cta.load(X[n : n + 256]))
    tj.cta.store(OUT[3, 0:64], tj.cta.load(X.tile((64,), (n // 64 + 1,))))
    OUT[4, tj.thread_id()] = X[n + 600 + tj.thread_id()]
    end = X.shape[0]
    tj.cta.store(OUT[5, 0:256], tj.cta.load(X[end - 50 : end + 206], fill=77))
    total = 0
    for i in range(n, n + 8):
        total += X[i].astype(tj.int32)
    OUT[6, tj.thread_id()] = total


@pytest.mark.parametrize("place", PLACES)
def test_tiles_and_elements_past_two_to_the_31(place: int, device: Device) -> None:
    x, out = _large(device, (place + 4096,), np.uint8), np.zeros((7, 256), np.uint8)
    with tj.use_device(device.name):
        tiles_written[1](x, place // 32)
        tiles_read[1](x, out, place // 32)
    i = np.arange(256)
    after = np.empty(256, np.uint8)
    after[0::2], after[1::2] = i[0::2] * 3, i[0::2] * 5
    expected = np.zeros((7, 256), np.uint8)
    expected[0], expected[1], expected[2], expected[3, :64] = i, after, i, i[:64] + 64 - place % 64
    expected[4, :64] = i[:64] + 5
    expected[5] = 77
    expected[5, :50] = 9
    expected[6, :64] = 28
    np.testing.assert_array_equal(out, expected)


@tj.kernel(threads=64)
def rows_exchanged(X: tj.Tensor, OUT: tj.Tensor, first: tj.int32):
    i = tj.cta.indices((32,), axis=0)
    k = tj.cta.indices((32, 16), axis=1)
    tj.cta.store(X.at(first + i)[:, 16:32], (i[:, None] + 2 * k).astype(X.dtype))
    tj.cta_sync()
    tj.cta.store(OUT[0:32, 0:16], tj.cta.load(X.at(first + 31 - i)[:, 16:32]))
    last = X.shape[0] - 1
    tj.cta.store(OUT[32, 0:16], tj.cta.load(X[last, 16:32]))
    tj.cta.store(OUT[33:35, 0:16], tj.cta.load(X[last - 1 : last + 1, 16:32]))


def test_gathered_rows_whose_offsets_need_64_bits(device: Device) -> None:
    x, out = _large(device, (ROWS, COLUMNS), np.uint8), np.zeros((35, 16), np.uint8)
    assert (ROWS - 32) * COLUMNS > 2**31
    with tj.use_device(device.name):
        rows_exchanged[1](x, out, ROWS - 32)
    written = np.arange(32)[:, None] + 2 * np.arange(16)
    np.testing.assert_array_equal(out, np.concatenate([written[::-1], written[31:], written[30:]]))


@tj.kernel(threads=64)
def updated(X: tj.Tensor, OUT: tj.Tensor, n: tj.int64):
    tj.cta.fill(X[n : n + 64], 100)
    tj.cta_sync()
    i = tj.cta.indices((64,), axis=0)
    before = tj.atomic.add(X[n : n + 64], i)
    tj.cta_sync()
    tj.atomic.max(X[n + 3], 500 + tj.thread_id())
    tj.cta_sync()
    gathered = tj.atomic.add(X.at(i.astype(tj.int64) // 2 + n), 1, mask=i < 8)
    tj.cta_sync()
    tj.cta.store(OUT[0, 0:64], before)
    tj.cta.store(OUT[1, 0:64], tj.cta.load(X[n : n + 64]))
    tj.cta.store(OUT[2, 0:64], tj.where(i < 8, gathered, 0))


def test_atomic_updates_past_two_to_the_31(device: Device) -> None:
    place = PLACES[0]
    x, out = _large(device, (place + 128,), np.int32), np.zeros((3, 64), np.int32)
    with tj.use_device(device.name):
        updated[1](x, out, place)
    i = np.arange(64)
    after = 100 + i
    after[3] = 563
    np.testing.assert_array_equal(np.sort(out[2, :8].reshape(4, 2)), after[:4, None] + [0, 1])
    after[:4] += 2
    np.testing.assert_array_equal(out[0], np.full(64, 100))
    np.testing.assert_array_equal(out[1], after)


@tj.kernel(threads=64)
def far_rows(X: tj.Tensor, OUT: tj.Tensor):
    i = tj.cta.indices((2, 64), axis=0) * 100 + tj.cta.indices((2, 64), axis=1)
    tj.cta.store(X[0:2, 0:64], i.astype(X.dtype))
    tj.cta_sync()
    tj.cta.store(OUT[0:2, 0:64], tj.cta.load(X[0:2, 0:64]))
    tj.cta.store(OUT[2, 0:64], tj.sum(tj.cta.load(X[0:2, 0:64]).astype(tj.int32), axis=0).astype(X.dtype))
    for row in range(2):
        OUT[3 + row, tj.thread_id()] = X[row, tj.thread_id()]
    tj.cta.store(OUT[5:69, 0:2], tj.cta.load(X[0:2, 0:64]).T)


def test_rows_further_apart_than_two_to_the_31(device: Device) -> None:
    out = np.zeros((69, 64), np.uint8)
    if device.name == "sim":
        x: Any = np.lib.stride_tricks.as_strided(np.zeros(STRIDE + 64, np.uint8), (2, 64), (STRIDE, 1))
    else:
        x = tj.empty((2, STRIDE), np.uint8, device.name)
    with tj.use_device(device.name):
        far_rows[1](x, out)
    rows = np.arange(64) + [[0], [100]]
    expected = np.zeros((69, 64), np.uint8)
    expected[0:2], expected[2], expected[3:5], expected[5:, :2] = rows, rows.sum(axis=0) % 256, rows, rows.T
    np.testing.assert_array_equal(out, expected)
