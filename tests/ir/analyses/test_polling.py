"""Loads that decide when a loop ends are relaxed; others stay plain."""

from __future__ import annotations

import re

import pytest

import tilejit as tj
from tests.support.programs import array, source_of, statements, tile_ir
from tilejit import dtypes
from tilejit.ir import nodes as ir
from tilejit.ir.analyses import polling

FLAGS = array(dtypes.int32, 1)


def orders(body: str) -> dict[str, str]:
    """The order of each load of the kernel by the name of what it reads; `s` is shared."""
    lines = "\n".join(f"    {line}" for line in ["s = tj.alloc_shared((4,), tj.int32)", *body.split("\n")])
    kernel = polling.relaxed(tile_ir(f"def k(A, B, n):\n{lines}\n", FLAGS, FLAGS, dtypes.int32))
    loads = [let.value for let in statements(kernel.body, ir.Let) if isinstance(let.value, ir.Load)]
    return {load.place.buffer.root.name: load.order for load in loads}


@pytest.mark.parametrize("body, expected", [
    ("while A[0] < 1:\n    pass", {"A": "relaxed.gpu"}),
    ("while s[0] < 1:\n    pass", {"s": "relaxed.cta"}),
    ("while A[0] + B[n] < 1:\n    pass", {"A": "relaxed.gpu", "B": "relaxed.gpu"}),
    ("while A[B[0]] < 1:\n    pass", {"A": "relaxed.gpu", "B": "relaxed.gpu"}),
    ("for i in range(n):\n    if A[0] > 0:\n        break", {"A": "relaxed.gpu"}),
    ("for i in range(n):\n    if A[0] > 0:\n        return", {"A": "relaxed.gpu"}),
    ("done = False\nwhile not done:\n    if A[0] > 0:\n        done = True", {"A": "relaxed.gpu"}),
    ("x = 0\nwhile x < 1:\n    y = A[0]\n    x = y * 2", {"A": "relaxed.gpu"}),
    ("while True:\n    for i in range(A[0]):\n        return", {"A": "relaxed.gpu"}),
    ("while tj.load_acquire(A[0]) < 1:\n    pass", {"A": "acquire.gpu"}),
    ("while tj.atomic.cas(B[0], A[0], 1) != 0:\n    pass", {"A": "relaxed.gpu"}),
    ("while tj.vote_any(A[0] < 1):\n    pass", {"A": "relaxed.gpu"}),
    ("while tj.load_volatile(A[0]) < 1:\n    pass", {"A": "volatile"}),
])
def test_loads_that_decide_when_a_loop_ends_are_repeated_in_each_iteration(body: str, expected: dict[str, str]) -> None:
    assert orders(body) == expected


@pytest.mark.parametrize("body", [
    "for i in range(n):\n    B[i] = A[i]",
    "for i in range(A[0]):\n    B[i] = 1",
    "x = A[0]\nwhile x < 9:\n    x = x + 1",
    "i = 0\nwhile i < n:\n    B[i] = A[i]\n    i = i + 1",
    "if A[0] > 0:\n    return",
])
def test_other_loads_stay_plain(body: str) -> None:
    assert set(orders(body).values()) <= {""}


def loads(body: str) -> list[str]:
    """The PTX's loads of global and shared memory; `s` is shared and `t` a local tile."""
    lines = ["s = tj.alloc_shared((4,), tj.int32)", "t = tj.alloc_local((4,), tj.int32)", *body.split("\n")]
    function = source_of("def k(A, B, n):\n" + "\n".join(f"    {line}" for line in lines) + "\n")
    spec = tj.spec((64,), tj.int32)
    ptx = tj.kernel(function, threads=32).compile(spec, spec, tj.int32).ptx
    return [x for x in re.findall(r"\bld\.[\w.]+", ptx) if ".param" not in x]


@pytest.mark.parametrize("body, expected", [
    ("for i in range(n):\n    tj.thread.copy(t, A[0:4])\n    if t[0] > 0:\n        break",
     ["ld.volatile.global.v4.b32"]),
    ("for i in range(n):\n    v = tj.thread.load(A[0:4])\n    t[0] = v[1]\n    if t[0] > 0:\n        break",
     ["ld.volatile.global.v4.b32"]),
    ("for i in range(n):\n    tj.thread.copy(s, A[0:4])\n    if s[0] > 0:\n        break",
     ["ld.volatile.global.v4.b32", "ld.relaxed.cta.shared.b32"]),
    ("for i in range(n):\n    tj.thread.copy(s, A[0:4])\n    tj.thread.copy(t, s)\n    if t[3] > 0:\n        return",
     ["ld.volatile.global.v4.b32", "ld.volatile.shared.v4.b32"]),
    ("for i in range(n):\n    tj.thread.copy(t, A[0:4])\n    tj.thread.copy(B[0:4], t)", ["ld.global.v4.b32"]),
    ("tj.thread.copy(t, A[0:4])\nfor i in range(n):\n    if t[0] > i:\n        break\n    B[i] = 1",
     ["ld.global.v4.b32"]),
])
def test_a_copied_region_that_ends_a_loop_is_read_in_each_iteration(body: str, expected: list[str]) -> None:
    assert loads(body) == expected
