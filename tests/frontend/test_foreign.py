"""Names of other libraries and languages: each is refused with what is written here, which exists."""

from __future__ import annotations

import builtins
import math
import textwrap
import types

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, source_of, tile_ir
from tilejit import dtypes
from tilejit.errors import KernelTypeError, TilejitError
from tilejit.frontend.foreign import HOST, foreign_word, foreign_word_in, words
from tilejit.ops.elementwise import ELEMENTWISE

LIBRARIES = {"builtins": builtins, "math": math, "np": np}
NAMES = [word.name for word in words() if word.of == HOST]
#: what a kernel calls itself, by another way
CALLED = {"builtins.abs", "builtins.round"}
CALLS = [
    f"{library}.{name}"
    for library, module in LIBRARIES.items() for name in (*NAMES, *ELEMENTWISE) if hasattr(module, name)
]

#: values of the table's placeholders: tiles, and scalars
PRELUDES = (
    "x, y = tj.cta.load(A[0:8, 0:8]), tj.cta.load(A[8:16, 0:8])",
    "x, y = A[0, 0], A[0, 1]",
    "x, y = n, n + 1",
)
NAMED = """\
shape, dtype, axis, value, low, high = (8, 8), tj.float32, 0, 1, 0, 1
i, j, lane, mask, distance = n, n + 1, 3, 1, 2
s, full = tj.alloc_shared((16, 16), A.dtype), tj.alloc_barrier()
a = tj.cta.load(A[0:16, 0:16]).astype(tj.float16)
b = tj.cta.load(A[16:32, 0:16]).astype(tj.float16)
"""


def test_no_name_is_in_the_table_twice_or_is_an_operation() -> None:
    names = [word.name for word in words()]
    assert len(names) == len(set(names))
    assert not [word for word in words() if word.instead == f"tj.{word.name}"]


def test_functions_that_python_can_run_outside_are_those_that_a_library_has() -> None:
    assert set(NAMES) <= {call.partition(".")[2] for call in CALLS}


@pytest.mark.parametrize("word", words(), ids=[word.name for word in words()])
def test_what_is_written_instead_compiles(word) -> None:
    """As an expression or a statement, with tiles or with scalars in place of x and y."""
    written = word.instead.replace("place", "A.view(tj.int32)[i, j]").replace("A.at(", "V.at(")
    statement = written if written.startswith(("assert ", "print(", "for ")) else f"result = {written}"
    reasons = []
    for prelude in PRELUDES:
        text = textwrap.indent(f"{prelude}\n{NAMED}{statement}\n", "    ")
        try:
            types = array(rank=2), dtypes.int32, array()
            tile_ir(f"def k(A, n, V):\n{text}", *types, threads=128, cooperative=True)
            return
        except tj.TilejitError as error:
            reasons.append(f"{prelude}: {error}")
    raise AssertionError("\n".join(reasons))


@pytest.mark.parametrize("call", sorted({*CALLS} - CALLED))
def test_a_call_names_what_there_is_at_run_time(call: str) -> None:
    with pytest.raises(TilejitError) as caught:
        tile_ir(f"def k(A, x):\n    y = {call}(x)\n", array(), dtypes.float32, **LIBRARIES)
    library, _, alias = call.partition(".")
    word = foreign_word(getattr(LIBRARIES[library], alias).__name__)
    assert word is not None and word.hint in (caught.value.hint or "")
    assert caught.value.span is not None


# a statement, and what the help says
MISSING = [
    ("i = tj.program_id(0)", "write tj.cta_id(axis)"),
    ("i = tl.program_id(0)", "write tj.cta_id(axis)"),
    ("i = blockIdx.y", "write tj.cta_id(1)"),
    ("i = cuda.blockIdx.z", "write tj.cta_id(2)"),
    ("i = cuda.blockDim.x", "write tj.num_threads()"),
    ("i = threadIdx.x", "write tj.thread_id(): the threads of a CTA have one index"),
    ("__syncthreads()", "write tj.cta_sync()"),
    ("cuda.syncthreads()", "write tj.cta_sync()"),
    ("tj.syncthreads()", "write tj.cta_sync()"),
    ("i = tl.arange(0, 32)", "tj.cta.indices(shape, axis)"),
    ("i = tj.cta.arange(0, 32)", "tj.cta.indices(shape, axis)"),
    ("i = tj.block_id(0)", "write tj.cta_id(axis)"),
    ("i = cuda.grid(1)", "write tj.cta_id(0) * tj.num_threads() + tj.thread_id()"),
    ("s = cuda.shared.array((8, 8), tj.float32)", "write tj.alloc_shared(shape, dtype)"),
    ("x = tl.load(A)", "write tj.cta.load(A.tile(shape, (i, j)))"),
    ("x = tj.load(A)", "call it on the scope that executes it: tj.cta.load"),
    ("x = expf(A[0])", "write tj.exp"),
    ("x = np.sqrt(A[0])", "tj.sqrt"),
    ("x = sqrt(A[0])", "at run time, write tj.sqrt"),
    ("x = A[0:8].sum()", "tj.sum(x)"),
    ("x = A[0].to(tj.float16)", "write x.astype(dtype)"),
    ("i = tj.cta_id.y", "call it: tj.cta_id(1)"),
    ("i = tj.thread_id.x", "call it: tj.thread_id()"),
    ("x = tj.exp.x", "call it: tj.exp(x)"),
    ("i = cuda.popc(A[0])", "write tj.popcount(x)"),
    ("i = __clz(A[0])", "tj.clz"),
    ("i = __ffs(A[0])", "write 32 - tj.clz(x & -x): for 32 bits"),
    ("tj.atomic.inc(A[0], 1)", "write tj.atomic.add(A[i, j], 1)"),
    ("cuda.atomic.add(A, 0, 1)", "write tj.atomic.add(A[i, j], value)"),
    ("x = fabsf(A[0])", "tj.abs(x)"),
    ("x = __expf(A[0])", "write tj.fast.exp(x)"),
    ("i = tj.num_warps()", "write tj.num_threads() // 32"),
    ("x = tj.mma_sync(A, A)", "write a @ b"),
    ("x = wp.tile_load(A, 4)", "write tj.cta.load(A.tile(shape, (i, j)))"),
    ("x = tl.float32(A[0])", "write tj.float32"),
    ("x = tl.gather(A, 0)", "write tj.gather"),
    ("x = tl.associative_scan(A, 0, f)", "tj.scan(x, axis, combine) takes your own function"),
    ("i = other.load(A)", "assign it, or define it at the top of the module"),
]


@pytest.mark.parametrize(("statement", "hint"), MISSING, ids=[case[0] for case in MISSING])
def test_a_foreign_name_is_refused_with_ours(statement: str, hint: str) -> None:
    with pytest.raises(TilejitError) as caught:
        tile_ir(f"def k(A):\n    {statement}\n", array())
    assert hint in (caught.value.hint or ""), caught.value
    assert caught.value.span is not None


def numba() -> types.ModuleType:
    """What numba.cuda looks like."""
    cuda = types.ModuleType("numba.cuda")
    cuda.threadIdx = type("threadIdx", (), {})()
    cuda.shared = type("shared", (), {"array": staticmethod(lambda shape, dtype: None)})

    def grid(ndim):
        return ndim

    grid.__module__ = "numba.cuda"
    cuda.grid = grid
    return cuda


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("i = cuda.grid(1)", "write tj.cta_id(0) * tj.num_threads() + tj.thread_id()"),
        ("i = cuda.threadIdx.x", "write tj.thread_id()"),
        ("s = cuda.shared.array(32, tj.float32)", "write tj.alloc_shared(shape, dtype)"),
        ("i = cuda.syncwarp()", "write tj.warp_sync()"),
    ],
)
def test_so_are_names_of_a_library_that_is_imported(statement: str, hint: str) -> None:
    with pytest.raises(TilejitError) as caught:
        tile_ir(f"def k(A):\n    {statement}\n", array(), cuda=numba())
    assert hint in (caught.value.hint or ""), caught.value


def test_a_range_is_allowed_in_for_loops_only() -> None:
    with pytest.raises(tj.KernelSyntaxError, match="range can only be used in a for loop"):
        tile_ir("def k(A):\n    r = range(4)\n", array())


def test_outside_kernels_a_foreign_name_of_tilejit_says_what_kernels_write() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'program_id'; in a kernel, write tj\.cta_id\(axis\)"):
        tj.program_id  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        tj.nonsense  # noqa: B018


def test_a_word_of_two_parts_comes_before_one_of_them() -> None:
    assert foreign_word_in("cuda.shared.array").instead == "tj.alloc_shared(shape, dtype)"
    assert foreign_word("array") is None and foreign_word_in("nothing.like.it") is None


def test_shared_memory_can_be_printed_as_the_help_says() -> None:
    made = "x = tj.alloc_shared((8,), tj.float32)"
    with pytest.raises(KernelTypeError, match="print takes scalars, strings, local tiles and tuples") as caught:
        tile_ir(f"def k(A):\n    {made}\n    print(x)\n", array())
    assert caught.value.hint == "index it: print(A[i, j]), or load it: print(tj.cta.load(region))"
    for shown in ("print(x[0])", "print(tj.cta.load(x[0:8]))"):
        tile_ir(f"def k(A):\n    {made}\n    {shown}\n", array())


#: functions that the words say otherwise of some values, which a note names
NOTED = {"bitwise_count", "cbrt", "matmul", "fmax", "fmin", "fmod", "nan_to_num", "flip", "roll", "take", "pad"}
SPECIAL = [0.0, -0.0, 2.5, -0.5, 1e10, -1e10, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", sorted({*NAMES} - NOTED))
def test_what_is_written_instead_of_a_ufunc_gives_what_it_gives(name: str) -> None:
    function = getattr(np, name, None)
    if not isinstance(function, np.ufunc) or function.nout != 1:
        return
    draw = np.random.default_rng(3)
    floats = draw.uniform(-3, 3, (2, 8, 8)).astype(np.float32)
    floats[0].flat[: len(SPECIAL)] = SPECIAL
    for x, y in (floats, draw.integers(1, 9, (2, 8, 8)).astype(np.int32)):
        with np.errstate(all="ignore"):
            try:
                expected = function(*(x, y)[: function.nin])
            except TypeError:
                continue
        word = foreign_word(name)
        assert word is not None
        kernel = source_of(
            "def k(X, Y, O):\n    x, y = tj.cta.load(X[0:8, 0:8]), tj.cta.load(Y[0:8, 0:8])\n"
            f"    tj.cta.store(O[0:8, 0:8], ({word.instead}).astype(O.dtype))\n"
        )
        got = np.zeros((8, 8), expected.dtype)
        tj.simulate(tj.kernel(threads=32)(kernel), 1, x, y, got)
        np.testing.assert_allclose(got, expected, 1e-4, 1e-4)


@pytest.mark.parametrize("name", ["flip", "roll", "take"])
def test_a_vector_is_read_in_another_order(name: str) -> None:
    word = foreign_word(name)
    assert word is not None
    kernel = source_of(f"def k(A, O):\n    x = tj.cta.load(A[0:8])\n    tj.cta.store(O[0:8], {word.instead})\n")
    a, got = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    tj.simulate(tj.kernel(threads=32)(kernel), 1, a, got)
    np.testing.assert_array_equal(got, {"flip": a[::-1], "roll": np.roll(a, 1), "take": a}[name])
