"""Integers at the ends of their types: the same bits as constants, scalars, parameters and tiles, and as in NumPy."""

from __future__ import annotations

import ast
from textwrap import indent
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import array, source_of, tile_ir
from tilejit.dtypes import DTYPES, DType, uint64
from tilejit.ir import walk
from tilejit.ir.nodes import Declare

INTEGERS = [d for d in DTYPES.values() if d.is_integer]
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def ends(dtype: DType) -> list[int]:
    info = np.iinfo(dtype.numpy)
    low, high, half = int(info.min), int(info.max), 1 << (info.bits - 2)
    near = {low, low + 1, low // 2, -1, 0, 1, 2, 5, 7, half - 1, half, high // 3, high - 1, high}
    return sorted(v for v in near if low <= v <= high)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    """Text of an integer expression of x, y and small literals, with at least one of the names."""
    if depth == 0:
        return draw(st.sampled_from(["x", "x", "y"]))
    left = draw(expressions(depth - 1))
    kind = draw(st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "min", "max", "-x", "abs"]))
    if kind in ("-x", "abs"):
        return f"(-{left})" if kind == "-x" else f"abs({left})"
    if kind in ("<<", ">>"):
        return f"({left} {kind} {draw(st.integers(0, 4))})"
    right = str(draw(st.integers(1, 9)))
    if kind not in ("//", "%") and draw(st.booleans()):
        right = draw(expressions(depth - 1))
    return f"{kind}({left}, {right})" if kind in ("min", "max") else f"({left} {kind} {right})"


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, DType, int, int]:
    dtype = draw(st.sampled_from([*INTEGERS, tj.int64, tj.int64]))
    text = draw(expressions(3))
    if draw(st.booleans()):
        text = f"{text} {draw(st.sampled_from(COMPARISONS))} {draw(expressions(1))}"
    x, y = (draw(st.sampled_from(ends(dtype))) for _ in range(2))
    return text, dtype, x, y


class _AsTiles(ast.NodeTransformer):
    """Calls of Python's functions of scalars as those of tiles."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        assert isinstance(node.func, ast.Name)
        name = {"min": "minimum", "max": "maximum", "abs": "abs"}[node.func.id]
        return ast.Call(ast.parse(f"tj.{name}", mode="eval").body, node.args, [])


def by_numpy(text: str, x: np.generic, y: np.generic) -> Any:
    with np.errstate(all="ignore"):
        # Python's own functions would return a literal as a plain int
        return eval(text, {"x": x, "y": y, "max": np.maximum, "min": np.minimum})


def computed(text: str, *args: Any) -> None:
    with tj.use_device("sim"):
        tj.kernel(threads=32)(source_of(text))[1](*args)


@given(cases())
def test_an_expression_has_one_value_however_its_operands_are_given(case: tuple[str, DType, int, int]) -> None:
    text, dtype, x, y = case
    a, b = dtype.numpy.type(x), dtype.numpy.type(y)
    want = np.asarray(by_numpy(text, a, b)).astype(np.int64)
    kept = np.array([a, b])
    tiles = ast.unparse(_AsTiles().visit(ast.parse(text, mode="eval")))
    for given_as, lines in {
        "loaded": ["x, y = X[0], X[1]", f"O[0] = tj.int64({text})"],
        "parameter": ["x, y = p, q", f"O[0] = tj.int64({text})"],
        "constant": [f"x, y = tj.{dtype}({x}), tj.{dtype}({y})", f"O[0] = tj.int64({text})"],
        "in a loop": ["x, y = X[0] * 0, X[0] * 0", "for i in range(2):", "    x, y = X[0], X[1]",
                      f"O[0] = tj.int64({text})"],
        "tile": ["x, y = tj.cta.load(X[0:1]), tj.cta.load(X[1:2])",
                 f"tj.cta.store(O[0:1], ({tiles}).astype(tj.int64))"],
    }.items():
        out = np.zeros(1, np.int64)
        body = lines if given_as == "tile" else ["if tj.thread_id() > 0:", "    return", *lines]
        computed(f"def k(X, O, p: tj.{dtype}, q: tj.{dtype}):\n" + "".join(f"    {line}\n" for line in body),
                 kept, out, a, b)
        assert out[0] == want, (given_as, text, dtype, x, y)


@given(cases())
@example(("((x - x) + 1) - 2", uint64, 0, 0))
def test_an_expression_is_an_index_a_loop_bound_and_the_start_of_a_region(case: tuple[str, DType, int, int]) -> None:
    text, dtype, x, y = case
    kept = np.array([x, y], dtype.numpy)
    value = int(by_numpy(text, *kept))
    values, out = np.arange(1, 17, dtype=np.int32), np.zeros(16, np.int32)
    computed(
        f"def k(X, A, O):\n    x, y = X[0], X[1]\n    e = tj.{dtype}({text})\n"
        "    tj.cta.store(O[0:4], tj.cta.load(A[e : e + 4]))\n"
        "    tj.cta.store(O[4:8], tj.cta.load(A.tile((4,), (e,))))\n"
        "    if tj.thread_id() == 0:\n        O[8] = A[e & 7]\n"
        "        n = 0\n        for i in range(e & 3, 5):\n            n += 1\n        O[9] = n\n",
        kept, values, out,
    )
    inside = [n + 1 if 0 <= n < 16 else 0 for n in [*range(value, value + 4), *range(4 * value, 4 * value + 4)]]
    assert out[:10].tolist() == [*inside, (value & 7) + 1, 5 - (value & 3)], (text, dtype, x, y)


def test_values_known_to_be_data_keep_their_tests() -> None:
    x = np.array([2**63 - 1, -(2**63), 2**62, -1, 0, 5])
    out = np.zeros((4, 6), np.int64)
    computed(
        "def k(X, O):\n    i = tj.thread_id()\n    if i < 6:\n        x = X[i]\n"
        "        O[0, i] = x + 1 > x\n        O[1, i] = x * 3 % 3\n"
        "        O[2, i] = tj.int64(tj.int32(x >> 32)) * 6148914691236517205 % 5\n"
        "        O[3, i] = (x & 7) * 4611686018427387904 >= 0\n",
        x, out,
    )
    with np.errstate(all="ignore"):
        wide = (x >> 32).astype(np.int32).astype(np.int64)
        want = [x + 1 > x, x * 3 % 3, wide * 6148914691236517205 % 5, (x & 7) * 2**62 >= 0]
    np.testing.assert_array_equal(out, np.array(want, np.int64))


@pytest.mark.parametrize(
    "fed", ["if p > 0:\n        i = p", "while i < p:\n        i = i + p", "i = i if p < 0 else p"]
)
def test_a_variable_that_data_reaches_is_data(fed: str) -> None:
    out = np.zeros(2, np.int64)
    computed(
        f"def k(O, p: tj.int64):\n    i = tj.cta_id(0)\n    {fed}\n"
        "    if tj.thread_id() == 0:\n        O[0] = i + 1 > i\n        O[1] = i * 3 % 3\n", out, 2**63 - 1,
    )
    assert out.tolist() == [0, (2**63 - 3) % 3]


@pytest.mark.parametrize(
    "region", ["A[s : s + 2, 0:4]", "A.tile((2, 4), (s, 0))", "A[s : s + 2, 1:3]", "A[0:2, s : s + 4]"]
)
@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("folded", [True, False])
def test_a_region_that_starts_at_the_end_of_int64_lies_outside(region: str, pinned: bool, folded: bool) -> None:
    values = np.arange(1, 65, dtype=np.int32).reshape(16, 4)
    parameter = "A: tj.Tensor = tj.spec((16, 4), tj.int32)" if pinned else "A"
    text = f"def k(X, O, {parameter}):\n    s = X[0]\n    x = tj.cta.load({region})\n    tj.cta.store(O[0:2, 0:4], x)\n"
    text = text.replace("0:4], x", "0:2], x") if "1:3" in region else text
    for start in (2**63 - 1, 2**63 - 4, 2**62, 2**61, 2**60, -(2**63), -(2**62), -(2**60)):
        out = np.zeros((2, 4), np.int32)
        # folding finds that the difference is 0, and the start a constant
        constant = f"s = X[0] - X[0] + tj.int64({start})"
        computed(text.replace("s = X[0]", constant) if folded else text, np.array([start]), out, values)
        assert not out.any(), start


@pytest.mark.parametrize("start", [2**64 - 1, 2**64 - 2, 2**64 - 4, 2**63 + 1, 2**63])
@pytest.mark.parametrize("cut", [False, True])
def test_a_region_that_starts_past_int64_lies_outside(start: int, cut: bool) -> None:
    values, out = np.arange(1, 65, dtype=np.int32).reshape(16, 4), np.zeros((16, 4), np.int32)
    text = (
        "def k(X, A, O):\n    u = X[0]\n"
        "    tj.cta.store(O[0:4, 0:2], tj.cta.load(A[u : u + 4, 0:2]))\n"
        "    tj.cta.store(O[u : u + 4, u : u + 3], tj.cta.load(A[0:4, 0:3]))\n"
        "    tj.cta.store(O[5, 0:4], tj.cta.load(A[u, 0:4]))\n"
        "    tj.cta.store(O[6, 0:4], tj.cta.load(A.tile((1, 4), (u, 0)))[0])\n"
    )
    if cut:
        text = (
            "def k(X, A, O):\n    u = X[0]\n"
            "    tj.cta.store(O[0:4, 0:2], tj.cta.load(A[2:12, 0:4][u : u + 4, 0:2]))\n"
        )
        with pytest.raises(tj.OutOfBoundsError, match="dimension 0 of a region of A"):
            computed(text, np.array([start], np.uint64), values, out)
    else:
        computed(text, np.array([start], np.uint64), values, out)
    assert not out.any()


@pytest.mark.parametrize("dtype", [tj.int64, tj.uint64])
@pytest.mark.parametrize("memory", ["shared", "local"])
@pytest.mark.parametrize(
    ("access", "number"),
    [
        ("s[u]", 2**32 + 1), ("s[u]", 2**62), ("tj.thread.load(s[u : u + 2])[1]", 2**33),
        ("tj.thread.load(s.tile((4,), (u,)))[0]", 2**30), ("tj.thread.load(s.tile((4,), (u,)))[0]", 2**32 + 1),
    ],
)
def test_an_index_past_32_bits_does_not_wrap_around(dtype: DType, memory: str, access: str, number: int) -> None:
    text = (
        f"def k(X, O):\n    s = tj.alloc_{memory}((16,), tj.int32)\n    i = tj.thread_id()\n    u = X[0]\n"
        f"    tj.thread.fill(s, 5)\n    O[i] = {access}\n"
    )
    with pytest.raises(tj.OutOfBoundsError, match=rf"index {number} is outside s\b"), tj.use_device("sim"):
        tj.kernel(threads=1)(source_of(text))[1](np.array([number], dtype.numpy), np.zeros(1, np.int32))


@pytest.mark.parametrize("dtype", [tj.int64, tj.uint64])
def test_the_number_of_a_barrier_does_not_wrap_around(dtype: DType) -> None:
    text = "def k(X):\n    b = tj.alloc_barrier(stages=4)\n    tj.cta.arrive(b[X[0]])\n"
    with pytest.raises(tj.OutOfBoundsError, match=rf"index {2**32 + 1} is outside b\b"):
        computed(text, np.array([2**32 + 1], dtype.numpy))


#: texts that change x, which is 1 at first, until it wraps around
GROWING = [
    "x = (x + 4) * 6364136223846793005 + 1442695040888963407",
    "x = (x << 62) + x",
    "for i in range(3):\n    x += 4611686018427387903",
    "for i in range(41):\n    x = x * 5",
    "for i in range(1, 31):\n    x *= i",
    "while x > 0:\n    x = x * 2 + 1\n    if x > 9223372036854775806:\n        break",
    "y = x\nfor i in range(100):\n    x, y = y, x + y",
    "for i in range(70):\n    if i % 2:\n        x *= 3\n    else:\n        for j in range(2):\n            x = x + x",
    "for i in range(9):\n    x = x ^ (x << 13)\n    x = x ^ (x >> 7)\n    x = x ^ (x << 17)\n    x = x * 2654435761",
]


@pytest.mark.parametrize("text", GROWING)
def test_what_outgrows_indices_wraps_around(text: str) -> None:
    results = ("x", "x + 1 > x", "x * 3 % 3", "x * 4 // 4", "x % 7", "x > 0")
    stores = "\n".join(f"O[{k}] = {result}" for k, result in enumerate(results))
    out = np.zeros(len(results), np.int64)
    inside = indent(f"{text}\n{stores}\n", " " * 8)
    computed(f"def k(O):\n    x = tj.cta_id(0) + 1\n    if tj.thread_id() == 0:\n{inside}", out)
    names: dict[str, Any] = {"x": np.int64(1), "O": np.zeros_like(out)}
    with np.errstate(all="ignore"):
        exec(f"{text}\n{stores}", names)
    np.testing.assert_array_equal(out, names["O"])


@pytest.mark.parametrize("text", ["x += n", "x = n - x", "x = max(x, n) // 2", "n = x * 8\n    x += 1"])
def test_loop_variables_that_are_sums_remain_indices(text: str) -> None:
    kernel = tile_ir(f"def k(A):\n  x = n = tj.cta_id(0)\n  while x < A.shape[0]:\n    {text}\n    A[x] = n\n", array())
    assert {var.data for var in (s.var for s in walk.each(kernel.body, Declare))} == {False}
