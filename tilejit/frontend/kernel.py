"""Translation of a kernel's source to tile IR, for one signature."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ..dataclass import replace
from ..dtypes import int64
from ..errors import KernelTypeError, ResourceError
from ..ir import verify, walk
from ..ir.analyses import collectives
from ..ir.analyses.liveness import Interference, is_move, touches
from ..ir.clusters import Cluster
from ..ir.names import names_in
from ..ir.nodes import Alloc, Atomic, Buffer, BufferView, Instruction, Kernel, Region, Stmt, Strided, TileOp, Var
from ..ir.params import ExtentParam, Param, PointerParam, ScalarParam, StrideParam
from ..ir.rewriting import Rewriting
from ..ir.types import ArgumentType, ArrayType, ContainerType, ScalarType, Signature
from ..ir.walk import Block
from ..isa.warp import ELECT
from ..layout import TileLayout
from ..layout.axes import m
from ..layout.iters import Iter
from ..ops.atomic import ATOMIC, RETURNS
from ..source import Span
from ..target import MAX_CLUSTER, MAX_THREADS, PORTABLE_CLUSTER, Target
from .barriers import check_steps
from .buffer_choices import check_copies, selected
from .buffers import with_fixed
from .containers import parameter_of
from .context import ELECTED, Context, Frame
from .expressions import EXPRESSIONS
from .flow import sealed
from .source import KernelSource, parameter_nodes
from .statements import STATEMENTS
from .values import LARGEST_EXTENT, Binding, Items, Memory, Scalar, Value, from_python


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
    params, env = _kernel_params(source, signature)
    defined = frozenset([param.defines.name for param in params if param.defines is not None])
    ctx = Context(
        EXPRESSIONS, STATEMENTS, target, threads, Frame(source, source.node, env=env), cooperative, max_registers,
        cluster, debug, defined, used=dict.fromkeys([*env, *defined], 0),
    )
    ctx.execute(source.node.body)
    entry_code = (Instruction(ELECT.name, (), (), span, ELECTED),) if ctx.elects else ()
    body = _without_unread(with_fixed((*ctx.allocations, *entry_code, *sealed(ctx.block)), ctx.fixed))
    params = (*params, *chain.from_iterable(ctx.scratch.values()))
    kernel = Kernel(source.name, params, threads, target.name, body, max_registers, cluster, debug, span, cooperative)
    check_copies(ctx, kernel)
    body = _coalesced(selected(ctx, body), ctx.allocated_in)
    kernel = replace(kernel, body=body, params=_with_writes(params, body))
    for violation in verify.verify(kernel, "open"):
        raise KernelTypeError(
            violation.message, span=violation.span,
            hint="only copies, loads and stores may access elements past the edge, only of global tensors, and only if "
            "the region isn't assumed in bounds",
        )
    collectives.check(kernel)
    check_steps(kernel)
    return kernel


def _kernel_params(source: KernelSource, signature: Signature) -> tuple[tuple[Param, ...], dict[str, Binding]]:
    """Return the IR parameters for a signature, in order, and the bindings of the kernel's Python parameters."""
    nodes = {arg.arg: arg for arg in parameter_nodes(source.node)}
    params: list[Param] = []

    def value_of(name: str, argument: ArgumentType, items: list[Value]) -> Value:
        if isinstance(argument, ContainerType):
            if argument.is_tuple:
                return Items(tuple(items))
            return Items(tuple(items), tuple([suffix[1:] for suffix in argument.items]), argument)
        if isinstance(argument, ArrayType):
            buffer = _buffer(name, argument)
            params.extend(_array_params(name, argument, buffer))
            return Memory.whole(buffer)
        if isinstance(argument, ScalarType):
            var = Var(name, argument.dtype, data=argument.dtype is int64)
            params.append(ScalarParam(name, var))
            return Scalar(var)
        try:
            return from_python(argument.value)
        except KernelTypeError as error:
            error.span = source.span(nodes[parameter_of(name)])
            raise

    values = signature.fold(lambda name, argument, items: (name, value_of(name, argument, [v for _, v in items])))
    return tuple(params), {name: Binding(value, source.span(nodes[name])) for name, value in values}


def with_overlaps(kernel: Kernel, signature: Signature) -> Kernel:
    """Return the kernel adapted to a signature that differs from its own only in which arrays overlap."""
    types = dict(signature.arguments)
    params = tuple([
        replace(p, noalias=not p.noalias)
        if isinstance(p, PointerParam) and p.scratch is None and p.noalias != _is_apart(types[p.of]) else p
        for p in kernel.params
    ])
    return kernel if params == kernel.params else replace(kernel, params=params)


def _is_apart(argument: ArgumentType) -> bool:
    return isinstance(argument, ArrayType) and not argument.overlaps


def _buffer(name: str, array: ArrayType) -> Buffer:
    itemsize = array.dtype.bytes
    shape: tuple[int | Var, ...] = array.shape or tuple(
        Var(
            f"{name}.shape.{d}", int64,
            max(1, array.extent_align // itemsize) if d == array.unit_dim else 1, (0, LARGEST_EXTENT),
        )
        for d in range(array.rank)
    )
    if array.shape is not None and array.strides is not None and all(e > 0 for e in array.shape):
        iters = (Iter(e, s, m) for e, s in zip(array.shape, array.strides, strict=True))
        return Buffer(name, "global", array.dtype, shape, TileLayout(tuple(iters) or (Iter(1, 1, m),)), array.align)
    strides: tuple[int | Var, ...] = array.strides or tuple(
        1 if d == array.unit_dim else Var(f"{name}.stride.{d}", int64, max(1, array.align // itemsize))
        for d in range(array.rank)
    )
    return Buffer(name, "global", array.dtype, shape, Strided(strides, array.align, array.extent_align), array.align)


def _array_params(name: str, array: ArrayType, buffer: Buffer) -> list[Param]:
    strides = buffer.layout.strides if isinstance(buffer.layout, Strided) else ()
    return [
        PointerParam(name, buffer, noalias=_is_apart(array)),
        *[ExtentParam(name, extent, axis) for axis, extent in enumerate(buffer.shape) if isinstance(extent, Var)],
        *[StrideParam(name, stride, axis) for axis, stride in enumerate(strides) if isinstance(stride, Var)],
    ]


def _check_cluster(cluster: tuple[int, int, int], nonportable: bool, span: Span) -> None:
    count = math.prod(cluster)
    if count > MAX_CLUSTER:
        raise ResourceError(
            f"a cluster of {cluster} has {count} CTAs; a cluster can have at most {MAX_CLUSTER}",
            span=span, hint=f"use clusters of up to {PORTABLE_CLUSTER} CTAs, which run on every GPU that has clusters",
        )
    if count > PORTABLE_CLUSTER and not nonportable:
        raise ResourceError(
            f"a cluster of {cluster} has {count} CTAs; more than {PORTABLE_CLUSTER} run only on some GPUs",
            span=span, hint="also pass nonportable_cluster=True to allow that, or use fewer CTAs",
        )


def _without_unread(body: Block) -> Block:
    """Return `body` with atomic updates that don't return the old value if the kernel never reads it."""
    if not walk.each(body, Atomic) and ATOMIC.name not in [op.name for op in walk.each(body, TileOp)]:
        return body
    every = walk.statements(body)
    read = {name for stmt in every for expr in walk.expressions(stmt) for name in names_in(expr)}
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


def _with_writes(params: tuple[Param, ...], body: Block) -> tuple[Param, ...]:
    writing = [stmt for stmt in walk.statements(body) if isinstance(stmt, walk.WRITING)]
    written = {place.buffer.root.name for stmt in writing for place in walk.writes(stmt)}
    return tuple([replace(p, written=True) if isinstance(p, PointerParam) and p.of in written else p for p in params])


def _coalesced(body: Block, kept: Collection[str]) -> Block:
    """Return the statements with tiles merged where possible, without moves between merged tiles or unread moves.

    Tiles of equal layout can be merged if a move connects them and their lifetimes don't overlap. Every expression has
    its own tile, so this lets `x = x + 1` or `acc += a @ b` in a loop work in place. kept: names of tiles not to merge.
    """
    moves = [move for _, move in sorted(_moves(body, kept), key=lambda each: -each[0])]
    if not moves:
        return body
    names = dict.fromkeys(buffer.name for move in moves for buffer in _ends(move))
    numbers = {name: number for number, name in enumerate(names)}
    touched = touches(body, numbers)
    needs = Interference(body, numbers, touched)
    unread = {id(move) for move in needs.unread}
    if unread:
        needs = Interference(body, numbers, {key: what for key, what in touched.items() if key not in unread})
    return _shared(body, _merged([move for move in moves if id(move) not in unread], numbers, needs.apart), unread)


def _moves(block: Block, kept: Collection[str], depth: int = 0) -> Iterator[tuple[int, TileOp]]:
    """Yield the moves between tiles of equal layout that aren't in `kept`, each with its depth of nesting."""
    for stmt in block:
        if isinstance(stmt, TileOp) and is_move(stmt):
            dst, src = _ends(stmt)
            if (dst.layout, dst.slots) == (src.layout, src.slots) and dst.name not in kept and src.name not in kept:
                yield depth, stmt
        for inner in walk.blocks(stmt):
            yield from _moves(inner, kept, depth + 1)


def _ends(move: TileOp) -> tuple[Buffer, Buffer]:
    return move.tiles["dst"].buffer, move.tiles["src"].buffer


def _merged(moves: Iterable[TileOp], numbers: Mapping[str, int], apart: Sequence[int]) -> dict[str, int]:
    """Return, for each tile in `numbers`, the least number of the tiles that share its buffer.

    apart: bit masks as in `Interference`.
    """
    # the masks of a set of tiles are those at the least number in it
    least, apart, members = dict(numbers), list(apart), [1 << n for n in range(len(apart))]
    for move in moves:
        a, b = sorted(least[buffer.name] for buffer in _ends(move))
        if a != b and not apart[a] & members[b] and not apart[b] & members[a]:
            apart[a] |= apart[b]
            members[a] |= members[b]
            least = {name: a if n == b else n for name, n in least.items()}
    return least


def _shared(body: Block, least: Mapping[str, int], unread: Collection[int]) -> Block:
    """Return the statements with one buffer per set, without moves within sets or whose `id` is in `unread`.

    least: the result of `_merged`.
    """
    first: dict[int, Buffer] = {}
    others: dict[str, Buffer] = {}
    for alloc in walk.each(body, Alloc):
        name = alloc.buffer.name
        if name in least and first.setdefault(least[name], alloc.buffer) is not alloc.buffer:
            others[name] = first[least[name]]
    for view in walk.each(body, BufferView):
        base = view.buffer.base
        if base is not None and base.name in others:
            others[view.buffer.name] = replace(view.buffer, base=others[base.name])

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, TileOp) and is_move(stmt):
            dst, src = [others.get(buffer.name, buffer) for buffer in _ends(stmt)]
            return () if id(stmt) in unread or dst.name == src.name else (stmt,)
        return () if isinstance(stmt, Alloc) and stmt.buffer.name in others else (stmt,)

    return Rewriting(others).block(walk.rewrite(body, change))
