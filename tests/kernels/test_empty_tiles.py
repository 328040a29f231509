"""Tiles without elements: what is computed from them is what NumPy computes, and nothing is read or written."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.support.marked import default_arguments, execute, kernel_text, points_at, refused
from tests.support.programs import source_of
from tilejit.runtime.device import Device

SHAPES = [(3, 0), (0, 3), (0, 0)]
SCOPES = ["thread", "warp", "cta"]


# an expression of x (float32), h (float16) and i (int32), all (M, N), and the same in NumPy
EXPRESSIONS = [
    ("tj.exp(x + h) * 2 - i", "np.exp(x + h) * 2 - i"),
    ("x.T @ y + 1", "(x.T @ y + 1).astype(np.float32)"),
    ("x + tj.{scope}.full((M, 1), 3, tj.float32)", "x + np.full((M, 1), 3, np.float32)"),
    ("tj.where(x < 1, x, h)", "np.where(x < 1, x, h.astype(np.float32))"),
    ("tj.{scope}.indices((M, N), axis=1)", "np.broadcast_to(np.arange(N, dtype=np.int32), (M, N))"),
    ("x[:, None].reshape((N, M))", "x[:, None].reshape((N, M))"),
    ("x[0:0, 0:0]", "x[0:0, 0:0]"),
    ("tj.cat(x, tj.{scope}.full((M, 2), 5, tj.float32), axis=1)", "np.concatenate([x, np.full((M, 2), 5)], axis=1)"),
    ("tj.split(x, 3, axis=1)[2]", "np.split(x, 3, axis=1)[2]"),
    ("tj.sum(x, axis=1)", "np.sum(x, axis=1)"),
    ("tj.sum(h, axis=0)", "np.sum(h, axis=0)"),
    ("tj.sum(i, dtype=tj.float32)", "np.sum(i, dtype=np.float32)"),
    ("tj.prod(x, axis=1, keepdims=True)", "np.prod(x, axis=1, keepdims=True)"),
    ("tj.prod(i, axis=(0, 1))", "np.prod(i, axis=(0, 1))"),
    ("tj.cumsum(h, axis=1, reverse=True)", "np.cumsum(h, axis=1)"),
    ("tj.cummax(i, axis=0, exclusive=True)", "i"),
    ("tj.any(x > 0, axis=1)", "np.any(x > 0, axis=1)"),
    ("tj.all(x > 0, axis=0)", "np.all(x > 0, axis=0)"),
]


def _text(scope: str, expression: str, shape: tuple[int, ...]) -> str:
    dims = ", ".join(f"0:{n}" for n in shape)
    place = f"OUT[{dims}]" if shape else "OUT[0:1]"
    made = "made" if shape else "made.reshape((1,))"
    return f"""def k(X, H, I, Y, OUT, M: tj.constexpr, N: tj.constexpr):
    x, h, i = tj.{scope}.load(X[0:M, 0:N]), tj.{scope}.load(H[0:M, 0:N]), tj.{scope}.load(I[0:M, 0:N])
    y = tj.{scope}.load(Y[0:M, 0:8])
    made = {expression.format(scope=scope)}
    tj.{scope}.store({place}, {made}.astype(OUT.dtype))
"""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("expression", "meaning"), EXPRESSIONS, ids=[e for e, _ in EXPRESSIONS])
def test_expressions_of_no_elements_are_numpys(expression: str, meaning: str, shape: tuple[int, int]) -> None:
    rows, columns = shape
    dtype = np.float16 if "@" in expression else np.float32
    x, h, i = np.zeros(shape, dtype), np.zeros(shape, np.float16), np.zeros(shape, np.int32)
    y = np.ones((rows, 8), np.float16)
    expected = eval(meaning, {"np": np, "x": x, "h": h, "i": i, "y": y, "M": rows, "N": columns})
    for scope in SCOPES:
        if "@" in expression and scope == "thread":
            continue
        k = tj.kernel(threads=64)(source_of(_text(scope, expression, np.shape(expected))))
        out = np.full((8,) * max(1, np.ndim(expected)), -7, np.asarray(expected).dtype)
        after = out.copy()
        after[tuple(slice(0, n) for n in np.shape(expected) or (1,))] = expected
        with tj.use_device("sim"):
            k[1](x, h, i, y, out, rows, columns)
        np.testing.assert_array_equal(out, after, err_msg=scope)


@tj.kernel(threads=64)
def everything(X: tj.Tensor, OUT: tj.Tensor, BINS: tj.Tensor, flags: tj.Tensor, N: tj.constexpr):
    s = tj.alloc_shared((8, 8), X.dtype)
    tj.cta.fill(s, 4)
    tj.cta_sync()
    tj.cta.copy(s[:, 0:N], X[0:8, 0:N])
    tj.cta.copy_async(s[0:N, :], X[0:N, 0:8])
    tj.cp_async.commit()
    tj.cp_async.wait(0)
    x = tj.cta.load(X[0:N, 0:8], mask=tj.cta.indices((N, 1), axis=0) < 2)
    for turn in range(X.shape[0]):
        if X[0, 0] > turn:
            x = x * 2
        else:
            x = tj.exp(x)
    rows = tj.cta.indices((N,), axis=0)
    gathered = tj.cta.load(X.at(rows)[:, 0:8])
    tj.cta.store(OUT.at(rows)[:, 0:8], gathered + x)
    before = tj.atomic.add(BINS.at(rows), 1)
    tj.atomic.max(BINS[0:N], before + tj.cta.full((N,), 9, tj.int32))
    tj.cta.store(OUT[0:8, 0:N], tj.cta.load(s[:, 3 : 3 + N]))
    total = 0.0
    for _turn in range(3):
        total += tj.sum(x)
    flags[tj.thread_id()] = total
    tj.cta_sync()
    tj.cta.store(OUT[0:8, 0:8], tj.cta.load(s) + tj.cta.load(OUT[0:8, 0:8]))


def test_operations_on_no_elements_touch_no_memory(device: Device) -> None:
    x, out = np.full((8, 8), 3, np.float32), np.ones((8, 8), np.float32)
    bins, flags = np.arange(8, dtype=np.int32), np.full(64, -1, np.float32)
    with tj.use_device(device.name):
        everything[1](x, out, bins, flags, 0)
    np.testing.assert_array_equal(out, np.full((8, 8), 5))
    np.testing.assert_array_equal(bins, np.arange(8))
    np.testing.assert_array_equal(flags, np.zeros(64))


def test_a_pinned_shape_without_rows_is_loaded_whole() -> None:
    k = tj.kernel(threads=64)(
        source_of("""def k(OUT, X: tj.Tensor = tj.spec((0, 4), tj.float32)):
    tj.cta.store(OUT[0:4], tj.sum(tj.cta.load(X), axis=0) + 1)
    tj.cta.store(X[:, 0:4], tj.cta.load(X.tile((0, 4), (0, 0))))
""")
    )
    out = np.zeros(4, np.float32)
    with tj.use_device("sim"):
        k[1](out, np.zeros((0, 4), np.float32))
    np.testing.assert_array_equal(out, np.ones(4))


@tj.kernel(threads=64)
def product(OUT: tj.Tensor):
    acc = tj.cta.full((16, 8), 2, tj.float32)
    acc += tj.cta.zeros((16, 0), tj.float16) @ tj.cta.zeros((0, 8), tj.float16)
    tj.cta.store(OUT[0:16, 0:8], acc)


def test_a_product_along_no_elements_adds_nothing() -> None:
    out = np.zeros((16, 8), np.float32)
    with tj.use_device("sim"):
        product[1](out)
    np.testing.assert_array_equal(out, np.full((16, 8), 2))


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_reduction_without_identity_is_refused_as_numpy_does(name: str, dtype: str) -> None:
    for shape, axis in [((3, 0), 1), ((0, 3), 0), ((0, 0), 0), ((0, 0), None)]:
        with pytest.raises(ValueError, match="zero-size array|empty sequence"):
            getattr(np, name)(np.zeros(shape, dtype), axis=axis)
        body = f"x = tj.cta.zeros({shape}, tj.{dtype})\ny = «tj.{name}(x, axis={axis})»"
        error, marked = refused(kernel_text(body), default_arguments())
        assert isinstance(error, tj.KernelTypeError) and f"{name} of no elements has no value" in error.message
        points_at(error, marked)
    namespace, _ = execute(kernel_text(f"y = tj.{name}(tj.cta.zeros((0, 3), tj.{dtype}), axis=1)"))
    namespace["k"].compile(*default_arguments())


REFUSED = [
    ("y = «tj.reduce(x, 0, helper)»", "no elements has no value: it reduces an empty axis of a tile of shape (0, 4)"),
    ("y = «tj.reduce((x, x), 0, helper)»", "reduce of no elements has no value"),
    ("y = «x.layout»", "x of shape (0, 4) has no elements and no layout"),
    ("y = «x.registers»", "x of shape (0, 4) has no elements and no layout"),
    ("A[0, 0] = «t[n, 0]»", "t of shape (0, 4) has no elements"),
    ("A[0, 0] = t[«0», 0]", "index 0 is outside dimension 0 of t, whose extent is 0"),
    ("y = «x + tj.cta.zeros((2, 4), tj.float32)»", "shapes (0, 4) and (2, 4) don't broadcast"),
    ("y = x.reshape(«(0, -1)»)", "can't reshape 0 elements to (0, -1)"),
    ("y = tj.cta.zeros(«(-1, 4)», tj.float32)", "extents can't be negative; got (-1, 4)"),
    ("y = tj.alloc_shared(«(0, 4)», tj.float32)", "extents must be positive; got (0, 4)"),
    ("y = tj.cta.load(A[«4:3»])", "this slice has extent -1; it can't be negative"),
]


@pytest.mark.parametrize(("statement", "words"), REFUSED, ids=[s for s, _ in REFUSED])
def test_what_needs_elements_is_refused_at_its_location(statement: str, words: str) -> None:
    sums = "a[0] + b[0], a[1] + b[1]" if "(x, x)" in statement else "a + b"
    before = f"""def helper(a, b):
    return {sums}
x = tj.cta.zeros((0, 4), tj.float32)
t = tj.thread.zeros((0, 4), tj.float32)
"""
    error, marked = refused(kernel_text(before + statement), default_arguments())
    assert words in error.message
    points_at(error, marked)


def test_only_operations_on_elements_are_in_the_kernel() -> None:
    made = everything.compile(
        tj.spec((8, 8), tj.float32), tj.spec((8, 8), tj.float32), tj.spec((8,), tj.int32), tj.spec((64,), tj.float32), 0
    )
    operations = [line.split()[0] for line in str(made.open_ir).splitlines() if line.startswith("  ")]
    moved = [name for name in operations if name.startswith("cta.") and name != "cta.sync"]
    assert moved == ["cta.fill", "cta.fill", "cta.add", "cta.copy", "cta.copy", "cta.add", "cta.copy"]
    assert operations.count("alloc") == 6, "a tile without elements is allocated"
