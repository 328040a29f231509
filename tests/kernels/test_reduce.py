"""`tj.reduce` in kernels on the simulator against NumPy: open layouts and given ones, every scope, odd extents."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of

Array = np.ndarray


@tj.function
def composed(f, g):
    """f before g, of f(x) = ax + b."""
    a, b = f
    c, d = g
    return c * a, c * b + d


@tj.function
def welford(x, y):
    mean, squares, count = x
    other_mean, other_squares, other_count = y
    n = count + other_count
    d = other_mean - mean
    return mean + d * (other_count / n), squares + other_squares + d * d * (count * other_count / n), n


@tj.function
def online(x, y):
    greatest, total = x
    other, other_total = y
    m = tj.maximum(greatest, other)
    return m, total * tj.exp(greatest - m) + other_total * tj.exp(other - m)


@tj.function
def first_greatest(x, y):
    if y[0] > x[0]:
        return y
    return x


SCOPES = [("thread", 1), ("warp", 32), ("warpgroup", 256), ("cta", 128), ("cta", 100), ("cta", 6)]
MAPS = """def k(A, B, C, D):
    x = tj.{scope}.load(A[0:{rows}, 0:{columns}])
    y = tj.{scope}.load(B[0:{rows}, 0:{columns}])
    a, b = tj.reduce((x, y), {axis}, composed, keepdims=True)
    tj.{scope}.store(C[0:{kept[0]}, 0:{kept[1]}], a)
    tj.{scope}.store(D[0:{kept[0]}, 0:{kept[1]}], b)
"""


@pytest.mark.parametrize(("scope", "threads"), SCOPES)
@pytest.mark.parametrize("shape", [(30, 5), (7, 37), (1, 1000), (5, 64)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, (0, 1)], ids=str)
def test_maps_are_composed_in_order_on_every_scope(
    scope: str, threads: int, shape: tuple[int, int], axis: int | tuple[int, ...]
) -> None:
    if prod(shape) > 100 * threads:  # two of them fit the registers
        shape = (3, 15)
    axes = axis if isinstance(axis, tuple) else (axis,)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 50, shape).astype(np.int32) * 2 + 1, rng.integers(-5, 5, shape).astype(np.int32)
    kept = tuple(1 if d in axes else n for d, n in enumerate(shape))
    made = np.zeros(kept, np.int32), np.zeros(kept, np.int32)
    text = MAPS.format(scope=scope, rows=shape[0], columns=shape[1], axis=axis, kept=kept)
    with tj.use_device("sim"):
        tj.kernel(threads=threads)(source_of(text, composed=composed))[1](a, b, *made)
    flat = [x.transpose(*[d for d in (0, 1) if d not in axes], *axes).reshape(prod(kept), -1) for x in (a, b)]
    slope, shift = flat[0][:, 0], flat[1][:, 0]
    for c, d in zip(flat[0].T[1:], flat[1].T[1:], strict=True):
        slope, shift = c * slope, c * shift + d
    np.testing.assert_array_equal(made[0].ravel(), slope)
    np.testing.assert_array_equal(made[1].ravel(), shift)


@tj.kernel(threads=128)
def normalised(X: tj.Tensor, Y: tj.Tensor, rows: tj.constexpr, columns: tj.constexpr):
    x = tj.cta.load(X[0:rows, 0:columns])
    zeros, ones = tj.cta.zeros((rows, columns), tj.float32), tj.cta.full((rows, columns), 1, tj.float32)
    mean, squares, count = tj.reduce((x, zeros, ones), 1, welford, keepdims=True)
    tj.cta.store(Y[0:rows, 0:columns], (x - mean) / tj.sqrt(squares / count + 1e-5))


@pytest.mark.parametrize("shape", [(1, 1000), (7, 37), (33, 48)], ids=str)
def test_rows_are_normalised_with_welfords_mean_and_variance(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).normal(100, 2, shape).astype(np.float32)
    y = np.zeros_like(x)
    with tj.use_device("sim"):
        normalised[1](x, y, rows=shape[0], columns=shape[1])
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)


@tj.kernel(threads=64)
def softmax(X: tj.Tensor, Y: tj.Tensor, columns: tj.constexpr):
    row = tj.cta_id(0)
    x = tj.cta.load(X[row, 0:columns]).astype(tj.float32)
    greatest, total = tj.reduce((x, tj.exp(x - x)), 0, online)
    tj.cta.store(Y[row, 0:columns], tj.exp(x - greatest) / total)


@pytest.mark.parametrize(("columns", "dtype"), [(1000, np.float16), (5, np.float32), (129, np.float32)])
def test_softmax_in_one_reduction(columns: int, dtype: type) -> None:
    x = np.random.default_rng(2).normal(0, 4, (2, columns)).astype(dtype)
    y = np.zeros(x.shape, np.float32)
    with tj.use_device("sim"):
        softmax[2](x, y, columns=columns)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


@tj.kernel(threads=96)
def greatest_places(X: tj.Tensor, V: tj.Tensor, P: tj.Tensor, axis: tj.constexpr):
    x = tj.cta.load(X[0:13, 0:29])
    value, index = tj.reduce((x, tj.cta.indices((13, 29), axis)), axis, first_greatest)
    tj.cta.store(V[0:value.shape[0]], value)
    tj.cta.store(P[0:value.shape[0]], index)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64, np.uint64], ids=str)
def test_argmax_by_hand(axis: int, dtype: Any) -> None:
    x = np.random.default_rng(3).integers(0, 6, (13, 29)).astype(dtype)
    value, index = np.zeros(x.shape[1 - axis], dtype), np.zeros(x.shape[1 - axis], np.int32)
    with tj.use_device("sim"):
        greatest_places[1](x, value, index, axis=axis)
    np.testing.assert_array_equal(value, x.max(axis))
    np.testing.assert_array_equal(index, x.argmax(axis))


ROWS = tj.S[(32, 8) : (1 @ tj.laneid, 1)]
COLUMNS = tj.S[(4, 8, 8) : (8 @ tj.laneid, 1, 1 @ tj.laneid)]


@pytest.mark.parametrize("layout", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_tiles_with_a_given_layout_take_open_ones_along(layout: tj.TileLayout) -> None:
    def k(A, B, C):
        x = tj.warp.load(A[0:32, 0:8], layout=layout)
        a, b = tj.reduce((x, tj.warp.load(B[0:32, 0:8])), 0, composed)
        tj.warp.store(C[0, 0:8], a)
        tj.warp.store(C[1, 0:8], b)

    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 9, (32, 8)).astype(np.int32) * 2 + 1, rng.integers(0, 9, (32, 8)).astype(np.int32)
    c = np.zeros((2, 8), np.int32)
    with tj.use_device("sim"):
        tj.kernel(threads=32)(k)[1](a, b, c)
    slope, shift = a[0], b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        slope, shift = x * slope, x * shift + y
    np.testing.assert_array_equal(c, [slope, shift])


def test_explain_has_its_line() -> None:
    compiled = normalised.compile(tj.spec((7, 37), tj.float32), tj.spec((7, 37), tj.float32), rows=7, columns=37)
    text = str(compiled.explain())
    assert "cta.reduce" in text and "in_order" in text


def test_a_thread_sums_all_that_it_has() -> None:
    def k(A, B):
        B[0] = tj.sum(tj.thread.load(A[0:3, 0:5]))

    made = np.zeros(1, np.float32)
    with tj.use_device("sim"):
        tj.kernel(threads=1)(k)[1](np.arange(15, dtype=np.float32).reshape(3, 5), made)
    assert made == 105


@tj.function
def added(x, y):
    return x + y


@pytest.mark.parametrize(
    ("reduced", "dtype"),
    [
        ("tj.sum(x < n)", "int32"),
        ("tj.reduce(x, axis=0, combine=added)", "int8"),
        ("tj.reduce(x, axis=0, combine=added)", "int16"),
    ],
)
def test_a_thread_combines_a_thousand_integers(reduced: str, dtype: str) -> None:
    """Sums of integers have a canonical form, which must not become as deep as a tile has elements."""
    text = f"""
def k(O, n: tj.int32):
    x = (tj.thread.indices((1024,), 0) * n % 5).astype(tj.{dtype})
    O[0] = ({reduced}).astype(tj.int64)
"""
    made = np.zeros(1, np.int64)
    with tj.use_device("sim"):
        tj.kernel(threads=1)(source_of(text, added=added))[1](made, 3)
    x = (np.arange(1024) * 3 % 5).astype(dtype)
    # a user's function computes in the type of the tile, and wraps
    assert made[0] == ((x < 3).sum() if "<" in reduced else x.sum(dtype=dtype))


#: statements of a kernel of two warps in which m is the greatest element of X, of the CTA; what O then has
SCALARS = (
    ("tj.warp.store(O[w, 0:32], tj.warp.load(X[w, 0:32]) / m)", lambda x: x / x.max()),
    ("tj.thread.store(O[i // 32, i % 32], tj.thread.load(X[i // 32, i % 32]) - m)", lambda x: x - x.max()),
    ("y = tj.warp.load(X[w, 0:32])\n    y *= m\n    tj.warp.store(O[w, 0:32], y)", lambda x: x * x.max()),
    (
        "y = tj.warp.load(X[w, 0:32])\n"
        "    tj.warp.store(O[w, 0:32], tj.where(y > m - 9, tj.clamp(y, m - 3, m), m + 1))",
        lambda x: np.where(x > x.max() - 9, np.clip(x, x.max() - 3, x.max()), x.max() + 1),
    ),
    ("tj.warp.store(O[w, 0:32], tj.warp.load(X[w, 0:32]) * (m + tj.max(tj.warp.load(X[w, 0:32]))))",
     lambda x: x * (x.max() + x.max(1, keepdims=True))),
    ("tj.warp.store(O[w, 0:32], tj.warp.load(X[w, 0:32], mask=m > 1000, fill=m))", lambda x: x * 0 + x.max()),
    ("tj.warp.store(O[w, 0:32], tj.warp.load(X[w, 0:32]), mask=m > 1000)", lambda x: x * 0),
    ("tj.atomic.add(O[w, 0:32], tj.warp.load(X[w, 0:32]), mask=m > 3)", lambda x: x),
    ("O[w, i % 32] = tj.shuffle(m, 3) + tj.shuffle_xor(m, 1)", lambda x: x * 0 + 2 * x.max()),
    ("O[w, i % 32] = tj.shuffle(i.astype(tj.float32), tj.int32(m) % 7)", lambda x: x * 0 + [[63 % 7], [63 % 7 + 32]]),
    ("O[w, i % 32] = tj.uniform(m > 3, tj.cta).astype(tj.float32)", lambda x: x * 0 + 1),
)


@pytest.mark.parametrize(("statements", "meant"), SCALARS)
def test_a_ctas_reduction_is_a_scalar_beside_narrower_tiles(statements: str, meant: Any) -> None:
    text = f"""
def k(X, O):
    m = tj.max(tj.cta.load(X[0:2, 0:32]))
    w = tj.warp_id()
    i = tj.thread_id()
    {statements}
"""
    x = np.random.default_rng(0).permutation(64).reshape(2, 32).astype(np.float32)
    out = np.zeros_like(x)
    with tj.use_device("sim"):
        tj.kernel(threads=64)(source_of(text))[1](x, out)
    np.testing.assert_array_equal(out, meant(x).astype(np.float32))


def test_a_warps_reduction_is_no_scalar_beside_a_ctas_tile() -> None:
    def k(A, B):
        m = tj.max(tj.warp.load(A[tj.warp_id(), 0:32]))
        tj.cta.store(B[0:2, 0:32], tj.cta.load(A[0:2, 0:32]) / m)

    array = tj.spec((2, 32), tj.float32)
    with pytest.raises(tj.KernelTypeError, match="each of the 2 warps has its own"):
        tj.kernel(threads=64)(k).compile(array, array, target="sm_90")


@pytest.mark.parametrize(("scope", "threads"), SCOPES)
@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("shape", [(30, 5), (7, 37), (1, 200), (0, 3)], ids=str)
def test_results_are_written_to_memory(scope: str, threads: int, space: str, shape: tuple[int, int]) -> None:
    rows, columns = shape
    s, members = "S" if space == "global" else "s", {"thread": 1, "warp": 32, "warpgroup": 128}.get(scope, threads)
    text = f"""def k(A, S, G):
    def added(a, b):
        return a + b
    s = tj.alloc_shared((40, 2), tj.int32)
    x = tj.{scope}.load(A[0:{rows}, 0:{columns}])
    if tj.thread_id() < {members}:
        tj.{scope}.sum({s}[1 : {rows + 1}, 1], x, 1)
        tj.{scope}.reduce({s}[2 : {rows + 2}, 0:1], x, 1, added)
        tj.{scope}.argmax(G[0:1, 0:{rows}], x, axis=1)
    tj.cta_sync()
    if tj.thread_id() == 0:
        for i in range(1, {rows + 2}):
            for j in tj.static_range(2):
                S[i, j] = {s}[i, j]
"""
    random = np.random.default_rng(1)
    a, out, g = random.integers(0, 99, shape, np.int32), np.zeros((40, 2), np.int32), np.full((1, 40), 7, np.int32)
    filled = "tj.cta.fill(s, 0)\n    tj.cta_sync()\n    x = tj"
    source = text if space == "global" else text.replace("x = tj", filled, 1)
    tj.simulate(tj.kernel(threads=threads)(source_of(source)), 1, a, out, g)
    wanted = np.zeros_like(out)
    wanted[1 : rows + 1, 1] = wanted[2 : rows + 2, 0] = a.sum(1)
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(g[0, rows:], 7)
    np.testing.assert_array_equal(g[0, :rows], a.argmax(1) if rows else [])


def test_a_result_in_memory_has_the_reductions_type() -> None:
    k = tj.kernel(threads=32)(source_of("def k(A, B):\n    tj.cta.argmax(B[0:4], tj.cta.load(A[0:4, 0:4]), 1)\n"))
    with pytest.raises(tj.KernelTypeError, match="argmax of float32 gives int32; the destination is float32"):
        k.compile(tj.spec((4, 4), tj.float32), tj.spec((4,), tj.float32), target="sm_90a")
