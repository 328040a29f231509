"""Translation of calls, by the kind of callee."""

from __future__ import annotations

import ast
from typing import Any

from ..dtypes import DType
from ..ops.elementwise import ELEMENTWISE
from ..ops.tile import TILE_OPERATIONS
from . import tiles
from .arguments import bind
from .context import Context
from .foreign import not_callable
from .intrinsics import HANDLERS
from .language import Intrinsic
from .loops import static_range
from .methods import METHODS
from .names import closure_of, inline
from .python_calls import call_python
from .reductions import reduced
from .tileops import call_operation
from .values import Constant, Method, ScopedOperation, Value, describe


def call(ctx: Context, node: ast.Call) -> Value:
    """Return the result of a call; raise KernelTypeError or KernelSyntaxError if a kernel can't call the callee."""
    callee = ctx.evaluate(node.func)
    if isinstance(callee, ScopedOperation):
        return call_operation(ctx, node, callee)
    if isinstance(callee, Method):
        return METHODS[callee.name](ctx, node, callee.receiver)
    closure = closure_of(ctx, callee)
    if closure is not None:
        return inline(ctx, node, closure)
    if isinstance(callee, Constant):
        return _call_constant(ctx, node, callee.value)
    raise ctx.type_error(node, f"{describe(callee)} can't be called", "index memory with [ ]; call a @tj.function")


def _call_constant(ctx: Context, node: ast.Call, callee: Any) -> Value:
    if callee is range:
        raise ctx.syntax_error(
            node, "range can only be used in a for loop",
            "write for i in range(...); tj.static_range(...) is also a tuple",
        )
    if isinstance(callee, Intrinsic) and callee.name == "static_range":
        return static_range(ctx, node)
    if isinstance(callee, Intrinsic):
        return _call_word(ctx, node, callee)
    if isinstance(callee, DType):
        return tiles.convert_to(ctx, node, callee)
    result = call_python(ctx, node, callee)
    if result is None:
        raise not_callable(ctx, node, callee)
    return result


def _call_word(ctx: Context, node: ast.Call, callee: Intrinsic) -> Value:
    arguments = bind(ctx, node, f"tj.{callee.name}", callee.names, callee.required)
    handler = HANDLERS.get(callee.name)
    if handler is not None:
        return handler(ctx, node, arguments)
    name = callee.name.replace(".", "_")
    if name in ELEMENTWISE:
        return tiles.apply(ctx, node, name, [ctx.evaluate(arguments[p]) for p in callee.names])
    record = TILE_OPERATIONS[callee.name]
    assert record.reduction is not None, f"tj.{callee.name} has no handler"
    return reduced(ctx, node, arguments, record, record.reduction)
