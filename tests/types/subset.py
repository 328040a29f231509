"""The Python that kernels may use, as tables of the reference; the tests compile each row."""

from __future__ import annotations

import enum
import textwrap
from typing import NamedTuple

import tilejit as tj
from tests.support.programs import source_of
from tilejit.compiled import Compiled


class Pair(NamedTuple):
    x: tj.Tensor
    scale: tj.float32  # type: ignore[valid-type]


class Mode(enum.Enum):
    ADD = 1


@tj.function
def twice(x: tj.Scalar) -> tj.Scalar:
    return x + x


#: names in the examples, in addition to `tj`
NAMES = {"Mode": Mode, "Pair": Pair, "twice": twice, "SIZES": {"small": 8}}
PARAMETERS = "A: tj.Tensor, B: tj.Tensor, n: int, P: Pair, MODE: tj.constexpr"
ARGUMENTS = (
    tj.spec(64, tj.float32), tj.spec((8, 8), tj.float32), 3, Pair(tj.spec(64, tj.float32), 2.0), Mode.ADD
)

INTRODUCTION = (
    "Kernels and `@tj.function`s are written in a subset of Python. In these examples `A` and `B` are tensors of one "
    "and two dimensions, `n` is a scalar, `x = tj.cta.load(B[0:4, 0:8])`, `P` is a named tuple of a tensor and a "
    "scalar, and `MODE` is a constexpr. Anything else is an error at its line that says what to write instead."
)

#: a feature, and statements that use it
WORKS = (
    ("run-time control flow", "if n > 3 and n != 7: A[0] = 1.0\nelif n in (1, 2): return\nwhile n > 0: n -= 1"),
    ("`for` over `range`, with `break`, `continue`", "for k in range(n, 64, 2): A[k] = 1.0"),
    ("an unrolled loop, whose index is a constant", "for k in tj.static_range(4): A[k] = k / 2"),
    ("loops over tuples", "for k, (a, b) in enumerate(zip((1.0, 2.0), reversed((3.0, 4.0)))): A[k] = a * b"),
    ("a comprehension makes a tuple", "v = [A[k] for k in tj.static_range(8) if k != 3]; A[0] = sum(v) / len(v)"),
    ("tuples and unpacking", "a, (b, c) = A[0], (A[1], 2.0); A[0], A[1] = b, a * c"),
    ("conditional expressions, chained comparisons", "A[0] = 1.0 if 0 < n < 5 else 2.0"),
    ("functions of Python on scalars", "A[0] = min(n, 3) + abs(n) + int(A[1]) + round(A[2]) + max(n, 1)"),
    ("`@tj.function`s, nested functions and lambdas, also as arguments",
     "def scaled(v): return v * n\napply = lambda f, v: f(v); A[0] = apply(scaled, A[0]) + twice(A[1])"),
    ("captured numbers, strings, types, layouts, enum members, frozen dataclasses, tuples and dicts",
     'if MODE is Mode.ADD: A[0] = SIZES["small"]'),
    ("containers as arguments: tuples, named tuples, frozen dataclasses", "x, scale = P; A[0] = x[0] * scale + P.x[1]"),
    ("slices with a step; of a tile, also a negative one",
     "tj.cta.store(A[0:64:2], tj.cta.load(A[0:32])[::-1])"),
    ("a row, column or element of a tile at a run-time index",
     "tj.cta.store(A[0:8], x[n]); tj.cta.store(A[8:12], x[:, n]); A[12] = x[n, 1]"),
    ("`print`, also of tiles; f-strings of constants", 'print(f"{A.dtype}:", n, x, sep=" ", end=".\\n")'),
    ("`assert`, in checked builds", 'assert n > 0, "n must be positive"'),
)

#: what a kernel can't contain, and statements that do
REFUSED = (
    ("list, dict and set displays", "v = [A[0], A[1]]"),
    ("", 'v = {"a": A[0]}'),
    ("", "v = {1, 2}"),
    ("dict comprehensions", "v = {k: A[k] for k in tj.static_range(3)}"),
    ("`range` outside a `for` loop", "v = [A[k] for k in range(4)]"),
    ("loops over arrays and tiles", "for v in A: A[0] = v"),
    ("", "for v in x: A[0] = v[0]"),
    ("`else` of a loop", "for k in range(n): A[k] = 1.0\nelse: A[0] = 2.0"),
    ("a tile as a condition", "if x > 0: A[0] = 1.0"),
    ("assignment to an element of a tile", "x[0, 0] = 1.0"),
    ("a run-time index of a tuple", "A[0] = (1.0, 2.0)[n]"),
    ("negative indices", "A[0] = A[-1]"),
    ("negative steps of regions in memory", "tj.cta.store(A[0:8], tj.cta.load(A[7::-1]))"),
    ("starred items and arguments", "a, *rest = 1.0, 2.0, 3.0"),
    ("", "A[0] = max(*(1, n))"),
    ("", "def first(*v): return v[0]"),
    ("`:=`", "if (m := n) > 0: A[0] = m"),
    ("`nonlocal`, `global`", "def f(): nonlocal n\nf()"),
    ("", "global SIZES"),
    ("`map`, `filter`, `list`, `dict`", "v = map(abs, (n, n))"),
    ("f-strings of run-time values", 'print(f"n = {n}")'),
    ("recursion", "f = lambda k: 1 if k == 0 else f(k - 1); A[0] = f(3)"),
    ("`match`", "match n:\n    case 1: A[0] = 1.0"),
    ("exceptions", "try: A[0] = 1.0\nfinally: A[1] = 1.0"),
    ("", 'raise ValueError("n")'),
    ("`with`, `del`, `import`, `class`, `yield`", "with A: pass"),
    ("", "del n"),
    ("", "import math"),
    ("", "class C: pass"),
    ("", "yield n"),
)


def compiled(code: str) -> Compiled:
    """Compile a kernel with these statements for a GPU."""
    body = textwrap.indent(f"x = tj.cta.load(B[0:4, 0:8])\n{code}", "    ")
    kernel = tj.kernel(threads=32)(source_of(f"def k({PARAMETERS}):\n{body}\n", **NAMES))
    return kernel.compile(*ARGUMENTS, target="sm_90a")


def remedy(code: str) -> str:
    """Return the hint of the error with which the compiler refuses these statements."""
    try:
        compiled(code)
    except (tj.KernelSyntaxError, tj.KernelTypeError) as error:
        assert error.hint is not None
        return error.hint
    raise AssertionError(f"kernels can contain {code}")


def shown(code: str) -> str:
    """Return statements as a cell of a table."""
    return "<br>".join(f"`{line.strip()}`" for line in code.replace("|", "\\|").split("\n"))
