"""Random scalar programs: what the tile IR computes is what Python computes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.frontend.programs import run, source_of

NAMES = ("a", "b", "c")


@st.composite
def expressions(draw: st.DrawFn, names: tuple[str, ...] = NAMES, depth: int = 2) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([*names, "n", "0", "1", "2", "5", "-3"]))
    left, right = (draw(expressions(names, depth - 1)) for _ in range(2))
    kind = draw(st.sampled_from(["+", "-", "*", "//", "%", "min", "max", "choose"]))
    if kind in ("min", "max"):
        return f"{kind}({left}, {right})"
    if kind == "choose":
        return f"({left} if {draw(conditions(names, depth - 1))} else {right})"
    divisor = draw(st.sampled_from(["3", "7", "-4"]))
    return f"({left} {kind} {divisor if kind in ('//', '%') else right})"


@st.composite
def conditions(draw: st.DrawFn, names: tuple[str, ...] = NAMES, depth: int = 1) -> str:
    simple = f"{draw(expressions(names, 1))} {draw(st.sampled_from(['<', '<=', '==', '!=', '>']))} " + draw(
        expressions(names, 1)
    )
    if depth == 0 or draw(st.booleans()):
        return simple
    kind = draw(st.sampled_from(["and", "or", "not"]))
    other = draw(conditions(names, depth - 1))
    return f"not ({simple})" if kind == "not" else f"({simple} {kind} {other})"


@st.composite
def blocks(draw: st.DrawFn, depth: int, loop: bool, leaves: str = "return") -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(one_statement(depth, loop, leaves))
    return lines


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def one_statement(draw: st.DrawFn, depth: int, loop: bool, leaves: str) -> list[str]:
    kinds = ["assign", "assign", "swap", "element"]
    kinds += ["if", "for", "while", "static"] if depth else []
    kinds += ["call"] if leaves == "return" else []
    kinds += ["break", "continue"] if loop else []
    kinds += ["leave"]
    kind = draw(st.sampled_from(kinds))
    if kind == "assign":
        return [f"{draw(st.sampled_from(NAMES))} = ({draw(expressions())}) % 100"]
    if kind == "swap":
        return ["a, b = b, a"]
    if kind == "element":
        place = f"A[{draw(expressions(depth=1))} % 8]"
        return [f"{place} {draw(st.sampled_from(['=', '+=']))} {draw(st.sampled_from(NAMES))}"]
    if kind == "call":
        return [f"{draw(st.sampled_from(NAMES))} = helper(A, n, {draw(expressions(depth=1))}, c) % 100"]
    if kind in ("break", "continue", "leave"):
        return [f"if {draw(conditions())}:", f"    {leaves if kind == 'leave' else kind}"]
    if kind == "if":
        lines = [f"if {draw(conditions())}:", *indented(draw(blocks(depth - 1, loop, leaves)))]
        return lines + (["else:", *indented(draw(blocks(depth - 1, loop, leaves)))] if draw(st.booleans()) else [])
    inner = indented(draw(blocks(depth - 1, True, leaves)))
    if kind == "while":
        k = f"k{depth}"
        limit = draw(conditions())
        return [f"{k} = 0", f"while {k} < 5 and {limit}:", f"    {k} += 1", *inner]
    ranges = {"for": [f"range({draw(expressions(depth=1))} % 6)", "range(1, 6, 2)", "range(3, 0, -1)"],
              "static": ["tj.static_range(3)", "(c, 4)"]}[kind]  # fmt: skip
    i = f"i{depth}"
    return [f"for {i} in {draw(st.sampled_from(ranges))}:", f"    a = a + {i}", *inner]


@st.composite
def programs(draw: st.DrawFn) -> str:
    helper = ["@tj.function", "def helper(A, n, a, c):", "    b = c + 1"]
    helper += indented(draw(blocks(2, False, "return a - b")))
    start = draw(st.sampled_from(["a, b, c = 0, 1, 2", "a, b, c = n, n + 1, 0"]))
    kernel = ["def kernel(A, n):", f"    {start}", *indented(draw(blocks(3, False)))]
    return "\n".join([*helper, "    return a + c", "", *kernel, "    A[0] += a", "    A[1] += b * 3 + c"])


def by_python(text: str, n: int) -> np.ndarray:
    """What the program writes when Python runs it."""
    found = np.zeros(8, np.int32)
    kernel = source_of(text)
    names = kernel.__globals__
    names["helper"] = names["helper"].source.function
    names["tj"] = _Python
    kernel(found, n)
    return found


@settings(max_examples=50)
@given(programs(), st.integers(-3, 9))
def test_random_programs_compute_what_python_computes(text: str, n: int) -> None:
    found = np.zeros(8, np.int32)
    run(source_of(text), found, n)
    np.testing.assert_array_equal(found, by_python(text, n))


@settings(max_examples=20)
@given(programs(), st.integers(-3, 9))
def test_random_programs_compute_it_as_ptx_too(text: str, n: int) -> None:
    found = np.zeros(8, np.int32)
    with tj.use_device("sim"):
        tj.kernel(threads=1)(source_of(text))[1](found, n)
    np.testing.assert_array_equal(found, by_python(text, n))


class _Python:
    static_range = range
    function = staticmethod(lambda fn: fn)

