"""Arithmetic on tiles of one element in branches that some threads take, and what stays refused."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.errors import DispatchError

#: s is 2080
HEAD = "def k(X, O):\n    x = tj.cta.load(X[0:64])\n    s = tj.sum(x)\n    t = tj.thread_id()\n    "


def run(body: str) -> np.ndarray:
    x, o = np.arange(1, 129, dtype=np.float32), np.zeros(128, np.float32)
    kernel = tj.kernel(threads=128)(source_of(HEAD + body.replace("\n", "\n    ") + "\n"))
    for schedule in range(3):
        o[:] = 0
        tj.simulate(kernel, 1, x, o, schedule=schedule)
    return o


#: what only some threads do -> what O begins with, and then has zeros
OWN = {
    "if t == 0:\n    O[0] = s / 64": [32.5],
    "if t == 0:\n    O[0] = X[1] + s": [2082],
    "if t == 0:\n    O[0] = tj.where(s > 3, tj.sqrt(s * s), 0)": [2080],
    "if t == 0:\n    y = s * 2\n    y += 1\n    O[0] = y": [4161],
    "if t != 0:\n    return\nO[0] = -s": [-2080],
    "for i in range(t, 3, 128):\n    O[i] = s * i": [0, 2080, 4160],
    "for r in range(2):\n    s = tj.sum(tj.cta.load(X[r : r + 64]))\n    if t == 0:\n        O[r] = s / 2":
        [1040, 1072],
    "if t == 0:\n    total = 0.0\n    for i in range(3):\n        total += s * X[i]\n    O[0] = total": [12480],
    "if t == 0 and s > 3:\n    i = 0\n    while i < s / 1000:\n        i += 1\n    O[0] = i": [3],
    "m = tj.argmax(x)\nif t == 0:\n    O[m - 62] = X[m // 2] + m % 4": [0, 35],
    "w = tj.sum(tj.warp.load(X[0:32]))\nif tj.lane_id() == 0:\n    O[tj.warp_id()] = w * 2": [1056, 1056, 1056, 1056],
    "if t < 32:\n    if s * 2 > 5:\n        tj.warp_sync()\n    O[t] = 1": 32 * [1],
    "y = 0.0\nif t == 0:\n    y = s * 2\nO[t] = y": [4160],
    "y = s * X[0] + 1\nif y > 99:\n    tj.cta_sync()\n    if t < 2:\n        O[t] = y": [2081, 2081],
    "y = s * X[t]\nif t < 2:\n    O[t] = y": [2080, 4160],
    "y = s * 0\nif t == 0:\n    y = float(s) * 2\nO[t] = y": [4160],
    "y = 0\nfor i in range(3):\n    y += X[i]\n    z = s * y\n    if z > 99:\n        tj.cta_sync()\n        O[0] = z":
        [12480],
}


@pytest.mark.parametrize("body", OWN)
def test_some_threads_compute_with_their_copies(body: str) -> None:
    o = run(body)
    np.testing.assert_array_equal(o, np.pad(np.float32(OWN[body]), (0, 128 - len(OWN[body]))))


#: what leaves the branch, or is more than a copy -> the operation that needs the others
SHARED = {
    "y = s\nif t == 0:\n    y = s * 2\nO[t] = y": "cta.cast",
    "if t == 0:\n    y = s * 2\nelse:\n    y = s * 3\nO[t] = y": "cta.cast",
    "if t == 0:\n    tj.cta.store(O[0:1], (s * 2)[None])": "cta.copy",
    "if t == 0:\n    O[0] = tj.sum(x * s)": "cta.mul",
    "if t == 0:\n    O[0] = tj.sum(s[None])": "cta.sum",
    "if t == 0:\n    y = s * 2\n    if y > 5:\n        tj.warp_sync()": "warp_sync",
    "y = s * X[t]\nif y > 9999:\n    tj.cta_sync()": "cta_sync",
    "y = s * X[t]\nz = y + 1\nif z > 9999:\n    tj.cta_sync()": "cta_sync",
    "y = s * 1\nfor i in range(3):\n    z = y + 1\n    if z > 9999:\n        tj.cta_sync()\n    y = s * X[t]":
        "cta_sync",
    "y = s * 1\nfor i in range(t):\n    y = s * i\nif y > 9999:\n    tj.cta_sync()": "cta.mul",
    "y = 0.0\nfor i in range(3):\n    y += X[t]\nz = s * y\nif z > 9999:\n    tj.cta_sync()": "cta_sync",
    "y = 0.0\nfor i in range(3):\n    z = s * y\n    if z > 9999:\n        tj.cta_sync()\n    y = X[t]": "cta_sync",
    "y = s * tj.warp_id()\nif y > 9999:\n    tj.cta.store(O[0:64], x)": "cta.copy",
}


@pytest.mark.parametrize("body", SHARED)
def test_what_others_would_miss_is_refused(body: str) -> None:
    with pytest.raises(DispatchError, match=f"{SHARED[body]} .*needs all threads"):
        run(body)


def test_the_help_for_a_name_that_leaves_the_branch_works() -> None:
    with pytest.raises(DispatchError) as caught:
        run("y = s\nif t == 0:\n    y = s * 2\nO[t] = y")
    assert caught.value.hint is not None and "each thread's value: float(x)" in caught.value.hint
    assert run("y = s\nif t == 0:\n    y = float(s) * 2\nO[t] = y")[:2].tolist() == [4160, 2080]


def test_the_branch_contains_no_barrier() -> None:
    made = tj.kernel(threads=128)(source_of(HEAD + "if t == 0:\n        O[0] = s / 64 + s * X[3]\n"))
    spec = tj.spec((128,), tj.float32)
    lane_ir = made.compile(spec, spec, target="sm_90a").lane_ir
    assert "sync" not in lane_ir[lane_ir.rindex("if ") :]
