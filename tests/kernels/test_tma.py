"""Copies by TMA against NumPy, over every edge of a tensor, whenever they land."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.bench.copy_ways import WAYS
from tilejit import OutOfBoundsError, simulate
from tilejit.layout.swizzle import SWIZZLE_BITS

DELIVERIES = ("late", "early", "random:1")
DTYPES = (tj.uint8, tj.float16, tj.float32, tj.float64)


@tj.kernel(threads=64, target="sm_90a")
def moved(
    A: tj.Tensor, B: tj.Tensor, i: tj.int32, j: tj.int32, k: tj.int32, to: tj.int32, mode: tj.constexpr,
    width: tj.constexpr,
):
    """Copies a box, which may begin before A, to B, but not before B. k, to: in chunks of 16 bytes."""
    k *= 16 // A.dtype.bytes
    to *= 16 // A.dtype.bytes
    s = tj.alloc_shared((32, width), A.dtype, swizzle=mode)
    full = tj.alloc_barrier()
    tj.cta.copy_async(s[8:24], A[i, j : j + 16, k : k + width], barrier=full)
    tj.cta.arrive(full)
    full.wait(0)
    tj.cta_sync()
    i, j = max(i, 0), max(j, 0)
    tj.cta.copy_async(B[i, j : j + 16, to : to + width], s[8:24])
    tj.bulk.wait(0)


def part(at: tuple[int, int, int], shape: tuple[int, int, int], width: int) -> tuple[slice, ...]:
    """Where a box lies in an array, as far as it does."""
    return tuple(slice(max(a, 0), max(min(a + n, e), 0)) for a, n, e in zip(at, (1, 16, width), shape, strict=True))


def expected(bits: np.ndarray, i: int, j: int, k: int, to: int, width: int) -> np.ndarray:
    """What `moved` leaves of an array of sevens."""
    k, to = (chunk * 16 // bits.itemsize for chunk in (k, to))
    box, wanted = np.zeros((1, 16, width), bits.dtype), np.full_like(bits, 7)
    source, target = part((i, j, k), bits.shape, width), part((max(i, 0), max(j, 0), to), bits.shape, width)
    box[_within(source, (i, j, k))] = bits[source]
    wanted[target] = box[_within(target, (max(i, 0), max(j, 0), to))]
    return wanted


def _within(part_of: tuple[slice, ...], at: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(max(p.start - a, 0), max(p.stop - a, 0)) for p, a in zip(part_of, at, strict=True))


def test_a_batch_of_one_with_an_odd_stride_is_copied_by_boxes() -> None:
    bits = np.random.default_rng(4).integers(1, 100, (1, 40, 64)).astype(np.float16)
    odd, got = (np.lib.stride_tricks.as_strided(x, bits.shape, (5474, *x.strides[1:])) for x in (bits, bits * 0 + 7))
    simulate(moved, 1, odd, got, 0, 3, 0, 0, "128B", 64)
    np.testing.assert_array_equal(got, expected(bits, 0, 3, 0, 0, 64))


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("mode", SWIZZLE_BITS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_region_over_any_edge_arrives_and_leaves(dtype: tj.DType, mode: str, delivery: str) -> None:
    width, unit = 2 * (16 << SWIZZLE_BITS[mode]) // dtype.bytes, 16 // dtype.bytes
    shape = (3, 40, width + 2 * unit)
    bits = np.random.default_rng(3).integers(1, 100, shape).astype(dtype.numpy)
    for i, j, k, to in (
        (0, 0, 0, 0), (2, -7, 1, 1), (1, 33, -2, 2), (3, 0, 0, 0), (-1, 5, 2, 0), (0, 39, width // unit + 1, 3),
    ):
        got = np.full_like(bits, 7)
        simulate(moved, 1, bits, got, i, j, k, to, mode, width, delivery=delivery)
        np.testing.assert_array_equal(got, expected(bits, i, j, k, to, width))


@pytest.mark.parametrize("delivery", ["late", "random:1"])
@pytest.mark.parametrize("name", WAYS)
def test_every_way_to_copy_that_is_timed_copies(name: str, delivery: str) -> None:
    # more boxes than stages, and some that hang over the edges; on four multiprocessors one CTA may have nothing to do
    way = WAYS[name]
    bits = np.random.default_rng(6).random((250, 300), np.float32)
    for source, multiprocessors in ((bits, 1), (bits[:33], 4)):
        got = np.zeros_like(source)
        simulate(way.kernel, way.ctas(source.shape, multiprocessors), source, got, *way.constants, delivery=delivery)
        np.testing.assert_array_equal(got, source)


@tj.kernel(threads=32, target="sm_90a")
def far(A: tj.Tensor, B: tj.Tensor, at: tj.int64):
    s = tj.alloc_shared((8, 64), A.dtype)
    full = tj.alloc_barrier()
    tj.warp.copy_async(s, A[at : at + 8, 0:64], barrier=full)
    tj.warp.arrive(full)
    full.wait(0)
    tj.warp.copy_async(B[0:8, 0:64], s)
    tj.bulk.wait(0)


@pytest.mark.parametrize("at", [1 << 32, -(1 << 32), (1 << 32) - 4, (1 << 31) - 4, -(1 << 40), -4])
def test_a_start_past_what_a_coordinate_holds_is_outside(at: int) -> None:
    bits = np.arange(1, 513).reshape(8, 64).astype(np.float16)
    got = np.full_like(bits, 7)
    simulate(far, 1, bits, got, at)
    wanted = np.zeros_like(bits)
    if at == -4:
        wanted[4:] = bits[:4]
    np.testing.assert_array_equal(got, wanted)


@tj.kernel(threads=32, target="sm_90a", debug=True)
def stored(A: tj.Tensor, n: tj.int32):
    s = tj.alloc_shared((8, 64), A.dtype)
    tj.warp.fill(s, 1)
    tj.warp_sync()
    tj.warp.copy_async(A[n : n + 8, 0:64], s)
    tj.bulk.wait(0)
    if n >= 0:
        tj.warp.copy_async(A[n : n + 8, 0:64], s)
    tj.bulk.wait(0)
    tj.warp.copy_async(A.tile((8, 64), (tj.cta_id(0), 0)), s)
    tj.bulk.wait(0)


def test_a_store_before_the_start_of_its_tensor_is_reported_at_its_location() -> None:
    """A GPU ends the kernel there; without checks the simulator finds the instruction."""
    a = np.zeros((16, 64), np.float16)
    # of three stores one isn't proved to begin inside
    assert str(stored.compile(a, 0).lane_ir).count("but not before the start") == 1
    simulate(stored, 1, a, 12)
    assert a[:8].all() and a[12:].all() and not a[8:12].any()
    with pytest.raises(OutOfBoundsError, match="begins at -4 in dimension 0 of A: it may extend past") as caught:
        simulate(stored, 1, a, -4)
    assert caught.value.span is not None and "tj.warp.copy_async(A[n : n + 8" in caught.value.span.text
    assert "tj.cta.copy" in str(caught.value.hint)
    with pytest.raises(OutOfBoundsError, match="stores a box that begins at -4 along dimension 1 of its map"):
        tj.simulate(tj.kernel(threads=32)(stored.__wrapped__), 1, a, -4, checks=False, target="sm_90a")
