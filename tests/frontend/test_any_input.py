"""Whatever is written in a kernel gives tile IR or an error of tilejit's, never another exception."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times
from tests.support.programs import array, tile_ir
from tilejit import dtypes
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text

VALUES = (
    "n", "x", "A", "A[0:8, 0:4]", "A[n]", "A[n, 1]", "r", "v", "own", "s", "s[0:8]", "(1, 2)", "(n, x)", "(8, 4)",
    "'t'",
    "None", "tj.float16", "tj.int8", "tj.warp", "tj.exp", "tj.warp.copy", "helper", "tj", "ROWS", "1", "-1", "0", "1.5",
    "True", "tj.inf", "tj.nan", "A.shape", "n > 0", "r > 0", "2**70", "r.registers", "tj.Swizzle(3, 3, 3)", "unknown",
    "range", "len", "np", "np.int32", "v[:, None]", "A.T", "r.T", "1e300", "S[8]", "kernel",
)

TEMPLATES = (
    "z = {a} + {b}", "z = {a} - {b}", "z = {a} // {b}", "z = {a} / {b}", "z = {a} % {b}", "z = {a} ** {b}",
    "z = {a} << {b}", "z = {a} & {b}", "z = {a} @ {b}", "z = {a} < {b}", "z = {a} == {b}", "z = {a} is {b}",
    "z = {a} in {b}", "z = {a} and {b}", "z = {a} or {b}", "z = not {a}", "z = -{a}", "z = ~{a}", "z = {a}[{b}]",
    "z = {a}[{b}:{a}]", "z = {a}[{b}:{b} + 4]", "z = {a}[:, {b}]", "z = {a}[:, None]", "z = {a} if {b} else {a}",
    "z = {a} if n > 2 else {b}", "z = {a}({b})", "z = {a}()", "z = {a}.T", "z = {a}.shape", "z = {a}.strides",
    "z = {a}.registers", "z = {a}.dtype", "z = {a}.size", "z = {a}.view({b})", "z = {a}.view((4, 8), {b})",
    "z = {a}.astype({b})", "z = {a}.tile({b}, {b})", "z = {a}.tile((4, 4), {b})", "z = {a}.permute({b})",
    "z = {a}.permute(1, 0)", "z = tj.exp({a})", "z = tj.where({a}, {b}, {b})", "z = tj.clamp(x, {a}, {b})",
    "z = max({a}, {b})", "z = min({a})", "z = abs({a})", "z = int({a})", "z = float({a})", "z = bool({a})",
    "z = tj.int32({a})", "z = tj.float8_e5m2({a})", "z = len({a})", "z = sum({a})", "z = round({a}, {b})",
    "z = tj.cdiv({a}, {b})", "z = helper({a})", "z = f'{{{a}}}'", "z = tj.cta_id({a})", "z = tj.assume_in_bounds({a})",
    "tj.warp.copy({a}, {b})", "tj.warp.copy(r, {a}, fill={b})", "tj.warp.copy(r, {a}, variant={b})",
    "z = tj.warp.load({a})",
    "z = tj.warp.load({a}, layout={b})", "z = tj.warp.load({a}, fill={b})", "tj.warp.store({a}, {b})",
    "tj.warp.fill({a}, {b})", "tj.warp.add({a}, {b}, {b})", "tj.warp.add(r, {a}, {b})", "tj.warp.cast({a}, {b})",
    "tj.thread.sqrt({a}, {b})", "z = tj.warp.zeros({a}, {b})", "z = tj.warp.full((8, 4), {a}, {b})",
    "z = tj.alloc_shared({a}, {b})", "z = tj.alloc_shared((8, 64), {a}, swizzle={b})",
    "z = tj.alloc_local({a}, tj.float32, layout={b})", "z = tj.alloc_local((8, 4), {a}, {b})", "print({a}, {b})",
    "print(x, sep={a})", "for i in range({a}):\n        z = i", "for i in range({a}, {b}, 2):\n        own[0] = i",
    "for i in range(0, n, {a}):\n        pass", "for i in tj.static_range({a}):\n        z = i",
    "for i in {a}:\n        z = i",
    "if {a}:\n        z = 1\n    else:\n        z = {b}\n    y = z", "while {a}:\n        break",
    "if n > 1:\n        z = {a}\n"
    "    else:\n        z = {b}\n    y = z", "{a}[0] = {b}", "{a}[n, 0] = {b}", "{a}[0] += {b}",
    "p, q = {a}", "p, q = {a}, {b}", "assert {a}, {b}", "tj.static_assert({a}, {b})", "z: {a} = {b}", "z = S[{a}]",
    "z = S[{a} : {b}]", "z = {a}\n    for i in range(n):\n        z = {b}\n    y = z",
    "z = {a}\n    for i in range(n):\n        z = z + {b}\n    y = z", "z = {a}\n    z += {b}",
    "z = {a}\n    while True:\n        w = {b}\n        if n > 3:\n            break\n    y = w",
    "def g(y):\n        if n > 2:\n            return {a}\n        return {b}\n    z = g({a})", "return {a}",
    "A[0, 0] = {a}", "own[{a}] = {b}", "s[{a}, {b}] = 1", "own[1] = s[{a}, {b}]",
)


@tj.function
def helper(x):
    return x * 2


def attempt(template: str, a: str, b: str) -> None:
    body = template.format(a=a, b=b)
    if not _is_python(body):
        return
    text = (
        "def k(A, n, x):\n    r = tj.alloc_local((8, 4), tj.float16, layout=ROWS)\n    tj.warp.fill(r, 1)\n"
        "    own = tj.alloc_local(4, tj.float32)\n    tj.thread.fill(own, 2)\n    v = tj.warp.load(A[n, 0:64])\n"
        f"    s = tj.alloc_shared((8, 4), A.dtype)\n    {body}\n"
    )
    names = {"ROWS": tj.S[(8, 4) : (4 @ tj.laneid, 1 @ tj.laneid)], "S": tj.S, "helper": helper, "kernel": attempt}
    try:
        kernel = tile_ir(text, array(rank=2), dtypes.int32, dtypes.float32, **names)
    except tj.TilejitError as error:
        assert error.span is not None, body
        assert "^" in str(error)
        return
    assert from_text(to_text(kernel)) == kernel


def _is_python(body: str) -> bool:
    try:
        compile(f"def k():\n    {body}\n", "", "exec")
    except SyntaxError:
        return False
    return True


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(max_examples=times(13))
@given(st.sampled_from(TEMPLATES), st.sampled_from(VALUES), st.sampled_from(VALUES))
def test_any_input_gives_tile_ir_or_an_error_with_a_place(template: str, a: str, b: str) -> None:
    attempt(template, a, b)
