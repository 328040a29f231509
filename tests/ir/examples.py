"""For each class of node a sound kernel that has one, and one in which it breaks an invariant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from tilejit.dtypes import barrier, bool_, float32, int8, int32, int64, uint32
from tilejit.ir import nodes as ir
from tilejit.ir import walk
from tilejit.ir.params import (
    AddressParam,
    AssertionsParam,
    BarrierParam,
    ExtentParam,
    Param,
    PointerParam,
    ScalarParam,
    StrideParam,
    TensorMapParam,
    TensorMapSpec,
)
from tilejit.layout import TileLayout


@dataclass(frozen=True)
class Example:
    """A node in a sound kernel.

    broken: a kernel in which such a node is invalid; None if it can't be.
    """

    node: object
    sound: ir.Kernel
    broken: ir.Kernel | None
    level: str = "lane"


def buffer(name: str, space: str, size: int) -> ir.Buffer:
    return ir.Buffer(name, space, float32, (size,), TileLayout.row_major((size,)), 128)


N, TALL = ir.Var("n", int32), ir.Var("tall", int64)
A, SHARED, REGISTERS, SPARE = buffer("A", "global", 64), buffer("s", "shared", 64), buffer("r", "local", 8), "spare"
POINTER, NUMBER = PointerParam("A", A), ScalarParam("n", N)

ZERO, ONE, FOUR = (ir.Const(value, int32) for value in (0, 1, 4))
HALF = ir.Const(0.5, float32)
SMALL = ir.Op("less", (N, FOUR), bool_)
UNDEFINED = ir.Var("undefined", int32)

FIRST, NEXT, MEMORY = (ir.Vector(b, ZERO, w) for b, w in ((REGISTERS, 1), (REGISTERS, 4), (SHARED, 4)))
SECOND = ir.Vector(REGISTERS, ONE)
PAST = ir.Vector(REGISTERS, ir.Const(8, int32))


def kernel(*body: ir.Stmt, params: tuple[Param, ...] = ()) -> ir.Kernel:
    """A kernel with an array A, a number n, shared memory s and registers r."""
    return ir.Kernel("k", (POINTER, NUMBER, *params), 32, "sm_90a", (ir.Alloc(SHARED), ir.Alloc(REGISTERS), *body))


def statement(sound: ir.Stmt, broken: ir.Stmt | None, *before: ir.Stmt, level: str = "lane") -> Example:
    return Example(sound, kernel(*before, sound), None if broken is None else kernel(*before, broken), level)


def looped(sound: ir.Stmt) -> Example:
    """A statement that must be inside a loop."""
    return Example(sound, kernel(ir.Loop((ir.If(SMALL, (sound,)),))), kernel(sound))


def expression(sound: ir.Expr, broken: ir.Expr) -> Example:
    """Two expressions, each printed."""
    return Example(sound, kernel(ir.Print((sound,))), kernel(ir.Print((broken,))))


def parameter(sound: Param, broken: Param | None) -> Example:
    bad = None if broken is None else kernel(params=(broken,))
    return Example(sound, kernel(params=(sound,)), bad)


def _let(value: ir.Expr) -> ir.Let:
    return ir.Let(ir.Var("x", int32), value)


_CHANGING = ir.Var("v", int32)
_COUNTER = ir.Var("i", int32)
_FILLED = ir.Region(SHARED, (ZERO,), (8,))

_BARRIERS = ir.Alloc(
    ir.Buffer("b", "shared", barrier, (2,), TileLayout.row_major((2,)), barrier.bytes), arrivals=3
)
_SECOND_BARRIER = ir.Vector(_BARRIERS.buffer, ONE)

STATEMENTS: dict[str, Example] = {
    "Let": statement(_let(N), _let(HALF)),
    "Declare": statement(ir.Declare(_CHANGING, N), ir.Declare(_CHANGING, HALF)),
    "Assign": statement(ir.Assign(_CHANGING, N), ir.Assign(_CHANGING, HALF), ir.Declare(_CHANGING, ONE)),
    "Alloc": statement(ir.Alloc(buffer(SPARE, "shared", 8)), ir.Alloc(buffer(SPARE, "global", 8))),
    "BufferView": statement(
        ir.BufferView(ir.Buffer(SPARE, "shared", float32, (64,), TileLayout.row_major((64,)), 128, SHARED)),
        ir.BufferView(buffer(SPARE, "shared", 64)),
    ),
    "Store": statement(ir.Store(FIRST, HALF), ir.Store(FIRST, ONE)),
    "Atomic": statement(
        ir.Atomic("add", ir.Vector(A, ir.Const(1, int64)), (HALF,), "acquire.cta", ir.Var("before", float32)),
        ir.Atomic("xor", ir.Vector(A, ir.Const(1, int64)), (HALF,)),
    ),
    "If": statement(ir.If(SMALL, (_let(N),), (ir.Declare(_CHANGING, N),)), ir.If(N, ())),
    "For": statement(ir.For(_COUNTER, ZERO, N, ONE, (_let(N),)), ir.For(_COUNTER, ZERO, N, ZERO, ())),
    "Loop": statement(ir.Loop((_let(N), ir.If(SMALL, (ir.Break(),)))), ir.Loop((_let(HALF),))),
    "Break": looped(ir.Break()),
    "Continue": Example(
        ir.Continue(), kernel(ir.For(_COUNTER, ZERO, N, ONE, (ir.If(SMALL, (ir.Continue(),)),))), kernel(ir.Continue())
    ),
    "Return": statement(ir.Return(), None),
    "Sync": statement(ir.Sync("warp"), ir.Sync("thread")),
    "Arrive": statement(ir.Arrive(_SECOND_BARRIER, "warp", FOUR), ir.Arrive(FIRST, "warp"), _BARRIERS),
    "WaitPhase": statement(
        ir.WaitPhase(_SECOND_BARRIER, N, ir.Var("done", bool_)), ir.WaitPhase(_SECOND_BARRIER, HALF), _BARRIERS
    ),
    "Expect": statement(
        ir.Expect(ir.Element(_BARRIERS.buffer, (ONE,)), N), ir.Expect(ir.Element(_BARRIERS.buffer, (FOUR,)), N),
        _BARRIERS, level="tile",
    ),
    "Assert": statement(ir.Assert(SMALL, "n is {0}", "bounds", (ir.Const(3, int64),)), ir.Assert(N, "n is small")),
    "Print": statement(ir.Print(("n is", N)), ir.Print((UNDEFINED,))),
    "Breakpoint": statement(ir.Breakpoint("[]", (N, FIRST, MEMORY)), ir.Breakpoint("[]", (UNDEFINED,))),
    "TileOp": statement(
        ir.TileOp("fill", "warp", (_FILLED, HALF)), ir.TileOp("no_such", "warp", (_FILLED, HALF)), level="tile"
    ),
    "Move": statement(ir.Move(NEXT, MEMORY), ir.Move(FIRST, MEMORY)),
    "Instruction": statement(
        ir.Instruction("ex2.approx.f32", (FIRST,), (SECOND,)), ir.Instruction("ex2.approx.f32", (FIRST,), ())
    ),
}

EXPRESSIONS: dict[str, Example] = {
    "Const": expression(ONE, ir.Const(300, int8)),
    "Var": expression(N, UNDEFINED),
    "Special": expression(ir.Special("lane_id"), ir.Special("no_such")),
    "Op": expression(ir.Op("add", (N, ONE), int32), ir.Op("add", (N, HALF), int32)),
    "Cast": expression(ir.Cast(N, float32), ir.Cast(UNDEFINED, float32)),
    "Load": expression(ir.Load(FIRST), ir.Load(PAST)),
}


def _element(index: int) -> ir.Stmt:
    return ir.Store(ir.Element(SHARED, (ir.Const(index, int32),)), HALF)


def _fill(extent: int) -> ir.Stmt:
    return ir.TileOp("fill", "warp", (ir.Region(SHARED, (ZERO,), (extent,)), HALF))


PLACES: dict[str, Example] = {
    "Region": Example(_FILLED, kernel(_fill(8)), kernel(_fill(65)), "tile"),
    "Element": Example(ir.Element(SHARED, (ONE,)), kernel(_element(1)), kernel(_element(64)), "tile"),
    "Vector": Example(FIRST, kernel(ir.Store(FIRST, HALF)), kernel(ir.Store(PAST, HALF))),
}

PARAMETERS: dict[str, Example] = {
    "PointerParam": parameter(
        PointerParam("B", buffer("B", "global", 8)), PointerParam("B", buffer("B", "shared", 8))
    ),
    "ScalarParam": parameter(ScalarParam("m", ir.Var("m", int32)), NUMBER),
    "ExtentParam": parameter(ExtentParam("A", TALL, 0), ExtentParam("A", ir.Var("wide", int32), 0)),
    "AddressParam": parameter(AddressParam("A", TALL), AddressParam("A", ir.Var("wide", int32))),
    "StrideParam": parameter(StrideParam("A", TALL, 0), StrideParam("A", ir.Var("wide", int32), 0)),
    "BarrierParam": parameter(
        BarrierParam(replace(buffer("b", "global", 1), dtype=uint32)),
        BarrierParam(buffer("b", "global", 1)),
    ),
    "TensorMapParam": parameter(
        TensorMapParam(ir.Var("map", int64), TensorMapSpec("A", float32, (1, 0), (8, 4), "none")),
        TensorMapParam(ir.Var("map", int64), TensorMapSpec("A", float32, (1, 1), (257, 4), "32B")),
    ),
    "AssertionsParam": parameter(AssertionsParam(), None),
}


def held(node: object) -> Iterator[object]:
    """The expressions and blocks in a node's fields, those of its places included, whatever class it is of."""
    for field in fields(node):  # type: ignore[arg-type]
        if field.name not in ("var", "buffer", "span"):
            yield from within(getattr(node, field.name))


def within(value: object) -> Iterator[object]:
    if isinstance(value, tuple) and value and isinstance(value[0], ir.Stmt):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from within(item)
    elif isinstance(value, ir.Expr):
        yield value
    elif isinstance(value, (walk.Place, ir.Descriptor)):
        yield from held(value)
