"""Translation of a kernel's source to tile IR, for one signature."""

from __future__ import annotations

import math

from ..dataclass import replace
from ..errors import KernelTypeError, ResourceError
from ..ir import verify, walk
from ..ir.analyses import collectives
from ..ir.clusters import Cluster
from ..ir.nodes import Alloc, Atomic, Instruction, Kernel, Region, Stmt, TileOp, Var
from ..ir.params import Param, PointerParam
from ..ir.types import Signature
from ..ir.walk import Block
from ..isa.warp import ELECT
from ..ops.atomic import ATOMIC, RETURNS
from ..source import Span
from ..target import MAX_CLUSTER, MAX_THREADS, PORTABLE_CLUSTER, Target
from . import buffer_choices
from .barriers import check_steps
from .coalescing import coalesced
from .context import ELECTED, Context, Frame
from .drafts import sealed
from .expressions import EXPRESSIONS
from .fixing import with_fixed
from .ir_params import kernel_params
from .selections import selected
from .source import KernelSource
from .statements import STATEMENTS


def build(
    source: KernelSource, signature: Signature, *, threads: int, target: Target, max_registers: int | None = None,
    cluster: Cluster | None = None, nonportable_cluster: bool = False, cooperative: bool = False, debug: bool = False,
) -> Kernel:
    """Return the verified tile IR of a kernel for one signature.

    raises: KernelSyntaxError, KernelTypeError, LayoutError, ResourceError or DispatchError, each with a location.
    """
    span = source.span(source.node)
    if not 1 <= threads <= MAX_THREADS:
        raise ResourceError(f"a CTA can't have {threads} threads", span=span, hint=f"use 1 to {MAX_THREADS} threads")
    if cluster is not None:
        _check_cluster(cluster, nonportable_cluster, span)
    entry = kernel_params(source, signature)
    frame = Frame(source, source.node, env=dict(entry.env))
    ctx = Context(EXPRESSIONS, STATEMENTS, target, threads, frame, cooperative, max_registers, cluster, debug)
    defined = [param.defines for param in entry.params]
    for name in (*entry.env, *[each.name for each in defined if each is not None]):
        ctx.used.setdefault(name, 0)
    ctx.execute(source.node.body)
    entry_code = (Instruction(ELECT.name, (), (), span, ELECTED),) if ctx.elects else ()
    body = _without_unread(with_fixed((*ctx.allocations, *entry_code, *sealed(ctx.block)), ctx.fixed))
    kernel = Kernel(
        source.name, entry.params, threads, target.name, body, max_registers, cluster, debug, span, cooperative
    )
    buffer_choices.check(kernel, ctx.buffer_choices, ctx.allocated_in, tuple(ctx.alternatives.values()))
    body = coalesced(selected(ctx, body), ctx.allocated_in)
    kernel = replace(kernel, body=body, params=_with_writes(entry.params, body))
    for violation in verify.verify(kernel, "open"):
        raise KernelTypeError(
            violation.message, span=violation.span,
            hint="only regions of global tensors may extend past the edge, unless assumed in bounds, and only in "
            "copies, loads and stores",
        )
    collectives.check(kernel)
    check_steps(kernel)
    return kernel


def _check_cluster(cluster: tuple[int, int, int], nonportable: bool, span: Span) -> None:
    count = math.prod(cluster)
    if count > MAX_CLUSTER:
        raise ResourceError(
            f"a cluster of {cluster} has {count} CTAs; a GPU runs at most {MAX_CLUSTER} together",
            span=span, hint=f"use clusters of up to {PORTABLE_CLUSTER} CTAs, which run on every GPU that has clusters",
        )
    if count > PORTABLE_CLUSTER and not nonportable:
        raise ResourceError(
            f"a cluster of {cluster} has {count} CTAs; more than {PORTABLE_CLUSTER} run only on some GPUs",
            span=span, hint="also pass nonportable_cluster=True to allow that, or use fewer CTAs",
        )


def _without_unread(body: Block) -> Block:
    """Return the statements without the old values of atomic updates that the kernel never reads."""
    if not walk.each(body, Atomic) and ATOMIC.name not in [op.name for op in walk.each(body, TileOp)]:
        return body
    every = walk.statements(body)
    read = {
        part.name
        for stmt in every
        for expr in walk.expressions(stmt)
        for part in walk.subexpressions(expr)
        if isinstance(part, Var)
    }
    read_tiles = {place.buffer.root.name for stmt in every for place in walk.reads(stmt)}
    unread = {
        id(stmt): stmt.region("before").buffer.name
        for stmt in every
        if isinstance(stmt, TileOp) and stmt.name == ATOMIC.name
        and stmt.region("before").buffer.root.name not in read_tiles
    }
    # a tile of values determines which thread makes each update if it has the place's shape; else the old values do
    needless = {unread[id(s)] for s in every if isinstance(s, TileOp) and id(s) in unread and _is_by_element(s)}

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Atomic) and stmt.var is not None and stmt.var.name not in read:
            return (replace(stmt, var=None),)
        if isinstance(stmt, TileOp) and id(stmt) in unread:
            if unread[id(stmt)] not in needless:
                return (replace(stmt, attrs=(*stmt.attrs, (RETURNS.name, False))),)
            named = zip(stmt.record.operands, stmt.operands, strict=False)
            return (replace(stmt, operands=tuple([None if rule.name == "before" else o for rule, o in named])),)
        return () if isinstance(stmt, Alloc) and stmt.buffer.name in needless else (stmt,)

    return walk.rewrite(body, change)


def _is_by_element(update: TileOp) -> bool:
    value = update.operand("value")
    return isinstance(value, Region) and value.shape == update.region("place").shape


_WRITING: frozenset[type[Stmt]] = frozenset(walk.WRITING)


def _with_writes(params: tuple[Param, ...], body: Block) -> tuple[Param, ...]:
    writing = [stmt for stmt in walk.statements(body) if type(stmt) in _WRITING]
    written = {place.buffer.root.name for stmt in writing for place in walk.writes(stmt)}
    return tuple([replace(p, written=True) if isinstance(p, PointerParam) and p.of in written else p for p in params])
