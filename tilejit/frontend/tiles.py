"""Elementwise expressions on local tiles, each of which creates a new tile, and checks of tile operations."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from ..dataclass import replace
from ..dtypes import DType, bool_, mixes_signs, uint64
from ..ir.arithmetic import build
from ..ir.nodes import Expr, Open, Region, TileOp
from ..ir.verify.operations import is_known_sound, shape_and_type_faults
from ..ops.broadcast import common_shape
from ..ops.copies import CAST, FILL
from ..ops.elementwise import ELEMENTWISE, common_type, result_type
from ..ops.record import Fault, packed_fault
from ..scopes import SCOPES, THREAD
from .arguments import bind
from .buffers import is_idle, remaining
from .context import Context
from .scalars import RANK, as_type, common_operand_type, convert, is_single, operate, scalar_of
from .values import Constant, Memory, Scalar, Value, describe, how_to_load, is_number, owner_scope


def apply(ctx: Context, node: ast.AST, name: str, values: Sequence[Value]) -> Value:
    """Return the result of an elementwise operation: a new tile if an operand is a local tile, otherwise a scalar."""
    if name in _WITH_MIXED_SIGNS:
        value = _WITH_MIXED_SIGNS[name](ctx, node, name, values)
        if value is not None:
            return value
    for value in values:
        if isinstance(value, Memory) and value.is_local:
            return elementwise(ctx, node, name, values)
    return operate(ctx, node, name, values)


def converted(ctx: Context, node: ast.AST, value: Value, dtype: DType, saturate: bool = True) -> Value:
    """Convert a local tile, a scalar or a number. saturate: see `ir.nodes.Cast`."""
    if isinstance(value, Memory):
        return cast(ctx, node, value, dtype, saturate)
    return convert(ctx, node, value, dtype, saturate)


#: comparison -> the equivalent comparison of the swapped operands
_EXCHANGED = {
    "less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal",
    "equal": "equal", "not_equal": "not_equal",
}
#: comparisons that hold if the left side is negative and the right side unsigned
_OF_NEGATIVE = ("less", "less_equal", "not_equal")


def _mixed_types(values: Sequence[Value]) -> tuple[DType, DType] | None:
    x, y = values
    are_tiles = isinstance(x, Memory) and isinstance(y, Memory)
    are_scalars = isinstance(x, Scalar) and isinstance(y, Scalar) and not x.weak and not y.weak
    if not are_tiles and not are_scalars:
        return None
    types: tuple[DType, DType] = x.dtype, y.dtype  # type: ignore[union-attr]
    return types if mixes_signs(types) else None


def _compared(ctx: Context, node: ast.AST, name: str, values: Sequence[Value]) -> Value | None:
    """Compare a signed integer with a uint64, first by sign, then as uint64; return None for other operands."""
    types = _mixed_types(values)
    if types is None or uint64 not in types:
        return None
    x, y = values
    if types[0] is uint64:
        x, y, name = y, x, _EXCHANGED[name]
    compared = apply(ctx, node, name, (converted(ctx, node, x, uint64), y))
    if name in _OF_NEGATIVE:
        return apply(ctx, node, "logical_or", (apply(ctx, node, "less", (x, Constant(0))), compared))
    return apply(ctx, node, "logical_and", (apply(ctx, node, "greater_equal", (x, Constant(0))), compared))


def _shifted(ctx: Context, node: ast.AST, name: str, values: Sequence[Value]) -> Value | None:
    """Shift x by a wider count of the other signedness, clamped to [-1, width of x]; return None for other operands."""
    types = _mixed_types(values)
    if types is None or types[1].bits <= types[0].bits:
        return None
    x, count = values
    count = apply(ctx, node, "minimum", (count, Constant(types[0].bits)))
    if types[1].kind == "int":
        count = apply(ctx, node, "maximum", (count, Constant(-1)))
    return apply(ctx, node, name, (x, converted(ctx, node, count, types[0])))


#: operation -> its translation for operands of mixed signedness, which returns None for operands that don't need it
_WITH_MIXED_SIGNS = {**dict.fromkeys(_EXCHANGED, _compared), "left_shift": _shifted, "right_shift": _shifted}


def elementwise(ctx: Context, node: ast.AST, name: str, values: Sequence[Value]) -> Memory:
    """Emit an elementwise operation on tiles and scalars, and return its result, a new tile of the broadcast shape."""
    for value in values:
        if isinstance(value, Memory):
            local_tile(ctx, node, name, value)
    operands, dtypes = inputs(ctx, node, name, values)
    rule = result_type(name, dtypes)
    if isinstance(rule, str):
        raise ctx.type_error(node, rule, ELEMENTWISE[name].remedy(dtypes))
    scope, shape, operands = broadcast_together(ctx, node, name, values, operands)
    result = ctx.tile(name, scope, shape, rule[1], ctx.span(node))
    ctx.emit(TileOp(name, scope, (result.region(ctx.span(node)), *operands), (), ctx.span(node)))
    return result


def broadcast_together(
    ctx: Context, node: ast.AST, name: str, values: Sequence[Value], operands: Sequence[Region | Expr]
) -> tuple[str, tuple[int, ...], tuple[Region | Expr, ...]]:
    """Return the scope and the shape of the result of an operation on local tiles and scalars, and its operands.

    operands: those of `values`; a rank-0 tile of a wider scope than another tile's is replaced by its value.
    """
    tiles = [value for value in values if isinstance(value, Memory)]
    shape = common_shape([tile.shape for tile in tiles])
    if isinstance(shape, Fault):
        raise ctx.type_error(node, shape.message, shape.hint)
    wide = wide_singles(ctx, tiles)
    operands = tuple([
        scalar_of(ctx, value, ctx.span(node)).expr if isinstance(value, Memory) and value in wide else operand
        for value, operand in zip(values, operands, strict=True)
    ])
    return common_scope(ctx, node, name, [tile for tile in tiles if tile not in wide]), shape, operands


def emit_sound(ctx: Context, node: ast.AST, op: TileOp) -> None:
    """Emit an operation; raise KernelTypeError if the shapes, types or scopes of its operands are incompatible."""
    for fault in () if is_known_sound(op) else shape_and_type_faults(op):
        raise ctx.type_error(node, fault.message, fault.hint)
    op = _with_narrow_singles(ctx, node, op)
    for tile in op.tiles.values():
        layout = tile.buffer.layout
        if isinstance(layout, Open) and shared_scope(ctx, {op.scope, layout.scope}) is None:
            _need_one_owner(ctx, node, op)
            raise ctx.type_error(
                node, f"{op.scope}.{op.name} can't take {tile.buffer.name}, a tile of a {layout.scope}",
                f"call it on the scope that owns the tile: tj.{layout.scope}.{op.name}",
            )
    _need_one_owner(ctx, node, op)
    if is_idle(op):
        ctx.emit(remaining(op))
    else:
        ctx.block.append(op)


def _with_narrow_singles(ctx: Context, node: ast.AST, op: TileOp) -> TileOp:
    """Return the operation with `Open` rank-0 inputs of wider scopes replaced by copies on the operation's scope."""
    operands, inputs = list(op.operands), op.inputs.values()
    for k, operand in enumerate(op.operands):
        if not isinstance(operand, Region) or operand.buffer.shape or all(operand is not given for given in inputs):
            continue
        layout, span = operand.buffer.layout, ctx.span(node)
        if not isinstance(layout, Open) or SCOPES[layout.scope].level <= SCOPES[op.scope].level:
            continue
        if shared_scope(ctx, {op.scope, layout.scope}) is None:
            value = scalar_of(ctx, Memory.whole(operand.buffer), span)
            single = ctx.tile(operand.buffer.root.name, op.scope, (), operand.dtype, span)
            ctx.emit(TileOp(FILL.name, op.scope, (single.region(span), value.expr), (), span))
            operands[k] = single.region(span)
    return op if operands == list(op.operands) else replace(op, operands=tuple(operands))


def _need_one_owner(ctx: Context, node: ast.AST, op: TileOp) -> None:
    local = [tile.buffer for tile in op.tiles.values() if tile.buffer.space == "local"]
    if len(local) < 2:
        return
    owners = {buffer.name: owner_scope(buffer) for buffer in local}
    private = [name for name, scope in owners.items() if scope == THREAD.name]
    spread = [name for name, scope in owners.items() if scope != THREAD.name]
    if private and spread and ctx.threads > 1:
        one, other = private[0], spread[0]
        raise ctx.type_error(
            node,
            f"{op.scope}.{op.name} can't combine {one}, a tile of a thread, and {other}, a tile of a {owners[other]}",
                f"allocate {one} with a layout= that has thread axes; or store {other} to shared memory, and load each "
                "thread's part of it with tj.thread.load",
        )


def shared_scope(ctx: Context, scopes: Collection[str]) -> str | None:
    """Return the widest of the scopes if they are equal or all span the CTA; otherwise None."""
    if len(set(scopes)) > 1 and any(SCOPES[scope].threads(ctx.threads) != ctx.threads for scope in scopes):
        return None
    return max(scopes, key=lambda scope: SCOPES[scope].level)


def wide_singles(ctx: Context, tiles: Sequence[Memory]) -> list[Memory]:
    """Return the rank-0 tiles to use as scalars, because their scope is wider than that of another tile."""
    levels = {owner_scope(tile.buffer): SCOPES[owner_scope(tile.buffer)].level for tile in tiles}
    if shared_scope(ctx, levels) is not None:
        return []
    narrowest = min(levels.values())
    return [tile for tile in tiles if is_single(tile) and levels[owner_scope(tile.buffer)] > narrowest]


def local_tile(ctx: Context, node: ast.AST, name: str, value: Value) -> Memory:
    """Return the value as a local tile that `name` takes; raise KernelTypeError for anything else."""
    if isinstance(value, Memory) and value.is_local:
        fault = packed_fault(name, [value.dtype])
        if fault is not None:
            raise ctx.type_error(node, fault.message, fault.hint)
        return value
    hint = "pass a tile, such as x = tj.cta.load(region)"
    if isinstance(value, Memory):
        hint = how_to_load(value)
    raise ctx.type_error(node, f"{name} takes local tiles; got {describe(value)}", hint)


def common_scope(ctx: Context, node: ast.AST, name: str, tiles: Sequence[Memory | Region]) -> str:
    """Return the widest scope of the tiles; raise KernelTypeError unless the scopes are equal or all span the CTA."""
    owners = [owner_scope(tile.buffer) for tile in tiles]
    scope = shared_scope(ctx, owners)
    if scope is None:
        scopes = sorted(set(owners), key=lambda scope: SCOPES[scope].level)
        one = next(scope for scope in scopes if SCOPES[scope].threads(ctx.threads) != ctx.threads)
        other = next(scope for scope in reversed(scopes) if scope != one)
        count = -(-ctx.threads // SCOPES[one].threads(ctx.threads))
        raise ctx.type_error(
            node,
            f"{name} can't combine a tile of a {other} and a tile of a {one}: each of the {count} {one}s has its own",
            f"create both on one scope, for example with tj.{other}.load(...), or move one through shared memory",
        )
    return scope


def inputs(
    ctx: Context, node: ast.AST, name: str, values: Sequence[Value], to: DType | None = None
) -> tuple[tuple[Region | Expr, ...], tuple[DType, ...]]:
    """Return an operation's inputs as operands, and their types.

    A scalar doesn't widen the type of a tile of the same kind, unless all tiles have rank 0. If there is no tile,
    untyped numbers take the type `to` of the destination, if given, unless their own type has a higher `RANK`.
    """
    if to is not None and not any(isinstance(v, Memory) for v in values):
        values = [Scalar(as_type(ctx, node, v, to)) if isinstance(v, Scalar) or is_number(v) else v for v in values]
    conditions = ELEMENTWISE[name].conditions
    for value in values:
        if not isinstance(value, (Memory, Scalar)) and not is_number(value):
            raise ctx.type_error(
                node, f"{name} takes tiles and scalars; got {describe(value)}", "pass a tile, a scalar or a number"
            )
    tiled = [v.dtype for v in values[conditions:] if isinstance(v, Memory)]
    if tiled and all(is_single(v) or isinstance(v, Scalar) or is_number(v) for v in values):
        # rank-0 tiles are promoted like scalars
        tiled += [v.dtype for v in values[conditions:] if isinstance(v, Scalar) and not v.weak]
    common = common_type(name, tuple(tiled)) if tiled else common_operand_type(name, values[conditions:])[0]
    operands: list[Region | Expr] = []
    dtypes: list[DType] = []
    for k, value in enumerate(values):
        is_condition = k < conditions
        operand = _input(ctx, node, value, bool_ if is_condition else common, narrows=bool(tiled) or is_condition)
        operands.append(operand)
        dtypes.append(operand.dtype)
    return tuple(operands), tuple(dtypes)


def _input(ctx: Context, node: ast.AST, value: Value, common: DType, *, narrows: bool) -> Region | Expr:
    """Return an operand. narrows: True to convert a typed scalar to `common`, unless its `RANK` is higher."""
    if isinstance(value, Memory):
        return value.region(ctx.span(node))
    if narrows and isinstance(value, Scalar) and not value.weak:
        return build.cast(value.expr, common) if RANK[value.dtype.kind] <= RANK[common.kind] else value.expr
    return as_type(ctx, node, value, common)


def cast(ctx: Context, node: ast.AST, tile: Memory, dtype: DType, saturate: bool = True) -> Memory:
    """Return a new tile with the elements converted to `dtype`; raise KernelTypeError unless `tile` is local."""
    if not tile.is_local:
        raise ctx.type_error(
            node, f"only local tiles and scalars can be converted; got {describe(tile)}", how_to_load(tile)
        )
    if "packed" in (tile.dtype.kind, dtype.kind):
        raise ctx.type_error(
            node, f"{tile.dtype} can't be converted to {dtype}: numbers are packed two per byte",
            "write tj.unpack(x, tj.float16), or tj.pack(x, tj.int4x2)",
        )
    scope, span = owner_scope(tile.buffer), ctx.span(node)
    result = ctx.tile("cast", scope, tile.shape, dtype, span)
    attrs = () if saturate else (("saturate", False),)
    ctx.emit(TileOp(CAST.name, scope, (result.region(span), tile.region(span)), attrs, span))
    return result


def convert_to(ctx: Context, node: ast.Call, dtype: DType) -> Value:
    """Translate `tj.<dtype>(value)` of a scalar or a local tile."""
    arguments = bind(ctx, node, f"tj.{dtype}", ("value",), 1)
    return converted(ctx, node, ctx.evaluate(arguments["value"]), dtype)
