"""Wrong emitters of each kind: the proof finds what they emit, whatever their plans say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.proving import prove_edited, prove_verdict
from tilejit.dtypes import bool_, float16, float32, int32, uint32, uint64
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Atomic, Buffer, Cast, Const, Expr, Instruction, Let, Load, Move, Op, Stmt, Store, Vector
from tilejit.layout import R, S, TCol, TLane, laneid, tid_in_wg
from tilejit.lower.ask import OperandSpec, dispatch, operand
from tilejit.lower.engine import Verdict
from tilejit.lower.proof.trace import Trace

Change = Callable[[Stmt], tuple[Stmt, ...]]

ROWS, COLUMNS = S[(32, 4) : (1 @ laneid, 1)], S[(4, 8, 4) : (8 @ laneid, 1 @ laneid, 1)]


def local(layout: Any, dtype: Any = float32, shape: tuple[int, ...] = (32, 4)) -> OperandSpec:
    return operand("local", shape, dtype, layout=layout)


def memory(space: str, dtype: Any = float32, shape: tuple[int, ...] = (32, 4)) -> OperandSpec:
    return operand(space, shape, dtype)


ROW, BEST = S[(32, 4) : (1 @ laneid, 1)], S[4 : 1] + R[32 : 1 @ laneid]
FRAGMENT = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]

#: name -> (the variant that carries out the operation, the operation's name and operands)
KINDS: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "load": ("reg", "copy", (local(ROWS), memory("shared"))),
    "store": ("reg", "copy", (memory("global"), local(ROWS))),
    "edge": ("reg", "copy", (local(ROWS), operand("global", (30, 4), float32, region=((0, 32), (0, 4))))),
    "masked load": ("reg", "copy", (local(ROWS), memory("global"), None, local(ROWS, bool_))),
    "masked store": ("reg", "copy", (memory("global"), local(ROWS), None, local(ROWS, bool_))),
    "memory": ("gmem_smem", "copy", (memory("shared"), memory("global"))),
    "async": ("ldgsts", "copy_async", (memory("shared"), memory("global"))),
    "rename": ("rename", "copy", (local(ROWS), local(S[(32, 2, 2) : (1 @ laneid, 1, 2)]))),
    "shuffle": ("shuffle", "copy", (local(S[(32,) : (1 @ laneid,)], shape=(32,)),
                                    local(S[(16, 2) : (1 @ laneid, 16 @ laneid)], shape=(32,)))),
    "through shared": ("through_shared", "copy", (local(S[(32, 32) : (1, 1 @ laneid)], shape=(32, 32)),
                                                  local(S[(32, 32) : (1 @ laneid, 1)], shape=(32, 32)))),
    "matrix load": ("ldstmatrix", "copy", (local(FRAGMENT, float16, (8, 8)), memory("shared", float16, (8, 8)))),
    "matrix store": ("ldstmatrix", "copy", (memory("shared", float16, (8, 8)), local(FRAGMENT, float16, (8, 8)))),
    "elementwise": ("reg", "sub", (local(ROWS), local(ROWS), local(ROWS))),
    "in memory": ("smem", "sub", (memory("shared"), memory("shared"), memory("global"))),
    "cast": ("reg", "cast", (local(ROWS, float16), local(ROWS))),
    "indices": ("reg", "indices", (local(ROWS, int32),)),
    "registers": ("registers", "sum", (local(S[32 : 1 @ laneid], shape=(32,)), local(ROWS))),
    "lanes": ("shuffle", "max", (local(S[4 : 1] + R[32 : 1 @ laneid], shape=(4,)), local(ROWS))),
    "argmax": ("shuffle", "argmax", (local(S[4 : 1] + R[32 : 1 @ laneid], int32, (4,)), local(ROWS))),
    "vote": ("vote", "any", (local(S[1 : 1] + R[32 : 1 @ laneid], bool_, (1,)), local(ROWS, shape=(32, 4)))),
    "sort": ("network", "sort", (local(ROW, uint32, (128,)), local(ROW, uint32, (128,)))),
    "sort by keys": ("network", "sort", (
        local(BEST, uint64, (4,)), local(ROW, uint64, (128,)), local(BEST, uint32, (4,)), local(ROW, uint32, (128,)),
    )),
    "update": ("update", "atomic", (memory("global"), None, local(ROWS))),
    "old values": ("update", "atomic", (memory("shared"), local(ROWS), local(ROWS))),
    "tensor memory": ("tcgen05_ldst", "copy_async", (
        local(S[(128, 8) : (1 @ tid_in_wg, 1)], shape=(128, 8)),
        operand("tmem", (128, 8), float32, layout=S[(128, 8) : (1 @ TLane, 1 @ TCol)]),
    )),
    "bulk": ("bulk", "copy_async", (memory("global"), memory("shared"))),
    "boxes": ("tma_store", "copy_async", (
        operand("global", (60, 8), float32, region=((8, 32), (0, 4))), memory("shared"),
    )),
    "inline": ("reg", "ptx", (local(ROWS), local(ROWS), None, local(ROWS))),
    "part": ("reg", "fill", (operand("local", (32, 4), float32, layout=ROWS, region=((0, 32), (1, 2))), 1.5)),
}


def asked(kind: str) -> Verdict[Any]:
    variant, name, operands = KINDS[kind]
    axes: dict[str, Any] = {"indices": 0, "sum": (1,), "max": (0,), "argmax": (0,), "any": (0, 1)}
    attrs = {"axis": axes[name]} if name in axes else {}
    if name == "ptx":
        attrs = {"text": "sub.rn.f32 $0, $1, $2;", "outputs": 1, "is_pure": True}
    scope, threads, target = ("warpgroup", 128, "sm_100a") if kind == "tensor memory" else ("warp", 32, "sm_90a")
    verdict = dispatch(name, scope, *operands, threads=threads, target=target, variant=variant, **attrs)
    assert verdict.variant == variant, verdict.declines
    return verdict


def forgotten() -> Change:
    """The first write is left out."""
    seen: list[Stmt] = []

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        writes = isinstance(stmt, (Move, Store, Instruction)) and not seen
        seen.extend([stmt] if writes else [])
        return () if writes else (stmt,)

    return change


def moved(vector: Vector, by: int = 1) -> Vector:
    return replace(vector, offset=build.add(vector.offset, by))


def reads_elsewhere() -> Change:
    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Move):
            return (replace(stmt, src=moved(stmt.src, stmt.src.width)),)
        if isinstance(stmt, Instruction):
            inputs = tuple(moved(x, x.width) if isinstance(x, Vector) and x is stmt.places[-1] else x
                           for x in stmt.inputs)
            return (replace(stmt, inputs=inputs),)
        return (stmt,)

    return change


def writes_elsewhere() -> Change:
    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Move):
            return (replace(stmt, dst=moved(stmt.dst, stmt.dst.width)),)
        if isinstance(stmt, Store):
            assert isinstance(stmt.place, Vector)
            return (replace(stmt, place=moved(stmt.place)),)
        if isinstance(stmt, Instruction):
            if stmt.outputs:
                return (replace(stmt, outputs=tuple(moved(x, x.width) for x in stmt.outputs)),)
            if not stmt.inputs:
                return (stmt,)
            first, *others = stmt.inputs
            if isinstance(first, Vector):
                return (replace(stmt, inputs=(moved(first, first.width), *others)),)
            # the first coordinate of a box
            others[0] = build.add(others[0], 4)  # type: ignore[arg-type]
            return (replace(stmt, inputs=(first, *others)),)
        return (stmt,)

    return change


def zeros() -> Change:
    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Store):
            return (replace(stmt, value=build.const(0, stmt.place.buffer.dtype)),)
        return (stmt,)

    return change


def swapped() -> Change:
    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Store) and isinstance(stmt.value, Op):
            return (replace(stmt, value=replace(stmt.value, args=stmt.value.args[::-1])),)
        return (stmt,)

    return change


def always() -> Change:
    return lambda stmt: (replace(stmt, predicate=None, otherwise=None) if isinstance(stmt, Move) else stmt,)


def inverted() -> Change:
    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Move) and stmt.predicate is not None:
            return (replace(stmt, predicate=build.logical_not(stmt.predicate)),)
        return (stmt,)

    return change


def other_lanes() -> Change:
    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Instruction):
            source, *others = stmt.inputs
            if not others:
                return ()
            (by,) = others
            return (replace(stmt, inputs=(source, build.bitwise_xor(by, 1))),)  # type: ignore[arg-type]
        return (stmt,)

    return change


def another_element() -> Change:
    """An element is taken in place of another one, so it is taken twice."""
    seen: list[Expr] = []

    def other(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.place.buffer.name in ("src", "value") and not seen:
            seen.append(expr)
            assert isinstance(expr.place, Vector) and isinstance(expr.place.offset, Const)
            return replace(expr, place=moved(expr.place, 1 if expr.place.offset.value == 0 else -1))
        if isinstance(expr, Cast):
            return replace(expr, x=other(expr.x))
        return replace(expr, args=tuple(map(other, expr.args))) if isinstance(expr, Op) else expr

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Atomic):
            return (replace(stmt, operands=tuple(map(other, stmt.operands))),)
        return (replace(stmt, value=other(stmt.value)) if isinstance(stmt, (Let, Store)) else stmt,)

    return change


def forgotten_update() -> Change:
    return lambda stmt: () if isinstance(stmt, (Atomic, Instruction)) else (stmt,)


def twice() -> Change:
    """The lanes of the first shuffle are those of the second one."""

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Instruction) and stmt.inputs[1:] == (build.const(1, int32),):
            return (replace(stmt, inputs=(stmt.inputs[0], build.const(2, int32))),)
        return (stmt,)

    return change


def turned_round() -> Change:
    """The second comparator of registers is the other way round."""
    seen: list[Op] = []
    others = {"minimum": "maximum", "maximum": "minimum", "less": "greater"}

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(stmt, Let) or not isinstance(stmt.value, Op) or stmt.value.name not in others:
            return (stmt,)
        seen.append(stmt.value)
        is_second = len(seen) in ((3, 4) if stmt.value.dtype == uint32 else (2,))
        return (replace(stmt, value=replace(stmt.value, name=others[stmt.value.name])) if is_second else stmt,)

    return change


def uncompared() -> Change:
    """An element that moves along with its key goes with the other key of a comparator."""
    lets: list[str] = []

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        value = stmt.value if isinstance(stmt, Let) else None
        if isinstance(value, Op) and value.name == "where" and value.dtype == uint32 and not lets:
            lets.append(str(value))
            return (replace(stmt, value=replace(value, args=(value.args[0], *value.args[:0:-1]))),)
        return (stmt,)

    return change


MOVES = (forgotten, reads_elsewhere, writes_elsewhere)
PLANTED = [
    *((kind, change) for kind in ("load", "store", "edge", "memory", "async", "rename", "matrix load", "matrix store")
      for change in MOVES),
    *((kind, change) for kind in ("masked load", "masked store") for change in (*MOVES, always, inverted)),
    *((kind, change) for kind in ("shuffle",) for change in (forgotten, other_lanes, zeros)),
    *((kind, change) for kind in ("through shared",) for change in (forgotten, writes_elsewhere)),
    *((kind, change) for kind in ("elementwise", "in memory") for change in (*MOVES[::2], zeros, swapped)),
    *((kind, change) for kind in ("indices", "part") for change in (*MOVES[::2], zeros)),
    *(("cast", change) for change in MOVES),
    *((kind, change) for kind in ("registers", "lanes", "argmax") for change in (forgotten, another_element)),
    *((kind, change) for kind in ("lanes", "argmax") for change in (other_lanes, twice)),
    ("vote", another_element),
    *((kind, change) for kind in ("sort", "sort by keys")
      for change in (forgotten, zeros, other_lanes, twice, turned_round, another_element)),
    ("sort by keys", uncompared),
    *(("update", change) for change in (forgotten_update, reads_elsewhere)),
    *(("old values", change) for change in (forgotten_update, another_element)),
    *((kind, change) for kind in ("tensor memory", "bulk", "boxes") for change in (reads_elsewhere, writes_elsewhere)),
]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_emitted_is_proved(kind: str) -> None:
    prove_verdict(asked(kind))


@pytest.mark.parametrize(("kind", "change"), PLANTED, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_a_wrong_emitter_is_found(kind: str, change: Callable[[], Change]) -> None:
    verdict = asked(kind)
    with pytest.raises(AssertionError) as found:
        prove_edited(verdict.chosen, verdict.plan, verdict.op, change())
    assert "the proof can't trace" not in str(found.value)


@pytest.mark.parametrize(
    ("start", "align", "message"),
    [(4, 16, ""), (6, 16, "4 elements of s are accessed at 6, unaligned"), (4, 8, "its base is aligned to 8")],
)
def test_an_access_is_as_aligned_as_its_width(start: int, align: int, message: str) -> None:
    buffer = Buffer("s", "shared", float32, (64,), S[64], align)
    access = Vector(buffer, build.const(start, int32), 4)
    trace = Trace(32, {})
    if not message:
        assert len(trace.read(access)) == 4
    else:
        with pytest.raises(AssertionError, match=message):
            trace.read(access)
