"""`print` of tiles: once by each instance of the scope, whole or abbreviated, against nested lists of Python."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


def nested(x):
    """Nested lists as a kernel prints them, abbreviated if there are more than 64 elements."""

    def text(part, shortens):
        if part.ndim == 0:
            return str(part) if part.dtype == np.bool_ else f"{part.item():g}"
        items = [text(row, shortens) for row in part]
        if shortens and len(items) > 6:
            items = [*items[:3], "...", *items[-3:]]
        return f"[{', '.join(items)}]"

    return text(np.asarray(x), x.size > 64)


@tj.kernel(threads=64)
def instances(X: tj.Tensor):
    print("cta:", tj.cta.load(X[0:2, 0:3]), "at", tj.cta_id(0))
    print("warp", tj.warp_id(), tj.warp.load(X[0:2, 0:3]), sep="|", end=";\n")
    if tj.thread_id() == 5:
        print("thread", tj.thread.load(X[1, 0:3]))


def test_each_instance_of_the_scope_prints_once(capsys):
    instances[2](np.arange(6, dtype=np.int32).reshape(2, 3))
    lines = capsys.readouterr().out.splitlines()
    x = "[[0, 1, 2], [3, 4, 5]]"
    each = [f"warp|{k}|{x};" for k in range(2)] * 2
    assert sorted(lines) == sorted([f"cta: {x} at 0", f"cta: {x} at 1", *each, *["thread [3, 4, 5]"] * 2])


@tj.kernel(threads=64)
def parts(X: tj.Tensor, n: tj.int32):
    x = tj.cta.load(X[0:4, 0:8])
    print((x[1, 0:3], n, (x.T[0], "a")), x > 100, x[2:4, 6:8])


def test_tuples_views_and_comparisons(capsys):
    x = np.arange(32, dtype=np.float32).reshape(4, 8) * 4
    parts[1](x, 7)
    assert capsys.readouterr().out == (
        f"({nested(x[1, :3])}, 7, ({nested(x[:, 0])}, 'a')) {nested(x > 100)} {nested(x[2:, 6:])}\n"
    )


@tj.kernel(threads=96)
def one(X: tj.Tensor, M: tj.constexpr, N: tj.constexpr, SCOPE: tj.constexpr):
    if SCOPE == "cta":
        print(tj.cta.load(X[0:M, 0:N]))
    if SCOPE == "warp" and tj.uniform(tj.warp_id() == 1, tj.warp):
        print(tj.warp.load(X[0:M, 0:N]))
    if SCOPE == "thread" and tj.thread_id() == 40:
        print(tj.thread.load(X[0:M, 0:N]))


NUMBERS = [np.int8, np.int32, np.uint64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.bool_,
           ml_dtypes.float8_e4m3fn]


@settings(max_examples=times(0.3))
@given(st.sampled_from(((0, 3), (1, 1), (1, 64), (8, 8), (3, 7), (5, 13), (2, 40), (7, 1), (65, 1), (16, 5))),
       st.sampled_from(NUMBERS), st.sampled_from(("cta", "warp", "thread")))
def test_any_tile(shape, dtype, scope):
    from contextlib import redirect_stdout
    from io import StringIO

    rng = np.random.default_rng(shape[1])
    x = (rng.integers(0, 2, shape) if dtype is np.bool_ else rng.integers(0, 9, shape)).astype(dtype)
    if np.dtype(dtype).kind == "f" and x.size > 64:
        x[0, 0] = np.nan
    with redirect_stdout(StringIO()) as printed:
        one[1](x, *shape, scope)
    wide = x.astype(np.float32) if dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn) else x
    wanted = nested(wide)
    if x.size > 64:
        seen = tj.float32 if dtype is ml_dtypes.float8_e4m3fn else tj.spec((1,), dtype).dtype
        wanted += f" shape {shape} {seen} min {nested(wide.min())} max {nested(wide.max())}"
        wanted += f" nan {np.isnan(wide).sum()}" if seen.is_float else ""
    assert printed.getvalue() == f"{wanted}\n"


@tj.kernel(threads=64)
def in_a_loop(X: tj.Tensor):
    for i in range(3):
        print(tj.cta.load(X[i, 0:4]))


def test_iterations_do_not_race(capsys):
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    in_a_loop[1](x)
    assert capsys.readouterr().out.splitlines() == [nested(row) for row in x]


@tj.kernel(threads=64)
def divergent(X: tj.Tensor):
    x = tj.cta.load(X[0:4])
    if tj.thread_id() < 8:
        print(x)


@tj.kernel(threads=64)
def of_two_scopes(X: tj.Tensor):
    print(tj.cta.load(X[0:4]), tj.warp.load(X[0:4]))


def test_errors():
    x = np.zeros(4, np.float32)
    with pytest.raises(tj.DispatchError, match="needs all threads of its cta, but some may not reach it") as error:
        divergent.compile(x)
    assert error.value.span.text.strip() == "if tj.thread_id() < 8:" and error.value.hint
    with pytest.raises(tj.KernelTypeError, match="print can't combine a tile of a cta and a tile of a warp"):
        of_two_scopes.compile(x)


@tj.kernel(threads=32)
def many(X: tj.Tensor):
    t = tj.thread.load(X[0:40])
    if tj.thread_id() == 0:
        print(t)


def test_a_call_of_printf_has_at_most_32_arguments(capsys):
    x = np.arange(40, dtype=np.int32)
    many[1](x)
    assert capsys.readouterr().out == f"{nested(x)}\n"
    assert many.compile(x).ptx.count("vprintf, (") == 2
