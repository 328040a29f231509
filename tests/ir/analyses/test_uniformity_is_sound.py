"""What the active-thread analysis accepts, threads of one scope really reach together."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.reference.threads import Array, Threads
from tests.support.profiles import times
from tilejit.dtypes import bool_, int32
from tilejit.errors import DispatchError
from tilejit.ir import nodes as ir
from tilejit.ir.analyses.collectives import check
from tilejit.ir.params import ScalarParam

THREADS = 256
#: enough of them to tell lanes, warps and warpgroups apart
SAMPLE = (0, 1, 31, 32, 33, 127, 128, 159, 255)
#: scope -> threads of an instance
SIZES = {"warp": 32, "warpgroup": 128, "cta": THREADS}
N = ir.Var("n", int32)
X, Y = ir.Var("x", int32), ir.Var("y", int32)
LANE, WARP, GROUP = ir.Special("lane_id"), ir.Special("warp_id"), ir.Special("warpgroup_id")

COPIED = tj.S[(1,) : (1 @ tj.tx)] + tj.R[(THREADS,) : (1 @ tj.tx)]
COPIES = tuple(ir.Buffer(name, "local", int32, (), COPIED, 16) for name in ("s", "t"))
OWN = tuple(ir.Buffer(f"{c.name}.view", "local", int32, (1,), tj.S[1], 16, base=c) for c in COPIES)

OF_COPIES = tuple(ir.Load(ir.Element(own, (ir.Const(0, int32),))) for own in OWN)


class ThreadsWithCopies(Threads):
    """Those of a CTA that add to tiles of one element, of which each thread has a copy."""

    def simple(self, stmt: ir.Stmt, active: Array) -> None:
        if not isinstance(stmt, ir.TileOp):
            super().simple(stmt, active)
            return
        dst, first, second = stmt.operands
        assert isinstance(dst, ir.Region)
        total = np.add(*[self._number(operand, active) for operand in (first, second)])
        self.registers[dst.buffer.name][active, 0] = total[active]

    def _number(self, operand: ir.Region | ir.Expr | None, active: Array) -> Array:
        if isinstance(operand, ir.Region):
            return self.registers[operand.buffer.name][:, 0]
        assert operand is not None
        return self.value(operand, active)


class Program:
    """Draws a body of branches, loops, assignments, additions to copies, and barriers."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.count = 0

    def value(self, loops: tuple[ir.Var, ...]) -> ir.Expr:
        return self.draw(st.sampled_from((ir.Const(1, int32), N, X, Y, WARP, LANE, GROUP, *OF_COPIES, *loops)))

    def addition(self, loops: tuple[ir.Var, ...]) -> ir.Stmt:
        dst, src = [ir.Region(self.draw(st.sampled_from(COPIES)), (), ()) for _ in range(2)]
        return ir.TileOp("add", "cta", (dst, src, self.value(loops)))

    def cond(self, loops: tuple[ir.Var, ...]) -> ir.Expr:
        name = self.draw(st.sampled_from(("less", "equal")))
        return ir.Op(name, (self.value(loops), self.value(loops)), bool_)

    def body(self, depth: int, loops: tuple[ir.Var, ...], in_loop: bool) -> tuple[ir.Stmt, ...]:
        return tuple(self.stmt(depth, loops, in_loop) for _ in range(self.draw(st.integers(1, 3))))

    def stmt(self, depth: int, loops: tuple[ir.Var, ...], in_loop: bool) -> ir.Stmt:
        choice = self.draw(st.integers(-4, 9 if depth else 5))
        if choice < -1:
            return self.addition(loops)
        if choice == -1:
            copy, scope = self.draw(st.sampled_from(OF_COPIES)), self.draw(st.sampled_from(tuple(SIZES)))
            return ir.If(ir.Op("less", (self.value(loops), copy), bool_), (ir.Sync(scope),))
        if choice <= 2:
            return ir.Sync(self.draw(st.sampled_from(tuple(SIZES))))
        if choice <= 4:
            return ir.Assign(self.draw(st.sampled_from((X, Y))), self.value(loops))
        if choice == 5:
            words = (ir.Break(), ir.Continue()) if in_loop else (ir.Return(),)
            leave = self.draw(st.sampled_from((*words, ir.Return())))
            change = ir.Assign(self.draw(st.sampled_from((X, Y))), self.value(loops))
            return ir.If(self.cond(loops), (change, leave) if self.draw(st.booleans()) else (leave,))
        if choice <= 7:
            orelse = self.body(depth - 1, loops, in_loop) if self.draw(st.booleans()) else ()
            return ir.If(self.cond(loops), self.body(depth - 1, loops, in_loop), orelse)
        self.count += 1
        if choice == 8:
            var = ir.Var(f"i{self.count}", int32)
            start = self.draw(st.sampled_from((ir.Const(0, int32), WARP, LANE)))
            stop = self.draw(st.sampled_from((N, WARP, X)))
            return ir.For(var, start, stop, ir.Const(1, int32), self.body(depth - 1, (*loops, var), True))
        return self.loop(depth, loops)

    def loop(self, depth: int, loops: tuple[ir.Var, ...]) -> ir.Stmt:
        """One that ends after a few rounds, whatever its body does."""
        rounds = ir.Var(f"rounds{self.count}", int32)
        count = ir.Assign(rounds, ir.Op("add", (rounds, ir.Const(1, int32)), int32))
        enough = ir.If(ir.Op("less", (ir.Const(3, int32), rounds), bool_), (ir.Break(),))
        body = (count, enough, *self.body(depth - 1, loops, True))
        return ir.If(ir.Const(True, bool_), (ir.Declare(rounds, ir.Const(0, int32)), ir.Loop(body)))


@st.composite
def bodies(draw: st.DrawFn) -> tuple[ir.Stmt, ...]:
    copies = [stmt for own, copy in zip(OWN, COPIES, strict=True) for stmt in (ir.Alloc(copy), ir.BufferView(own))]
    start = (ir.Declare(X, ir.Const(0, int32)), ir.Declare(Y, ir.Const(1, int32)))
    return (*copies, *start, *Program(draw).body(2, (), False), ir.Sync(draw(st.sampled_from(tuple(SIZES)))))


@given(bodies(), st.integers(0, 3))
@settings(max_examples=times(53))
def test_threads_of_a_scope_come_to_the_same_collectives(body: tuple[ir.Stmt, ...], n: int) -> None:
    param = ScalarParam("n", N)
    kernel = ir.Kernel("k", (param,), THREADS, "sm_90a", body)
    try:
        check(kernel)
    except DispatchError:
        return
    came = dict(zip(SAMPLE, ThreadsWithCopies(kernel, {}, {"n": n}, numbers=SAMPLE).barriers, strict=True))
    for t, mine in came.items():
        for scope, size in SIZES.items():
            together = [u for u in SAMPLE if u // size == t // size]
            assert all([c for c in came[u] if c[0] == scope] == [c for c in mine if c[0] == scope] for u in together)
