"""Tiles that share a buffer: random programs give what Python gives, whatever is needed together."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, source_of, statements, tile_ir
from tilejit import dtypes
from tilejit.ir import nodes as ir
from tilejit.ir.analyses.liveness import Interference, is_move, touches
from tilejit.ir.text.parser import from_text

NAMES = "abcd"


class Program:
    """Statements on tiles a, b, c and d of (8, 16) that Python understands, too."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.loops = 0
        self.lines = [line for _ in range(4) for line in self.statement(0)]

    def name(self) -> str:
        return self.random.choice(NAMES)

    def value(self) -> str:
        x, y, number = self.name(), self.name(), self.random.randint(1, 5)
        return self.random.choice((x, f"{x} + {y}", f"{x} * {number} - {y}", f"{x} ^ {number}", f"{x} + {x}"))

    def statement(self, depth: int) -> list[str]:
        kind = self.random.choice(("=", "=", "=", "+=", "swap", "if", "for") if depth < 3 else ("=", "swap"))
        if kind == "=":
            return [f"{self.name()} = {self.value()}"]
        if kind == "+=":
            return [f"{self.name()} += {self.value()}"]
        if kind == "swap":
            x, y = self.random.sample(NAMES, 2)
            return [f"{x}, {y} = {y}, {x}"]
        body = [f"    {line}" for _ in range(self.random.randint(1, 3)) for line in self.statement(depth + 1)]
        if kind == "if":
            other = [f"    {line}" for line in self.statement(depth + 1)]
            return [f"if n % {self.random.randint(2, 3)} == {self.loops % 2}:", *body, "else:", *other]
        self.loops += 1
        index = f"i{self.loops}"
        leaves = [f"    if {index} > n:", f"        {self.random.choice(('break', 'continue'))}"]
        head = [f"for {index} in range({self.random.randint(0, 3)}):"]
        return [*head, *(leaves if self.random.random() < 0.4 else []), *body]

    @property
    def text(self) -> str:
        return "".join(f"    {line}\n" for line in self.lines)


@pytest.mark.parametrize("seed", range(24))
def test_a_program_on_tiles_gives_what_python_gives(seed: int) -> None:
    program = Program(seed)
    loads = "".join(f"    {x} = tj.warp.load(X[{8 * k}:{8 * k + 8}, 0:16])\n" for k, x in enumerate(NAMES))
    stores = "".join(f"    tj.warp.store(Y[{8 * k}:{8 * k + 8}, 0:16], {x})\n" for k, x in enumerate(NAMES))
    kernel = tj.kernel(threads=32)(source_of(f"def k(X, Y, n):\n{loads}{program.text}{stores}"))
    x = np.random.default_rng(seed).integers(-99, 99, (32, 16)).astype(np.int32)
    for n in (0, 1):
        names = {name: x[8 * k : 8 * k + 8].copy() for k, name in enumerate(NAMES)}
        # augmented assignment rebinds here
        rebound = program.text.replace(" += ", " = sum_of, ")
        python = "\n".join(_rebinding(line[4:]) for line in rebound.splitlines())
        scope: dict[str, object] = {**names, "n": n}
        exec(python, scope)
        y = np.zeros_like(x)
        with tj.use_device("sim"):
            kernel[1](x, y, n)
        np.testing.assert_array_equal(y, np.concatenate([scope[name] for name in NAMES]), program.text)


def _rebinding(line: str) -> str:
    """`x = sum_of, y` as `x = x + (y)`."""
    name, found, value = line.partition(" = sum_of, ")
    return f"{name} = {name.strip()} + ({value})" if found else line


BODY = """\
kernel k threads=32 target=sm_90a
  alloc a: local float32[8, 16] open warp align 16
  alloc b: local float32[8, 16] open warp align 16
  alloc c: local float32[8, 16] open warp align 16
  view t: local float32[16, 8] open warp (1, 0) align 16 of a
  warp.fill a[0 +: 8, 0 +: 16], 1.0
  warp.fill b[0 +: 8, 0 +: 16], 1.0
{}
  warp.add b[0 +: 8, 0 +: 16], b[0 +: 8, 0 +: 16], c[0 +: 8, 0 +: 16]
"""

WHOLE = {x: f"{x}[0 +: 8, 0 +: 16]" for x in "abc"}


@pytest.mark.parametrize(
    ("lines", "apart", "why"),
    [
        ("  warp.add {c}, {a}, 1.0", False, "element by element, and a isn't needed afterwards"),
        ("  warp.add {c}, {a}, 1.0\n  warp.add {b}, {a}, {c}", True, "a is read after the write"),
        ("  warp.add {c}, {a}, a[0 +: 8, 0 +: 1]", True, "a column of a is read in every step"),
        ("  warp.cast {c}, {a}\n  warp.add {b}, {a}, {c}", False, "a copy shows the same"),
        ("  warp.cast {c}, {a}\n  warp.add {a}, {a}, 1.0\n  warp.add {b}, {a}, {c}", True, "the copy is kept"),
        (
            "  warp.cast {c}, {b}\n  for i: int32 within 0..9 in 0 .. 9 step 1\n    warp.add {c}, {a}, 1.0", True,
            "the next round reads a",
        ),
    ],
)
def test_what_is_needed_together_stays_apart(lines: str, apart: bool, why: str) -> None:
    kernel = from_text(BODY.format(lines.format(**WHOLE)))
    numbers = {"a": 0, "c": 1}
    made = Interference(kernel.body, numbers, touches(kernel.body, numbers))
    assert (bool(made.apart[0] & 2), bool(made.apart[1] & 1)) == (apart, apart), why


def test_an_unread_move_is_left_out() -> None:
    text = "def k(A, n):\n    x = tj.warp.load(A[0:32])\n    for i in range(n):\n        x = x + 1\n"
    assert not any(is_move(op) for op in statements(tile_ir(text, array(), dtypes.int32).body, ir.TileOp))


def test_deep_loops_are_walked_once_for_each_change() -> None:
    text = "def k(A, n):\n    x = tj.warp.load(A[0:32])\n"
    for depth in range(14):
        text += "    " * (depth + 1) + f"for i{depth} in range(n):\n"
    text += "    " * 15 + "x = x + 1\n    tj.warp.store(A[0:32], x)\n"
    (load, add, store) = statements(tile_ir(text, array(), dtypes.int32).body, ir.TileOp)
    assert load.written[0].buffer == add.written[0].buffer == store.region("src").buffer
