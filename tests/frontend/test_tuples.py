"""Python's functions of tuples, which may hold run-time values and tiles."""

from __future__ import annotations

from contextlib import nullcontext
from textwrap import indent
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, source_of, tile_ir
from tilejit import dtypes
from tilejit.frontend import KernelSource

#: texts that mean the same in Python and in a kernel: they set `y`, from numbers i, j and k
TEXTS = [
    "y = len((i, j, k)) + len(()) + len(((i, j), k))",
    "y = len((i,) + (j, 1.5))",
    "y = sum((i, j, 3)) * sum(()) + sum((i, j), k) + sum((1, 2, 3))",
    "y = sum((i, j), start=k) + sum((1, 2), start=3)",
    "y = 0\nfor n, w in enumerate((i, j, k)):\n    y += (n + 1) * w",
    "y = 0\nfor n, (p, q) in enumerate(((i, 2), (3, j)), 4):\n    y += n * p - q",
    "y = 0\nfor n, w in enumerate((i, j), start=k0):\n    y += n * w",
    "y = 0\nfor p, q in zip((i, 2, 3), (j, k)):\n    y += p * q",
    "y = 0\nfor p, (q, r) in zip((i, 2), zip((j, k), (5, i))):\n    y += p * q + r",
    "y = 0\nfor p, q in zip((i, j), (k, 1), strict=True):\n    y = y * p + q",
    "y = 0\nfor w in reversed((i, j, k)):\n    y = y * 10 + w",
    "t = tuple(zip((i, j), (k, 4)))\ny = t[1][0] * len(t) + t[0][1]",
    "y = 0\nfor n, w in reversed(tuple(enumerate((i, j, k)))):\n    y = y * 10 + n * w",
    "items = ()\nfor n in STATIC(3):\n    items += (i * n,)\ny = 0\nfor n in STATIC(1, len(items)):\n    y += items[n]",
    "y = len(STATIC(1, 9, 2))\nfor n, w in zip(STATIC(5), (i, j)):\n    y += n * w",
    "y = len(tuple(zip())) + len(tuple(enumerate(()))) + i",
    "y = min((i, j, k)) + max((i, j))",
    "y = 0\nfor n, w in zip((i, j), 'ab'):\n    y = y * 2 + (n if w == 'b' else k)",
    "y = sum([n * w for n, w in enumerate((i, j, k))])",
    "t = tuple(i * n for n in STATIC(5) if n % 2)\ny = t[0] + t[1] * len(t)",
    "y = max(a * b for a in (i, j) for b in (a, k) if True)",
    "n = k\nt = [n + i for n in (1, 2)]\ny = n * t[1] + len([n for n in (n, n) for n in (n, 3, 4)])",
    "y = 0\nfor n in STATIC(3):\n    y += sum([n * m for m in STATIC(n)])\n    y += n",
    "n = 2\nwhile n < 40:\n    n += sum([n for n in (n, i * i)])\ny = n",
    "f = lambda a, b=j: a * b - i\ny = f(k) + f(2, 3) + f(b=4, a=k)",
    "f = lambda a: lambda b: a * 10 + b\ny = f(i)(j)",
    "fs = [lambda a: a * n + i for n in (2, 3)]\ny = fs[0](k) + fs[1](j)",
    "fs = [lambda a, n=n: a * n for n in (2, 3)]\ny = fs[0](k) + fs[1](j)",
    "f = lambda: n\nn = i\ny = f()\nn = j\ny = y * 3 + f()",
    "y = (lambda i: i + 1)(k) + i",
    "y = (i in (3, j)) + 2 * (k in (1, 2)) + 4 * (i not in (i, 7)) + 8 * (k0 in (1, i, 2)) + 16 * (i in ())",
    "y = 1 if i in (j, 3) and k not in (4,) else 0",
    "y = 0\nfor n in (3, -2, 11):\n    if n in (i, k):\n        y += n",
    "y = 0\nfor m in range(3):\n    f = lambda a: a + m\n    y += f(i) * sum(f(w) for w in (j, m))",
    "f = lambda a: a + 1\ny = 0\nwhile f(y) < k:\n    y = f(y)\n    g = lambda: f(y)\n    y += g() % 2",
    "y = 0\nfor n in STATIC(2):\n    if i > n:\n        y += (lambda a: a * n, lambda a: a - n)[n](j)",
    "y = round(i / 2) + round(2.5 * j)",
]


def run(text: str, i: int, j: int, k: int) -> int:
    inside = indent(text.replace("STATIC", "tj.static_range"), "    ")
    kernel = tj.kernel(threads=1)(source_of(f"def k(Y, i, j, k, k0: tj.constexpr):\n{inside}\n    Y[0] = y\n"))
    y = np.zeros(1, np.int64)
    tj.simulate(kernel, 1, y, i, j, k, 2)
    return int(y[0])


@pytest.mark.parametrize("text", TEXTS)
def test_functions_of_tuples_give_what_python_gives(text: str) -> None:
    for i, j, k in ((3, 5, 7), (-2, 0, 11)):
        names: dict[str, Any] = {"i": i, "j": j, "k": k, "k0": 2, "STATIC": range}
        exec(text, names)
        assert run(text, i, j, k) == names["y"]


def test_tuples_of_tiles_and_of_arrays() -> None:
    @tj.kernel(threads=32)
    def k(X: tj.Tensor, Y: tj.Tensor, Z: tj.Tensor) -> None:
        tiles = ()
        for n in tj.static_range(3):
            tiles += (tj.cta.load(X[8 * n : 8 * n + 8]),)
        total = sum(tiles[1:], tiles[0]) * len(tiles)
        for n, (place, tile) in enumerate(zip((Y, Z), reversed(tiles))):  # noqa: B905
            tj.cta.store(place[0:8], tile + total * n)

    x = np.arange(24, dtype=np.float32)
    y, z = np.zeros((2, 8), np.float32)
    tj.simulate(k, 1, x, y, z)
    total = x.reshape(3, 8).sum(0) * 3
    np.testing.assert_array_equal(y, x[16:])
    np.testing.assert_array_equal(z, x[8:16] + total)


def test_comprehensions_and_lambdas_of_tiles() -> None:
    @tj.kernel(threads=32)
    def k(X: tj.Tensor, Y: tj.Tensor) -> None:
        tiles = [tj.cta.load(X[8 * n : 8 * n + 8]) for n in tj.static_range(3)]
        combine = lambda a, b: a * 2 + b  # noqa: E731
        total = tj.cta.zeros((8,), X.dtype)
        for tile in tiles:
            total = combine(total, tile)
        tj.cta.store(Y[0:8], total + tj.reduce(tiles[1], 0, lambda a, b: a + b))

    x, y = np.arange(24, dtype=np.float32), np.zeros(8, np.float32)
    tj.simulate(k, 1, x, y)
    np.testing.assert_array_equal(y, 4 * x[:8] + 2 * x[8:16] + x[16:] + x[8:16].sum())


def test_a_name_of_a_comprehension_or_lambda_is_not_captured() -> None:
    fn = source_of(
        "def k(A):\n    A[0] = sum([n for n in SIZES if n > n0]) + (lambda q, r=s: q + t)(1)\n    q = [x for x in x]\n"
    )
    heads = {chain[0] for chain in KernelSource.of(fn).references}
    assert heads == {"SIZES", "n0", "sum", "s", "t", "x"}


REFUSED = [
    ("for x in enumerate(A):\n        pass", "enumerate takes tuples; this is a global region", r"range\(len\(A\)\)"),
    ("for x, y in zip(n, (1, 2)):\n        pass", "zip takes tuples; this is a scalar", r"range\(n\)"),
    ("for x in zip((1, 2), (n,), strict=True):\n        pass", "zip: .*argument 2 is shorter", "as in Python"),
    ("for x in zip((1, 2), 3):\n        pass", "zip: 'int' object is not iterable", "as in Python"),
    ("for x in enumerate((1, n), (2,)):\n        pass", "enumerate: ", "as in Python"),
    ("for x in enumerate((1, n), n):\n        pass", "the start of enumerate must be a compile-time", r"i \+ n"),
    ("x = len(n)", "len runs at compile time; this is a scalar of int32", ""),
    ("x = any((n, 1))", "this is a tuple of 2 items", "index its items, or loop over them"),
    ("x = sum((n, 1), 2, 3)", "sum runs at", ""),
    ("x = sum((n, 1), initial=3)", "sum runs at", ""),
    ("x = len((n, 1), of=3)", "len takes no keyword arguments; got of", "by position"),
    ("x = abs(n, x=3)", "abs takes no keyword arguments; got x", "by position"),
    ("x = abs(n, **{})", r"abs takes no keyword arguments; got \*\*", "by position"),
    ("x = tj.cdiv(9, 4, c=n)", "tj.cdiv takes no keyword arguments; got c", "by position"),
    ("x = int(n, base=8)", "int runs at", ""),
    ("x = round(n / 3, 2)", "takes no ndigits", r"tj.round\(x \* 100\) / 100"),
    ("x = round(n / 3, ndigits=2)", "takes no ndigits", r"tj.round\(x \* 100\) / 100"),
    ("for x in n:\n        pass", "a for loop iterates over", r"loop over range\(n\)"),
    ("for x in tj.cta.load(A[0:8]):\n        pass", "a for loop iterates over", "compute with the whole tile"),
]


@pytest.mark.parametrize(("text", "words", "hint"), REFUSED)
def test_other_arguments_are_refused(text: str, words: str, hint: str) -> None:
    with pytest.raises(tj.TilejitError, match=words) as caught:
        tile_ir(f"def k(A, n):\n    {text}\n", array(), dtypes.int32)
    assert caught.match(hint) if hint else True




#: values that have a truth value in Python, but are no condition on numbers
NO_CONDITIONS = ("(A[0], 1)", "(A[0] > 0, A[1] > 0)", "((),)", "()", "'text'", "tj.int32", "None")
#: statements that need a condition `{}` at run time
CONDITIONAL = (
    "tj.wait(A[0], lambda v: {})", "x = tj.vote_any({})", "x = tj.vote_all({})", "x = tj.vote_ballot({})",
    "x = tj.where({}, 1, 2)", "tj.cta.store(A[0:8], tj.cta.load(A[8:16], mask={}))",
)


@pytest.mark.parametrize("statement", CONDITIONAL)
@pytest.mark.parametrize("value", NO_CONDITIONS)
def test_a_tuple_is_no_condition(statement: str, value: str) -> None:
    if "mask=" in statement and value == "None":
        pytest.skip("mask=None means that no mask is given")
    text = f"def k(A):\n    {statement.format(value)}\n"
    with pytest.raises(tj.KernelTypeError, match="a condition must be a scalar|returns nothing") as caught:
        tile_ir(source_of(text), array(dtypes.int32))
    assert caught.value.hint and caught.value.span is not None


@pytest.mark.parametrize("statement", ["assert (A[0] > 0, 'message')", "tj.static_assert((1 > 2, 'message'))"])
def test_a_condition_and_a_message_in_parentheses_are_refused(statement: str) -> None:
    with pytest.warns(SyntaxWarning) if statement.startswith("assert") else nullcontext():
        function = source_of(f"def k(A):\n    {statement}\n")
    with pytest.raises(tj.KernelTypeError, match="a tuple of values is always true"):
        tile_ir(function, array(dtypes.int32))
