"""What users of NumPy, Triton and Numba write first: it works, or the help says what does, and that works."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, source_of, tile_ir
from tilejit import dtypes
from tilejit.errors import KernelTypeError, TilejitError

LOADED = "x = tj.cta.load(A[0:64, 0:128])\n    "


def read(body: str, **names: object) -> None:
    tile_ir(f"def k(A, X, I, n):\n    {body}\n", array(rank=2), array(), array(dtypes.int32), dtypes.int32,
            threads=128, **names)


@pytest.mark.parametrize("extents", ["64, 16, 4, 2", "(64, 16, 4, 2)", "shape=(64, 16, 4, 2)", "64, -1, 4, 2"])
def test_extents_of_reshape_are_arguments_or_a_tuple(extents: str) -> None:
    read(f"{LOADED}y = x.reshape({extents})\n    tj.static_assert(y.shape == (64, 16, 4, 2))")


@pytest.mark.parametrize("extents", ["8, 8", "(8, 8)", "8, N", "4, 4, 2, 2", "64", "8, 8, layout=L", "(8, 8), L"])
def test_extents_of_view_are_arguments_or_a_tuple(extents: str) -> None:
    made = "s = tj.alloc_shared((64,), tj.float32)"
    expected = (4, 4, 2, 2) if extents[0] == "4" else (64,) if extents == "64" else (8, 8)
    layout = tj.S[(8, 8) : (8, 1)]
    read(f"{made}\n    y = s.view({extents})\n    tj.static_assert(y.shape == {expected})", N=8, L=layout)


def test_a_reshape_moves_what_numpys_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")

    @tj.kernel(threads=64)
    def turned(A: tj.Tensor, B: tj.Tensor) -> None:
        tj.cta.store(B[0:8, 0:4, 0:2], tj.cta.load(A[0:64]).reshape(8, 4, 2))

    a, b = np.arange(64, dtype=np.float32), np.zeros((8, 4, 2), np.float32)
    turned[1](a, b)
    assert np.array_equal(b, a.reshape(8, 4, 2))


def test_sizes_lengths_and_threads_are_those_of_numpy_and_of_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")

    @tj.kernel
    def sizes(A: tj.Tensor, N: tj.Tensor) -> None:
        x = tj.cta.load(A[0:2, 0:8])
        tj.static_assert((x.size, len(x), A[0:2, 0:8].size, len(A[0, 0:4])) == (16, 2, 16, 4))
        if tj.thread_id() == 0:
            N[0] = A.size
            N[1] = len(A)
            N[2] = tj.num_threads()
            N[3] = 2.0

    n = np.zeros(4, np.int64)
    for threads in (32, 96):
        sizes[(1,), threads](np.zeros((5, 9), np.float32), n)
        assert n.tolist() == [45, 5, threads, 2]


def test_what_python_computes_of_a_helpers_results_is_read_once() -> None:
    @tj.function
    def counted(N: tj.Tensor) -> tuple[int, int]:
        N[0] += 1
        return 3, 4

    @tj.kernel(threads=1)
    def k(N: tj.Tensor) -> None:
        N[1] = len(counted(N))
        N[2] = max(counted(N))
        N[3] = min((7,))

    n = np.zeros(4, np.int32)
    k[1](n)
    assert n.tolist() == [2, 2, 4, 7]


# what is written, and what the help says
WRITTEN = [
    ("x = tj.cta.load(X + tj.cta.indices((128,), 0))", "X.at(indices)"),
    ("x = X + 3", "X[i : i + N]"),
    ("x = X[tj.cta.indices((128,), 0)]", "tj.cta.load(X.at(indices))"),
    (f"{LOADED}x[x < 0.5] = 0", "tj.where(condition, x, y)"),
    (f"{LOADED}y = x[tj.cta.indices((64,), 0), 0:8]", "tj.gather(x, indices, axis)"),
    (f"{LOADED}y = x.sum()", "tj.sum(x)"),
    (f"{LOADED}y = x.mean()", "tj.mean(x)"),
    (f"{LOADED}y = x.std()", "tj.std(x)"),
    (f"{LOADED}y = np.var(x)", "tj.var(x)"),
    (f"{LOADED}y = tj.average(x)", "tj.mean(x)"),
    (f"{LOADED}y = np.broadcast_to(x, (2, 128))", "tj.broadcast_to(x, shape)"),
    (f"{LOADED}y = tj.softmax(x)", "tj.exp(x - tj.max(x)) / tj.sum("),
    (f"{LOADED}y = tj.where(x.astype(tj.int32), x, 0)", "compare it: mask != 0"),
    (f"{LOADED}y = tj.sum(x, dim=1)", "write axis="),
    ("y = tj.cta.load(A[0:64, 0:128], other=0.0)", "write fill="),
    ("y = A.tile(64, 128, n, 0)", "write each as a tuple: .tile((64, 128), (n, 0))"),
    ("y = A.tile(64, 128, n)", "write each as a tuple: .tile((rows, columns), (i, j))"),
    ("y = A.tile(*A.shape, n, 0)", "write each as a tuple: .tile((rows, columns), (i, j))"),
    (f"{LOADED}y = x.numel()", "write x.size"),
    ("y = A.at(tj.cta.indices(8, 0), tj.cta.indices(8, 0))", "slice the columns: A.at(rows)[:, 0:N]"),
    ("tj.atomic.add(I, n + 1, 2)", "write tj.atomic.add(I[n + 1], 2)"),
    ("tj.atomic.cas(I, n, 0, 1)", "write tj.atomic.cas(I[n], 0, 1)"),
    ("tj.atomic.add(I[0], 1.5)", "write int(1.5) to truncate it"),
    ("I[n] = 0.5", "write int(0.5) to truncate it"),
    ("s = 0.0\n    for k in range(n):\n        s += tj.cta.load(A[0:8, 0:8])",
     "begin with a tile: s = tj.cta.full((8, 8), 0.0, tj.float32)"),
    ("s = -tj.inf\n    for k in range(n):\n        s = tj.maximum(s, tj.cta.load(A[0:8, 0:8]))",
     "begin with a tile: s = tj.cta.full((8, 8), -tj.inf, tj.float32)"),
    ("s = tj.nan\n    for k in range(n):\n        s = tj.maximum(s, tj.cta.load(A[0:8, 0:8]))",
     "begin with a tile: s = tj.cta.full((8, 8), tj.nan, tj.float32)"),
    ("s = tj.shared.array(64, tj.float32)", "tj.alloc_shared(shape, dtype)"),
    ("s = tj.local.array(64, tj.float32)", "tj.alloc_local(shape, dtype)"),
    ("x = tj.libdevice.tanh(X[0])", "tj.tanh(x)"),
    (f"{LOADED}y = tj.view(x, (128, 64))", "x.reshape(shape)"),
    (f"{LOADED}y = tj.ravel(x)", "x.reshape(-1)"),
    (f"{LOADED}y = tj.histogram(x, 16)", "compute the number of the bin of each element"),
    ("for i in tj.range(8):\n        pass", "write for k in range(i): pass"),
    ("for k in tj.static_range(len(X)):\n        X[k] = 1", "loop over range(...)"),
    ("for x in X:\n        X[0] = x", "loop over range(len(X)) and index: X[i]"),
    (f"{LOADED}X[0] = tj.cta.sum(x)", "as a value: tj.sum(x)"),
    ("x = tj.cta.zeros(4, tj.float32)\n    for k in range(n):\n        x = tj.cat(x, x, 0)", "keep one shape"),
    (f"{LOADED}y = x if n > 0 else 0.0", "write tj.cta.full((64, 128), 0.0, tj.float32)"),
    (f"{LOADED}y = x ^ 2", "a power is x ** y"),
    ('print("x=%f" % X[0])', "to print a string, write print('x =', x)"),
    ("X[tj.cta.indices((8,), 0)] = 1.0", "tj.cta.store(X.at(indices), x)"),
    ("X[tj.thread_id] = 1.0", "call it, and index with the result"),
    ("if X:\n        X[0] = 1.0", "test for the argument: X is not None"),
    ("s = tj.alloc_shared((64,), tj.float32)\n    s.fill(0)", "tj.cta.fill(s, ...)"),
    (f"{LOADED}x.registers[0] = 3", "rebind the name: x = tj.where(condition, value, x)"),
    ("with X:\n        pass", "leave it out"),
    (f"{LOADED}y = x.astype(int)", "write tj.int32"),
    ("x = tj.cta.load(X[0:64])\n    y = x.view(tj.int16)", "tj.cta.load(A.view(tj.int16)[...])"),
    ("y = X[0].view(tj.int16)", ".astype(dtype) converts the value"),
    (f"{LOADED}y = tj.max(x, 0.5)", "tj.maximum(a, b)"),
    ("def f(x):\n        y = x\n    X[0] = f(1.0)", "a function without return returns None"),
    ("def f(x):\n        if x > 0:\n            return x\n    X[0] = f(X[1])", "on every path"),
    ("acc = tj.cta.zeros((16, 8), tj.float32)\n    tj.cta.fill(acc, 1)", "acc += a @ b"),
    ("y = X[n : n + 64].view((8, 8))", "X: tj.Tensor = tj.spec(shape, dtype)"),
    ("y = X.view(8, 8)", "X: tj.Tensor = tj.spec(shape, dtype)"),
    ("x = tj.cta.load(X)", "X: tj.Tensor = tj.spec(...)"),
]


@pytest.mark.parametrize(("body", "hint"), WRITTEN, ids=[body.rpartition("\n")[2].strip() for body, _ in WRITTEN])
def test_a_habit_is_refused_with_what_works(body: str, hint: str) -> None:
    with pytest.raises(TilejitError) as caught:
        read(body)
    assert hint in (caught.value.hint or ""), caught.value


def test_what_is_not_built_is_refused_by_its_name_elsewhere() -> None:
    with pytest.raises(KernelTypeError, match=r"tilejit\.grid_wait, which .* is not available"):
        read(f"{LOADED}tj.grid_wait()")


def test_a_decorator_below_tj_kernel_is_refused_with_advice_to_move_it_up() -> None:
    def logged(fn: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(fn)
        def call(*args: object) -> None:
            fn(*args)

        return call

    with pytest.raises(tj.KernelSyntaxError, match="put @tj.kernel right above the def"):

        @tj.kernel
        @logged
        def k(A: tj.Tensor) -> None:
            A[0] = 1


def test_a_spec_as_an_annotation_is_refused_with_advice_to_make_it_a_default() -> None:
    def k(A: tj.spec((64, 16), tj.float32)):  # type: ignore[valid-type]
        A[0, 0] = 1

    with pytest.raises(KernelTypeError, match="must be the default of a parameter") as caught:
        tj.kernel(k)
    assert "A: tj.Tensor = tj.spec((64, 16), tj.float32)" in (caught.value.hint or "")


@pytest.mark.parametrize("threads", [32, 64, 96, 128, 256])
@pytest.mark.parametrize("scope", ["cta", "warp"])
def test_the_recipe_for_float32_factors_compiles_unchanged(threads: int, scope: str) -> None:
    loaded = f"""
    a = tj.{scope}.load(A[0:48, 0:32])
    b = tj.{scope}.load(A[0:32, 0:64])
    """
    text = f"def k(A, C):{loaded}%s\n"
    with pytest.raises(KernelTypeError) as caught:
        tile_ir(text % "acc = a @ b", array(rank=2), array(rank=2), threads=threads)
    recipe = (caught.value.hint or "").partition("write ")[2].partition(", or ")[0]
    followed = text % f"acc = {recipe}; tj.{scope}.store(C[0:48, 0:64], acc)"
    arrays = tj.spec((64, 64), tj.float32), tj.spec((64, 64), tj.float32)
    tj.kernel(threads=threads)(source_of(followed)).compile(*arrays, target="sm_90a")
