"""`tj.sort`, `tj.argsort` and `tj.top_k` in kernels on the simulator against NumPy: types, ties, NaNs, axes, scopes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.marked import default_arguments, kernel_text, points_at, refused
from tests.support.programs import source_of
from tilejit.dtypes import DTYPES, DType
from tilejit.runtime.device import Device

Array = np.ndarray

SORTED = """def k(X, V, Y, A, S, W, T, I):
    x = tj.{scope}.load(X{all})
    v = tj.{scope}.load(V{all})
    tj.{scope}.store(Y{all}, tj.sort(x, axis={axis}, descending={descending}))
    tj.{scope}.store(A{all}, tj.argsort(x, axis={axis}, descending={descending}))
    s, w = tj.sort((x, v), axis={axis}, descending={descending})
    tj.{scope}.store(S{all}, s)
    tj.{scope}.store(W{all}, w)
    t, i = tj.top_k(x, {k}, axis={axis}, largest={descending})
    tj.{scope}.store(T{part}, t)
    tj.{scope}.store(I{part}, i)
"""
TYPES = [t for t in DTYPES.values() if t.kind in ("int", "uint", "float", "bool") and not t.name.endswith("x2")]
LAUNCHES = [("thread", 1), ("warp", 32), ("warp", 64), ("warpgroup", 128), ("cta", 64), ("cta", 96), ("cta", 6)]


def stable_order(x: Array, axis: int, *, descending: bool) -> Array:
    """The indices that sort `x`, written with NumPy alone: ties in order, NaNs last."""
    values = x if x.dtype.kind in "biu" else x.astype(np.float64)
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(x.shape, bool)
    rank = np.searchsorted(np.unique(values[~missing]), np.where(missing, 0, values)).astype(np.int64)
    rank = np.where(missing, x.size, -rank if descending else rank)
    return np.argsort(rank, axis=axis, kind="stable")


def bits(x: Array) -> Array:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def text_of(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(f"0:{n}" for n in shape) + "]"


def need_sorted(
    device: Device, scope: str, threads: int, x: Array, v: Array, axis: int, k: int, *, descending: bool
) -> None:
    """Raise AssertionError unless all sorts of `x` are right, to the bit."""
    part = tuple(k if d == axis % x.ndim else n for d, n in enumerate(x.shape))
    text = SORTED.format(
        scope=scope, axis=axis, k=k, descending=descending, all=text_of(x.shape), part=text_of(part)
    )
    order = stable_order(x, axis, descending=descending)
    got = [np.zeros_like(x), np.zeros(x.shape, np.int32), np.zeros_like(x), np.zeros_like(v)]
    top = np.zeros(part, x.dtype), np.zeros(part, np.int32)
    with tj.use_device(device.name):
        tj.kernel(threads=threads)(source_of(text))[1](x, v, *got, *top)
    wanted, first = np.take_along_axis(x, order, axis), tuple(slice(0, n) for n in part)
    np.testing.assert_array_equal(got[1], order)
    for found, right in ((got[2], wanted), (got[3], np.take_along_axis(v, order, axis)), (top[0], wanted[first])):
        np.testing.assert_array_equal(bits(found), bits(right))
    np.testing.assert_array_equal(top[1], order[first])
    # of keys alone, the order of zeros of both signs and of NaNs' bits is free
    np.testing.assert_array_equal(np.sort(bits(got[0]), axis=axis), np.sort(bits(x), axis=axis))
    wide = np.float64 if x.dtype.kind not in "biu" else x.dtype
    np.testing.assert_array_equal(got[0].astype(wide), wanted.astype(wide))


@st.composite
def elements(draw: st.DrawFn, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Any bits, or few values with many ties."""
    random, to = np.random.default_rng(draw(st.integers(0, 1 << 20))), np.dtype(dtype.numpy)
    if dtype.kind == "bool":
        return random.integers(0, 2, shape).astype(to)
    if draw(st.booleans()):
        return random.integers(0, 256, prod(shape) * to.itemsize, np.uint8).view(to).reshape(shape)
    few = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -np.nan] if dtype.is_float else [0, 1, 2, 3]
    return random.choice(np.array(few), shape).astype(to)


@settings(max_examples=max(settings.default.max_examples // 8, 4))
@given(st.data())
def test_sorts_of_any_tile_are_numpys(device: Device, data: st.DataObject) -> None:
    scope, threads = data.draw(st.sampled_from(LAUNCHES))
    extents = st.lists(st.sampled_from((1, 2, 3, 5, 8, 13, 17, 32, 37)), min_size=1, max_size=3)
    owners = {"thread": 1, "warp": 32, "warpgroup": 128}.get(scope, threads)
    shape = tuple(data.draw(extents.filter(lambda shape: prod(shape) <= 8 * (owners & -owners) + 8)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = data.draw(elements(data.draw(st.sampled_from(TYPES)), shape))
    v = data.draw(elements(data.draw(st.sampled_from(TYPES)), shape))
    need_sorted(
        device, scope, threads, x, v, axis, data.draw(st.integers(1, shape[axis])),
        descending=data.draw(st.booleans()),
    )


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_ties_keep_their_order_and_nans_come_last(device: Device, dtype: DType, descending: bool) -> None:
    random, to = np.random.default_rng(1), np.dtype(dtype.numpy)
    few = [0.0, -0.0, 1, -1, np.inf, np.nan, -np.nan] if dtype.is_float else [0, 1, 2, 3]
    x = random.choice(np.array(few), (2, 21)).astype(to)
    need_sorted(device, "warp", 32, x, random.integers(0, 99, x.shape).astype(np.int16), 1, 20, descending=descending)


@pytest.mark.parametrize(("threads", "extent", "k"), [(64, 200, 5), (128, 250, 32), (32, 1, 1)])
def test_rows_that_several_warps_share(device: Device, threads: int, extent: int, k: int) -> None:
    random = np.random.default_rng(2)
    x, v = random.normal(size=extent).astype(np.float32), np.arange(extent)
    need_sorted(device, "cta", threads, x, v, 0, k, descending=True)


@pytest.mark.long
@pytest.mark.parametrize(("threads", "extent", "k"), [(64, 1000, 5), (256, 2048, 64), (128, 2048, 2048)])
def test_long_rows(device: Device, threads: int, extent: int, k: int) -> None:
    test_rows_that_several_warps_share(device, threads, extent, k)


@tj.kernel(threads=32)
def least_in_a_loop(X: tj.Tensor, Y: tj.Tensor, n: tj.int32, TILE: tj.constexpr):
    """The least elements of a long row: those so far, merged with those of each tile."""
    best = tj.sort(tj.cta.load(X[0:TILE]))
    for k in range(1, n):
        best = tj.sort(tj.cat(best, tj.cta.load(X[k * TILE : k * TILE + TILE]), axis=0))[0:TILE]
    tj.cta.store(Y[0:TILE], best)


def test_sorts_in_a_loop() -> None:
    x = np.random.default_rng(3).permutation(64 * 5).astype(np.int32)
    y = np.zeros(64, np.int32)
    with tj.use_device("sim"):
        least_in_a_loop[1](x, y, 5, TILE=64)
    np.testing.assert_array_equal(y, np.arange(64))


@tj.kernel(threads=64)
def of_empty_rows(Y: tj.Tensor):
    x = tj.cta.zeros((4, 0), tj.float32)
    s, w = tj.sort((x, x))
    tj.cta.store(Y[0:4, 0:4], tj.cat(tj.cat(s, w, axis=1), tj.cta.full((4, 4), 1, tj.float32), axis=1))
    assert tj.argsort(x, axis=0).shape[1] == 0
    v, i = tj.top_k(x, 2, axis=0)
    assert v.shape[0] == 2 and i.shape[1] == 0


def test_empty_rows_are_sorted() -> None:
    y = np.zeros((4, 4), np.float32)
    with tj.use_device("sim"):
        of_empty_rows[1](y)
    np.testing.assert_array_equal(y, 1)


@tj.kernel(threads=32)
def indices_of_all(X: tj.Tensor, V: tj.Tensor, A: tj.Tensor):
    tj.warp.store(A[0:1024], tj.argsort(tj.warp.load(X[0:1024]), descending=True))


@tj.kernel(threads=32)
def best_8(X: tj.Tensor, V: tj.Tensor, A: tj.Tensor):
    v, i = tj.top_k(tj.warp.load(X[0:1024]), 8)
    tj.warp.store(V[0:8], v)
    tj.warp.store(A[0:8], i)


def comparators(kernel: Any, x: Array) -> int:
    """The comparisons of 64-bit keys that run; the compiler writes some as minima, each with its maximum."""
    v, i = np.zeros(len(x), np.float32), np.zeros(len(x), np.int32)
    counts = tj.simulate(kernel, 1, x, v, i, checks=False).instructions
    np.testing.assert_array_equal(i[:8], stable_order(x, 0, descending=True)[:8])
    return sum(counts.get(name, 0) for name in ("setp.lt.u64", "setp.gt.u64")) or counts["min.u64"]


def test_the_best_of_many_need_few_comparators() -> None:
    x = np.random.default_rng(4).normal(size=1024).astype(np.float32)
    few, all_of_them = comparators(best_8, x), comparators(indices_of_all, x)
    assert all_of_them == 32 * (40 * 16 + 15 * 32)
    assert few <= 0.4 * all_of_them


def test_explain_tells_stages_exchanges_and_indices() -> None:
    x = tj.spec((1024,), tj.float32)
    text = str(best_8.explain(x, x, tj.spec((1024,), tj.int32), target="sm_90a"))
    assert "8 of 1024 in 10 stages, 5 exchanges, with indices, moves 1 tile along" in text
    assert "256 x sort.uint64" in text


LOAD = "x = tj.cta.load(A[0:32, 0:8])\n"
MISTAKES = [
    ("y = tj.sort(«A»)", "sort takes local tiles; got", "tj.cta.load"),
    ("y = tj.sort(x, axis=«2»)", "axis 2 is out of range for 2 dimensions", "the axes are -2 to 1"),
    ("y = tj.sort(«(x, x, x, x, x)»)", "sort can't take 5 tiles", "tj.argsort"),
    ("y = tj.sort(«(x, tj.cta.zeros((32, 4), tj.int32))»)", "the tiles have shapes (32, 8) and (32, 4)", "one shape"),
    ("v, i = tj.top_k(x, «9»)", "top_k of 9 elements of an axis of extent 8", "from 1 to 8"),
    ("v, i = tj.top_k(x, «0», axis=0)", "top_k of 0 elements of an axis of extent 32", "from 1 to 32"),
    ("v, i = tj.top_k(x[:, 0:0], «1»)", "top_k of 1 elements of an axis of extent 0", "leave top_k out"),
    ("i = «tj.argsort(tj.sum(x))»", "axis -1 is out of range for 0 dimensions", ""),
    ("v, i = tj.top_k(x, 3, largest=«n»)", "largest=", ""),
]


@pytest.mark.parametrize(("line", "message", "hint"), MISTAKES, ids=[line for line, _, _ in MISTAKES])
def test_mistakes_are_named(line: str, message: str, hint: str) -> None:
    error, marked = refused(kernel_text(LOAD + line), default_arguments())
    assert type(error) is tj.KernelTypeError
    assert message in error.message and hint in (error.hint or "")
    points_at(error, marked)
