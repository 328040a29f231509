"""Scalar types: weak literals, promotion, indices, facts, print and assert."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs import array, one_thread, run, statements, tile_ir
from tilejit import dtypes
from tilejit.dtypes import DTYPES, DType
from tilejit.errors import KernelTypeError
from tilejit.ir import nodes as ir


def type_of(expression: str, *types: DType) -> DType:
    """The type of an expression of x and y."""
    names = ["x", "y"][: len(types)]
    kernel = tile_ir(f"def k(A, {', '.join(names)}):\n    z = {expression}\n    A[0] = z\n", array(), *types)
    stored = statements(kernel.body, ir.Store)[0].value
    return stored.x.dtype if isinstance(stored, ir.Cast) else stored.dtype


@pytest.mark.parametrize(
    ("expression", "types", "result"),
    [
        ("x + 1", (dtypes.float16,), dtypes.float16),
        ("x * 0.1", (dtypes.bfloat16,), dtypes.bfloat16),
        ("x + 1", (dtypes.int8,), dtypes.int8),
        ("x + 1.5", (dtypes.int64,), dtypes.float32),
        ("x + 1", (dtypes.bool_,), dtypes.int32),
        ("x + y", (dtypes.int32, dtypes.int64), dtypes.int64),
        ("x + y", (dtypes.float16, dtypes.bfloat16), dtypes.float32),
        ("x + y", (dtypes.float16, dtypes.int64), dtypes.float16),
        ("x + y", (dtypes.float64, dtypes.float32), dtypes.float64),
        ("x / y", (dtypes.int32, dtypes.int32), dtypes.float32),
        ("x / 2", (dtypes.int32,), dtypes.float32),
        ("x // 2", (dtypes.int16,), dtypes.int16),
        ("x < y", (dtypes.int32, dtypes.float32), dtypes.bool_),
        ("x == 1", (dtypes.float16,), dtypes.bool_),
        ("not x", (dtypes.int32,), dtypes.bool_),
        ("x and y", (dtypes.int32, dtypes.int32), dtypes.int32),
        ("tj.exp(x)", (dtypes.int32,), dtypes.float32),
        ("tj.exp(x)", (dtypes.float16,), dtypes.float16),
        ("tj.where(x, 1, y)", (dtypes.bool_, dtypes.float64), dtypes.float64),
        ("1 if x > 0 else 2", (dtypes.int32,), dtypes.int32),
        ("1 if x > 0 else 2.5", (dtypes.int32,), dtypes.float32),
        ("1 if x > 0 else y", (dtypes.int32, dtypes.float16), dtypes.float16),
        ("int(x)", (dtypes.float32,), dtypes.int32),
        ("int(x)", (dtypes.int64,), dtypes.int64),
        ("float(x)", (dtypes.int32,), dtypes.float32),
        ("bool(x)", (dtypes.int32,), dtypes.bool_),
        ("max(x, 1, y)", (dtypes.int32, dtypes.float16), dtypes.float16),
        ("tj.int8(x)", (dtypes.float32,), dtypes.int8),
        ("x.astype(tj.float64)", (dtypes.float32,), dtypes.float64),
        ("tj.fma(x, 2, y)", (dtypes.float32, dtypes.float16), dtypes.float32),
        ("tj.cta_id(0) + x", (dtypes.int32,), dtypes.int64),
        ("tj.thread_id() + 1", (), dtypes.int32),
        ("A.shape[0]", (), dtypes.int64),
        ("2 * 3.5", (), dtypes.float32),
        ("x", (dtypes.uint32,), dtypes.uint32),
        ("x + y", (dtypes.int8, dtypes.uint8), dtypes.int16),
        ("x + y", (dtypes.uint32, dtypes.int8), dtypes.int64),
        ("x + y", (dtypes.int64, dtypes.uint32), dtypes.int64),
        ("x + y", (dtypes.uint64, dtypes.uint8), dtypes.uint64),
        ("x | y", (dtypes.int64, dtypes.uint8), dtypes.uint64),
        ("x ^ y", (dtypes.int8, dtypes.uint16), dtypes.uint16),
        ("x << y", (dtypes.int8, dtypes.uint64), dtypes.int8),
        ("x >> y", (dtypes.uint16, dtypes.int32), dtypes.uint16),
        ("x << y", (dtypes.int8, dtypes.int32), dtypes.int32),
        ("tj.exp(x) + y", (dtypes.int64, dtypes.uint64), dtypes.float32),
        ("tj.pow(x, y)", (dtypes.float32, dtypes.uint64), dtypes.float32),
    ],
)
def test_literals_are_weak_and_types_promote(expression: str, types: tuple[DType, ...], result: DType) -> None:
    assert type_of(expression, *types) == result


#: how a name starts, what a loop makes of it with x and y of two types, and its type in the loop
CARRIED = [
    ("0", "t + x", dtypes.float16, dtypes.float32),
    ("0.0", "t + x", dtypes.float16, dtypes.float32),
    ("0.0", "t + x", dtypes.bfloat16, dtypes.float32),
    ("0.0", "t + x", dtypes.float64, dtypes.float64),
    ("0.0", "t + 1", dtypes.float16, dtypes.float32),
    ("0.0", "t + x", dtypes.int32, dtypes.float32),
    ("0.0", "x", dtypes.int64, dtypes.float32),
    ("0", "t + 1", dtypes.float16, dtypes.int32),
    ("0", "t + 0.5", dtypes.float16, dtypes.float32),
    *(("0", "t + x", d, dtypes.int32) for d in (dtypes.int8, dtypes.int16, dtypes.uint8, dtypes.uint16, dtypes.int32)),
    *(("0", "t + x", d, d) for d in (dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.float32, dtypes.float64)),
    ("0", "x", dtypes.float16, dtypes.float32),
    ("0", "x > 0", dtypes.float16, dtypes.int32),
    ("0", "x if i > 2 else 1", dtypes.uint8, dtypes.int32),
    ("0", "t + x\n        t = t + tj.int64(1)", dtypes.int8, dtypes.int64),
    # what is overwritten in the same round counts too
    ("0", "tj.float64(x)\n        t = x", dtypes.float16, dtypes.float64),
    # an assignment in a branch converts, so that the paths agree
    ("0.0", "t + x\n        if i > 2:\n            t = x", dtypes.float16, dtypes.float32),
    ("0", "x\n        if i > 2:\n            t = tj.int64(i)\n        t = t + 1", dtypes.int32, dtypes.int64),
    ("0", "x\n        if i > 2:\n            t = tj.uint8(i)\n        t = t + 1", dtypes.int8, dtypes.int32),
    # a reset to a literal keeps the type
    ("0.0", "t + x\n        if i > 2:\n            t = 0\n            t = t + x", dtypes.float16, dtypes.float32),
    # what starts with a type is joined strictly, so it keeps it
    ("tj.int64(0)", "t + 1", dtypes.float16, dtypes.int64),
    ("tj.float16(0)", "t + x", dtypes.float16, dtypes.float16),
    ("False", "x > 0", dtypes.float16, dtypes.bool_),
]


@pytest.mark.parametrize(("start", "step", "x", "result"), CARRIED)
@pytest.mark.parametrize("around", ["", "for j in range(n):\n        "])
def test_a_literal_carried_round_a_loop_has_one_type_for_it(
    start: str, step: str, x: DType, result: DType, around: str
) -> None:
    inner = "    " if around else ""
    step = step.replace("\n", f"\n{inner}")
    loop = f"{around}for i in range(n):\n        {inner}t = {step}"
    text = f"def k(A, n, x):\n    t = {start}\n    {loop}\n    A[0] = t\n"
    kernel = tile_ir(text, array(), dtypes.int32, x)
    assert {s.var.dtype for s in statements(kernel.body, ir.Declare) if s.var.name.startswith("t")} == {result}


@pytest.mark.parametrize(
    ("start", "step", "x"),
    [("tj.float16(0)", "t + x", dtypes.float32), ("False", "x", dtypes.int32),
     ("-1", "x", dtypes.uint32), ("0", "x if i > 2 else tj.int8(i)", dtypes.uint64)],
)
def test_what_has_no_such_type_is_refused(start: str, step: str, x: DType) -> None:
    text = f"def k(A, n, x):\n    t = {start}\n    for i in range(n):\n        t = {step}\n    A[0] = t\n"
    with pytest.raises(KernelTypeError):
        tile_ir(text, array(), dtypes.int32, x)


def test_a_sum_of_float16_that_starts_as_a_literal_is_kept_in_float32() -> None:
    values, out = np.full(4096, 1.0, np.float16), np.zeros(1, np.float32)
    run("def k(A, OUT):\n    t = 0.0\n    for i in range(4096):\n        t += A[i]\n    OUT[0] = t\n", values, out)
    assert out[0] == 4096


def test_a_variable_that_never_changes_in_a_loop_stays_a_constant() -> None:
    text = (
        "def k(A, n):\n    w = 8\n    for i in range(n):\n"
        "        w = 8\n        tj.thread.fill(A[i : i + w], 0)\n    A[w] = 1\n"
    )
    kernel = tile_ir(text, array(), dtypes.int32)
    assert statements(kernel.body, ir.Declare) == []


NUMPY = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.remainder, "&": np.bitwise_and,
    "|": np.bitwise_or, "^": np.bitwise_xor, "<": np.less, "==": np.equal,
}


@given(
    st.sampled_from([d for d in DTYPES.values() if d.is_integer]),
    st.sampled_from(sorted(NUMPY)),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-100, 100),
)
def test_integer_arithmetic_is_numpys(dtype: DType, op: str, x: int, y: int) -> None:
    a, b = np.asarray(x).astype(dtype.numpy)[()], np.asarray(y).astype(dtype.numpy)[()]
    out = np.zeros(1, np.int64)
    run(f"def k(A, x, y):\n    A[0] = tj.int64(x {op} y)\n", out, a, b)
    with np.errstate(all="ignore"):
        expected = NUMPY[op](a, b)
    assert out[0] == np.asarray(expected).astype(np.int64)


def test_an_index_knows_what_divides_it_and_its_range() -> None:
    text = (
        "def k(A, n):\n    i = tj.cta_id(0)\n    at = i * 64\n"
        "    for j in range(0, 256, 16):\n        A[at + j] = 0\n"
    )
    kernel = tile_ir(text, array(), dtypes.int32)
    (at,) = [s.var for s in statements(kernel.body, ir.Let) if s.var.name == "at"]
    assert (at.multiple_of, at.dtype) == (64, dtypes.int64)
    (loop,) = statements(kernel.body, ir.For)
    assert (loop.var.multiple_of, loop.var.bounds) == (16, (0, 255))


def test_global_indices_are_int64_and_shared_ones_int32() -> None:
    text = "def k(A, n):\n    s = tj.alloc_shared((64,), A.dtype)\n    s[n] = 1\n    A[n] = s[tj.cta_id(0) % 64]\n"
    kernel = tile_ir(text, array(), dtypes.int32)
    stores = statements(kernel.body, ir.Store)
    loads = [s.value.place for s in statements(kernel.body, ir.Let) if isinstance(s.value, ir.Load)]
    assert [p.indices[0].dtype for p in (*(s.place for s in stores), *loads)] == [
        dtypes.int32, dtypes.int64, dtypes.int32,
    ]


def test_print_writes_text_and_scalars_as_python_does(capsys: Any) -> None:
    def kernel(A, n):
        print("n =", n, "at", 3, f"{2 + 3:03d}", sep="|")
        print()
        print("a", end="")
        print((1, "b"), True)

    thread = run(kernel, np.zeros(1, np.float32), 7)
    kernel(None, 7)
    assert thread.printed == capsys.readouterr().out


def test_assert_keeps_its_message_or_its_text() -> None:
    kernel = tile_ir(
        "def k(A, n):\n    assert n > 0, 'positive'\n"
        "    assert n < 9\n    assert True\n", array(), dtypes.int32)
    assert [s.message for s in statements(kernel.body, ir.Assert)] == ["positive", "n < 9"]


def test_a_scalar_is_converted_to_the_arrays_type_when_it_is_stored() -> None:
    out = np.zeros(2, np.float16)
    run("def k(A, n):\n    A[0] = n\n    A[1] = 1.5\n", out, 3)
    assert out.tolist() == [3, 1.5]


def test_constexpr_branches_leave_only_one_side() -> None:
    text = (
        "def k(A, N):\n    if N > 2:\n        A[0] = 1\n"
        "    else:\n        A[0] = nowhere\n    A[1] = 2 if N else nowhere\n"
    )
    kernel = tile_ir(text, array(), 3)
    assert statements(kernel.body, ir.If) == []


def test_none_and_in_are_compile_time_tests() -> None:
    text = (
        "def k(A, N):\n    if N is None:\n        A[0] = 1\n"
        "    if A.dtype in (tj.float16, tj.float32):\n        A[1] = 1\n"
        "    if A.shape[0] is not None and N not in (1, 2):\n        A[2] = 1\n"
    )
    assert len(statements(tile_ir(text, array(), None).body, ir.Store)) == 3


def test_the_threads_own_ids_are_specials() -> None:
    text = "def k(A):\n    if tj.elect():\n        A[tj.warp_id() * 32 + tj.lane_id()] = tj.num_ctas(0)\n"
    kernel = tile_ir(text, array(), threads=64)
    out = np.zeros(64, np.float32)
    one_thread(kernel, {"A": out}, 32, {"num_ctas.0": 5})
    assert out[32] == 5
    out[:] = 0
    one_thread(kernel, {"A": out}, 33, {"num_ctas.0": 5})
    assert not out.any()

