"""Loads that decide when a loop ends are relaxed; others stay plain."""

from __future__ import annotations

import pytest

from tests.support.programs import array, statements, tile_ir
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
def test_what_decides_when_a_loop_ends_looks_at_memory_in_every_turn(body: str, expected: dict[str, str]) -> None:
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
