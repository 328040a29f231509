"""Calls of `tj.<name>(...)`: ids, waits, barriers, allocations, atomic updates, functions of scalars and tiles."""

from __future__ import annotations

import ast
import math

from ..dtypes import int32
from ..ir.arithmetic import build
from ..ir.clusters import ctas_along, rank_name
from ..ir.nodes import Declare, Instruction, Let, Special, Sync
from ..isa import ASYNC_CALLS, Row
from ..isa.barriers import BARRIERS, CLUSTER_SYNC
from ..isa.registers import LEAST, MOST, SET_REGISTERS, STEP
from ..ops.elementwise import ELEMENTWISE
from ..ops.tile import TILE_OPERATIONS
from ..scopes import CTA, GRID
from ..target import TENSOR_MEMORY_TARGETS, entry_registers
from . import barriers, reductions, tileops, tiles
from . import memory as mem
from .arguments import Arguments, Handler, bind, optional
from .atomics import ORDERED
from .context import Context
from .enclosures import Construct
from .lanes import LANE_CALLS
from .language import Intrinsic
from .values import Constant, Scalar, Value


def call_intrinsic(ctx: Context, node: ast.Call, callee: Intrinsic) -> Value:
    arguments = bind(ctx, node, f"tj.{callee.name}", callee.names, callee.required)
    handler = HANDLERS.get(callee.name)
    if handler is not None:
        return handler(ctx, node, arguments)
    name = callee.name.replace(".", "_")
    if name in ELEMENTWISE:
        return tiles.apply(ctx, node, name, [ctx.evaluate(arguments[p]) for p in callee.names])
    record = TILE_OPERATIONS[callee.name]
    assert record.reduction is not None, f"tj.{callee.name} has no handler"
    return reductions.reduced(ctx, node, arguments, record, record.reduction)


def _axis(name: str) -> Handler:
    def handler(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
        axis = optional(ctx, arguments.get("axis"))
        number = 0 if axis is None else ctx.integer(axis, node, "the axis")
        if number not in (0, 1, 2):
            raise ctx.type_error(node, f"a grid has no axis {number}", "write 0, 1 or 2: a grid has three axes")
        return Scalar(Special(f"{name}.{number}", ctx.span(node)))

    return handler


def _special(name: str) -> Handler:
    def handler(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
        return Scalar(Special(name, ctx.span(node)))

    return handler


def _sync(scope: str) -> Handler:
    def handler(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
        ctx.emit(Sync(scope, ctx.span(node)))
        return Constant(None)

    return handler


def _grid_sync(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    if not ctx.is_cooperative:
        raise ctx.type_error(
            node, "tj.grid_sync() could wait for CTAs that can't start until others have ended",
            "write @tj.kernel(cooperative=True): then all CTAs run at the same time",
        )
    ctx.emit(Sync(GRID.name, ctx.span(node)))
    return Constant(None)


def _asynchronous(row: Row) -> Handler:
    def handler(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
        if row.only == TENSOR_MEMORY_TARGETS:
            mem.need_tensor_memory(ctx, node)
        groups = tuple(build.const(_groups(ctx, argument, row), int32) for argument in arguments.values())
        ctx.emit(Instruction(row.name, (), groups, ctx.span(node)))
        return Constant(None)

    return handler


def _groups(ctx: Context, argument: ast.expr, row: Row) -> int:
    groups = ctx.integer(ctx.evaluate(argument), argument, "the number of groups that may be unfinished")
    if groups < 0:
        raise ctx.type_error(argument, f"n must be at least 0; got {groups}", "write wait(0) to wait for all groups")
    among = None if row.leaves is None else row.arguments[row.leaves].among
    if among is not None and groups not in among:
        raise ctx.type_error(
            argument, f"tj.{row.spelling}({groups}): n must be {among[0]} to {among[-1]}", "wait for more groups"
        )
    return groups


def set_registers(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.set_registers(n)`; the total for the CTA is checked once all warpgroups are known."""
    argument = arguments["n"]
    count = ctx.integer(ctx.evaluate(argument), argument, "the number of registers")
    if not LEAST <= count <= MOST or count % STEP:
        raise ctx.type_error(
            argument, f"a thread can't have {count} registers; it has {LEAST} to {MOST}, in steps of {STEP}",
            f"give a multiple of {STEP} from {LEAST} to {MOST}",
        )
    if any(each.construct is Construct.LOOP for each in ctx.enclosures):
        raise ctx.type_error(node, "a warpgroup sets its registers once, outside loops", "move it before the loop")
    if any(not isinstance(stmt, (Let, Declare)) for stmt in ctx.block):
        raise ctx.type_error(
            node, "set_registers must be the first statement of its branch", "move it to the start of the branch"
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


def _cluster_size(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    return Constant(_ctas(ctx, barriers.cluster_axis(ctx, arguments, "axis")))


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


#: name -> handler; the other names are elementwise functions, reductions and `static_range` (see `calls`)
HANDLERS: dict[str, Handler] = {
    **{name: _axis(name) for name in ("cta_id", "num_ctas")},
    **{name: _special(name) for name in ("thread_id", "lane_id", "warp_id", "warpgroup_id")},
    **{f"{scope}_sync": _sync(scope.name) for scope in BARRIERS},
    "grid_sync": _grid_sync,
    "cluster.rank": _cluster_rank,
    "cluster.size": _cluster_size,
    "cluster.id": _cluster_id,
    "cluster_sync": _cluster_sync,
    "num_threads": lambda ctx, node, arguments: Constant(ctx.threads),
    **{name: _asynchronous(row) for name, row in ASYNC_CALLS.items()},
    **ORDERED,
    **LANE_CALLS,
    "assume_in_bounds": tileops.assume_in_bounds,
    "cat": reductions.cat,
    "split": reductions.split,
    "reduce": reductions.reduce,
    "alloc_barrier": barriers.alloc_barrier,
    "alloc_ring": barriers.alloc_ring,
    "named_barrier": barriers.named_barrier,
    "set_registers": set_registers,
    "alloc_shared": mem.alloc_shared,
    "alloc_local": mem.alloc_local,
    "alloc_tmem": mem.alloc_tmem,
}
