"""What users of NumPy, CuPy and Triton bring along: NumPy's scalars and dtypes, grid functions, copies and pickles."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, tile_ir
from tilejit.dtypes import DTYPES, as_dtype, float16, float32
from tilejit.layout import layout_a, layout_c


@pytest.fixture(autouse=True)
def simulator(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


@tj.kernel(threads=1)
def adds(A, N: tj.constexpr, M=0):
    A[0] = N + M


def make_adds():
    @tj.kernel(threads=1)
    def adds(A, N: tj.constexpr):
        A[0] = 1

    return adds


A = np.zeros(4, np.float32)

#: ways to say a dtype
SPELLINGS = [
    way for d in DTYPES.values() for way in (d, d.name, d.numpy, d.numpy.type, d.numpy.name)
]


@pytest.mark.parametrize("way", SPELLINGS, ids=repr)
def test_a_dtype_has_many_names(way):
    dtype = as_dtype(way)
    assert dtype is not None and dtype.numpy == np.dtype(way if not isinstance(way, tj.DType) else dtype.numpy)
    assert tj.empty((3,), way).dtype is dtype
    assert tj.spec((3,), way).dtype is dtype
    assert tj.operand("global", (32,), way).dtype is dtype


@pytest.mark.parametrize(
    "other",
    [None, float, int, bool, complex, np.complex64, "complex64", "x", np.dtype(">f4"), object, 3, np.float32(1)],
)
def test_what_names_no_dtype(other):
    assert as_dtype(other) is None
    for make in (tj.spec, tj.empty, lambda shape, dtype: tj.operand("global", shape, dtype)):
        with pytest.raises(tj.TilejitError, match="is not an element type"):
            make((3,), other)


@pytest.mark.parametrize(
    "text",
    ["tj.alloc_shared((4,), np.float16)", "tj.alloc_local((4,), np.dtype('float16'))",
     "tj.alloc_shared((4,), 'float16')", "tj.thread.zeros((4,), HALF)",
     "tj.thread.zeros((4,), tj.float32).astype(np.float16)", "tj.thread.zeros((4,), tj.uint16).view(np.float16)",
     "tj.thread.zeros((4,), tj.uint16).view('float16')", "np.float16(n)",
     "n.astype(np.float16)", "n.astype('float16')", "tj.alloc_shared((4,), N)"],
)
def test_kernels_take_numpys_dtypes(text):
    source = (
        f"def k(A, n, N):\n    x = {text}\n    tj.static_assert(x.dtype == np.float16)\n"
        "    tj.static_assert(x.dtype == tj.float16)\n    A[0] = 1\n"
    )
    for constexpr in (np.float16, np.dtype("float16")):
        tile_ir(source, array(), float32, constexpr, HALF=np.dtype(np.float16))


def test_kernels_take_ml_dtypes():
    made = "x = tj.alloc_shared((4,), ml_dtypes.bfloat16)"
    source = f"def k(A):\n    {made}\n    tj.static_assert(x.dtype == tj.bfloat16)\n"
    tile_ir(source, array(), ml_dtypes=ml_dtypes)


def test_annotations_and_layouts_take_numpys_dtypes():
    @tj.kernel(threads=1)
    def typed(A, n: np.float16, m: np.int8):
        x: np.int32 = n
        A[0] = x + m

    assert [p.dtype for p in typed.parameters] == [None, tj.float16, tj.int8]
    a = A.copy()
    typed[1](a, 2.5, 3)
    assert a[0] == 5
    typed.compile(A, np.float16, tj.int8, target="sm_90a")
    assert layout_a((16, 16), np.float16) == layout_a((16, 16), float16)
    assert layout_c((16, 8), np.float32) == layout_c((16, 8), float32)
    assert tj.tcgen05.atom_layout("32x32b", 4, np.float16) == tj.tcgen05.atom_layout("32x32b", 4, float16)
    assert tj.Swizzle.for_dtype(np.float16, "128B") == tj.Swizzle.for_dtype(float16, "128B")


@pytest.mark.parametrize(
    ("number", "plain"),
    [(np.int32(3), 3), (np.uint8(3), 3), (np.float64(2.5), 2.5), (np.float32(2.5), 2.5), (np.bool_(True), True),
     ((np.int64(1), 2.0), (1, 2.0)), (ml_dtypes.bfloat16(2.5), 2.5)],
)
def test_a_numpy_scalar_is_the_constexpr_that_it_equals(number, plain):
    kernel = make_adds()
    kernel[1](A.copy(), number)
    kernel[1](A.copy(), plain)
    (variant,) = kernel.signatures
    value = dict(variant.signature.arguments)["N"].value
    assert value == plain and type(value) is type(plain)


@pytest.mark.parametrize("make", [lambda x: x, lambda x: (1, (x,))])
def test_a_nan_makes_one_signature(make):
    kernel = make_adds()
    for nan in (float("nan"), float("nan"), np.float32("nan"), -float("nan"), tj.nan):
        kernel[1](A.copy(), make(nan))
    assert len(kernel.signatures) == 1
    with tj.no_recompile():
        kernel[1](A.copy(), make(float("nan")))
    kernel[1](A.copy(), make(0.0))
    kernel[1](A.copy(), make(-0.0))
    assert len(kernel.signatures) == 3


GRIDS = [
    lambda: 4, lambda meta: meta["A"].shape, lambda meta: meta.A.shape[0], lambda m: (m.N, m["M"] + 1), lambda A, N: N,
    lambda A, M, times=2: (times,), lambda m, times=2: times * m.N, lambda *arguments: 1, lambda M, N, A: (N, 1, 1),
]


@pytest.mark.parametrize("grid", GRIDS)
def test_grid_functions(grid):
    a = A.copy()
    adds[grid](a, 3)
    adds[grid].bind(a, 3)()
    assert a[0] == 3


@pytest.mark.parametrize("grid", [lambda m: m["Q"], lambda m: m.Q, lambda A, Q: 1, lambda A, N, Q: 1])
def test_a_grid_function_that_asks_for_an_unknown_argument(grid):
    with pytest.raises(tj.LaunchError, match="has no argument 'Q'") as caught:
        adds[grid](A.copy(), 3)
    assert "A, N, M" in caught.value.hint


def test_a_grid_function_that_raises_is_named():
    def many(meta):
        return meta.N // meta.M

    with pytest.raises(tj.LaunchError, match="the grid function many raised ZeroDivisionError: ") as caught:
        adds[many](A.copy(), 3)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(tj.LaunchError, match="'x' is not a grid"):
        adds[lambda meta: "x"](A.copy(), 3)


@pytest.mark.parametrize("shape", [(2**60,), (2**70,), (2**31, 2**31), 2**62])
def test_an_array_that_is_too_large(shape):
    with pytest.raises(tj.ResourceError, match=r"an array of [\d,]+ bytes doesn't fit in the memory of sim") as caught:
        tj.empty(shape, tj.float32)
    assert caught.value.__cause__ is None and "in parts" in caught.value.hint


def test_a_kernels_copy_is_itself():
    assert copy.copy(adds) is adds
    assert copy.deepcopy({"kernels": [adds]})["kernels"][0] is adds
    local = make_adds()
    assert copy.deepcopy(local) is local


def test_a_kernel_is_pickled_by_its_module_and_name():
    assert pickle.loads(pickle.dumps((adds, 1)))[0] is adds
    words = r"adds can't be pickled: .*make_adds\.<locals>\.adds isn't this kernel"
    with pytest.raises(tj.LaunchError, match=words) as caught:
        pickle.dumps(make_adds())
    assert "at the top level of a module" in caught.value.hint


PROGRAM = """
import os
import numpy as np, tilejit as tj

@tj.kernel(threads=1)
def store(A):
    print("from the kernel", A[0] == 0)
    A[0] = 1

print("from the program")
os.system("echo from a child")
store[1](np.zeros(64, np.float32))
"""


def explained(tmp_path, *options, **pipes):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    command = [sys.executable, "-m", "tilejit", "explain", str(file), "--run", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **pipes)


def test_what_a_program_prints_is_not_mixed_with_what_explain_prints(tmp_path):
    out, error = explained(tmp_path, "--ptx").communicate(timeout=60)
    assert out.startswith("//") and ".entry store" in out and "from" not in out
    assert [f"from {who}" in error for who in ("the kernel", "the program", "a child")] == [True] * 3


def test_a_reader_that_has_seen_enough_gets_no_traceback(tmp_path):
    with explained(tmp_path, "--ptx") as process:
        process.stdout.close()
        error = process.stderr.read()
    assert "Traceback" not in error and "BrokenPipe" not in error
    assert process.returncode == 0
