"""`tj.scan`, `tj.cumsum` and the like in kernels on the simulator against NumPy, with all checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.marked import default_arguments, kernel_text, points_at, refused
from tests.support.profiles import times
from tests.support.programs import source_of
from tilejit.dtypes import DTYPES, from_numpy
from tilejit.ops.fold import CUMULATIVE, exclusive_start
from tilejit.testing import register_layouts

Array = np.ndarray

THREADS = {"thread": (1, 32), "warp": (32, 64), "warpgroup": (128, 256), "cta": (32, 96, 100, 128, 256, 6)}
EXTENTS = (1, 2, 3, 5, 7, 13, 31, 32, 33, 64, 97, 128, 211)


def prefixes(x: Array, axis: int, combine: Callable[[Any, Any], Any], *, reverse: bool, start: Any = None,
             exclusive: bool = False) -> Array:
    """Combine one element after the other."""
    rows = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1]
    made, before = [], start
    for row in rows:
        after = row if before is None else combine(before, row)
        made.append(np.broadcast_to(before, row.shape) if exclusive else after)
        before = after
    stacked = np.stack(made) if made else rows
    return np.moveaxis(stacked[:: -1 if reverse else 1], 0, axis).astype(x.dtype)


FORMULAS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}


def expected(name: str, x: Array, axis: int, *, reverse: bool, exclusive: bool) -> Array:
    """`tj.<name>` of an array, whose sums and products are exact."""
    source = from_numpy(x.dtype)
    assert source is not None
    record = CUMULATIVE[name]
    dtype, accumulates = record.result_type(source), record.accumulates_in(source)
    start = np.asarray(exclusive_start(record, dtype, accumulates)).astype(accumulates.numpy) if exclusive else None
    with np.errstate(all="ignore"):
        made = prefixes(x.astype(accumulates.numpy), axis, FORMULAS[name], reverse=reverse, start=start,
                        exclusive=exclusive)
        return made.astype(dtype.numpy)


VALUES = """def k(X, Y):
    x = tj.{scope}.load(X[{whole}], layout={layout})
    tj.{scope}.store(Y[{whole}], tj.{name}(x, {axis}, reverse={reverse}, exclusive={exclusive}))
"""
MEMORY = """def k(X, Y):
    tj.{scope}.{name}(Y[{whole}], X[{whole}], {axis}, reverse={reverse}, exclusive={exclusive})
"""
IN_PLACE = """def k(X, Y):
    s = tj.alloc_shared({shape}, X.dtype)
    tj.cta.copy(s, X[{whole}])
    tj.cta_sync()
    if tj.warp_id() == 0:
        tj.warp.{name}(s, s, {axis}, reverse={reverse}, exclusive={exclusive})
    tj.cta_sync()
    tj.cta.copy(Y[{whole}], s)
"""
NUMBERS = [t for t in DTYPES.values() if not t.is_fp8 and t.name != "barrier"]


@st.composite
def scans(draw: st.DrawFn) -> tuple[str, int, str, Array, dict[str, Any]]:
    """A kernel's text, its threads, the name of the scan, its source, and its parameters."""
    name, dtype = draw(st.sampled_from(sorted(FORMULAS))), draw(st.sampled_from(NUMBERS))
    scope = draw(st.sampled_from(sorted(THREADS)))
    threads = draw(st.sampled_from(THREADS[scope]))
    text = draw(st.sampled_from((VALUES, VALUES, MEMORY)))
    layout = None
    if text is VALUES and draw(st.booleans()):
        layout, shape = draw(register_layouts(scope, threads=threads, max_registers=16, rank=2, gaps=False))
    else:
        shape = tuple(draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=3)))
        most = 64 if scope == "thread" else 32 * threads
        while np.prod(shape) > most:
            shape = shape[:-1] if len(shape) > 1 else (most,)
    grown = dtype.name if CUMULATIVE[name].result_type(dtype) == dtype else ""
    if draw(st.integers(0, 4)) == 0 and scope in ("warp", "cta") and threads % 32 == 0 and grown and layout is None:
        text = IN_PLACE
    flags = {"axis": draw(st.integers(-len(shape), len(shape) - 1)), "reverse": draw(st.booleans()),
             "exclusive": draw(st.booleans())}
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    choices = [0, 1] if dtype.kind in ("bool", "uint") else [-1, 1] if name == "cumprod" else [-2, -1, 0, 1, 3]
    x = rng.choice(choices, shape).astype(dtype.numpy)
    if dtype.is_float and name in ("cummax", "cummin") and draw(st.booleans()):
        x[tuple(rng.integers(0, n) for n in shape)] = np.nan
    whole = ", ".join(f"0:{n}" for n in shape)
    named = {"scope": scope, "whole": whole, "name": name, "layout": "LAYOUT" if layout else None, "shape": shape}
    return text.format(**named, **flags), threads, name, x, {"layout": layout, **flags}


@settings(max_examples=times(0.5), deadline=None)
@given(scans())
def test_cumulative_operations_are_numpys(drawn: tuple[str, int, str, Array, dict[str, Any]]) -> None:
    text, threads, name, x, parameters = drawn
    layout = parameters.pop("layout")
    wanted = expected(name, x, **parameters)
    y = np.zeros_like(wanted)
    with tj.use_device("sim"):
        tj.kernel(threads=threads)(source_of(text, **({"LAYOUT": layout} if layout else {})))[1](x, y)
    np.testing.assert_array_equal(y, wanted)


@tj.function
def composed(f, g):
    """f before g, of f(x) = ax + b."""
    a, b = f
    c, d = g
    return c * a, c * b + d


MAPS = """def k(A, B, C, D, first: tj.int32):
    x = tj.{scope}.load(A[0:{rows}, 0:{columns}])
    y = tj.{scope}.load(B[0:{rows}, 0:{columns}])
    a, b = tj.scan((x, y), {axis}, composed, {reverse}, {exclusive}, {initial})
    tj.{scope}.store(C[0:{rows}, 0:{columns}], a)
    tj.{scope}.store(D[0:{rows}, 0:{columns}], b)
"""


@pytest.mark.parametrize(
    ("scope", "threads", "shape"),
    [("thread", 1, (3, 15)), ("warp", 32, (7, 37)), ("warpgroup", 256, (30, 5)), ("cta", 100, (5, 64)),
     ("cta", 128, (1, 1000))],
)
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize(("exclusive", "initial"), [(False, None), (False, "(first, 7)"), (True, "(first, 7)")])
def test_maps_are_composed_in_order_on_every_scope(
    scope: str, threads: int, shape: tuple[int, int], axis: int, exclusive: bool, initial: str | None
) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 50, shape).astype(np.int32) * 2 + 1, rng.integers(-5, 5, shape).astype(np.int32)
    for reverse in (False, True):
        made = np.zeros_like(a), np.zeros_like(a)
        text = MAPS.format(scope=scope, rows=shape[0], columns=shape[1], axis=axis, reverse=reverse,
                           exclusive=exclusive, initial=initial)
        with tj.use_device("sim"):
            tj.kernel(threads=threads)(source_of(text, composed=composed))[1](a, b, *made, 3)
        pairs = np.empty(shape, object)
        pairs[...] = [[(f, g) for f, g in zip(*row, strict=True)] for row in zip(a, b, strict=True)]
        start = None if initial is None else (np.int32(3), np.int32(7))
        with np.errstate(all="ignore"):
            for x, k in zip(made, range(2), strict=True):
                wanted = _maps(pairs, axis, reverse, start, exclusive)
                np.testing.assert_array_equal(x, np.vectorize(lambda pair, k=k: pair[k])(wanted))


def _maps(pairs: Array, axis: int, reverse: bool, start: Any, exclusive: bool) -> Array:
    made = np.empty_like(pairs)
    for row, out in zip(np.moveaxis(pairs, axis, -1), np.moveaxis(made, axis, -1), strict=True):
        before = start
        for i in range(len(row))[:: -1 if reverse else 1]:
            f, g = before, row[i]
            after = g if f is None else (np.int32(g[0] * f[0]), np.int32(g[0] * f[1] + g[1]))
            out[i] = before if exclusive else after
            before = after
    return made


@tj.function
def added(a, b):
    return a + b


@tj.kernel(threads=128)
def rows_of_any_length(X: tj.Tensor, Y: tj.Tensor, B: tj.constexpr):
    total = tj.float32(0)
    for start in range(0, X.shape[0], B):
        x = tj.cta.load(X[start : start + B])
        tj.cta.store(Y[start : start + B], tj.scan(x, 0, added, initial=total))
        total += tj.sum(x)


def test_a_run_time_initial_value_carries_a_row_on() -> None:
    x = np.random.default_rng(0).integers(-9, 9, 1000).astype(np.float32)
    y = np.zeros_like(x)
    with tj.use_device("sim"):
        rows_of_any_length[1](x, y, B=256)
    np.testing.assert_array_equal(y, np.cumsum(x))


def test_float16_sums_accumulate_in_float32_and_are_rounded_once() -> None:
    x = np.full((1, 4096), 1.0009765625, np.float16)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        values, y = x.astype(dtype), np.zeros((1, 4096), dtype)
        with tj.use_device("sim"):
            tj.kernel(threads=128)(source_of("def k(X, Y):\n    tj.cta.cumsum(Y[:, 0:4096], X[:, 0:4096], 1)\n"
                                             .replace("[:,", "[0:1,")))[1](values, y)
        np.testing.assert_array_equal(y, np.cumsum(values.astype(np.float64), 1).astype(np.float32).astype(dtype))


@tj.kernel(threads=256)
def counted(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr):
    tj.cta.store(Y[0:N], tj.cumsum(tj.cta.load(X[0:N]), 0))


@pytest.mark.parametrize("runs", [1, 2, 4])
def test_shuffles_and_barriers_are_those_of_the_formula(runs: int) -> None:
    """Each thread has `runs` runs of 4 elements: log2(32) + log2(8 warps) + 1 shuffles for each, and one barrier."""
    n = 1024 * runs
    x = np.arange(n, dtype=np.float32) % 7
    y = np.zeros_like(x)
    report = tj.simulate(counted, 1, x, y, N=n, target="sm_90a")
    np.testing.assert_array_equal(y, np.cumsum(x))
    threads = {name: count for name, count in report.instructions.items() if name.startswith(("shfl", "bar.sync"))}
    assert threads == {
        "shfl.sync.bfly.b32": (5 + 3) * runs * 256, "shfl.sync.idx.b32": runs * 256, "bar.sync": 256,
    }, threads


#: a statement that uses a tile x of 4 x 8 float32 -> the message and the hint
MISTAKES = [
    ("y = «tj.scan(x, 0, add, exclusive=True)»", "an exclusive scan needs initial=", "give it, or scan inclusively"),
    ("y = tj.scan((x, x), 0, both, initial=«0.0»)", "the scan combines 2 tiles", "a tuple of scalars"),
    ("y = tj.scan(x, «2», add)", "axis 2 is out of range", "the axes are -2 to 1"),
    ("y = tj.scan(«1.0», 0, add)", "scan takes local tiles", "pass a tile"),
    ("y = «tj.scan((x, x[0:1]), 0, both)»", "shapes (4, 8) and (1, 8)", "tiles of one shape"),
    ("y = tj.scan(«(x, x, x, x, x)», 0, both)", "can't take 5 tiles", "1 to 4"),
    ("y = tj.scan(x, 0, «3»)", "combine must be a @tj.function", "write @tj.function"),
    ("y = tj.cumsum(x, 0, reverse=«1»)", "reverse= takes bool", "True or False"),
    ("y = «tj.cumsum(x, 0, dtype=tj.int32)»", "cumsum of float32 gives float32", "convert the source first"),
    ("y = «tj.cumsum(x)»", "tj.cumsum", "its parameters: x, axis"),
    ("tj.cta.scan(«B[0:4, 0:8]», x > 0, 0, later)", "scan of bool_ gives bool_; the destination is float32", "change"),
    ("«tj.cta.scan((A[0:4, 0:8], A[4:8, 0:8]), x, 0, add)»", "1 sources and 2 destinations", "its own destination"),
    ("tj.cta.cumsum((A[0:4, 0:8], A[4:8, 0:8]), «(x, x)», 0)", "takes one tile", "once for each"),
    ("tj.cta.scan(«x», x, 0, add)", "result of an expression", "alloc_local"),
    ("tj.cta.scan(A[0:4, 0:8], «3», 0, add)", "a scan takes buffers and regions", "pass a tensor"),
]
HELPERS = """def add(a, b):
    return a + b
def both(a, b):
    return a[0] + b[0], a[1] + b[1]
def later(a, b):
    return b
x = tj.cta.load(A[0:4, 0:8])
"""


@pytest.mark.parametrize(("statement", "message", "hint"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_refused_at_its_place_with_advice(statement: str, message: str, hint: str) -> None:
    error, marked = refused(kernel_text(HELPERS + statement), default_arguments())
    assert message in error.message and hint in (error.hint or ""), error
    points_at(error, marked)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16, np.int64], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_gpu_gives_the_bits_of_the_simulator(dtype: type, reverse: bool) -> None:
    x = (np.random.default_rng(0).standard_normal((5, 1000)) * 9).astype(dtype)
    text = VALUES.format(scope="cta", whole="0:5, 0:1000", layout=None, name="cumsum", axis=1, reverse=reverse,
                         exclusive=False)
    made = []
    for device in ("sim", "cuda"):
        made.append(np.zeros_like(x))
        with tj.use_device(device):
            tj.kernel(threads=256)(source_of(text))[1](x, made[-1])
    np.testing.assert_array_equal(*made)
