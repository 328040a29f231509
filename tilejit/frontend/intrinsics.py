"""Calls of `tj.<name>(...)`: ids, waits, barriers, allocations, atomic updates, functions of scalars and tiles."""

from __future__ import annotations

import ast
import math
from functools import partial

from ..dtypes import DType, bool_, int32, int64, uint32
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import flagged
from ..ir.clusters import ctas_along, rank_name
from ..ir.nodes import Declare, Expr, Instruction, Let, Special, Sync, Var
from ..isa import ASYNC_CALLS, Row
from ..isa.barriers import BARRIERS, CLUSTER_SYNC
from ..isa.miscellaneous import LEAST, MOST, SET_REGISTERS, STEP
from ..isa.warp import SHUFFLE, VOTE, Shuffle
from ..ops.elementwise import ELEMENTWISE
from ..ops.reduce import REDUCTIONS
from ..ops.tile import TILE_OPERATIONS
from ..scopes import CTA, GRID, SCOPES, THREAD
from ..target import TENSOR_MEMORY_TARGETS, WARP, entry_registers
from . import atomics, barriers, flow, reductions, scalars, tile_words, tileops, tiles
from . import memory as mem
from .arguments import Arguments, Handler, optional
from .context import ELECTED, Context
from .values import Constant, Memory, Scalar, Value, describe
from .words import ScopeNamespace


def _axis(name: str, ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    axis = optional(ctx, arguments, "axis")
    number = 0 if axis is None else ctx.integer(axis, node, "the axis")
    if number not in (0, 1, 2):
        raise ctx.type_error(node, f"a grid has no axis {number}", "write 0, 1 or 2: a grid has three axes")
    return Scalar(Special(f"{name}.{number}", ctx.span(node)))


def _special(name: str, ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    return Scalar(Special(name, ctx.span(node)))


def _sync(scope: str, ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    ctx.emit(Sync(scope, ctx.span(node)))
    return Constant(None)


def _grid_sync(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    if not ctx.is_cooperative:
        raise ctx.type_error(
            node, "tj.grid_sync() could wait for CTAs that can't start until others have ended",
            "pass cooperative=True to @tj.kernel: then all CTAs run at the same time",
        )
    ctx.emit(Sync(GRID.name, ctx.span(node)))
    return Constant(None)


def _asynchronous(row: Row, ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    if row.only == TENSOR_MEMORY_TARGETS:
        mem.need_tensor_memory(ctx, node)
    groups = tuple(build.const(_groups(ctx, argument, row), int32) for argument in arguments.values())
    ctx.emit(Instruction(row.name, (), groups, ctx.span(node)))
    return Constant(None)


def _groups(ctx: Context, argument: ast.expr, row: Row) -> int:
    groups = ctx.integer(ctx.evaluate(argument), argument, "the number of groups that may be unfinished")
    if groups < 0:
        raise ctx.type_error(argument, f"n must be at least 0; got {groups}", f"tj.{row.spelling}(0) waits for all")
    among = None if row.leaves is None else row.arguments[row.leaves].among
    if among is not None and groups not in among:
        raise ctx.type_error(
            argument, f"tj.{row.spelling}({groups}): n must be {among[0]} to {among[-1]}", "use a smaller n"
        )
    return groups


def set_registers(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.set_registers(n)`; the total for the CTA is checked once all warpgroups are known."""
    argument = arguments["n"]
    count = ctx.integer(ctx.evaluate(argument), argument, "the number of registers")
    if not LEAST <= count <= MOST or count % STEP:
        raise ctx.type_error(
            argument, f"a thread can't have {count} registers, only {LEAST} to {MOST} in steps of {STEP}",
            f"give a multiple of {STEP} from {LEAST} to {MOST}",
        )
    if any(each.construct is flow.Construct.LOOP for each in ctx.enclosures):
        raise ctx.type_error(node, "a warpgroup sets its registers once, outside loops", "move it before the loop")
    if any(not isinstance(stmt, (Let, Declare)) for stmt in ctx.block):
        raise ctx.type_error(
            node, "set_registers must be the first statement of its branch or of the kernel", "move it to the start"
        )
    row = SET_REGISTERS[count > entry_registers(ctx.threads, ctx.max_registers)]
    row.need(ctx.target, ctx.span(node))
    ctx.emit(Instruction(row.name, (), (build.const(count, int32),), ctx.span(node)))
    return Constant(None)


def _cluster_rank(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    axis = barriers.cluster_axis(ctx, arguments, "axis")
    if ctx.cluster is None or _ctas(ctx, axis) == 1:
        return Scalar(build.const(0, int32))
    return Scalar(Special(rank_name(ctx.cluster, axis), ctx.span(node)))


def _cluster_id(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    name = "cta_id" if ctx.cluster is None else "cluster_id"
    return Scalar(Special(f"{name}.{barriers.cluster_axis(ctx, arguments, 'axis') or 0}", ctx.span(node)))


def _ctas(ctx: Context, axis: int | None) -> int:
    """Return the number of CTAs in a cluster along an axis, or in total."""
    return math.prod(ctx.cluster or ()) if axis is None else ctas_along(ctx.cluster, axis)


def _cluster_sync(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    span = ctx.span(node)
    ctx.emit(Sync(CTA.name, span) if _ctas(ctx, None) == 1 else Instruction(CLUSTER_SYNC.name, (), (), span))
    return Constant(None)


def _shuffle(name: str, mode: str, ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    value = _scalar(ctx, arguments["x"], name)
    by, argument = next(given for given in arguments.items() if given[0] != "x")
    row = SHUFFLE.row(Shuffle(mode, 2 if value.dtype.bits == 64 else 1))
    other = scalars.as_scalar(ctx, argument, ctx.evaluate(argument))
    lane = ctx.scalar(other, argument, int32, f"{by}, an integer,")
    if not lane.dtype.is_integer:
        raise ctx.type_error(argument, f"{by} must be an integer; this is {describe(other)}", "use int(x)")
    return _given(ctx, node, row.name, name, (value, build.cast(lane, int32)), value.dtype)


def _vote(kind: str, ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    row, dtype = VOTE[kind], uint32 if kind == "ballot" else bool_
    argument = arguments["condition"]
    holds = scalars.condition(ctx, argument, ctx.evaluate(argument))
    return _given(ctx, node, row.name, f"vote_{kind}", (holds,), dtype)


def _elect(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.elect()`, which is true in one lane of each warp, elected at the kernel's entry.

    All lanes are active there, so the call may be in any branch. On targets before sm_90, and in CTAs with a partial
    warp, it is true in lane 0 instead.
    """
    if not ctx.target.has_barriers or ctx.threads % WARP:
        return Scalar(build.op("equal", Special("lane_id", ctx.span(node)), build.const(0, int32)))
    ctx.elects = True
    return Scalar(ELECTED)


def _uniform(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    value = _scalar(ctx, arguments["x"], "uniform")
    named = ctx.constant(ctx.evaluate(arguments["scope"]), arguments["scope"], "the scope")
    scope = named.scope if isinstance(named, ScopeNamespace) else SCOPES.get(named) if isinstance(named, str) else None
    if scope is None or scope is THREAD:
        scopes = ", ".join(f"tj.{name}" for name in SCOPES if name != THREAD.name)
        raise ctx.type_error(arguments["scope"], f"{named!r} is not a scope of several threads", f"use one of {scopes}")
    if not value.dtype.is_integer and value.dtype != bool_:
        raise ctx.type_error(
            arguments["x"], f"tj.uniform takes an integer or a bool_; this is {value.dtype}",
            "apply it to a condition: tj.uniform(x > 0, tj.warp)",
        )
    span, of = ctx.span(node), value if isinstance(value, Var) else None
    facts = (1, None) if of is None else (of.multiple_of, of.bounds)
    data = value.dtype.is_integer and flagged(value, facts[1])
    var = Var(ctx.unique("uniform"), value.dtype, *facts, span, scope.name, data)
    ctx.emit(Let(var, value, span))
    return Scalar(var)


def _given(ctx: Context, node: ast.Call, instruction: str, name: str, inputs: tuple[Expr, ...], dtype: DType) -> Scalar:
    span = ctx.span(node)
    var = Var(ctx.unique(name), dtype, span=span, data=dtype is int64)
    ctx.emit(Instruction(instruction, (), inputs, span, var))
    return Scalar(var)


def _scalar(ctx: Context, node: ast.expr, name: str) -> Expr:
    value = scalars.as_scalar(ctx, node, ctx.evaluate(node))
    if isinstance(value, Memory):
        raise ctx.type_error(
            node, f"tj.{name} takes one scalar per thread; this is {describe(value)}", "take x.registers[k] or A[i, j]"
        )
    return ctx.scalar(value, node)


def _elementwise(name: str, ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    return tiles.apply(ctx, node, name, [ctx.evaluate(arguments[operand]) for operand in ELEMENTWISE[name].operands])


_SHUFFLES = {"shuffle": "idx", "shuffle_xor": "bfly", "shuffle_up": "up", "shuffle_down": "down"}

#: name -> handler, for all intrinsics except `static_range`
HANDLERS: dict[str, Handler] = {
    **{name: partial(_axis, name) for name in ("cta_id", "num_ctas")},
    **{name: partial(_special, name) for name in ("thread_id", "lane_id", "warp_id", "warpgroup_id")},
    **{f"{scope}_sync": partial(_sync, scope.name) for scope in BARRIERS},
    "grid_sync": _grid_sync,
    "cluster.rank": _cluster_rank,
    "cluster.size": lambda ctx, node, arguments: Constant(_ctas(ctx, barriers.cluster_axis(ctx, arguments, "axis"))),
    "cluster.id": _cluster_id,
    "cluster_sync": _cluster_sync,
    "num_threads": lambda ctx, node, arguments: Constant(ctx.threads),
    **{name: partial(_asynchronous, row) for name, row in ASYNC_CALLS.items()},
    **atomics.ORDERED,
    **{name: partial(_shuffle, name, mode) for name, mode in _SHUFFLES.items()},
    **{f"vote_{kind}": partial(_vote, kind) for kind in VOTE},
    "elect": _elect,
    "uniform": _uniform,
    "assume_in_bounds": tileops.assume_in_bounds,
    **{name: partial(_elementwise, name) for name in ELEMENTWISE},
    # `tj.fast.exp` is recorded as the operation `fast_exp`
    **{
        name.replace("_", ".", 1): partial(_elementwise, name) for name, op in ELEMENTWISE.items()
        if op.approximation is not None
    },
    **{name: partial(reductions.reduced, TILE_OPERATIONS[name]) for name in REDUCTIONS},
    **{name: partial(reductions.statistic, name) for name in ("mean", "var", "std")},
    "broadcast_to": reductions.broadcast_to,
    "cat": reductions.cat,
    "split": reductions.split,
    "reduce": reductions.reduce,
    **tile_words.HANDLERS,
    "alloc_barrier": barriers.alloc_barrier,
    "alloc_ring": barriers.alloc_ring,
    "named_barrier": barriers.named_barrier,
    "set_registers": set_registers,
    **{f"alloc_{space}": partial(mem.alloc, space) for space in ("shared", "local", "tmem")},
}
