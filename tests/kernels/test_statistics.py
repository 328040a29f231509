"""`tj.mean`, `tj.var`, `tj.std`, `tj.broadcast_to` and `initial=` on the simulator, with all checks, against NumPy."""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times
from tests.support.programs import source_of
from tilejit.dtypes import DTYPES, DType
from tilejit.errors import KernelTypeError
from tilejit.testing import register_layouts

Array = np.ndarray

EXTENTS = st.sampled_from((1, 2, 3, 5, 7, 8, 13, 16, 31, 32))
SCOPES = st.sampled_from((("cta", 64), ("cta", 100), ("warp", 32), ("warpgroup", 128), ("thread", 1)))
NUMBERS = tuple(t for t in DTYPES if not t.startswith("float8"))


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, int, tuple[int, ...], str, tuple[int, ...], bool, object]:
    """Scope, threads, shape, element type, axes, keepdims, and a layout or None."""
    scope, threads = draw(SCOPES)
    shape, layout = tuple(draw(st.lists(EXTENTS, min_size=1, max_size=3))), None
    if scope != "thread" and draw(st.booleans()):
        layout, shape = draw(register_layouts(scope, threads=threads, rank=2))
    while prod(shape) > 16 * threads:
        shape = shape[:-1] if len(shape) > 1 else (shape[0] // 2,)
    axes = tuple(sorted(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
    return scope, threads, shape, draw(st.sampled_from(NUMBERS)), axes, draw(st.booleans()), layout


def numbers(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return (3 + rng.normal(size=shape)).astype(dtype.numpy)
    return rng.integers(0, 2 if dtype.kind == "bool" else 50, shape).astype(dtype.numpy)


def reduced(call: tuple, expression: str, x: Array, to: DType, **scalars: object) -> Array:
    """The result of `expression`, in which x, axes and keep are given, as a kernel computes it."""
    scope, threads, shape, _, axes, keeps, layout = call
    kept = tuple(1 if d in axes else n for d, n in enumerate(shape) if keeps or d not in axes)
    box, out = (", ".join(f"0:{n}" for n in extents) for extents in (shape, kept))
    stored = f"tj.{scope}.store(B[{out}], r)" if kept else "B[0] = r"
    given_layout = "" if layout is None else ", layout=LAYOUT"
    value = expression.format(axes=axes, keep=keeps)
    text = f"def k(A, B, {', '.join(scalars)}):\n    x = tj.{scope}.load(A[{box}]{given_layout})\n"
    text += f"    r = {value}\n    {stored}\n"
    b = np.zeros(kept or (1,), to.numpy)
    with tj.use_device("sim"):
        tj.kernel(threads=threads)(source_of(text, LAYOUT=layout))[1](x, b, *scalars.values())
    return b.reshape(kept)


def close(found: Array, exact: Array, bound: Array, to: DType) -> None:
    """bound: of the error before the result is rounded to `to`."""
    unit = float(ml_dtypes.finfo(to.numpy).eps)
    error = np.abs(found.astype(np.longdouble) - exact)
    assert np.all(error <= bound + unit * np.abs(exact)), (error / np.abs(exact)).max()


@settings(max_examples=times(0.3))
@given(call=calls(), name=st.sampled_from(("mean", "var", "std")), ddof=st.integers(0, 2))
def test_statistics_are_numpys(call: tuple, name: str, ddof: int) -> None:
    _, _, shape, type_name, axes, keeps, _ = call
    dtype = DTYPES[type_name]
    to = dtype if dtype.is_float else tj.float32
    count = prod(shape[d] for d in axes)
    ddof = min(ddof, count - 1)
    x = numbers(dtype, shape)
    extra = "" if name == "mean" else f"ddof={ddof}, "
    found = reduced(call, f"tj.{name}(x, axis={{axes}}, {extra}keepdims={{keep}})", x, to)
    wide = x.astype(np.longdouble)
    unit = 2.0**-52 if to == tj.float64 else 2.0**-23
    drift = (count + 2) * unit * np.abs(wide).mean(axis=axes, keepdims=keeps)
    if name == "mean":
        close(found, wide.mean(axis=axes, keepdims=keeps), drift, to)
        return
    var = wide.var(axis=axes, ddof=ddof, keepdims=keeps)
    bound = (count + 8) * unit * var + 4 * drift**2 * count / (count - ddof)
    if name == "var":
        close(found, var, bound, to)
    else:
        close(found, np.sqrt(var), np.sqrt(var + bound) - np.sqrt(var) + 2 * unit * np.sqrt(var), to)


@settings(max_examples=times(0.3))
@given(
    call=calls(), name=st.sampled_from(("max", "min", "sum", "prod")), initial=st.sampled_from((0, 1, 3, 40)),
    at_run_time=st.booleans(),
)
def test_the_initial_value_is_one_more_element(call: tuple, name: str, initial: int, at_run_time: bool) -> None:
    _, _, shape, type_name, axes, keeps, _ = call
    dtype = DTYPES[type_name]
    is_narrow = dtype.kind == "bool" or (dtype.is_integer and dtype.bits < 32)
    to = tj.int32 if name in ("sum", "prod") and is_narrow else dtype
    initial = min(initial, 1) if to.kind == "bool" else initial
    x = numbers(dtype, shape)
    if name == "prod" and dtype.is_float:
        x = np.sign(x - 3).astype(dtype.numpy)
    elif dtype.is_float:
        x = np.rint(x).astype(dtype.numpy)
    value = {"i": to.numpy.type(initial)} if at_run_time and to not in (tj.bfloat16, tj.bool_) else {}
    written = "i" if value else ("True", "False")[not initial] if to.kind == "bool" else initial
    found = reduced(call, f"tj.{name}(x, {{axes}}, initial={written}, keepdims={{keep}})", x, to, **value)
    wide = np.float64 if dtype.is_float else to.numpy.type
    exact = getattr(np, name)(x.astype(wide), axis=axes, keepdims=keeps, initial=wide(initial))
    np.testing.assert_array_equal(found, np.asarray(exact).astype(to.numpy))


@settings(max_examples=times(0.3))
@given(call=calls(), leading=st.lists(st.sampled_from((1, 2, 3)), max_size=2), wider=st.integers(1, 5))
def test_broadcast_to_repeats_elements(call: tuple, leading: list[int], wider: int) -> None:
    scope, threads, shape, type_name, _, _, layout = call
    dtype = DTYPES[type_name]
    to = (*leading, *(wider if n == 1 else n for n in shape))
    if layout is not None or prod(to) > 32 * threads:
        to = shape
    x = numbers(dtype, shape)
    box, out = (", ".join(f"0:{n}" for n in extents) for extents in (shape, to))
    text = f"def k(A, B):\n    x = tj.{scope}.load(A[{box}])\n"
    text += f"    tj.{scope}.store(B[{out}], tj.broadcast_to(x, {to}))\n"
    b = np.zeros(to, dtype.numpy)
    with tj.use_device("sim"):
        tj.kernel(threads=threads)(source_of(text))[1](x, b)
    np.testing.assert_array_equal(b, np.broadcast_to(x, to))


def test_empty_axes_give_the_initial_value_and_have_no_mean() -> None:
    text = """def k(B):
    x = tj.cta.zeros((3, 0), tj.float32)
    tj.cta.store(B[0:3], tj.max(x, 1, initial=-2.5))
    tj.cta.store(B[3:6], tj.sum(x, 1, initial=4))
    B[6] = tj.prod(x, initial=2)
    tj.cta.store(B[7:7], tj.mean(x, 0))
"""
    b = np.zeros(7, np.float32)
    with tj.use_device("sim"):
        tj.kernel(threads=32)(source_of(text))[1](b)
    assert b.tolist() == [-2.5, -2.5, -2.5, 4, 4, 4, 2]


def test_a_divisor_of_zero_is_numpys() -> None:
    b = np.zeros(2, np.float32)
    text = "def k(A, B):\n    x = tj.cta.load(A[0:4])\n    B[0] = tj.var(x, ddof=4)\n    B[1] = tj.std(x[0:1], ddof=3)"
    with tj.use_device("sim"):
        tj.kernel(threads=32)(source_of(text))[1](np.arange(4, dtype=np.float32), b)
    assert b[0] == np.inf and np.isnan(b[1])


def test_a_nan_is_in_every_statistic_and_halves_are_rounded_once() -> None:
    text = "def k(A, B):\n    x = tj.cta.load(A[0:2, 0:64])\n    tj.cta.store(B[0:2], tj.mean(x, 1))\n"
    a = np.full((2, 64), 60000, np.float16)
    a[1, 5] = np.nan
    b = np.zeros(2, np.float16)
    with tj.use_device("sim"):
        tj.kernel(threads=32)(source_of(text))[1](a, b)
    assert b[0] == np.float16(60000) and np.isnan(b[1])


@pytest.mark.parametrize(("line", "words"), [
    ("tj.mean(tj.cta.zeros((3, 0), tj.float32), 1)", "mean of no elements has no value"),
    ("tj.var(tj.cta.load(A[0:8]).astype(tj.float8_e5m2))", "var of float8_e5m2: fp8 is a storage type"),
    ("tj.std(A[0])", "std reduces a local tile"),
    ("tj.var(tj.cta.load(A[0:8]), ddof=1.5)", "ddof must be an integer"),
    ("tj.sum(tj.cta.load(A[0:8]), initial=tj.cta.load(A[0:8]))", "initial must be a number or a scalar"),
    ("tj.sum(tj.cta.indices((8,), 0), initial=A[0])", "initial is a float32; the reduction computes in int32"),
    ("tj.max(tj.cta.indices((8,), 0), initial=0.5)", "initial is a float32; the reduction computes in int32"),
    ("tj.broadcast_to(tj.cta.load(A[0:8]), (8, 3))", "doesn't broadcast to (8, 3)"),
    ("tj.broadcast_to(A[0], (8, 3))", "broadcast_to takes a local tile"),
    ("tj.broadcast_to(A[0:8], (8, 8))", "takes local tiles"),
])
def test_bad_calls_are_refused_with_a_place_and_a_hint(line: str, words: str) -> None:
    with pytest.raises(KernelTypeError) as caught:
        made = tj.kernel(threads=32)(source_of(f"def k(A):\n    x = {line}\n"))
        made.compile(tj.spec((32,), tj.float32), target="sm_90a")
    assert words in caught.value.message and caught.value.hint and caught.value.span is not None, str(caught.value)
