"""Translation of `tj.ptx`: inline PTX on scalars, and on the elements of tiles."""

from __future__ import annotations

import ast

from ..dtypes import DType, int32
from ..ir.nodes import Expr, Region, TileOp
from ..isa.inline import MOST_INPUTS, MOST_OUTPUTS, InlineText, TextError, read
from ..ops.inline import COUNT, INPUTS, IS_PURE, OUTPUTS, PTX, TEXT
from ..scopes import THREAD
from . import memory as mem
from . import tiles
from .arguments import Arguments, optional
from .context import Context
from .scalars import scalar_of
from .values import Constant, Items, Memory, Scalar, Value, describe, is_number


def ptx(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.ptx(text, out=(), inputs=(), pure=None)`; the result of a tuple of types is a tuple."""
    outputs, is_tuple = _outputs(ctx, arguments)
    values = _inputs(ctx, arguments)
    pure = optional(ctx, arguments, "pure")
    claimed = None if pure is None else ctx.constant(pure, arguments["pure"], "pure=")
    if claimed is not None and not isinstance(claimed, bool):
        raise ctx.type_error(arguments["pure"], f"pure= is True, False or None; got {claimed!r}", "leave it out")
    if claimed and not outputs:
        raise ctx.type_error(arguments["pure"], "a pure text without outputs would be dropped", "leave out pure=True")
    span = ctx.span(node)
    operands = tuple([v.region(span) if isinstance(v, Memory) else ctx.scalar(v, node) for v in values])
    types = [*outputs, *[operand.dtype for operand in operands]]
    numbers = {k for k, value in enumerate(values, len(outputs)) if not isinstance(value, (Memory, Scalar))}
    text = _read(ctx, arguments, len(outputs), types, numbers, needs_pure=bool(claimed))
    chosen = text.is_pure if claimed is None else claimed
    scope, shape = THREAD.name, tuple[int, ...]()
    are_tiles = any(isinstance(value, Memory) for value in values)
    if are_tiles:
        scope, shape, operands = tiles.broadcast_together(ctx, node, PTX.name, values, operands)
    # an operation needs a destination; without outputs it gets one that the text doesn't write
    results = [ctx.tile(PTX.name, scope, shape, dtype, span) for dtype in outputs or (int32,)]
    named: dict[str, Region | Expr] = dict(zip(INPUTS, operands, strict=False))
    named |= {name: result.region(span) for name, result in zip(OUTPUTS, results, strict=False)}
    attrs = ((TEXT.name, text.text), (COUNT.name, len(outputs)), (IS_PURE.name, chosen))
    tiles.emit_sound(ctx, node, TileOp(PTX.name, scope, PTX.ordered(named), attrs, span))
    if not outputs:
        return Constant(None)
    made = tuple([result if are_tiles else scalar_of(ctx, result, span) for result in results])
    return Items(made) if is_tuple else made[0]


def _outputs(ctx: Context, arguments: Arguments) -> tuple[list[DType], bool]:
    """Return the types of the outputs, and True if the call lists them in a tuple."""
    given = ctx.evaluate(arguments["out"]) if "out" in arguments else Items(())
    if isinstance(given, Constant) and isinstance(given.value, tuple):
        given = Items(tuple(map(Constant, given.value)))
    values = given.items if isinstance(given, Items) else (given,)
    if len(values) > MOST_OUTPUTS:
        raise ctx.type_error(
            arguments["out"], f"tj.ptx has at most {MOST_OUTPUTS} outputs; got {len(values)}", "write several calls"
        )
    return [mem.element_type(ctx, arguments["out"], value) for value in values], isinstance(given, Items)


def _inputs(ctx: Context, arguments: Arguments) -> tuple[Value, ...]:
    node = arguments.get("inputs")
    given = Items(()) if node is None else ctx.evaluate(node)
    if isinstance(given, Constant) and isinstance(given.value, tuple):
        given = Items(tuple(map(Constant, given.value)))
    if not isinstance(given, Items):
        assert node is not None
        raise ctx.type_error(node, f"inputs= takes a tuple; this is {describe(given)}", "write inputs=(x,)")
    if len(given.items) > MOST_INPUTS:
        raise ctx.type_error(
            node or arguments["text"], f"tj.ptx has at most {MOST_INPUTS} inputs; got {len(given.items)}",
            "write several calls, or put numbers into the text: f\"...\"",
        )
    for value in given.items:
        is_tile = isinstance(value, Memory) and value.is_local
        if not (is_tile or isinstance(value, Scalar) or is_number(value)):
            hint = "load it: x = tj.cta.load(region)" if isinstance(value, Memory) else "pass scalars and local tiles"
            raise ctx.type_error(
                node or arguments["text"], f"an input of tj.ptx is a scalar or a local tile; this is {describe(value)}",
                hint,
            )
        if isinstance(value, Memory):
            tiles.local_tile(ctx, node or arguments["text"], "tj.ptx", value)
    return given.items


def _read(
    ctx: Context, arguments: Arguments, outputs: int, types: list[DType], numbers: set[int], *, needs_pure: bool
) -> InlineText:
    node = arguments["text"]
    text = ctx.constant(ctx.evaluate(node), node, "the text")
    if not isinstance(text, str):
        raise ctx.type_error(node, f"the text must be a string; this is {text!r}", 'write "add.s32 $0, $1, $2;"')
    try:
        return read(text, outputs, len(types) - outputs, types, numbers, needs_pure=needs_pure)
    except TextError as error:
        raise ctx.type_error(node, f"{error.message} ({error.place} of the text)", error.hint) from None
