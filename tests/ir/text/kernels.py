"""Random kernels at both levels: names are defined before use; what they compute makes no sense."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from tilejit.dtypes import DTYPES, DType, bool_, float16, float32, int32, int64
from tilejit.ir import nodes as ir
from tilejit.ir.arithmetic.facts import full_range
from tilejit.ir.params import (
    AssertionsParam,
    BarrierParam,
    BoxShare,
    ExtentParam,
    Param,
    PointerParam,
    ScalarParam,
    ScratchShape,
    StrideParam,
    TensorMapParam,
    TensorMapSpec,
)
from tilejit.ir.placements import PLACES, MemoryPlacement
from tilejit.isa.atomics import OPERATIONS
from tilejit.layout import R, S, Swizzle, TileLayout, laneid, tx
from tilejit.ops.elementwise import ELEMENTWISE
from tilejit.ops.tile import TILE_OPERATIONS
from tilejit.scopes import SCOPES

NAMES = st.sampled_from(
    ("i", "x", "if", "nan", "lane_id", "A.shape.0", "größe", "two words", "a`b\\", "step", "float32")
)
TEXT = st.text(max_size=12)
LAYOUTS: tuple[TileLayout, ...] = (
    S[(32, 8) : (8, 1)],
    S[(32, 8) : (1 @ laneid, 1)],
    S[(8, 4) : (4 @ laneid, 1)] + R[4 : 1 @ laneid] + 3,
    (S[256 : 1 @ tx] + 2 @ laneid).swizzled(Swizzle(3, 3, 3)),
    S[16:1].swizzled(Swizzle(2, 4, 3, inner=False)),
)


class Writer:
    """Draws a kernel's parts; knows which names are taken."""

    def __init__(self, draw: st.DrawFn, level: str) -> None:
        self.draw = draw
        self.level = level
        self.count = 0
        self.vars: list[ir.Var] = []
        self.mutable: list[ir.Var] = []
        self.buffers: list[ir.Buffer] = []

    def name(self) -> str:
        self.count += 1
        return f"{self.draw(NAMES)}{self.count}" if self.draw(st.booleans()) else f"v{self.count}"

    def one_of(self, *choices: Callable[[], ir.Stmt]) -> ir.Stmt:
        return self.draw(st.sampled_from(choices))()

    def const(self, dtype: DType) -> ir.Const:
        if dtype == bool_:
            return ir.Const(self.draw(st.booleans()), dtype)
        if dtype.is_float:
            special = st.sampled_from((0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 1e-300, 0.1))
            value = float(np.float32(self.draw(special))) if dtype == float32 else self.draw(special)
            return ir.Const(value, dtype)
        low, high = full_range(dtype)
        return ir.Const(self.draw(st.one_of(st.integers(max(low, -3), 70), st.integers(low, high))), dtype)

    def leaf(self, dtype: DType) -> ir.Expr:
        found: list[ir.Expr] = [v for v in self.vars if v.dtype == dtype]
        found += [ir.Special(n) for n, number in ir.SPECIALS.items() if number.dtype == dtype]
        if not found or self.draw(st.booleans()):
            return self.const(dtype)
        return self.draw(st.sampled_from(found))

    def expr(self, dtype: DType, depth: int = 3) -> ir.Expr:
        choice = self.draw(st.integers(0, 9)) if depth else 0
        if choice < 3:
            return self.leaf(dtype)
        if choice == 3:
            source = self.draw(st.sampled_from(tuple(DTYPES.values())))
            return ir.Cast(self.expr(source, depth - 1), dtype, self.draw(st.booleans()))
        if choice == 4 and self.level == "lane":
            places = [b for b in self.buffers if b.dtype == dtype]
            return ir.Load(self.vector(self.draw(st.sampled_from(places)), 1)) if places else self.leaf(dtype)
        return self.op(dtype, depth)

    def op(self, dtype: DType, depth: int) -> ir.Expr:
        name = self.draw(st.sampled_from(tuple(ELEMENTWISE)))
        compute = dtype
        if ELEMENTWISE[name].value_type(int32) == bool_:
            compute = self.draw(st.sampled_from((int32, int64, float32, bool_)))
        args = [self.expr(compute, depth - 1) for _ in range(ELEMENTWISE[name].arity)]
        if name == "where":
            args[0] = self.expr(bool_, depth - 1)
        made = ir.Op(name, tuple(args), ELEMENTWISE[name].value_type(compute))
        if self.draw(st.integers(0, 19)) == 0:
            return ir.Op(name, tuple(args), dtype)
        return made if made.dtype == dtype else ir.Cast(made, dtype)

    def var(self, dtype: DType | None = None) -> ir.Var:
        dtype = dtype or self.draw(st.sampled_from(tuple(DTYPES.values())))
        bounds = self.draw(st.sampled_from((None, (0, 7), (-5, -2), (0, 2**40))))
        uniform = self.draw(st.sampled_from(("", "", "warp")))
        return ir.Var(self.name(), dtype, self.draw(st.sampled_from((1, 1, 4, 0))), bounds, uniform=uniform)

    def buffer(self, space: str, base: ir.Buffer | None = None) -> ir.Buffer:
        layout: TileLayout | ir.Strided = self.draw(st.sampled_from(LAYOUTS))
        sizes = [v for v in self.vars if v.dtype == int64]
        size = st.one_of(st.integers(1, 64), st.sampled_from(sizes)) if sizes else st.integers(1, 64)
        shape = tuple(self.draw(st.lists(size, max_size=3)))
        if space == "global":
            strides = tuple(self.draw(size) for _ in shape)
            layout = ir.Strided(strides, self.draw(st.sampled_from((4, 16))), self.draw(st.sampled_from((1, 8))))
        dtype = self.draw(st.sampled_from(tuple(DTYPES.values())))
        return ir.Buffer(self.name(), space, dtype, shape, layout, self.draw(st.sampled_from((4, 16, 128))), base)

    def any_buffer(self) -> ir.Buffer:
        return self.draw(st.sampled_from(self.buffers))

    def index(self) -> ir.Expr:
        return self.expr(self.draw(st.sampled_from((int32, int64))), 2)

    def vector(self, buffer: ir.Buffer | None = None, width: int | None = None) -> ir.Vector:
        width = width or self.draw(st.sampled_from((1, 2, 4)))
        return ir.Vector(buffer or self.any_buffer(), self.index(), width)

    def element(self) -> ir.Element:
        buffer = self.any_buffer()
        return ir.Element(buffer, tuple(self.index() for _ in buffer.shape))

    def region(self) -> ir.Region:
        buffer = self.any_buffer()
        extents = tuple(self.draw(st.one_of(st.none(), st.integers(1, 32))) for _ in buffer.shape)
        return ir.Region(buffer, tuple(self.index() for _ in buffer.shape), extents, self.draw(st.booleans()))

    def place(self) -> ir.Element | ir.Vector:
        return self.element() if self.level == "tile" else self.vector(width=1)

    def stmt(self, depth: int) -> ir.Stmt:
        simple = [self.let, self.declare, self.assign, self.alloc, self.view, self.store, self.atomic]
        simple += [self.word, self.print, self.breakpoint, self.test]
        simple += [self.tile_op, self.tile_op] if self.level == "tile" else [self.move, self.instruction]
        nested = [lambda: self.branch(depth), lambda: self.count_loop(depth), lambda: ir.Loop(self.body(depth - 1))]
        return self.one_of(*simple, *(nested if depth else []))

    def body(self, depth: int) -> tuple[ir.Stmt, ...]:
        return tuple(self.stmt(depth) for _ in range(self.draw(st.integers(0, 4))))

    def let(self) -> ir.Stmt:
        var = self.var()
        load = self.buffers and self.draw(st.integers(0, 3)) == 0
        place = self.place() if load else None
        if place is not None:
            var = ir.Var(var.name, place.buffer.dtype)
        order = self.draw(st.sampled_from(ir.ORDERS["load"]))
        value = ir.Load(place, order) if place is not None else self.expr(var.dtype)
        self.vars.append(var)
        return ir.Let(var, value)

    def declare(self) -> ir.Stmt:
        var = self.var()
        init = self.expr(var.dtype) if self.draw(st.booleans()) else None
        self.vars.append(var)
        self.mutable.append(var)
        return ir.Declare(var, init)

    def assign(self) -> ir.Stmt:
        if not self.mutable:
            return self.declare()
        var = self.draw(st.sampled_from(self.mutable))
        return ir.Assign(var, self.expr(var.dtype))

    def alloc(self) -> ir.Stmt:
        buffer = self.buffer(self.draw(st.sampled_from(("shared", "local", "tmem"))))
        self.buffers.append(buffer)
        return ir.Alloc(buffer, buffer.space == "local" and self.draw(st.booleans()))

    def view(self) -> ir.Stmt:
        if not self.buffers:
            return self.alloc()
        base = self.any_buffer()
        if self.level == "lane" and self.draw(st.booleans()):
            buffer = replace(base, name=self.name(), base=base, offset=self.expr(base.index_dtype))
        else:
            buffer = self.buffer(base.space, base)
        self.buffers.append(buffer)
        return ir.BufferView(buffer)

    def store(self) -> ir.Stmt:
        if not self.buffers:
            return self.alloc()
        place = self.place()
        return ir.Store(place, self.expr(place.buffer.dtype), self.draw(st.sampled_from(ir.ORDERS["store"])))

    def atomic(self) -> ir.Stmt:
        if not self.buffers:
            return self.alloc()
        place, op = self.place(), self.draw(st.sampled_from(tuple(OPERATIONS)))
        values = tuple(self.expr(place.buffer.dtype) for _ in range(self.draw(st.integers(1, 2))))
        var = ir.Var(self.var().name, place.buffer.dtype) if self.draw(st.booleans()) else None
        self.vars += [var] if var is not None else []
        return ir.Atomic(op, place, values, self.draw(st.sampled_from(ir.ORDERS["atomic"])), var)

    def word(self) -> ir.Stmt:
        scope = self.draw(st.sampled_from(("warp", "warpgroup", "cta", "grid")))
        return self.draw(st.sampled_from((ir.Break(), ir.Continue(), ir.Return(), ir.Sync(scope))))

    def print(self) -> ir.Stmt:
        parts: list[str | ir.Expr] = [self.draw(TEXT), self.expr(float32), self.expr(int64), self.draw(TEXT)]
        return ir.Print(tuple(parts[: self.draw(st.integers(0, 4))]))

    def breakpoint(self) -> ir.Stmt:
        if not self.buffers:
            return self.alloc()
        place = self.region() if self.level == "tile" else self.vector()
        return ir.Breakpoint(self.draw(TEXT), (self.expr(float32), place, self.expr(int64)))

    def test(self) -> ir.Stmt:
        values = [self.expr(int64) for _ in range(self.draw(st.integers(0, 2)))]
        rule = self.draw(st.sampled_from(ir.RULES[1:] if values else ir.RULES))
        return ir.Assert(self.expr(bool_), self.draw(TEXT), rule, tuple(values))

    def branch(self, depth: int) -> ir.Stmt:
        return ir.If(self.expr(bool_), self.body(depth - 1), self.body(depth - 1))

    def count_loop(self, depth: int) -> ir.Stmt:
        var = self.var(self.draw(st.sampled_from((int32, int64))))
        start, stop, step = (self.expr(var.dtype, 1) for _ in range(3))
        self.vars.append(var)
        unrolled = self.level == "lane" and self.draw(st.booleans())
        return ir.For(var, start, stop, step, self.body(depth - 1), unrolled)

    def tile_op(self) -> ir.Stmt:
        if not self.buffers:
            return self.alloc()
        name = self.draw(st.sampled_from(tuple(TILE_OPERATIONS)))
        operands: list[ir.Region | ir.Expr | None] = [self.region()]
        for _ in range(self.draw(st.integers(0, 3))):
            if self.draw(st.integers(0, 4)) == 0:
                operands.append(None)
            operands.append(self.region() if self.draw(st.booleans()) else self.scalar_operand())
        variant = self.draw(st.one_of(st.none(), TEXT))
        attrs = (("variant", variant), ("require_bits", self.draw(st.integers(-9, 128))), ("on", True))
        kept = attrs[: self.draw(st.integers(0, 3))]
        return ir.TileOp(name, self.draw(st.sampled_from(tuple(SCOPES))), tuple(operands), kept)

    def scalar_operand(self) -> ir.Expr:
        if self.draw(st.booleans()):
            return ir.Load(self.element())
        return self.expr(self.draw(st.sampled_from(tuple(DTYPES.values()))), 2)

    def move(self) -> ir.Stmt:
        if not self.buffers:
            return self.alloc()
        width = self.draw(st.sampled_from((1, 2, 4)))
        dst, src = self.vector(width=width), self.vector(width=width)
        predicate = self.expr(bool_, 2) if self.draw(st.booleans()) else None
        otherwise = self.expr(dst.buffer.dtype, 1) if self.draw(st.booleans()) else None
        cache = self.draw(st.sampled_from(("", "streaming", "evict_last")))
        return ir.Move(dst, src, predicate, otherwise, self.draw(st.sampled_from(ir.ORDERS["move"])), cache)

    def instruction(self) -> ir.Stmt:
        name = self.draw(st.sampled_from(("cp.async.commit_group", "ldmatrix.x4", "fence::proxy")))
        var = self.var() if self.draw(st.booleans()) else None
        if not self.buffers:
            return self.defined(ir.Instruction(name, var=var))
        outputs = tuple(self.vector() for _ in range(self.draw(st.integers(0, 2))))
        count = self.draw(st.integers(0, 2))
        inputs = tuple(self.vector() if self.draw(st.booleans()) else self.instruction_scalar() for _ in range(count))
        return self.defined(ir.Instruction(name, outputs, inputs, var=var))

    def defined(self, stmt: ir.Instruction) -> ir.Stmt:
        self.vars += [stmt.var] if stmt.var is not None else []
        return stmt

    def instruction_scalar(self) -> ir.Expr:
        return self.expr(self.draw(st.sampled_from((int32, int64))), 2)

    def params(self) -> tuple[Param, ...]:
        found: list[Param] = []
        for _ in range(self.draw(st.integers(0, 2))):
            of = self.name()
            for kind in (ExtentParam, StrideParam, ScalarParam)[: self.draw(st.integers(0, 3))]:
                var = self.var(None if kind is ScalarParam else int64)
                self.vars.append(var)
                axis = () if kind is ScalarParam else (self.draw(st.integers(0, 3)),)
                found.append(kind(of, var, *axis))
            buffer = self.buffer("global")
            self.buffers.append(buffer)
            flags = (self.draw(st.booleans()), self.draw(st.booleans()))
            scratch = None
            if self.level == "tile" and self.draw(st.booleans()):
                sizes = tuple(self.expr(int64, 2) for _ in range(self.draw(st.integers(1, 3))))
                scratch = ScratchShape(sizes, self.draw(st.booleans()))
            found.insert(0, PointerParam(of, buffer, *flags, scratch))
        if self.draw(st.booleans()):
            found.append(AssertionsParam())
        if self.draw(st.booleans()):
            self.buffers.append(self.buffer("global"))
            found.append(BarrierParam(self.buffers[-1]))
        if self.draw(st.booleans()):
            self.vars.append(self.var(int64))
            swizzle, fetch = (self.draw(st.sampled_from(each)) for each in (("none", "128B"), ("64B", "256B")))
            spec = TensorMapSpec(self.name(), float16, (1, 0), (64, 8), swizzle, fetch)
            shares = self.draw(st.sampled_from(((), (BoxShare((0, 8), 1024),), (BoxShare((0, -1), 0),) * 2)))
            found.append(TensorMapParam(self.vars[-1], spec, self.draw(st.booleans()), shares))
        return tuple(found)

    def placement(self) -> MemoryPlacement:
        numbers = st.integers(0, 1 << 18)
        align = self.draw(st.sampled_from((1, 16, 1024)))
        where = self.draw(st.sampled_from(PLACES))
        return MemoryPlacement(self.name(), where, self.draw(numbers), self.draw(numbers), align)

    def kernel(self) -> ir.Kernel:
        params = self.params()
        threads = self.draw(st.sampled_from((32, 1024)))
        registers = self.draw(st.sampled_from((None, 64)))
        cluster = self.draw(st.sampled_from((None, (2, 1, 1))))
        body = self.body(2)
        memory = tuple(self.placement() for _ in range(self.draw(st.integers(0, 3))))
        flags = {"debug": self.draw(st.booleans()), "cooperative": self.draw(st.booleans())}
        return ir.Kernel(self.name(), params, threads, "sm_90a", body, registers, cluster, memory=memory, **flags)


@st.composite
def kernels(draw: st.DrawFn, level: str) -> ir.Kernel:
    """A kernel at one level, "tile" or "lane"."""
    return Writer(draw, level).kernel()
