"""Copies and arithmetic written as users write them: any arrays, windows and layouts, against NumPy."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import tilejit as tj
from tilejit.dtypes import DType
from tilejit.layout import Swizzle, TileLayout
from tilejit.runtime.device import Device
from tilejit.testing import arrays, check, dtypes, register_layouts

Array = np.ndarray
Window = tuple[tuple[int, int], tuple[int, int]]


@tj.kernel(threads=96)
def through_shared(
    A: tj.Tensor, B: tj.Tensor, i: tj.int32, j: tj.int32, SHAPE: tj.constexpr, SWIZZLE: tj.constexpr
):
    staged = tj.alloc_shared(SHAPE, A.dtype, swizzle=SWIZZLE)
    tj.cta.copy(staged, A[i : i + SHAPE[0], j : j + SHAPE[1]])
    tj.cta_sync()
    tj.cta.copy(B[i : i + SHAPE[0], j : j + SHAPE[1]], staged)


@tj.kernel
def through_registers(
    A: tj.Tensor, B: tj.Tensor, k: tj.int32, SHAPE: tj.constexpr, OWNERS: tj.constexpr, OTHERS: tj.constexpr
):
    rows = tj.alloc_local(SHAPE, A.dtype, layout=OWNERS)
    columns = tj.alloc_local(SHAPE, A.dtype, layout=OTHERS)
    staged = tj.alloc_shared(SHAPE, A.dtype)
    tj.cta.copy(rows, A[k : k + SHAPE[0], 0 : SHAPE[1]])
    tj.cta.copy(staged, rows)
    tj.cta_sync()
    tj.cta.copy(columns, staged)
    tj.cta.copy(B[0 : SHAPE[0], 0 : SHAPE[1]], columns)


@tj.kernel
def each_warp_its_rows(A: tj.Tensor, B: tj.Tensor, ROWS: tj.constexpr, COLUMNS: tj.constexpr):
    w = tj.warp_id()
    staged = tj.alloc_shared((8 * ROWS, COLUMNS), A.dtype)
    tj.warp.copy(staged[w * ROWS : w * ROWS + ROWS, :], A[w * ROWS : w * ROWS + ROWS, 0:COLUMNS])
    tj.warp_sync()
    tj.warp.copy(B[w * ROWS : w * ROWS + ROWS, 0:COLUMNS], staged[w * ROWS : w * ROWS + ROWS, :])


@tj.kernel
def axpy(A: tj.Tensor, X: tj.Tensor, B: tj.Tensor, scale: tj.float32, SHAPE: tj.constexpr, OWNERS: tj.constexpr):
    a = tj.alloc_local(SHAPE, A.dtype, layout=OWNERS)
    x = tj.alloc_local(SHAPE, X.dtype, layout=OWNERS)
    b = tj.alloc_local(SHAPE, B.dtype, layout=OWNERS)
    tj.cta.copy(a, A[0 : SHAPE[0], 0 : SHAPE[1]])
    tj.cta.copy(x, X[0 : SHAPE[0], 0 : SHAPE[1]])
    tj.cta.mul(b, a, scale)
    tj.cta.add(b, b, x)
    tj.cta.copy(B[0 : SHAPE[0], 0 : SHAPE[1]], b)


@tj.kernel(threads=64)
def through_another_shape(
    A: tj.Tensor, B: tj.Tensor, SHAPE: tj.constexpr, VIEW: tj.constexpr, SWIZZLE: tj.constexpr
):
    staged = tj.alloc_shared(SHAPE, A.dtype, swizzle=SWIZZLE)
    tj.cta.copy(staged, A[0 : SHAPE[0], 0 : SHAPE[1]])
    tj.cta_sync()
    tj.cta.copy(B[0 : VIEW[0], 0 : VIEW[1]], staged.view(VIEW))


def device_name(device: Device) -> str:
    return "cuda" if device.number >= 0 else "sim"


@st.composite
def windows(draw: st.DrawFn) -> tuple[tuple[int, int], Window]:
    """The shape of a matrix, and a window that may pass its edges: (start, extent) in each dimension."""
    shape = draw(st.tuples(st.integers(1, 40), st.integers(1, 40)))
    window = []
    for n in shape:
        extent = draw(st.sampled_from((1, 2, 4, 7, 8, 16, 32)))
        window.append((draw(st.integers(-extent - 1, n + 1) | st.sampled_from((0, 8, -8))), extent))
    return shape, (window[0], window[1])


@given(st.data(), windows(), dtypes(), st.sampled_from((None, None, "32B", "64B", "128B")))
def test_a_window_passes_through_shared_memory(
    device: Device, data: st.DataObject, at: tuple[tuple[int, int], Window], dtype: DType, swizzle: str | None
) -> None:
    shape, ((i, rows), (j, columns)) = at
    atom = 0 if swizzle is None else int(swizzle[:-1]) // dtype.bytes
    assume(swizzle is None or (rows % 8 == 0 and columns % atom == 0))
    a = data.draw(arrays(shape, dtype, strided=True, misaligned=True))
    b = data.draw(written(shape, dtype))
    inside = np.s_[max(i, 0) : max(i + rows, 0), max(j, 0) : max(j + columns, 0)]

    def expected(A: Array, B: Array, *rest: object) -> None:
        B[inside] = A[inside]

    check(
        through_shared, 1, a, b, i, j, expected=expected, device=device_name(device),
        SHAPE=(rows, columns), SWIZZLE=swizzle,
    )


@st.composite
def written(draw: st.DrawFn, shape: tuple[int, ...], dtype: DType) -> Array:
    """An array in which no two elements share a place."""
    array = draw(arrays(shape, dtype, strided=True, misaligned=True))
    assume(not any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)))
    return array


@st.composite
def owned(draw: st.DrawFn, count: int = 2) -> tuple[int, tuple[int, int], list[TileLayout]]:
    """Threads, a shape, and layouts of it that a CTA of that many threads owns; the others permute the first."""
    threads = draw(st.sampled_from((32, 64, 96, 100, 128)))
    layout, shape = draw(register_layouts("cta", threads=threads, max_registers=8))
    found = [layout]
    while len(found) < count:
        found.append(draw(turned(layout)))
    return threads, shape, found


@st.composite
def turned(draw: st.DrawFn, layout: TileLayout) -> TileLayout:
    """The layout with the steps of equally many values exchanged: other owners, the same shape."""
    run = list(layout.shard)
    for extent in {it.extent for it in run}:
        places = [k for k, it in enumerate(run) if it.extent == extent]
        moved = draw(st.permutations([layout.shard[k] for k in places]))
        for k, it in zip(places, moved, strict=True):
            run[k] = it
    return TileLayout(tuple(run), layout.replica, layout.offset, layout.swizzle)


@given(st.data(), owned(), dtypes(), st.integers(-3, 3))
def test_a_tile_passes_through_two_layouts_of_registers(
    device: Device, data: st.DataObject, tile: tuple[int, tuple[int, int], list[TileLayout]], dtype: DType, k: int
) -> None:
    threads, shape, (owners, others) = tile
    a = data.draw(arrays(shape, dtype, strided=True, misaligned=True))
    b = data.draw(written(shape, dtype))

    def expected(A: Array, B: Array, *rest: object) -> None:
        B[...] = 0
        rows = np.arange(shape[0])
        kept = rows[(rows + k >= 0) & (rows + k < shape[0])]
        B[kept] = A[kept + k]

    check(
        through_registers, 1, a, b, k, expected=expected, device=device_name(device), threads=threads,
        SHAPE=shape, OWNERS=owners, OTHERS=others,
    )


@given(st.data(), dtypes(), st.sampled_from((32, 64, 96, 256)), st.integers(1, 4), st.integers(1, 40))
def test_each_warp_copies_rows_of_its_own(
    device: Device, data: st.DataObject, dtype: DType, threads: int, rows: int, columns: int
) -> None:
    a = data.draw(arrays((threads // 32 * rows, columns), dtype, strided=True, misaligned=True))
    b = data.draw(written(a.shape, dtype))
    check(
        each_warp_its_rows, 1, a, b, expected=lambda A, B, *rest: A, device=device_name(device), threads=threads,
        ROWS=rows, COLUMNS=columns,
    )


@given(st.data(), owned(1), st.sampled_from((np.float16, np.float32)), st.floats(-4, 4, width=32))
def test_arithmetic_on_registers_rounds_as_numpy_does(
    device: Device,
    data: st.DataObject,
    tile: tuple[int, tuple[int, int], list[TileLayout]],
    dtype: type[np.floating],
    scale: float,
) -> None:
    threads, shape, (owners,) = tile
    seed = data.draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    a, x = (random.normal(size=shape).astype(dtype) for _ in range(2))
    # a scalar takes the tile's type; float16 computes in float32 and rounds once
    product = (a.astype(np.float32) * dtype(scale).astype(np.float32)).astype(dtype)
    total = (product.astype(np.float32) + x.astype(np.float32)).astype(dtype)
    check(
        axpy, 1, a, x, np.zeros_like(a), scale, expected={"B": total}, device=device_name(device), threads=threads,
        SHAPE=shape, OWNERS=owners,
    )


@given(st.data(), dtypes(), st.lists(st.sampled_from((2, 2, 3, 4, 5)), max_size=5), st.booleans())
def test_a_view_has_the_elements_in_their_order(
    device: Device, data: st.DataObject, dtype: DType, factors: list[int], is_swizzled: bool
) -> None:
    """Any two shapes of one size, also where neither's extents divide the other's."""
    count = math.prod(factors) * (8 if is_swizzled else 1)
    divisors = [n for n in range(1, count + 1) if count % n == 0]
    rows = data.draw(st.sampled_from(divisors))
    taken = data.draw(st.sampled_from(divisors))
    a = data.draw(arrays((rows, count // rows), dtype))
    view = (taken, count // taken)
    check(
        through_another_shape, 1, a, np.zeros(view, a.dtype), expected={"B": a.reshape(view)},
        device=device_name(device), SHAPE=a.shape, VIEW=view, SWIZZLE=Swizzle(1, 1, 1) if is_swizzled else None,
    )


def test_a_swizzle_of_ones_own_keeps_what_it_holds(device: Device) -> None:
    a = np.arange(1024, dtype=np.uint16).reshape(32, 32)
    for bits in range(4):
        swizzle = Swizzle(bits, 2, 3)
        check(
            through_shared, 1, a, np.zeros_like(a), 0, 0, expected=a, device=device_name(device),
            SHAPE=(32, 32), SWIZZLE=swizzle,
        )
