"""A name that is a buffer on one path and another tile on the other shows a copy, which no write may make wrong."""

from __future__ import annotations

import pytest

from tests.support.programs import array, tile_ir
from tilejit import dtypes
from tilejit.errors import KernelTypeError

HEAD = """def k(A, n):
    r = tj.alloc_local((4,), tj.float32)
    s = tj.alloc_local((4,), tj.float32)
    tj.thread.fill(r, 1)
    tj.thread.fill(s, 2)
"""

#: bodies after HEAD; the read or write that is refused is marked
REFUSED = [
    # after a branch that gives one name another value
    "q = r\nif n > 5:\n    q = q + 1\ntj.thread.fill(r, 5)\nA[0] = q[0]  # here",
    # two buffers
    "q = r if n > 5 else s\ntj.thread.fill(s, 5)\nA[0] = q[0]  # here",
    "if n > 5:\n    q = r\nelse:\n    q = s\nr[0] = 5\nA[0] = q[0]  # here",
    "q = r if n > 5 else s\ntj.thread.fill(q, 5)  # here",
    "q = r if n > 5 else s\nq[0] = 5  # here",
    # through views, other operations and other names
    "q = r if n > 5 else s\nr.registers[0] = 5\nA[0] = q.registers[0]  # here",
    "q = r if n > 5 else s\np = q\ntj.thread.add(r, r, s)\ntj.thread.copy(A[0:4], p)  # here",
    "q = r if n > 5 else s\nif n > 7:\n    q = q + 1\ntj.thread.fill(r, 5)\nx = q + 1  # here",
    # written on one path only
    "q = r if n > 5 else s\nif n > 7:\n    tj.thread.fill(r, 5)\nx = q + 1  # here",
    # at the head of a loop, and round it
    "q = r\nfor i in range(n):\n    tj.thread.fill(r, i)\n    A[i] = q[0]  # here\n    q = q + 1",
    "q = r if n > 5 else s\nfor i in range(n):\n    A[i] = q[0]  # here\n    tj.thread.fill(r, i)",
    "q = r\nfor i in range(n):\n    q, r = s, q\n    tj.thread.fill(s, i)\n    A[i] = r[0]  # here",
]

ALLOWED = [
    # read before the write
    "q = r if n > 5 else s\nA[0] = q[0]\ntj.thread.fill(r, 5)",
    # values, which nothing writes
    "q = r + 1\nif n > 5:\n    q = s * 2\ntj.thread.fill(r, 5)\ntj.thread.fill(s, 5)\nA[0] = q[0]",
    # the same buffer on both paths is no copy
    "q = r\nif n > 5:\n    q = r\ntj.thread.fill(r, 5)\nA[0] = q[0]\ntj.thread.fill(q, 3)",
    # given anew after the write
    "q = r if n > 5 else s\ntj.thread.fill(r, 5)\nq = r if n > 6 else s\nA[0] = q[0]",
    # another buffer is written
    "t = tj.alloc_local((4,), tj.float32)\nq = r if n > 5 else s\ntj.thread.fill(t, 5)\nA[0] = q[0] + t[0]",
    # the buffer of the previous iteration: each iteration makes a new one
    "q = r\nfor i in range(n):\n    t = tj.alloc_local((4,), tj.float32)\n    tj.thread.fill(t, i)\n    A[i] = q[0]\n"
    "    q = t",
    # it is copied at the end of its iteration, after the write
    "q = s\nwhile n > 0:\n    A[0] = q[0]\n    t = tj.alloc_local((4,), tj.float32)\n    tj.thread.fill(t, 1)\n"
    "    q = t\n    tj.thread.fill(t, 2)\n    n = n - 1",
    # an accumulator
    "acc = r\nfor i in range(n):\n    acc = acc + s\nA[0] = acc[0]",
]


def body(text: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in text.split("\n"))


@pytest.mark.parametrize("text", REFUSED)
def test_a_use_that_python_would_see_otherwise_is_refused(text: str) -> None:
    source = body(text)
    with pytest.raises(KernelTypeError) as caught:
        tile_ir(source, array(), dtypes.int32)
    error = caught.value
    assert "# here" in source.split("\n")[error.span.line - 1], error
    assert "path" in error.message and "line " in error.message
    assert "stage dimension, as in s[k % 2], or tj.static_range" in error.hint


@pytest.mark.parametrize("text", ALLOWED)
def test_a_use_that_gives_the_same_in_python_is_not(text: str) -> None:
    tile_ir(body(text), array(), dtypes.int32)
