"""Operations with a memory order: the updates of `tj.atomic`, accesses such as `tj.load_acquire`, and fences."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import partial

from ..dataclass import replace
from ..dtypes import DTYPES, DType, int64
from ..ir.arithmetic import build
from ..ir.nodes import Atomic, Buffer, Element, Expr, Instruction, Region, TileOp, Var
from ..ir.values import MEMORY_ORDERS, MEMORY_SCOPES
from ..isa.atomics import OPERATIONS, has_type
from ..isa.fences import FENCE
from ..ops.atomic import ATOMIC, OPERATION, ORDER
from ..ops.copies import INDEX
from ..scopes import THREAD
from ..wording import counted
from . import memory as mem
from . import tiles
from .arguments import Arguments, Handler, optional
from .context import Context
from .scalars import as_scalar, held, scalar_of
from .tileops import mask_argument, mask_region, memory_operand, placed
from .values import Constant, Memory, Scalar, Value, describe
from .words import ATOMICS


def _atomic(name: str, ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    operation = OPERATIONS[ATOMICS[name]]
    _need_indexed(ctx, node, name, arguments)
    place = placed(ctx, arguments["place"], "the place", is_written=True)
    region = place["place"]
    assert isinstance(region, Region)
    _need_shared(ctx, arguments["place"], region.buffer)
    _need_type(ctx, arguments["place"], name, region.dtype)
    order = f"{_choice(ctx, node, arguments, 'order', 'relaxed', MEMORY_ORDERS)}.{_memory_scope(ctx, node, arguments)}"
    values = [_value(ctx, arguments[operand], name, region) for operand in operation.operands]
    mask = mask_argument(ctx, arguments)
    if not region.shape and INDEX.name not in place and mask is None:
        return _of_element(ctx, node, name, region, [v for v in values if not isinstance(v, Memory)], order)
    return update(ctx, node, name, place, values, mask, order)


def _need_indexed(ctx: Context, node: ast.Call, name: str, arguments: Arguments) -> None:
    """Reject Numba's form `add(array, index, value)`, which would bind `value` to the parameter `order`."""
    order = arguments.get("order")
    value = optional(ctx, arguments, "order")
    is_order = isinstance(value, Constant) and isinstance(value.value, str)
    if order not in node.args or isinstance(node.args[0], ast.Subscript) or is_order:
        return
    array, index, *values = map(ast.unparse, node.args)
    raise ctx.type_error(
        node, f"tj.atomic.{name} takes a place, not an array and an index",
        f"write tj.atomic.{name}({array}[{index}], {', '.join(values)})",
    )


def _of_element(ctx: Context, node: ast.Call, name: str, region: Region, values: list[Expr], order: str) -> Scalar:
    span = ctx.span(node)
    var = Var(ctx.unique(f"{region.buffer.root.name}.before"), region.dtype, span=span, data=region.dtype is int64)
    ctx.emit(Atomic(ATOMICS[name], Element(region.buffer, region.starts, span), tuple(values), order, var, span))
    return Scalar(var)


def update(
    ctx: Context, node: ast.AST, name: str, place: dict[str, Region | Expr], values: list[Memory | Expr],
    mask: Memory | Expr | None, order: str,
) -> Value:
    """Emit an update of a region and return the old values. Without a tile or tile index, every thread updates it."""
    region, span = place["place"], ctx.span(node)
    assert isinstance(region, Region)
    tiles_given = [each for each in (*values, mask) if isinstance(each, Memory)]
    if isinstance(mask, Memory) and mask in tiles.wide_singles(ctx, tiles_given):
        tiles_given.remove(mask)
        mask = scalar_of(ctx, mask, span).expr
    index = place.get(INDEX.name)
    owned: list[Memory | Region] = [*tiles_given, *([index] if isinstance(index, Region) else [])]
    scope = tiles.common_scope(ctx, node, f"atomic.{name}", owned) if owned else THREAD.name
    before = ctx.tile(f"{region.buffer.root.name}.before", scope, region.shape, region.dtype, span)
    operands = {**place, "place": replace(region, in_bounds=True), "before": before.region(span)}
    for operand, value in zip(("value", "desired"), values, strict=False):
        operands[operand] = value.region(span) if isinstance(value, Memory) else value
    if mask is not None:
        operands["mask"] = mask_region(ctx, mask, scope, span)
    attrs = ((OPERATION.name, ATOMICS[name]), (ORDER.name, order))
    tiles.emit_sound(ctx, node, TileOp(ATOMIC.name, scope, ATOMIC.ordered(operands), attrs, span))
    return before


def _value(ctx: Context, node: ast.expr, name: str, region: Region) -> Memory | Expr:
    """Return an operand of an update, negated for `sub`: a tile, or a scalar that is used for all elements."""
    value = as_scalar(ctx, node, ctx.evaluate(node))
    if not isinstance(value, Memory):
        expr = held(ctx, node, value, region.dtype).expr
        if name == "sub":
            expr = build.op("neg", expr) if expr.dtype.is_float else build.sub(build.const(0, expr.dtype), expr)
        return expr
    if not region.shape:
        hint = "pass a region as the place, or reduce it: tj.sum(x)" if value.is_local else "index it, as in x[i, j]"
        raise ctx.type_error(node, f"one element takes a scalar; this is {describe(value)}", hint)
    tile = tiles.local_tile(ctx, node, f"atomic.{name}", value)
    if name != "sub":
        return tile
    return tiles.elementwise(ctx, node, *(("neg", [tile]) if tile.dtype.is_float else ("sub", [Constant(0), tile])))


def _need_type(ctx: Context, node: ast.expr, name: str, dtype: DType) -> None:
    op = ATOMICS[name]
    if has_type(op, dtype):
        return
    having = ", ".join(t.name for t in DTYPES.values() if has_type(op, t))
    hint = f"it supports {having}"
    if dtype.is_float and dtype.bits in (32, 64) and op == "cas":
        hint += f"; compare the bits: A.view(tj.int{dtype.bits})"
    raise ctx.type_error(node, f"atomic {name} does not support {dtype}", hint)


def _choice(
    ctx: Context, node: ast.Call, arguments: Arguments, name: str, default: str, choices: Collection[str]
) -> str:
    """Return the memory order or scope that a call names, or `default` if it names none."""
    value = optional(ctx, arguments, name)
    chosen = default if value is None else ctx.constant(value, node, f"the {name}")
    if chosen not in choices:
        hint = f"write one of {', '.join(map(repr, choices))}"
        raise ctx.type_error(node, f"{chosen!r} is not a memory {name}", hint)
    return str(chosen)


def _load_acquire(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    scope = _memory_scope(ctx, node, arguments)
    return mem.load_element(ctx, node, _shared_place(ctx, arguments["place"]), f"acquire.{scope}")


def _store_release(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    scope = _memory_scope(ctx, node, arguments)
    value = ctx.evaluate(arguments["value"])
    mem.store_element(ctx, node, _shared_place(ctx, arguments["place"]), value, f"release.{scope}")
    return Constant(None)


def _load_volatile(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    return mem.load_element(ctx, node, _shared_place(ctx, arguments["place"]), "volatile")


def _fence(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    scope = _memory_scope(ctx, node, arguments)
    ctx.emit(Instruction(FENCE.row(scope).name, (), (), ctx.span(node)))
    return Constant(None)


def _shared_place(ctx: Context, node: ast.expr) -> Memory:
    """Return the element of global or shared memory that an argument names; raise KernelTypeError for anything else."""
    memory = memory_operand(ctx, node, "the place")
    if memory.dims:
        raise ctx.type_error(
            node, f"the place must be one element; this is a region of {counted(len(memory.dims), 'dimension')}",
            "index every dimension, as in A[i, j]",
        )
    _need_shared(ctx, node, memory.buffer)
    return memory


def _need_shared(ctx: Context, node: ast.expr, buffer: Buffer) -> None:
    if buffer.space not in ("global", "shared"):
        raise ctx.type_error(
            node,
            f"{buffer.name} is a {buffer.space} buffer; atomics and ordered accesses need global or shared memory",
            "use a tensor or a buffer from tj.alloc_shared",
        )


def _memory_scope(ctx: Context, node: ast.Call, arguments: Arguments) -> str:
    """Return the memory scope that a call names, after checking that the target supports it."""
    scope = _choice(ctx, node, arguments, "scope", "gpu", MEMORY_SCOPES)
    FENCE.row(scope).need(ctx.target, ctx.span(node))
    return scope


ORDERED: dict[str, Handler] = {
    **{f"atomic.{name}": partial(_atomic, name) for name in ATOMICS},
    "load_acquire": _load_acquire,
    "store_release": _store_release,
    "load_volatile": _load_volatile,
    "fence": _fence,
}
