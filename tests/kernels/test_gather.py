"""Regions gathered by an index, `X.at(index, axis)`: loads and stores against NumPy, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import source_of
from tests.support.ptxas import ptxas_accepts
from tilejit import S, tx
from tilejit.dtypes import DType
from tilejit.testing import dtypes

SCOPES = st.sampled_from((("thread", 3), ("warp", 32), ("warp", 64), ("warpgroup", 128), ("cta", 48), ("cta", 128)))
EXTENTS = st.sampled_from((1, 2, 3, 5, 7, 8, 16, 24, 31, 32))
INDEX_TYPES = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")


def box(shape: tuple[int, ...]) -> str:
    return ", ".join(f"0:{extent}" for extent in shape) or ""


@st.composite
def gathers(draw: st.DrawFn) -> tuple[dict[str, Any], str, int]:
    """A gathered region of an array, with an index of which some elements are masked off, and these may be outside."""
    scope, threads = draw(SCOPES)
    limit = 64 if scope == "thread" else 1024
    shape = draw(st.lists(EXTENTS, min_size=1, max_size=3).map(tuple).filter(lambda s: math.prod(s) <= limit))
    axis = draw(st.integers(0, len(shape) - 1))
    others = [n for d, n in enumerate(shape) if d != axis]
    most = max(1, limit // math.prod(others))
    index_shape = draw(st.lists(EXTENTS, max_size=2).map(tuple).filter(lambda s: math.prod(s) <= most))
    windows = []
    for n in others:
        start = draw(st.integers(0, n - 1))
        windows.append((start, draw(st.integers(1, n - start + 2))))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    index_type = np.dtype(draw(st.sampled_from(INDEX_TYPES)))
    index = random.integers(0, shape[axis], index_shape)
    allowed = random.random(index_shape) < draw(st.sampled_from((0.0, 0.5, 0.9, 1.0)))
    limits = np.iinfo(index_type)
    outside = random.choice(np.array([limits.min, limits.max, 100], index_type), index_shape)
    case = {
        "shape": shape, "axis": axis, "windows": windows, "allowed": allowed,
        "index": np.where(allowed, index.astype(index_type), outside),
        "is_masked": not allowed.all() or draw(st.booleans()), "space": draw(st.sampled_from(("global", "shared"))),
    }
    return clipped(case), scope, threads


def program(case: dict[str, Any], scope: str, threads: int, body: str) -> Any:
    """A kernel of X, I, M, Y: `place` is the gathered region, `mask` what is moved of it."""
    index, rank = case["index"], len(case["windows"])
    taken = [*(":" for _ in index.shape), *(f"{start}:{start + n}" for start, n in case["windows"])]
    inside = "X" if case["space"] == "global" else "s"
    lines = ["def gathered(X, I, M, Y):"]
    if case["space"] == "shared":
        lines += [f"    s = tj.alloc_shared({case['shape']}, X.dtype)", f"    tj.cta.copy(s, X[{box(case['shape'])}])"]
        lines += ["    tj.cta_sync()"]
    at = f"tj.{scope}.load(I[{box(index.shape)}])" if index.shape else "I[0]"
    units = ", ".join([*(":" for _ in index.shape), *["None"] * rank])
    allowed = f"(tj.{scope}.load(M[{box(index.shape)}]) != 0)[{units}]" if index.shape else "M[0] != 0"
    lines += [f"    index = {at}", f"    mask = {allowed if case['is_masked'] else 'None'}"]
    lines += [f"    place = {inside}.at(index, axis={case['axis']})" + (f"[{', '.join(taken)}]" if taken else "")]
    lines += [f"    y = Y[{box(result_shape(case))}]", *(f"    {line}" for line in body.splitlines())]
    if case["space"] == "shared" and "store(place" in body:
        lines += ["    tj.cta_sync()", f"    tj.cta.copy(X[{box(case['shape'])}], s)"]
    return tj.kernel(threads=threads)(source_of("\n".join(lines) + "\n"))


def result_shape(case: dict[str, Any]) -> tuple[int, ...]:
    return (*case["index"].shape, *(n for _, n in case["windows"])) or (1,)


def arrays(case: dict[str, Any], dtype: DType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = (np.arange(math.prod(case["shape"])) % 120 + 1).astype(dtype.numpy).reshape(case["shape"])
    index, allowed = (np.ascontiguousarray(np.atleast_1d(case[name])) for name in ("index", "allowed"))
    return x, index, allowed.astype(np.int32)


def places(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Each element's place in the flat array, and whether it is moved."""
    padded = [n + 2 if d != case["axis"] else n for d, n in enumerate(case["shape"])]
    flat = np.full(padded, -1)
    flat[tuple(slice(0, n) for n in case["shape"])] = np.arange(math.prod(case["shape"])).reshape(case["shape"])
    rows = np.moveaxis(flat, case["axis"], 0)[(slice(None), *(slice(a, a + n) for a, n in case["windows"]))]
    there = rows[np.where(case["allowed"], case["index"], 0).astype(np.int64)]
    allowed = np.reshape(case["allowed"], (*case["index"].shape, *[1] * len(case["windows"])))
    return there.reshape(result_shape(case)), np.broadcast_to(allowed & (there >= 0), there.shape).reshape(
        result_shape(case)
    )


def clipped(case: dict[str, Any]) -> dict[str, Any]:
    """Without what lies past the edges, which only global memory may have."""
    others = [n for d, n in enumerate(case["shape"]) if d != case["axis"]]
    windows = [(start, min(n, size - start)) for (start, n), size in zip(case["windows"], others, strict=True)]
    return {**case, "windows": windows} if case["space"] == "shared" else case


@given(drawn=gathers(), dtype=dtypes())
def test_a_gathered_region_is_loaded_as_numpy_takes_it(
    drawn: tuple[dict[str, Any], str, int], dtype: DType
) -> None:
    case, scope, threads = drawn
    x, index, allowed = arrays(case, dtype)
    y = np.zeros(result_shape(case), dtype.numpy)
    store = f"tj.{scope}.store(y, tj.{scope}.load(place, mask=mask, fill=3))"
    if not case["index"].shape and not case["windows"]:
        store = f"Y[0] = tj.{scope}.load(place, mask=mask, fill=3)"
    program(case, scope, threads, store)[1](x, index, allowed, y)
    there, moved = places(case)
    wanted = np.where(moved, x.ravel()[there], np.array(3, dtype.numpy))
    assert y.tobytes() == wanted.astype(dtype.numpy).tobytes()


@given(drawn=gathers(), dtype=dtypes())
def test_of_what_is_stored_to_one_place_of_a_gathered_region_one_value_lands(
    drawn: tuple[dict[str, Any], str, int], dtype: DType
) -> None:
    case, scope, threads = drawn
    x, index, allowed = arrays(case, dtype)
    x = np.zeros_like(x)
    there, moved = places(case)
    y = (np.arange(there.size) % 100 + 1).astype(dtype.numpy).reshape(there.shape)
    loaded = f"tj.{scope}.load(y)"
    if not case["index"].shape and not case["windows"]:
        loaded = f"tj.{scope}.full((), Y[0], Y.dtype)"
    program(case, scope, threads, f"tj.{scope}.store(place, {loaded}, mask=mask)")[1](x, index, allowed, y)
    result = x.ravel()
    landed = np.unique(there[moved])
    assert (np.delete(result, landed) == 0).all()
    for place in landed:
        assert result[place] in y[moved & (there == place)]


@tj.kernel(threads=64)
def rows(E: tj.Tensor, T: tj.Tensor, Y: tj.Tensor, N: tj.constexpr, D: tj.constexpr):
    index = tj.cta.load(T[0:N])
    tj.cta.store(Y[0:N, 0:D], tj.cta.load(E.at(index)[:, 0:D]))


def test_rows_are_moved_by_vectors_where_all_begin_aligned() -> None:
    index, y = tj.spec((20,), tj.int32), tj.spec((20, 64), tj.float16)
    wide = rows.compile(tj.spec((9, 64), tj.float16), index, y, target="sm_90a", N=20, D=64)
    assert "ld.global.nc.v4.b32" in wide.ptx or "ld.global.v4.b32" in wide.ptx
    ptxas_accepts(wide.ptx, "sm_90a")


@tj.kernel(threads=64)
def laid_out(E: tj.Tensor, T: tj.Tensor, Y: tj.Tensor):
    index = tj.cta.load(T[0:8])
    x = tj.cta.load(E.at(index)[:, 0:64], layout=S[(8, 8, 8) : (8 @ tx, 1 @ tx, 1)])
    tj.cta.store(Y[0:8, 0:64], x)


def test_explain_says_how_rows_limit_vectors() -> None:
    index, y = tj.spec((8,), tj.int32), tj.spec((8, 64), tj.float16)
    odd = laid_out.compile(tj.spec((9, 66), tj.float16), index, y, target="sm_90a")
    (load,) = [row for row in odd.explain().rows if "E.at" in row.source]
    assert load.limit == "the offset of the selected row of E is a multiple of 4 bytes; needs a multiple of 16"


@tj.kernel(threads=64)
def swizzled(X: tj.Tensor, T: tj.Tensor, Y: tj.Tensor):
    s = tj.alloc_shared((32, 128), tj.float16, swizzle="128B")
    tj.cta.copy(s, X[0:32, 0:128])
    tj.cta_sync()
    tj.cta.store(Y[0:16, 0:128], tj.cta.load(s.at(tj.cta.load(T[0:16]))))
    tj.cta.store(Y[16:24, 0:32], tj.cta.load(s.at(tj.cta.load(T[0:8]), axis=1)))


def test_rows_and_columns_of_a_swizzled_buffer() -> None:
    x = np.random.default_rng(1).standard_normal((32, 128)).astype(np.float16)
    index, y = np.array([5, 31, 0, 7, 7, 8, 9, 16, 1, 2, 3, 30, 4, 6, 11, 12]), np.zeros((24, 128), np.float16)
    swizzled[1](x, index, y)
    np.testing.assert_array_equal(y[:16], x[index])
    np.testing.assert_array_equal(y[16:, :32], x[:, index[:8]].T)


@tj.kernel(threads=32)
def in_a_loop(E: tj.Tensor, T: tj.Tensor, Y: tj.Tensor):
    index = tj.cta.load(T[0:8])
    first = E.at(index)
    for k in range(3):
        index = index + 1
        tj.cta.store(Y[k, 0:8, 0:4], tj.cta.load(E.at(index)[:, 0:4]))
    tj.cta.store(Y[3, 0:8, 0:4], tj.cta.load(first[:, 0:4]))


def test_a_gathered_region_uses_the_index_that_it_was_made_with() -> None:
    e, index, y = np.arange(64.0).reshape(16, 4), np.arange(8)[::-1].copy(), np.zeros((4, 8, 4))
    in_a_loop[1](e, index, y)
    np.testing.assert_array_equal(y, e[np.stack([index + 1, index + 2, index + 3, index])])


@tj.kernel(threads=64)
def looked_up(T: tj.Tensor, X: tj.Tensor, Y: tj.Tensor):
    t = tj.thread_id()
    Y[t, 0] = tj.sum(tj.thread.load(T.at(X[t])[0:4]))


def test_each_thread_has_an_index_of_its_own() -> None:
    t, x, y = np.arange(40.0).reshape(10, 4), np.arange(64) % 10, np.zeros((64, 1))
    looked_up[1](t, x, y)
    np.testing.assert_array_equal(y[:, 0], t[x].sum(1))


@pytest.mark.parametrize("outside", [-1, 9, 2**31 - 1, -(2**31)])
def test_an_index_outside_is_an_error_in_checked_builds(outside: int) -> None:
    index = np.arange(20, dtype=np.int32) % 9
    index[13] = outside
    with tj.use_device("sim"), pytest.raises(tj.OutOfBoundsError) as caught:
        rows[1](np.zeros((9, 8)), index, np.zeros((20, 8)), N=20, D=8)
    assert f"index {outside} is outside dimension 0 of E, whose extent is 9, in thread " in str(caught.value)
    assert "E.at(index)[:, 0:D]" in str(caught.value)


def test_an_index_past_the_tiles_shape_or_the_arrays_edge_is_never_examined() -> None:
    e, y = np.arange(9.0)[:, None] + np.zeros(3), np.zeros((20, 3))
    rows[1](e, np.full(20, 8), y, N=20, D=3)
    assert (y == 8).all()
