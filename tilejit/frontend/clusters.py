"""Clusters: `tj.cluster.rank`, `.size`, `.id`, `tj.cluster_sync`, and multicast copies."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping

from ..dtypes import int32
from ..errors import KernelTypeError
from ..ir import walk
from ..ir.arithmetic import build
from ..ir.clusters import ctas_along, rank_name
from ..ir.nodes import Alloc, Arrive, Expr, Instruction, Kernel, Region, Special, Sync, TileOp
from ..ir.walk import Block
from ..isa.barriers import CLUSTER_SYNC
from ..ops.copies import MULTICAST
from ..scopes import CTA
from .arguments import Arguments, Handler, optional
from .context import Context
from .values import Constant, Scalar, Value

_AXES = range(3)


def _axis(ctx: Context, arguments: Arguments, name: str) -> int | None:
    argument = arguments.get(name)
    value = optional(ctx, argument)
    if value is None or argument is None:
        return None
    axis = ctx.integer(value, argument, "the axis")
    if axis not in _AXES:
        raise ctx.type_error(argument, f"a cluster has no axis {axis}", "write 0, 1 or 2: a cluster has three axes")
    return axis


def _rank(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    axis = _axis(ctx, arguments, "axis")
    if ctx.cluster is None or _count(ctx, axis) == 1:
        return Scalar(build.const(0, int32))
    return Scalar(Special(rank_name(ctx.cluster, axis), ctx.span(node)))


def _size(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    return Constant(_count(ctx, _axis(ctx, arguments, "axis")))


def _id(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    name = "cta_id" if ctx.cluster is None else "cluster_id"
    return Scalar(Special(f"{name}.{_axis(ctx, arguments, 'axis') or 0}", ctx.span(node)))


def _sync(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    span = ctx.span(node)
    ctx.emit(Sync(CTA.name, span) if _count(ctx) == 1 else Instruction(CLUSTER_SYNC.name, (), (), span))
    return Constant(None)


def _count(ctx: Context, axis: int | None = None) -> int:
    return math.prod(ctx.cluster or ()) if axis is None else ctas_along(ctx.cluster, axis)


def ring_multicast(ctx: Context, arguments: Arguments) -> tuple[int | None, int]:
    """Return the `multicast=` axis of a ring, by default None, and the number of CTAs that release each stage."""
    axis = _axis(ctx, arguments, "multicast")
    return axis, ctas_along(ctx.cluster, axis)


def multicast(ctx: Context, argument: ast.expr, axis: int, operands: Mapping[str, Region | Expr]) -> int | None:
    """Return `axis`, or None if the cluster has only one CTA along it.

    raises: KernelTypeError unless the operand `barrier` is a `full` barrier of a ring with the same axis.
    """
    place = operands.get("barrier")
    if not isinstance(place, Region):
        raise ctx.type_error(
            argument, "multicast= needs barrier=: each CTA waits at its own barrier for the parts that other CTAs copy",
            f"write barrier=ring[i], with ring = tj.alloc_ring(..., multicast={axis})",
        )
    name = place.buffer.name
    ring = next(a for a in ctx.allocations if isinstance(a, Alloc) and a.buffer is place.buffer)
    if ring.call == "release":
        raise ctx.type_error(
            argument, f"a copy reports to a step, not to {name}, where producers wait for free stages",
            f"write barrier={name.rpartition('.')[0]}[i]",
        )
    if ring.along != axis:
        what = f"multicast={ring.along}" if ring.along is not None else "no multicast="
        ring_name = name.rpartition(".")[0] if ring.call else name
        raise ctx.type_error(
            argument, f"multicast={axis}, but {ring_name} has {what}: a stage must be free in all CTAs of the copy",
            f"write {ring_name} = tj.alloc_ring(..., multicast={axis}), or leave multicast= out of the copy",
        )
    return axis if ctas_along(ctx.cluster, axis) > 1 else None


def check_steps(kernel: Kernel) -> None:
    """Raise KernelTypeError if no multicast copy precedes a commit in its block and over two CTAs release the step.

    A multicast copy synchronizes the CTAs: it completes only after each of them has acquired the step. Without one, a
    CTA's second release of a stage may reach another CTA before the first release by a third one.
    """
    if kernel.cluster is None:
        return
    rings = {
        alloc.buffer.name: ctas_along(kernel.cluster, alloc.along) for alloc in walk.each(kernel.body, Alloc)
        if alloc.call == "commit" and ctas_along(kernel.cluster, alloc.along) > 2
    }
    if rings:
        _check_block(kernel.body, rings)


def _check_block(body: Block, rings: Mapping[str, int]) -> None:
    """Check a block and its nested blocks for `check_steps`. rings: `full` barrier -> number of releasing CTAs."""
    copied: set[str] = set()
    for stmt in body:
        for block in walk.blocks(stmt):
            _check_block(block, rings)
        if isinstance(stmt, TileOp) and stmt.attr(MULTICAST.name) is not None:
            copied.add(stmt.region("barrier").buffer.name)
        elif isinstance(stmt, Arrive) and stmt.place.buffer.name in copied:
            copied.remove(stmt.place.buffer.name)
        elif isinstance(stmt, Arrive) and stmt.place.buffer.name in rings:
            name = stmt.place.buffer.name
            raise KernelTypeError(
                f"a step of {name.rpartition('.')[0]} is committed without a multicast= copy before it in this block; "
                f"{rings[name]} CTAs release it, and only such a copy keeps more than two CTAs in step", span=stmt.span,
                hint="copy with multicast= before it, in the same block, or allocate the ring without multicast=",
            )


CALLS: dict[str, Handler] = {"cluster.rank": _rank, "cluster.size": _size, "cluster.id": _id, "cluster_sync": _sync}
