"""Loads and stores with masks: whole vectors where a mask has them, else elements, as NumPy's where says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times
from tests.support.programs import source_of
from tilejit import R, S, laneid
from tilejit.dtypes import DType, bfloat16, float16, float32, int8, int64
from tilejit.ir import walk
from tilejit.ir.nodes import Move

#: masks of a row of numbers i, with run-time numbers m and n; the last reads memory
MASKS = (
    "i < n", "n > i", "i >= m", "(i >= m) & (i < n)", "(m <= i) & (n >= i)", "i - m < n", "i + m < n", "m - i < n",
    "i * 3 - m < n", "(i == m) | (i > n)", "i % 3 != 0", "i // 5 == 2", "~(i < n)", "(i & 4) == 0", "i != n", "B",
)
DTYPES = (int8, float16, bfloat16, float32, int64)


def kernel_of(mask: str, extent: int, shift: bool) -> Any:
    """Loads a window that begins at s, or at a multiple of 16 near it, and stores it 3 windows further, both masked."""
    start = "s // 16 * 16" if shift else "s"
    text = f"""
def copied(A, C, M, s: tj.int64, m: tj.int32, n: tj.int32):
    a = {start}
    i = tj.cta.indices(({extent},), 0)
    B = tj.cta.load(M[0:{extent}])
    mask = {mask}
    x = tj.cta.load(A[a : a + {extent}], mask=mask, fill=7)
    tj.cta.store(C[a : a + {extent}], x, mask=mask)
    tj.cta.store(C[a + {4 * extent} : a + {5 * extent}], x)
"""
    return tj.kernel(threads=32)(source_of(text))


def meant(mask: str, i: np.ndarray, m: int, n: int, bits: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return eval(mask, {"i": i, "m": np.int32(m), "n": np.int32(n), "B": bits})


NUMBERS = st.integers(-20, 150) | st.sampled_from((-(2**31), 2**31 - 1, 2**31 - 3))


@settings(max_examples=times(2))
@given(
    mask=st.sampled_from(MASKS), dtype=st.sampled_from(DTYPES), extent=st.sampled_from((16, 40, 64, 96, 100, 128)),
    start=st.integers(-40, 140), shift=st.booleans(), m=NUMBERS, n=NUMBERS, size=st.sampled_from((160, 1024, 1019)),
)
@example(mask="i - m < n", dtype=float16, extent=128, start=0, shift=True, m=-(2**31), n=5, size=1024)
@example(mask="i + m < n", dtype=float16, extent=128, start=0, shift=True, m=2**31 - 3, n=2**31 - 2, size=1024)
@example(mask="(i >= m) & (i < n)", dtype=float16, extent=128, start=16, shift=True, m=5, n=101, size=1024)
def test_what_a_mask_has_is_moved(
    mask: str, dtype: DType, extent: int, start: int, shift: bool, m: int, n: int, size: int
) -> None:
    random = np.random.default_rng(extent + abs(start))
    a = random.integers(-100, 100, size).astype(dtype.numpy)
    bits = random.integers(0, 4, 128) > 0
    c = np.full_like(a, 9)
    kernel_of(mask, extent, shift)[1](a, c, bits, np.int64(start), m, n)

    i = np.arange(extent, dtype=np.int32)
    has = meant(mask, i, m, n, bits[:extent])
    at = (start // 16 * 16 if shift else start) + i
    inside = (at >= 0) & (at < size)
    loaded = np.full(extent, 7).astype(dtype.numpy)
    loaded[has & inside] = a[at[has & inside]]
    wanted = np.full_like(a, 9)
    wanted[at[has & inside]] = loaded[has & inside]
    further = at + 4 * extent
    inside = (further >= 0) & (further < size)
    wanted[further[inside]] = loaded[inside]
    assert c.tobytes() == wanted.tobytes()


@tj.kernel(threads=64)
def in_two_dimensions(A, C, top: tj.int32, left: tj.int32, bottom: tj.int32, right: tj.int32):
    rows, columns = tj.cta.indices((24,), 0), tj.cta.indices((64,), 0)
    mask = ((rows >= top) & (rows < bottom))[:, None] & (columns >= left) & (columns[None, :] < right)
    x = tj.cta.load(A[0:24, 0:64], mask=mask, fill=-1)
    tj.cta.store(C[0:24, 0:64], x + 1, mask=mask)


@settings(max_examples=times(1))
@given(st.lists(st.integers(-3, 70), min_size=4, max_size=4), st.sampled_from((float16, float32, int8)), st.booleans())
def test_masks_of_rows_and_columns(ends: list[int], dtype: DType, turned: bool) -> None:
    numbers = np.arange(24 * 64).astype(dtype.numpy)
    a = numbers.reshape(64, 24).T if turned else numbers.reshape(24, 64)
    c = np.full_like(a, 9)
    in_two_dimensions[1](a, c, *ends)
    top, left, bottom, right = ends
    wanted = np.full_like(a, 9)
    rows, columns = np.arange(24)[:, None], np.arange(64)
    has = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
    wanted[has] = a[has] + a.dtype.type(1)
    np.testing.assert_array_equal(c, wanted)


@tj.kernel(threads=32)
def with_numbers_that_change(A, C, n: tj.int32, rounds: tj.int32):
    """Masks are what they were where they were made, whatever is assigned since."""
    i = tj.cta.indices((64,), 0)
    mask = i < n
    last = mask
    for k in range(rounds):
        here = i >= n
        n = n + 8
        last = (i < n) & (i >= k)
        if k % 2 == 1:
            tj.cta.store(C[k, 0:64], tj.cta.load(A[k, 0:64]), mask=here)
        else:
            tj.cta.store(C[k, 0:64], tj.cta.load(A[k, 0:64], mask=last))
    n = 3
    tj.cta.store(C[rounds, 0:64], tj.cta.load(A[rounds, 0:64]), mask=mask)
    tj.cta.store(C[rounds + 1, 0:64], tj.cta.load(A[rounds + 1, 0:64]), mask=last)


@pytest.mark.parametrize("n", [0, 5, 16, 61])
@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_a_mask_keeps_its_value(n: int, rounds: int) -> None:
    a = np.arange(1, 6 * 64 + 1).reshape(6, 64).astype(np.float16)
    c = np.zeros_like(a)
    with_numbers_that_change[1](a, c, n, rounds)
    i, wanted, now = np.arange(64), np.zeros_like(a), n
    mask = last = i < n
    for k in range(rounds):
        here, now = i >= now, now + 8
        last = (i < now) & (i >= k)
        wanted[k] = np.where(here if k % 2 else last, a[k], 0)
    wanted[rounds] = np.where(mask, a[rounds], 0)
    wanted[rounds + 1] = np.where(last, a[rounds + 1], 0)
    np.testing.assert_array_equal(c, wanted)


@tj.kernel(threads=32)
def between(A, C, m: tj.int32, n: tj.int32):
    i = tj.cta.indices((256,), 0)
    mask = (i >= m) & (i < n)
    tj.cta.store(C[0:256], tj.cta.load(A[0:256], mask=mask), mask=mask)


def test_a_mask_of_indices_takes_no_registers() -> None:
    compiled = between.compile(*2 * (tj.spec((256,), float16),), m=tj.int32, n=tj.int32, target="sm_90a")
    assert "alloc mask" not in compiled.lane_ir and "alloc i" not in compiled.lane_ir
    moves = [stmt for stmt in walk.statements(compiled.derivation.lane.body) if isinstance(stmt, Move)]
    moves = [move for move in moves if "global" in (move.src.buffer.space, move.dst.buffer.space)]
    assert [move.src.width for move in moves] == [8, *8 * [1], 8, *8 * [1]]
    assert moves[0].predicate is None, "one branch decides"
    tests = [line for line in compiled.lane_ir.splitlines() if "let all" in line]
    assert len(tests) == 2 and all(line.count(">=") == 1 and line.count("<") == 1 for line in tests)


def test_a_mask_that_something_else_reads_is_there() -> None:
    @tj.kernel(threads=32)
    def counted(A, C, n: tj.int32):
        i = tj.cta.indices((256,), 0)
        mask = i < n
        x = tj.cta.load(A[0:256], mask=mask)
        tj.cta.store(C[0:256], tj.where(mask, x + 1, 5))

    a = np.arange(256, dtype=np.float32)
    c = np.zeros_like(a)
    counted[1](a, c, 77)
    np.testing.assert_array_equal(c, np.where(np.arange(256) < 77, a + 1, 5))


@pytest.mark.parametrize("n", [1, 8, 250, 256])
def test_a_vector_across_an_edge_moves_its_elements(n: int) -> None:
    @tj.kernel(threads=32)
    def doubled(A, C):
        x = tj.cta.load(A[0:256], fill=3)
        tj.cta.store(C[0:256], x + x)

    a = np.arange(n, dtype=np.float16)
    c = np.zeros_like(a)
    doubled[1](a, c)
    np.testing.assert_array_equal(c, 2 * a)


#: (16, 8): a row for two lanes each, and a column for four
ROWS, COLUMNS = S[(16, 2, 4) : (2 @ laneid, 1 @ laneid, 1)], S[(4, 4, 8) : (1, 1 @ laneid, 4 @ laneid)]
#: (16,), in the lanes of the rows
OF_ROWS = S[(16,) : (2 @ laneid)] + R[2 : 1 @ laneid]

#: what is done by x where a mask has it, and what C has then
MASKED_USES = {
    "tj.warp.store(C[0:16, 0:8], tj.warp.load(A[0:16, 0:8], layout=COLUMNS, mask=mask, fill=5))": "where(m, a, 5)",
    "tj.warp.store(C[0:16, 0:8], x, mask=mask)": "where(m, a, 2)",
    "tj.warp.store(C.at(rows)[:, 0:8], x, mask=mask)": "where(m, a, 2)",
    "tj.atomic.add(C[0:16, 0:8], x, mask=mask)": "where(m, a, 0) + 2",
    "tj.atomic.add(C.at(rows)[:, 0:8], x, mask=mask)": "where(m, a, 0) + 2",
    "tj.atomic.add(C[0:16, 0:8], 3, mask=mask)": "where(m, 5, 2)",
    "tj.warp.store(C[0:16, 0:8], tj.atomic.exch(C[0:16, 0:8], x, mask=mask) + x)": "where(m, a + 2, a)",
}


@pytest.mark.parametrize("rows", ["mask[:, 0:1]", "mask"])
@pytest.mark.parametrize("use", MASKED_USES)
def test_a_mask_that_lies_otherwise_is_converted(use: str, rows: str) -> None:
    text = f"""
def masked(A, B, I, C):
    rows = tj.warp.load(I[0:16], layout=OF_ROWS)
    mask = tj.warp.load(B[0:16, 0:8], layout=ROWS)
    mask = {rows}
    x = tj.warp.load(A[0:16, 0:8], layout=COLUMNS)
    {use}
"""
    a = np.arange(128, dtype=np.float32).reshape(16, 8)
    bits = np.random.default_rng(3).random((16, 8)) < 0.5
    c = np.full_like(a, 2)
    masked = source_of(text, ROWS=ROWS, COLUMNS=COLUMNS, OF_ROWS=OF_ROWS)
    tj.kernel(threads=32)(masked)[1](a, bits, np.arange(16, dtype=np.int32), c)
    m = np.broadcast_to(eval(rows, {"mask": bits}), a.shape)
    np.testing.assert_array_equal(c, eval(MASKED_USES[use], {"where": np.where, "m": m, "a": a}))


#: parts of a mask of four dimensions at most, taken by indices, slices and new dimensions; each broadcasts to (4, 8)
PARTS = (
    ("(4, 8)", "m[1]"), ("(4, 8)", "m[1:2]"), ("(4, 8)", "m[3, :]"), ("(1, 8)", "m[0]"),
    ("(4, 3)", "m[:, 1][:, None]"),
    ("(4, 1)", "m[:, 0][:, None]"), ("(4, 3)", "m[:, 1:2]"), ("(2, 4, 8)", "m[1]"), ("(2, 4, 8)", "m[:, 2][1]"),
    ("(2, 4, 8)", "m[1, 3]"), ("(4, 8, 2)", "m[:, :, 1]"), ("(1, 4, 1, 8)", "m[0, :, 0]"),
)


@pytest.mark.parametrize(("shape", "part"), PARTS)
@pytest.mark.parametrize("threads", [1, 32])
def test_masks_are_parts_of_tiles(shape: str, part: str, threads: int) -> None:
    axes = range(len(eval(shape)))
    numbers = " + ".join(f"tj.cta.indices({shape}, {axis}) * {axis + 1}" for axis in axes)
    text = f"""
def copied(A, C, D, n: tj.int32):
    m = ({numbers}) % 3 != n
    x = tj.cta.load(A[0:4, 0:8], mask={part}, fill=-1)
    tj.cta.store(C[0:4, 0:8], x)
    tj.cta.store(D[0:4, 0:8], x, mask={part})
"""
    a = np.arange(1, 33, dtype=np.float32).reshape(4, 8)
    c, d = np.zeros_like(a), np.zeros_like(a)
    with tj.use_device("sim"):
        tj.kernel(threads=threads)(source_of(text))[1](a, c, d, 1)
    indices = np.indices(eval(shape))
    m = sum(indices[axis] * (axis + 1) for axis in axes) % 3 != 1
    mask = np.broadcast_to(eval(part, {"m": m}), a.shape)
    np.testing.assert_array_equal(c, np.where(mask, a, -1))
    np.testing.assert_array_equal(d, np.where(mask, a, 0))


def test_vectors_that_the_mask_includes_or_excludes_whole_are_loaded_once() -> None:
    rows = S[(32, 16) : (1 @ laneid, 1)]

    @tj.kernel(threads=32)
    def k(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
        r = tj.alloc_local((32, 16), tj.float32, layout=rows)
        tj.warp.copy(r, X[0:32, 0:16], mask=tj.warp.indices((32, 16), 0, layout=rows) < n, fill=0.0)
        tj.warp.copy(Y[0:32, 0:16], r)

    spec = tj.spec((32, 16), tj.float32)
    assert k.compile(spec, spec, tj.int32).ptx.count("ld.global") == 4
    x, y = np.ones((2, 32, 16), np.float32)
    k[1](x, y, 5)
    np.testing.assert_array_equal(y, np.where(np.arange(32)[:, None] < 5, x, 0))
