"""Rows that begin anywhere in a flat array: the aligned window around one is moved by vectors of 16 bytes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from examples import softmax
from tests.support.ptxas import local_memory_of

KINDS = {"constexpr": None, "int32": tj.int32, "int64": tj.int64}


def copy_rows(X, Y, N):
    """Each row, into the row of the same place."""
    first = tj.cta_id(0) * N
    start = first // 8 * 8
    i = tj.cta.indices((256,), 0) - (first - start)
    mask = (i >= 0) & (i < N)
    tj.cta.store(Y[start : start + 256], tj.cta.load(X[start : start + 256], mask=mask), mask=mask)


def kernel(kind: str) -> Any:
    annotated = {"N": tj.constexpr if kind == "constexpr" else KINDS[kind], "X": tj.Tensor, "Y": tj.Tensor}
    copy_rows.__annotations__ = annotated
    return tj.kernel(threads=32)(copy_rows)


@pytest.mark.parametrize("kind", KINDS)
def test_a_start_rounded_down_is_aligned(kind: str) -> None:
    x = tj.spec((6300,), tj.float16)
    number: Any = 63 if kind == "constexpr" else KINDS[kind]
    compiled = kernel(kind).compile(x, x, N=number, target="sm_90a")
    assert re.search(r"let start: int64 multiple_of 8", compiled.tile_ir)
    assert compiled.ptx.count("ld.global.v4.b32") == compiled.ptx.count("st.global.v4.b32") == 1


def softmax_ptx() -> str:
    x = tj.spec((16384 * 4095,), tj.float16)
    return softmax.softmax_of_unaligned_rows.compile(x, x, N=4095, V=8, threads=192, target="sm_90a").ptx


def test_whole_vectors_are_loaded_before_single_elements() -> None:
    """A warp that waits for the elements at its row's end has the rest of the row on its way."""
    loads = re.findall(r"ld\.global\.(v4\.b32|b16)", softmax_ptx())
    assert loads == ["v4.b32"] * 3 + ["b16"] * 24


def test_nothing_waits_for_a_single_element_before_the_others_of_its_vector_are_loaded() -> None:
    """Of packed elements each would be put into its register, which it must have reached, before the next is loaded."""
    loaded = softmax_ptx().split("max.NaN.f16x2")[0].split("ld.global.b16")
    assert len(loaded) == 1 + 24
    packs = [len(re.findall(r"mov\.b32 \t%r\d+, \{", between)) for between in loaded]
    assert packs == [0] * 8 + [4] + [0] * 7 + [4] + [0] * 7 + [4]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [1, 7, 8, 63, 249])
def test_rows_are_moved_whole_and_alone(kind: str, columns: int) -> None:
    rows = 9
    x = np.arange(1, rows * columns + 1).astype(np.float16)
    y = np.zeros_like(x)
    number: Any = {"constexpr": columns, "int32": np.int32(columns), "int64": np.int64(columns)}[kind]
    kernel(kind)[rows](x, y, N=number)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", [tj.float16, tj.bfloat16, tj.float32])
@pytest.mark.parametrize("offset", [0, 1, 3])
def test_softmax_of_rows_that_begin_anywhere(dtype: Any, offset: int) -> None:
    """Also of arrays that begin anywhere, and nothing beside them is written."""
    rows, columns, size = 5, 197, dtype.bytes
    numbers = np.random.default_rng(offset).standard_normal((rows, columns), np.float32).astype(dtype.numpy)
    x, y = (np.full(rows * columns + 32, 7).astype(dtype.numpy) for _ in range(2))
    inside = slice(offset, offset + rows * columns)
    x[inside] = numbers.ravel()
    kernel = softmax.softmax_of_unaligned_rows
    kernel[(rows,), 32](x[inside], y[inside], N=columns, V=16 // size)
    e = np.exp(numbers.astype(np.float64))
    error = {tj.float16: 1e-3, tj.bfloat16: 8e-3, tj.float32: 1.2e-6}[dtype]
    result = y[inside].reshape(rows, columns).astype(np.float64)
    np.testing.assert_allclose(result, e / e.sum(1, keepdims=True), rtol=error, atol=1e-7)
    assert (y[: inside.start] == 7).all() and (y[inside.stop :] == 7).all()


@pytest.mark.parametrize("scale", [1, 5])
@pytest.mark.parametrize("columns", [4095, 4096])
def test_the_error_is_what_the_example_states(columns: int, scale: int) -> None:
    x = scale * np.random.default_rng(columns).standard_normal((3, columns), np.float32)
    y = np.zeros_like(x)
    softmax.softmax_of_rows(x, y)
    below = x.max(1, keepdims=True).astype(np.float64) - x
    wanted = np.exp(-below) / np.exp(-below).sum(1, keepdims=True)
    assert (abs(y - wanted) <= (5e-7 + 1e-7 * below) * wanted).all()


def test_only_a_rows_ends_go_by_elements() -> None:
    """Each of the three vectors has one access of 16 bytes, and eight of 2 for where the row ends in it."""
    flat = tj.spec((16384 * 4095,), tj.float16)
    threads = softmax.threads_for(4095 * 2 + 16)
    compiled = softmax.softmax_of_unaligned_rows.compile(flat, flat, N=4095, V=8, threads=threads, target="sm_90a")
    counts = [compiled.ptx.count(text) for text in ("ld.global.v4", "st.global.v4", "ld.global.b16")]
    assert threads == 192 and counts == [3, 3, 24]
    assert compiled.ptx.count("setp") < 9 * (3 + 24)


CASES = {
    "f16 4096": (softmax.fast_softmax, 4096, tj.float16),
    "f16 65536": (softmax.fast_softmax, 65536, tj.float16),
    "bf16 65536": (softmax.fast_softmax, 65536, tj.bfloat16),
    "f32 16384": (softmax.fast_softmax, 16384, tj.float32),
    "f32 32768": (softmax.fast_softmax, 32768, tj.float32),
    "f16 4095": (softmax.softmax_of_unaligned_rows, 4095, tj.float16),
    "bf16 40009": (softmax.softmax_of_unaligned_rows, 40009, tj.bfloat16),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row_stays_in_registers(name: str) -> None:
    kernel, columns, dtype = CASES[name]
    is_flat = kernel is softmax.softmax_of_unaligned_rows
    rows = tj.spec((4096 * columns,) if is_flat else (4096, columns), dtype)
    more = {"V": 16 // dtype.bytes} if is_flat else {}
    threads = softmax.threads_for(columns * dtype.bytes + 16 * is_flat)
    compiled = kernel.compile(rows, rows, N=columns, threads=threads, target="sm_90a", **more)
    assert local_memory_of(compiled.ptx, "sm_90a") == (0, 0)


@tj.kernel(threads=32)
def copy_parts_of_rows(X: tj.Tensor, Y: tj.Tensor):
    x = tj.alloc_local((32, 6), X.dtype, layout=tj.S[(32, 6) : (1 @ tj.laneid, 1)])
    tj.warp.copy(x, X[0:32, 0:6])
    tj.warp.copy(Y[0:32, 0:6], x)


def test_a_part_of_a_row_is_moved_by_vectors_that_divide_it() -> None:
    x, y = np.arange(256, dtype=np.float32).reshape(32, 8), np.zeros((32, 8), np.float32)
    with tj.use_device("sim"):
        copy_parts_of_rows[1](x, y)
    np.testing.assert_array_equal(y[:, :6], x[:, :6])
    assert not y[:, 6:].any()
