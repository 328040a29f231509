"""Translation of calls, by the kind of callee."""

from __future__ import annotations

import ast
from typing import Any

from ..dtypes import DType
from .arguments import bind
from .context import Context
from .foreign import not_callable
from .intrinsics import HANDLERS
from .language import Intrinsic
from .loops import static_range
from .methods import METHODS
from .names import closure_of, inline
from .python_calls import call_python
from .records import call_method
from .tileops import call_operation
from .tiles import convert_to
from .values import Constant, Method, ScopedOperation, Table, Value, describe


def call(ctx: Context, node: ast.Call) -> Value:
    """Return the result of a call; raise KernelTypeError or KernelSyntaxError if a kernel can't call the callee."""
    callee = ctx.evaluate(node.func)
    if isinstance(callee, ScopedOperation):
        return call_operation(ctx, node, callee)
    if isinstance(callee, Method) and isinstance(callee.receiver, Table):
        return call_method(ctx, node, callee.receiver, callee.name)
    if isinstance(callee, Method):
        return METHODS[callee.name](ctx, node, callee.receiver)
    closure = closure_of(ctx, callee)
    if closure is not None:
        return inline(ctx, node, closure)
    if isinstance(callee, Constant):
        return _call_constant(ctx, node, callee.value)
    raise ctx.type_error(node, f"{describe(callee)} can't be called", "write [ ] to index memory, or call a function")


def _call_constant(ctx: Context, node: ast.Call, callee: Any) -> Value:
    if callee is range:
        raise ctx.syntax_error(
            node, "range can only be used in a for loop",
            "write for i in range(...); tj.static_range(...) can also be used as a tuple",
        )
    if isinstance(callee, Intrinsic) and callee.name == "static_range":
        return static_range(ctx, node)
    if isinstance(callee, Intrinsic):
        arguments = bind(ctx, node, f"tj.{callee.name}", callee.names, callee.required)
        return HANDLERS[callee.name](ctx, node, arguments)
    if isinstance(callee, DType):
        return convert_to(ctx, node, callee)
    result = call_python(ctx, node, callee)
    if result is None:
        raise not_callable(ctx, node, callee)
    return result
