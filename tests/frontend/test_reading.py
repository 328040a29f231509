"""How often a text is read: once, but for loops whose names turn out to hold something else than they began with."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.readings import counted_statements
from tests.support.programs import array, run, statements, tile_ir
from tilejit import dtypes
from tilejit.errors import KernelTypeError
from tilejit.ir import nodes as ir


def read(text: str) -> tuple[int, int, int]:
    """How many statements are read, how often the one that is read most, and how many the tile IR has."""
    with counted_statements() as counted:
        kernel = tile_ir(text, array(dtypes.int32), dtypes.int32, threads=1)
    kinds = (ir.Let, ir.Assign, ir.Declare, ir.If, ir.For, ir.Loop, ir.Break, ir.Continue, ir.Store)
    return counted.total, counted.most, len(statements(kernel.body, kinds))  # type: ignore[arg-type]


def indented(lines: list[str], levels: int = 1) -> list[str]:
    return ["    " * levels + line for line in lines]


def kernel(lines: list[str]) -> str:
    return "\n".join(["def k(A, n):", *indented(lines)]) + "\n"


def helpers(count: int, body: str) -> str:
    """Each calls the one before; `body` has its number and what it calls."""
    lines = ["@tj.function", "def f0(x):", "    if x > 3:", "        return x", "    return x + 1"]
    for k in range(1, count):
        lines += ["@tj.function", f"def f{k}(x):", *indented(body.format(k=k, f=f"f{k - 1}").splitlines())]
    return "\n".join([*lines, *kernel([f"A[0] = f{count - 1}(n)"]).splitlines()]) + "\n"


CALLS = {
    "at its end": "if x > {k}:\n    return x\nreturn {f}(x + 1)",
    "before its returns": "y = {f}(x)\nif y > {k}:\n    return y\nreturn y + {k}",
    "in a loop": "for i in range(x):\n    y = {f}(x + i)\n    if y > {k}:\n        return y\nreturn x",
    "in an unrolled loop's last round": "for i in tj.static_range(3):\n    if x > i:\n        return x\nreturn {f}(x)",
    "before an unrolled loop": "y = {f}(x)\nfor i in tj.static_range(3):\n    if y > i:\n        continue\n"
    "    if y == {k}:\n        break\n    y += 1\nreturn y",
}


@pytest.mark.parametrize("body", CALLS.values(), ids=CALLS)
def test_nested_helpers_that_return_early_are_read_once(body: str) -> None:
    few, most, small = read(helpers(10, body))
    many, most_of_many, large = read(helpers(40, body))
    assert most == most_of_many == 1
    assert many < 4.5 * few
    assert large < 4.5 * small


def test_code_after_an_early_return_is_emitted_once() -> None:
    returns = "\n".join(f"if x == {k}:\n    return {k}" for k in range(20))
    text = helpers(2, f"{returns}\nA = x * 77\nreturn A")
    body = tile_ir(text, array(dtypes.int32), dtypes.int32).body
    products = [let for let in statements(body, ir.Let) if "77" in str(let.value)]
    assert len(products) == 1


def test_a_helper_that_compile_time_conditions_leave_has_no_loop() -> None:
    text = (
        "@tj.function\ndef f(x, up):\n    for i in tj.static_range(4):\n        if i == 2:\n            break\n"
        "        if i == 0:\n            continue\n        x += i\n    if up:\n        return x + 1\n    return x\n\n"
        "def k(A, n):\n    A[0] = f(n, True) + f(n, False)\n"
    )
    assert statements(tile_ir(text, array(dtypes.int32), dtypes.int32).body, ir.Loop) == []
    out = np.zeros(1, np.int32)
    run(text, out, 5)
    assert out[0] == (5 + 1 + 1) + (5 + 1)


def nest(depth: int, before: str, inside: str, after: str = "") -> str:
    """Loops in each other, with statements at each level; `{k}` is the level, `{j}` the one further in."""
    lines: list[str] = []
    for k in range(depth):
        lines += indented([*before.format(k=k, j=k + 1).splitlines(), f"for i{k} in range(n):"], k)
        lines += indented(inside.format(k=k, j=k + 1).splitlines(), k + 1)
    for k in reversed(range(depth)):
        lines += indented([line for line in after.format(k=k, j=k + 1).splitlines() if k + 1 < depth], k + 1)
    return kernel(["a = 0", "b0 = 0", *lines, "A[0] = a"])


LITERALS = {
    "one name": ("", "a = a + 1"),
    "a name each": ("b{j} = 0", "b{j} += b{k} + A[0]", "b{k} += b{j}"),
    "names of their own": ("", "c{k} = i{k} + 1\na = a + c{k}"),
    "loops that are left": ("", "if n == {k}:\n    break\na += i{k}", "if n == a:\n    continue\na += 2"),
}


@pytest.mark.parametrize("parts", LITERALS.values(), ids=LITERALS)
def test_nested_loops_whose_literals_keep_their_types_are_read_once(parts: tuple[str, ...]) -> None:
    few, most, small = read(nest(4, *parts))
    many, most_of_many, large = read(nest(12, *parts))
    assert most == most_of_many == 1
    assert many < 4 * few
    assert large < 4 * small


CHANGES = {
    "to float32": ("b{j} = 0", "b{j} += tj.float32(A[0])"),
    "from the level around": ("b{j} = 0", "b{j} += b{k} + tj.float32(A[0])"),
    "from the level inside": ("b{j} = 0", "b{j} += tj.float32(A[0])", "b{k} += b{j}"),
    "to a wider integer": ("b{j} = 0", "b{j} += b{k} + tj.int64(n)", "b{k} += b{j}"),
    "to a float literal": ("b{j} = 0", "b{j} += b{k} + 1.5", "b{k} += b{j}"),
    "to a tuple of floats": ("b{j} = (0, 0)", "b{j} = (b{j}[0] + 1.5, b{j}[1] + 1)"),
}


@pytest.mark.parametrize("parts", CHANGES.values(), ids=CHANGES)
def test_nested_loops_whose_names_change_kind_are_read_as_often_as_they_are_deep(parts: tuple[str, ...]) -> None:
    for depth in (3, 6, 12):
        _, most, _ = read(nest(depth, *parts))
        assert 2 <= most <= depth + 2


@pytest.mark.parametrize("count", [10, 30])
def test_a_chain_of_copies_round_a_loop_takes_two_readings(count: int) -> None:
    names = [f"x{k} = 0" for k in range(count + 1)]
    body = [f"x{k + 1} = x{k}" for k in reversed(range(count))] + ["x0 = x0 + tj.float32(A[0])"]
    text = kernel([*names, "for i in range(n):", *indented(body), f"A[0] = x{count}"])
    assert read(text)[1] == 2


@pytest.mark.parametrize("count", [10, 30])
def test_a_chain_of_sums_round_a_loop_takes_a_reading_a_name(count: int) -> None:
    names = [f"x{k} = 0" for k in range(count + 1)]
    body = [f"x{k + 1} = x{k} + 1" for k in reversed(range(count))] + ["x0 = x0 + tj.float32(A[0])"]
    text = kernel([*names, "for i in range(n):", *indented(body), f"A[0] = x{count}"])
    assert read(text)[1] <= count + 2


def test_a_name_that_changes_only_where_it_is_expected_not_to_may_change() -> None:
    """An argument has no name of its own before the first swap gives it one."""
    text = (
        "@tj.function\ndef f(x, n):\n    b = x\n    for i in range(n):\n        if i == x:\n            x, b = b, x\n"
        "            x, b = b, x\n    return x + b\n\ndef k(A, n):\n    A[0] = f(n * n, n)\n"
    )
    assert read(text)[1] <= 4
    out = np.zeros(1, np.int32)
    run(text, out, 5)
    assert out[0] == 50


def test_kinds_that_never_settle_are_an_error() -> None:
    """The value of each round's name is a tuple longer than the last."""
    text = kernel(["x = (0,)", "for i in range(n):", "    x = x + (i,)", "A[0] = x[0]"])
    with pytest.raises(KernelTypeError, match=r"tuple of 1 item where line 2 .*tuple of 2 items where line 4"):
        read(text)


def unrolled(depth: int, rounds: int, before: str, after: str) -> str:
    lines: list[str] = []
    for k in range(depth):
        lines += indented([f"for i{k} in tj.static_range({rounds}):"], k)
        lines += indented(before.format(k=k).splitlines(), k + 1)
    lines += indented(["a = a + i0"], depth)
    for k in reversed(range(depth)):
        lines += indented(after.format(k=k).splitlines(), k + 1)
    return kernel(["a = 0", *lines, "A[0] = a"])


LEAVING = {
    "break before": ("if n == {k}:\n    break", ""),
    "break after": ("", "if n == {k}:\n    break"),
    "continue before": ("if n == {k}:\n    continue", ""),
    "both": ("if n == {k}:\n    continue", "if a == {k}:\n    break"),
}


@pytest.mark.parametrize("parts", LEAVING.values(), ids=LEAVING)
def test_unrolled_loops_that_run_time_conditions_leave_grow_as_their_rounds(parts: tuple[str, str]) -> None:
    rounds = 4
    outer, _, small = read(unrolled(1, rounds, *parts))
    three, most, large = read(unrolled(3, rounds, *parts))
    # each round's statements are read once, for each round of the loops around
    assert most == 1
    assert three < 1.5 * rounds**2 * outer
    assert large < 2 * rounds**2 * small


def test_a_round_that_only_break_leaves_is_no_loop() -> None:
    body = tile_ir(unrolled(1, 4, *LEAVING["break before"]), array(dtypes.int32), dtypes.int32).body
    assert len(statements(body, ir.Loop)) == 1
    assert [d.var.name for d in statements(body, ir.Declare) if d.var.dtype == dtypes.bool_] == []


def test_helpers_with_early_returns_inside_loops_inside_helpers_are_read_as_often_as_they_are_deep() -> None:
    """Every helper's loop carries a name whose kind is known late, by what the helper inside gives."""
    body = (
        "t = 0\nfor i in range(n):\n    for j in tj.static_range(2):\n        t += {f}(x, n) * 0.5\n"
        "        if t > {k}:\n            break\n    if t < x:\n        return t\nreturn t + 1"
    )
    for depth in (2, 4):
        lines = ["@tj.function", "def f0(x, n):", *indented(["if x > 3:", "    return n * 0.5", "return n * 1.5"])]
        for k in range(1, depth):
            lines += ["@tj.function", f"def f{k}(x, n):", *indented(body.format(k=k, f=f"f{k - 1}").splitlines())]
        text = "\n".join([*lines, *kernel([f"A[0] = f{depth - 1}(n, n)"]).splitlines()]) + "\n"
        assert read(text)[1] <= depth + 1
