"""Random nests of loops compute the same with invariant code hoisted, and with offsets split, as without.

Each is compiled three ways: as it is, with offsets split, and with invariant code hoisted as well. Numbers
wrap around, loops may be empty, variables change in loops, and masked accesses lie far outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from tests.codegen.devices import Simulator
from tests.support.lane_kernels import THREAD, array, const, local, pointer, shared
from tilejit.dataclass import replace
from tilejit.dtypes import DType, int32, int64, uint32
from tilejit.ir.arithmetic import build
from tilejit.ir.arithmetic.facts import bounds, multiple_of
from tilejit.ir.names import names_in
from tilejit.ir.nodes import (
    Alloc,
    Assign,
    Break,
    Buffer,
    BufferView,
    Continue,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Move,
    Stmt,
    Store,
    Var,
    Vector,
)
from tilejit.ir.params import ScalarParam
from tilejit.ir.verify import verify
from tilejit.lower.passes.hoist import hoist
from tilejit.lower.passes.split_offsets import split_offsets
from tilejit.lower.passes.storage import placed

THREADS, EACH = 32, 64
IN, OUT, SUMS = (array(name, int32, size) for name, size in (("in", 2048), ("out", 2048), ("sums", THREADS)))
SHARED, LOCAL, REGISTERS = shared("s", int32, THREADS * EACH), local("t", int32, EACH), local("r", int32, 4)
N, M, WIDE = Var("n", int32), Var("m", int32, bounds=(0, 9)), Var("wide", int64, bounds=(-5, 20))
CHANGING, TOTAL = Var("changing", int32), Var("total", int32)

CONSTANTS = (0, 1, 2, 3, 5, 7, 16, 64, 2**31 - 1)
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
DIVISIONS = ("floordiv", "mod", "left_shift", "right_shift")
OTHERS = ("minimum", "maximum", "bitwise_xor", "bitwise_and", "bitwise_or", "sub", "mul")


class _Drawing:
    """Draws statements. expressions: all that were drawn, to be used again by other statements."""

    def __init__(self, seed: int) -> None:
        self.random, self.expressions = Random(seed), list[Expr]()
        self._names = 0

    def var(self, dtype: DType, value: Expr | None = None) -> Var:
        self._names += 1
        if value is None:
            return Var(f"v{self._names}", dtype)
        low, high = bounds(value)
        ends = None if low is None or high is None else (low, high)
        return Var(f"v{self._names}", dtype, multiple_of(value) or 1, ends)

    def expr(self, scope: Sequence[Var], dtype: DType, depth: int = 3) -> Expr:
        random = self.random
        visible = {var.name for var in scope}
        again = [e for e in self.expressions[-30:] if e.dtype is dtype and names_in(e) <= visible]
        if again and random.random() < 0.15:
            return random.choice(again)
        if depth == 0:
            leaves: list[Expr] = [var for var in scope if var.dtype is dtype]
            return random.choice([*leaves, *([THREAD] if dtype is int32 else []), self.constant(dtype)])
        made = self.operation(scope, dtype, depth)
        self.expressions.append(made)
        return made

    def constant(self, dtype: DType) -> Expr:
        return build.const(self.random.choice(CONSTANTS), dtype)

    def operation(self, scope: Sequence[Var], dtype: DType, depth: int) -> Expr:
        random, first = self.random, self.expr(scope, dtype, depth - 1)
        kind = random.choice(["add"] * 4 + ["divide", "other", "other", "cast", "where"])
        if kind == "divide":
            by = self.expr(scope, dtype, 1) if random.random() < 0.4 else build.const(random.choice((2, 3, 5)), dtype)
            return build.op(random.choice(DIVISIONS[:2]), first, by) if random.random() < 0.5 else build.op(
                random.choice(DIVISIONS), first, build.const(random.choice((2, 3, 5)), dtype)
            )
        if kind == "cast":
            return build.cast(self.expr(scope, random.choice((int32, int64, uint32)), depth - 1), dtype)
        second = self.expr(scope, dtype, depth - 1)
        if kind == "where":
            return build.where(self.condition(scope), first, second)
        return build.op("add" if kind == "add" else random.choice(OTHERS), first, second)

    def condition(self, scope: Sequence[Var]) -> Expr:
        dtype = self.random.choice((int32, int64, uint32))
        sides = self.expr(scope, dtype, 2), self.expr(scope, dtype, 2)
        return build.op(self.random.choice(COMPARISONS), *sides)

    def offset(self, scope: Sequence[Var], dtype: DType, width: int = 1, room: int = EACH) -> Expr:
        """A sum of small terms: an offset at which `width` elements certainly lie inside the room."""
        left, terms = room - width, list[Expr]()
        for var in self.random.sample(scope, len(scope)):
            factor = self.random.choice((1, 1, 2, 4))
            if var.dtype not in (int32, int64) or var.bounds is None or var.bounds[0] < 0:
                continue
            if var.bounds[1] * factor <= left and self.random.random() < 0.6:
                left -= var.bounds[1] * factor
                terms.append(build.mul(build.cast(var, dtype), build.const(factor, dtype)))
        terms.append(build.const(self.random.choice([c for c in (0, 1, 2, 4, 8) if c <= left]), dtype))
        return build.total(self.random.sample(terms, len(terms)), dtype)

    def place(self, buffer: Buffer, scope: Sequence[Var], width: int = 1) -> Expr:
        """Where a thread accesses its part of a buffer."""
        if buffer is LOCAL:
            return self.offset(scope, int32, width)
        dtype = buffer.index_dtype
        first = build.mul(build.cast(THREAD, dtype), build.const(EACH, dtype))
        part = self.offset(scope, dtype, 1, EACH // width)
        return build.add(first, build.mul(part, build.const(width, dtype)))

    def block(self, scope: Sequence[Var], depth: int, count: int) -> tuple[Stmt, ...]:
        visible, made = list(scope), list[Stmt]()
        kinds = [_Drawing.let, _Drawing.assign, _Drawing.access, _Drawing.move, _Drawing.view]
        for _ in range(count):
            is_nested = depth > 0 and self.random.random() < 0.3
            draw = self.random.choice([_Drawing.branch, _Drawing.counted, _Drawing.endless] if is_nested else kinds)
            made += draw(self, visible, depth - 1)
        return tuple(made)

    def let(self, scope: list[Var], depth: int) -> list[Stmt]:
        dtype = self.random.choice((int32, int64, uint32))
        is_small = dtype is not uint32 and self.random.random() < 0.4
        value = self.offset(scope, dtype, room=40) if is_small else self.expr(scope, dtype)
        scope.append(self.var(dtype, value))
        return [Let(scope[-1], value)]

    def assign(self, scope: list[Var], depth: int) -> list[Stmt]:
        value = self.expr(scope, int32)
        if self.random.random() < 0.3:
            return [Assign(CHANGING, value)]
        return [Assign(TOTAL, build.add(build.mul(TOTAL, 31), value))]

    def access(self, scope: list[Var], depth: int) -> list[Stmt]:
        buffer = self.random.choice((IN, OUT, SHARED, LOCAL))
        place = Vector(buffer, self.place(buffer, scope))
        if buffer is not IN and self.random.random() < 0.5:
            return [Store(place, self.expr(scope, int32))]
        if buffer is OUT:
            return []
        var = self.var(int32)
        scope.append(var)
        return [Let(var, Load(place))]

    def move(self, scope: list[Var], depth: int) -> list[Stmt]:
        width, registers = self.random.choice((1, 2, 4)), Vector(REGISTERS, const(0), 1)
        if self.random.random() < 0.3:
            start = build.mul(build.cast(THREAD, int64), build.const(EACH, int64))
            at = build.add(self.expr(scope, int64, 2), start)
            ends = build.greater_equal(at, build.const(0, int64)), build.less(at, build.const(2048, int64))
            masked = Move(registers, Vector(IN, at), build.logical_and(*ends), const(-3))
            return [masked, Assign(TOTAL, build.add(TOTAL, Load(registers)))]
        buffer = self.random.choice((OUT, LOCAL, LOCAL))
        held, there = replace(registers, width=width), Vector(buffer, self.place(buffer, scope, width), width)
        predicate = self.condition(scope) if self.random.random() < 0.4 else None
        if buffer is OUT or self.random.random() < 0.5:
            return [Move(there, held, predicate)]
        return [Move(held, there, predicate)]

    def view(self, scope: list[Var], depth: int) -> list[Stmt]:
        base = self.random.choice((SHARED, IN))
        dtype = base.index_dtype
        start = build.mul(build.cast(THREAD, dtype), build.const(EACH, dtype))
        offset = build.add(start, self.offset(scope, dtype, room=30))
        views = [replace(base, name=self.var(dtype).name, base=base, offset=offset, align=4)]
        if self.random.random() < 0.5:
            views.append(replace(views[0], name=self.var(dtype).name, base=views[0], offset=None))
        var = self.var(int32)
        scope.append(var)
        return [*map(BufferView, views), Let(var, Load(Vector(views[-1], self.offset(scope, dtype, room=33))))]

    def branch(self, scope: list[Var], depth: int) -> list[Stmt]:
        then, orelse = (self.block(scope, depth, self.random.randint(least, 3)) for least in (1, 0))
        return [If(self.condition(scope), then, orelse)]

    def counted(self, scope: list[Var], depth: int) -> list[Stmt]:
        dtype = self.random.choice((int32, int64))
        zero, one, most = (build.const(number, dtype) for number in (0, 1, 4))
        turn = replace(self.var(dtype), bounds=(0, 4))
        stop = build.minimum(build.maximum(self.expr(scope, dtype, 2), zero), most)
        body = self.block([*scope, turn], depth, self.random.randint(1, 5))
        if self.random.random() < 0.2:
            leave = If(self.condition([*scope, turn]), (self.random.choice((Break(), Continue())),))
            body = (leave, *body)
        return [For(turn, zero, stop, one, body)]

    def endless(self, scope: list[Var], depth: int) -> list[Stmt]:
        turns = self.var(int32)
        leave = If(build.greater_equal(turns, self.random.randint(0, 3)), (Break(),))
        body = self.block([*scope, turns], depth, self.random.randint(1, 4))
        return [Declare(turns, const(0)), Loop((leave, Assign(turns, build.add(turns, 1)), *body))]


def program(seed: int) -> Kernel:
    """Fills memory, does what is drawn, and writes out what it left."""
    drawing = _Drawing(seed)
    element, x, last = Var("element", int32, bounds=(0, EACH - 1)), Var("x", int32), Var("last", int32, bounds=(0, 63))
    at = build.add(build.mul(THREAD, EACH), element)
    fill: list[Stmt] = [Let(x, Load(Vector(IN, build.cast(at, int64))))]
    fill += [Store(Vector(LOCAL, element), x), Store(Vector(SHARED, at), x)]
    head: list[Stmt] = [Alloc(SHARED), Alloc(LOCAL, addressed=True), Alloc(REGISTERS)]
    head += [Declare(CHANGING, THREAD), Declare(TOTAL, const(0))]
    head += [Store(Vector(REGISTERS, const(k)), const(k)) for k in range(4)]
    head.append(For(element, const(0), const(EACH), const(1), tuple(fill)))
    body = drawing.block([N, M, WIDE, CHANGING], 4, drawing.random.randint(4, 8))
    left = build.add(build.mul(TOTAL, 17), Load(Vector(LOCAL, last)))
    ends: list[Stmt] = [For(last, const(0), const(EACH), const(1), (Assign(TOTAL, left),))]
    ends.append(Store(Vector(SUMS, build.cast(THREAD, int64)), TOTAL))
    params = (
        pointer(IN), pointer(OUT, written=True), pointer(SUMS, written=True),
        *(ScalarParam(var.name, var) for var in (N, M, WIDE)),
    )
    return placed(Kernel("k", params, THREADS, "sm_90", (*head, *body, *ends)))


def results(kernel: Kernel, seed: int) -> tuple[list[int], list[int]]:
    numbers = np.random.default_rng(seed)
    source, out, sums = numbers.integers(-50, 50, 2048, np.int32), np.zeros(2048, np.int32), np.zeros(THREADS, np.int32)
    n = numbers.integers(-6, 30) if seed % 2 else numbers.integers(-(2**31), 2**31)
    scalars = np.int32(n), np.int32(numbers.integers(0, 10)), np.int64(numbers.integers(-5, 21))
    Simulator().run(kernel, [source, out, sums, *scalars])
    return out.tolist(), sums.tolist()


def check(seed: int) -> None:
    plain = program(seed)
    split = split_offsets(plain)
    moved = hoist(split)
    assert verify(plain, "lane") == [] == verify(split, "lane") == verify(moved, "lane")
    wanted = results(plain, seed)
    assert results(split, seed) == wanted and results(moved, seed) == wanted


@pytest.mark.parametrize("seed", range(25))
def test_random_loops_compute_the_same_with_what_does_not_change_in_front(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_more_random_loops_compute_the_same(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)
