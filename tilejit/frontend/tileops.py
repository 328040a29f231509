"""`tj.<scope>.<operation>(...)`: tile operations with a destination, and those that make tiles."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

from ..dtypes import DType
from ..ir.nodes import Expr, Region, Strided, TileOp
from ..layout import Axis, TileLayout
from ..layout.iters import Iter
from ..ops.elementwise import ELEMENTWISE, result_type
from ..ops.gemm import shape_fault, type_fault
from ..ops.tile import TILE_OPERATIONS
from ..target import WARP, WARPGROUP
from . import regions, tiles
from .arguments import bind, optional
from .context import Context
from .memory import element_type, given_layout, static_shape
from .scalars import as_type, convert
from .values import Constant, Memory, Operation, Scalar, Value, describe, is_number

__all__ = ["call_operation"]

_THREAD_AXIS = {"warp": "laneid", "warpgroup": "tid_in_wg", "cta": "tx"}
_Attrs = tuple[tuple[str, str | int | bool | None], ...]


def call_operation(ctx: Context, node: ast.Call, operation: Operation) -> Value:
    """A call of an operation on a scope."""
    handler = _HANDLERS.get(operation.name)
    if handler is not None:
        return handler(ctx, node, operation)
    if operation.name in ELEMENTWISE:
        return _elementwise(ctx, node, operation)
    raise ctx.type_error(
        node, f"tj.{operation.scope}.{operation.name} is not available in this version of tilejit",
        f"dir(tj.{operation.scope}) names them all; copies, fill, cast, gemm and elementwise operations are there",
    )  # fmt: skip


def memory_operand(ctx: Context, node: ast.expr, what: str) -> Memory:
    """An operand that names memory: a buffer, a region, or an element's place."""
    value = regions.place(ctx, node)
    if not isinstance(value, Memory):
        raise ctx.type_error(
            node, f"{what} must be a buffer or a region; this is {describe(value)}",
            "pass a tensor, what tj.alloc_... made, or a slice of these",
        )  # fmt: skip
    return value.at(ctx.span(node))


def _region(ctx: Context, node: ast.expr, what: str) -> Region:
    return memory_operand(ctx, node, what).region()


def _destination(ctx: Context, node: ast.expr) -> Region:
    memory = memory_operand(ctx, node, "the destination")
    regions.require_writable(ctx, node, memory)
    return memory.region()


def _attributes(ctx: Context, arguments: dict[str, ast.expr], names: tuple[str, ...]) -> _Attrs:
    """The attributes that are given, as compile-time values."""
    found: list[tuple[str, str | int | bool | None]] = []
    for name in names:
        argument = arguments.get(name)
        value = optional(ctx, argument)
        if value is None or argument is None:
            continue
        constant = ctx.constant(value, argument, f"{name}=")
        wanted = {"variant": str, "require_bits": int, "saturate": bool, "precision": str}[name]
        if not isinstance(constant, (str, int)) or type(constant) is not wanted:
            raise ctx.type_error(
                argument, f"{name}= takes {wanted.__name__}; got {constant!r}", f"leave {name}= out, or change it"
            )
        found.append((name, constant))
    return tuple(found)


# ---- with a destination -------------------------------------------------------------------------------------


def _copy(ctx: Context, node: ast.Call, operation: Operation) -> Value:
    what = f"tj.{operation.scope}.{operation.name}"
    extra = ("barrier",) if operation.name == "copy_async" else ()
    arguments = bind(ctx, node, what, ("dst", "src", "fill", *extra, *TILE_OPERATIONS[operation.name].attrs), 2)
    if optional(ctx, arguments.get("barrier")) is not None:
        raise ctx.type_error(
            arguments["barrier"], "copy_async with a barrier is not available in this version of tilejit",
            "leave barrier= out, then tj.cp_async.commit() and tj.cp_async.wait(n)",
        )  # fmt: skip
    dst, src = _destination(ctx, arguments["dst"]), _region(ctx, arguments["src"], "the source")
    _same_shape(ctx, node, dst, src)
    _same_type(ctx, node, dst, src)
    operands: list[Region | Expr] = [dst, src]
    fill = optional(ctx, arguments.get("fill"))
    if fill is not None:
        operands.append(_fill_value(ctx, arguments["fill"], fill, src.dtype))
    attrs = _attributes(ctx, arguments, TILE_OPERATIONS[operation.name].attrs)
    ctx.emit(TileOp(operation.name, operation.scope, tuple(operands), attrs, ctx.span(node)))
    return Constant(None)


def _fill_value(ctx: Context, node: ast.AST, value: Value, dtype: DType) -> Expr:
    return convert(ctx, node, value, dtype).expr


def _same_shape(ctx: Context, node: ast.AST, dst: Region, src: Region) -> None:
    if [e for e in dst.shape if e != 1] != [e for e in src.shape if e != 1]:
        raise ctx.type_error(
            node, f"shapes differ: the destination has {dst.shape}, the source {src.shape}",
            "slice the larger one; dimensions of 1 don't count",
        )  # fmt: skip


def _same_type(ctx: Context, node: ast.AST, dst: Region, src: Region) -> None:
    if dst.dtype != src.dtype:
        raise ctx.type_error(
            node, f"types differ: the destination is {dst.dtype}, the source {src.dtype}",
            f"convert in registers: x.astype(tj.{dst.dtype}), or cast(dst, src) on the scope",
        )  # fmt: skip


def _fill(ctx: Context, node: ast.Call, operation: Operation) -> Value:
    arguments = bind(ctx, node, f"tj.{operation.scope}.fill", ("dst", "value", "variant"), 2)
    dst = _destination(ctx, arguments["dst"])
    value = _fill_value(ctx, arguments["value"], ctx.evaluate(arguments["value"]), dst.dtype)
    attrs = _attributes(ctx, arguments, ("variant",))
    ctx.emit(TileOp("fill", operation.scope, (dst, value), attrs, ctx.span(node)))
    return Constant(None)


def _cast(ctx: Context, node: ast.Call, operation: Operation) -> Value:
    arguments = bind(ctx, node, f"tj.{operation.scope}.cast", ("dst", "src", "variant", "saturate"), 2)
    dst, src = _destination(ctx, arguments["dst"]), _region(ctx, arguments["src"], "the source of cast")
    _broadcasts(ctx, node, dst, (src,))
    attrs = _attributes(ctx, arguments, ("variant", "saturate"))
    ctx.emit(TileOp("cast", operation.scope, (dst, src), attrs, ctx.span(node)))
    return Constant(None)


def _gemm(ctx: Context, node: ast.Call, operation: Operation) -> Value:
    arguments = bind(ctx, node, f"tj.{operation.scope}.gemm", ("acc", "a", "b", "precision", "variant"), 3)
    acc = _destination(ctx, arguments["acc"])
    a, b = _region(ctx, arguments["a"], "a of gemm"), _region(ctx, arguments["b"], "b of gemm")
    attrs = _attributes(ctx, arguments, TILE_OPERATIONS["gemm"].attrs)
    shapes = shape_fault(acc.shape, a.shape, b.shape)
    if shapes is not None:
        raise ctx.type_error(node, shapes, "slice or transpose the operands: .T")
    types = type_fault(acc.dtype, a.dtype, b.dtype, dict(attrs).get("precision"))
    if types is not None:
        raise ctx.type_error(node, types, "change the element type of acc, a or b, or the precision")
    ctx.emit(TileOp("gemm", operation.scope, (acc, a, b), attrs, ctx.span(node)))
    return Constant(None)


def _elementwise(ctx: Context, node: ast.Call, operation: Operation) -> Value:
    name, what = operation.name, f"tj.{operation.scope}.{operation.name}"
    names = tuple(o.name for o in TILE_OPERATIONS[name].operands[1:])
    arguments = bind(ctx, node, what, ("dst", *names, "variant"), 1 + len(names))
    dst = _destination(ctx, arguments["dst"])
    values = [ctx.evaluate(arguments[n]) for n in names]
    operands, dtypes = tiles.inputs(ctx, node, name, values if _has_tile(values) else _typed(ctx, node, values, dst))
    rule = result_type(name, dtypes)
    if isinstance(rule, str):
        raise ctx.type_error(node, rule, "convert the operands first: x.astype(...)")
    _broadcasts(ctx, node, dst, operands)
    attrs = _attributes(ctx, arguments, ("variant",))
    ctx.emit(TileOp(name, operation.scope, (dst, *operands), attrs, ctx.span(node)))
    return Constant(None)


def _has_tile(values: list[Value]) -> bool:
    return any(isinstance(v, Memory) for v in values)


def _typed(ctx: Context, node: ast.AST, values: list[Value], dst: Region) -> list[Value]:
    """Scalars only: literals take the destination's type where its kind is not lower."""
    scalar = [isinstance(v, Scalar) or is_number(v) for v in values]
    return [
        Scalar(as_type(ctx, node, v, dst.dtype)) if known else v for v, known in zip(values, scalar, strict=True)
    ]


def _broadcasts(ctx: Context, node: ast.AST, dst: Region, operands: tuple[Region | Expr, ...]) -> None:
    shapes = [o.shape for o in operands if isinstance(o, Region)]
    if shapes and _dense(tiles.broadcast_shape(ctx, node, [dst.shape, *shapes])) != _dense(dst.shape):
        given = " and ".join(map(str, shapes))
        raise ctx.type_error(
            node, f"inputs of shape {given} don't broadcast to the destination's {dst.shape}",
            "make the destination as large as what the inputs broadcast to",
        )  # fmt: skip


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    leading = 0
    while leading < len(shape) and shape[leading] == 1:
        leading += 1
    return shape[leading:]


# ---- results ------------------------------------------------------------------------------------------------


def _load(ctx: Context, node: ast.Call, operation: Operation) -> Value:
    arguments = bind(ctx, node, f"tj.{operation.scope}.load", ("region", "layout", "fill"), 1)
    src = _region(ctx, arguments["region"], "what is loaded")
    layout = given_layout(ctx, arguments.get("layout"), src.shape, "local")
    if layout is None:
        layout = synthesised(ctx, node, operation.scope, src.shape, src.dtype, _innermost(src))
    result = ctx.local(f"{src.buffer.root.name}.tile", src.shape, src.dtype, layout, ctx.span(node))
    operands: list[Region | Expr] = [result.region(ctx.span(node)), src]
    fill = optional(ctx, arguments.get("fill"))
    if fill is not None:
        operands.append(_fill_value(ctx, arguments["fill"], fill, src.dtype))
    ctx.emit(TileOp("copy", operation.scope, tuple(operands), (), ctx.span(node)))
    return result


def _innermost(region: Region) -> int:
    """The extent along which elements are neighbours in memory."""
    layout = region.buffer.layout
    dim = layout.unit_dim if isinstance(layout, Strided) else len(region.extents) - 1
    kept = [d for d, e in enumerate(region.extents) if e is not None]
    if dim is None or not kept or dim != kept[-1]:
        return 1
    return region.extents[dim] or 1


def synthesised(
    ctx: Context, node: ast.AST, scope: str, shape: tuple[int, ...], dtype: DType, innermost: int
) -> TileLayout:
    """A coalesced layout: rounds of vectors, one vector a thread after the other, in row-major order."""
    count = math.prod(shape)
    if scope == "thread":
        return TileLayout.row_major(shape or (1,))
    threads = {"warp": WARP, "warpgroup": WARPGROUP, "cta": ctx.threads}[scope]
    if count % threads != 0:
        raise ctx.type_error(
            node, f"no layout can be made for shape {shape}: its {count} elements don't divide among {threads} threads",
            f"give a layout=, or make the tile a multiple of {threads} elements",
        )  # fmt: skip
    width = 16 // dtype.bytes
    while width > 1 and (count % (threads * width) or innermost % width):
        width //= 2
    axis = Axis(_THREAD_AXIS[scope])
    rounds = count // (threads * width)
    iters = (Iter(rounds, width, Axis("m")), Iter(threads, 1, axis), Iter(width, 1, Axis("m")))
    return TileLayout(iters)


def _store(ctx: Context, node: ast.Call, operation: Operation) -> Value:
    arguments = bind(ctx, node, f"tj.{operation.scope}.store", ("region", "tile", "variant"), 2)
    dst = _destination(ctx, arguments["region"])
    value = ctx.evaluate(arguments["tile"])
    if not isinstance(value, Memory) or not value.is_local:
        raise ctx.type_error(
            arguments["tile"], f"store takes a local tile; this is {describe(value)}",
            "fill a region with fill(region, value), copy memory with copy(dst, src)",
        )  # fmt: skip
    src = value.region(ctx.span(arguments["tile"]))
    _same_shape(ctx, node, dst, src)
    _same_type(ctx, node, dst, src)
    attrs = _attributes(ctx, arguments, ("variant",))
    ctx.emit(TileOp("copy", operation.scope, (dst, src), attrs, ctx.span(node)))
    return Constant(None)


def _zeros(ctx: Context, node: ast.Call, operation: Operation) -> Value:
    arguments = bind(ctx, node, f"tj.{operation.scope}.zeros", ("shape", "dtype", "layout"), 2)
    return _filled(ctx, node, operation, arguments, Constant(0))


def _full(ctx: Context, node: ast.Call, operation: Operation) -> Value:
    arguments = bind(ctx, node, f"tj.{operation.scope}.full", ("shape", "value", "dtype", "layout"), 3)
    return _filled(ctx, node, operation, arguments, ctx.evaluate(arguments["value"]))


def _filled(
    ctx: Context, node: ast.Call, operation: Operation, arguments: dict[str, ast.expr], value: Value
) -> Memory:
    shape_node, dtype_node = arguments["shape"], arguments["dtype"]
    shape = static_shape(ctx, shape_node, ctx.evaluate(shape_node))
    dtype = element_type(ctx, dtype_node, ctx.evaluate(dtype_node))
    layout = given_layout(ctx, arguments.get("layout"), shape, "local")
    if layout is None:
        layout = synthesised(ctx, node, operation.scope, shape, dtype, shape[-1] if shape else 1)
    result = ctx.local(operation.name, shape, dtype, layout, ctx.span(node))
    fill = _fill_value(ctx, node, value, dtype)
    ctx.emit(TileOp("fill", operation.scope, (result.region(ctx.span(node)), fill), (), ctx.span(node)))
    return result


_HANDLERS: dict[str, Callable[[Context, ast.Call, Operation], Value]] = {
    "copy": _copy,
    "copy_async": _copy,
    "fill": _fill,
    "cast": _cast,
    "gemm": _gemm,
    "load": _load,
    "store": _store,
    "zeros": _zeros,
    "full": _full,
}
