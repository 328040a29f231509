"""Random scalar programs: what the tile IR computes is what Python computes."""

from __future__ import annotations

import ast
from contextlib import suppress

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.frontend.readings import counted_statements, dropped_trials
from tests.support.programs import array, run, source_of, tile_ir
from tilejit import dtypes
from tilejit.errors import TilejitError
from tilejit.frontend.language import Function

NAMES = ("a", "b", "c")
EXAMPLES = settings.default.max_examples

#: statements of a program that take some seconds to compile, with those of the helpers once for each call
MOST_STATEMENTS = 5_000


@st.composite
def expressions(draw: st.DrawFn, names: tuple[str, ...] = NAMES, depth: int = 2) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([*names, "n", "0", "1", "2", "5", "-3"]))
    left, right = (draw(expressions(names, depth - 1)) for _ in range(2))
    kinds = ["+", "-", "*", "//", "%", "min", "max", "choose", "cdiv", "tile", "divmod", "power", "sum", "lambda"]
    kind = draw(st.sampled_from(kinds))
    if kind in ("min", "max"):
        return f"{kind}({left}, {right})"
    if kind == "choose":
        return f"({left} if {draw(conditions(names, depth - 1))} else {right})"
    divisor = draw(st.sampled_from(["3", "7", "-4"]))
    if kind == "cdiv":
        return f"tj.cdiv({left}, {draw(st.sampled_from([divisor, f'({right} % 5 + 1)', f'({right} % 5 - 6)']))})"
    if kind == "tile":
        group = draw(st.sampled_from(["", ", 1", ", 3", f", {left} % 4 + 1"]))
        return f"tj.tile_order({right} % 12, (4, {left} % 3 + 3){group})[{draw(st.integers(0, 1))}]"
    if kind == "divmod":
        return f"divmod({left}, {divisor})[{draw(st.integers(0, 1))}]"
    # a name of a comprehension or lambda hides the kernel's
    name = draw(st.sampled_from(names))
    if kind == "sum":
        test = draw(st.sampled_from(["", " if w != 1"]))
        return f"sum([{left} + w for w, {name} in enumerate(({right}, 2)){test}])"
    if kind == "lambda":
        return f"(lambda {name}, w={draw(st.sampled_from(names))}: {left} - w)({right})"
    if kind == "power":
        return f"({left} + tj.next_power_of_2({draw(st.integers(0, 40))}))"
    return f"({left} {kind} {divisor if kind in ('//', '%') else right})"


@st.composite
def conditions(draw: st.DrawFn, names: tuple[str, ...] = NAMES, depth: int = 1) -> str:
    simple = f"{draw(expressions(names, 1))} {draw(st.sampled_from(['<', '<=', '==', '!=', '>']))} " + draw(
        expressions(names, 1)
    )
    if draw(st.integers(0, 5)) == 0:
        listed = ", ".join(draw(expressions(names, 1)) for _ in range(2))
        return f"{draw(expressions(names, 1))} {draw(st.sampled_from(['in', 'not in']))} ({listed})"
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
              "static": ["tj.static_range(3)", "(c, 4)"]}[kind]
    i = f"i{depth}"
    return [f"for {i} in {draw(st.sampled_from(ranges))}:", f"    a = a + {i}", *inner]


@st.composite
def programs(draw: st.DrawFn) -> str:
    helper = ["@tj.function", "def helper(A, n, a, c):", "    b = c + 1"]
    helper += indented(draw(blocks(2, False, "return a - b")))
    start = draw(st.sampled_from(["a, b, c = 0, 1, 2", "a, b, c = n, n + 1, 0"]))
    kernel = ["def kernel(A, n):", f"    {start}", *indented(draw(blocks(3, False)))]
    return "\n".join([*helper, "    return a + c", "", *kernel, "    A[0] += a", "    A[1] += b * 3 + c"])


@st.composite
def ways_out(draw: st.DrawFn, loop: bool, leaves: str) -> list[str]:
    """Nothing, or a condition under which the code around is left."""
    way = draw(st.sampled_from(["", leaves, *(["break", "continue"] if loop else [])]))
    return [f"if {draw(conditions(depth=0))}:", f"    {way}"] if way else []


@st.composite
def nests(draw: st.DrawFn, depth: int, loop: bool, leaves: str, helper: str) -> list[str]:
    """Loops and branches in each other, each of which may be left on both sides of what it holds."""
    if depth == 0:
        return draw(blocks(0, loop, leaves))
    kind = draw(st.sampled_from(["if", "for", "while", "static", "static"]))
    inside = loop or kind != "if"
    before, after = draw(ways_out(inside, leaves)), draw(ways_out(inside, leaves))
    body = [*before, *draw(nests(depth - 1, inside, leaves, helper)), *after]
    if helper and draw(st.booleans()):
        body.append(f"{draw(st.sampled_from(NAMES))} = {helper}(A, n, {draw(expressions(depth=1))}, c) % 100")
    number = f"x{depth}"
    if kind == "if":
        return [f"if {draw(conditions(depth=0))}:", *indented(body)]
    if kind == "while":
        return [f"{number} = 0", f"while {number} < 2:", f"    {number} += 1", *indented(body)]
    ranges = ["range(2)", "range(n % 3)"] if kind == "for" else ["tj.static_range(2)", "(c, 1)"]
    return [f"for {number} in {draw(st.sampled_from(ranges))}:", f"    c = c + {number}", *indented(body)]


@st.composite
def deep_programs(draw: st.DrawFn) -> str:
    """Helpers that call each other from loops which they leave, and a nest of loops that calls the last."""
    lines: list[str] = []
    helper = ""
    for name in ("inner", "middle", "helper")[draw(st.integers(0, 2)) :]:
        body = draw(nests(draw(st.integers(1, 3)), False, "return b - a", helper))
        helper = name
        lines += ["@tj.function", f"def {helper}(A, n, a, c):", "    b = c + 1", *indented(body), "    return a + c"]
    lines += ["def kernel(A, n):", f"    {draw(st.sampled_from(['a, b, c = 0, 1, 2', 'a, b, c = n, n + 1, 0']))}"]
    lines += indented(draw(nests(draw(st.integers(2, 5)), False, "return", helper)))
    text = "\n".join([*lines, "    A[0] += a", "    A[1] += b * 3 + c"])
    assume(statements_written_out(text) <= MOST_STATEMENTS)
    return text


def statements_written_out(text: str) -> int:
    """The statements of a program's kernel with those of its helpers at each call, once for each unrolled turn."""
    counts: dict[str, int] = {}

    def count(node: ast.AST) -> int:
        number = isinstance(node, ast.stmt) + sum(map(count, ast.iter_child_nodes(node)))
        match node:
            case ast.Call(func=ast.Name(id=name)):
                return number + counts.get(name, 0)
            case ast.For(iter=ast.Tuple(elts=items)):
                return len(items) * number
            case ast.For(iter=ast.Call(func=ast.Attribute(attr="static_range"), args=[ast.Constant(value=int(turns))])):
                return turns * number
            case _:
                return number

    for function in ast.parse(text).body:
        assert isinstance(function, ast.FunctionDef)
        counts[function.name] = count(function)
    return counts["kernel"]


def by_python(text: str, n: int) -> np.ndarray:
    """What the program writes when Python runs it."""
    expected = np.zeros(8, np.int32)
    kernel = source_of(text)
    names = kernel.__globals__
    helpers = [name for name, value in names.items() if isinstance(value, Function)]
    names.update({name: names[name].source.function for name in helpers}, tj=_Python)
    kernel(expected, n)
    return expected


def by_tile_ir(text: str, n: int) -> np.ndarray:
    found = np.zeros(8, np.int32)
    run(source_of(text), found, n)
    return found


def by_ptx(text: str, n: int) -> np.ndarray:
    found = np.zeros(8, np.int32)
    with tj.use_device("sim"):
        tj.kernel(threads=1)(source_of(text))[1](found, n)
    return found


@settings(max_examples=EXAMPLES * 5 // 4)
@given(programs(), st.integers(-3, 9))
def test_random_programs_compute_what_python_computes(text: str, n: int) -> None:
    np.testing.assert_array_equal(by_tile_ir(text, n), by_python(text, n))


@settings(max_examples=EXAMPLES // 2)
@given(deep_programs(), st.integers(-3, 9))
def test_deeply_nested_programs_compute_what_python_computes(text: str, n: int) -> None:
    np.testing.assert_array_equal(by_tile_ir(text, n), by_python(text, n))


@settings(max_examples=EXAMPLES // 2)
@given(programs() | deep_programs(), st.integers(-3, 9))
def test_random_programs_compute_it_as_ptx_too(text: str, n: int) -> None:
    np.testing.assert_array_equal(by_ptx(text, n), by_python(text, n))


@settings(max_examples=EXAMPLES // 2)
@given(deep_programs())
def test_a_deeply_nested_program_is_read_few_times(text: str) -> None:
    with counted_statements() as counted:
        tile_ir(text, array(dtypes.int32), dtypes.int32)
    assert counted.most <= 8


@settings(max_examples=EXAMPLES // 2)
@given(programs() | deep_programs(), st.sampled_from(["0", "0.0", "True", "tj.float32(n)", "(0, 1.5)", "A"]))
def test_a_trial_that_is_dropped_leaves_nothing(text: str, other: str) -> None:
    """Whatever happens to the names: `other` comes into them here and there."""
    mixed = text.replace("a = a + ", f"a = {other} if a == 3 else b + ").replace("c = c + ", f"b = {other}; c = c + ")
    with dropped_trials() as changed, suppress(TilejitError):
        tile_ir(mixed, array(dtypes.int32), dtypes.int32)
    assert not any(changed)


class _Python:
    static_range = range
    function = staticmethod(lambda fn: fn)
    cdiv = staticmethod(tj.cdiv)
    tile_order = staticmethod(tj.tile_order)
    next_power_of_2 = staticmethod(tj.next_power_of_2)
