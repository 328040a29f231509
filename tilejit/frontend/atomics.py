"""`tj.atomic.add(place, value)` and its like: updates of one element that no other thread comes between."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..dtypes import DTYPES, DType
from ..ir.arithmetic import build
from ..ir.nodes import Atomic, Expr, Var
from ..isa.atomics import OPERATIONS, has_type
from .arguments import bind, optional
from .context import Context
from .language import ATOMICS
from .ordered import memory_scope, shared_place
from .regions import element, require_writable
from .scalars import convert
from .values import Memory, Scalar, Value, describe

__all__ = ["ATOMIC_CALLS"]

_ORDERS = ("relaxed", "acquire", "release", "acq_rel")


def _atomic(name: str) -> Callable[[Context, ast.Call], Value]:
    op = ATOMICS[name]
    operation = OPERATIONS[op]
    parameters = ("place", *operation.operands, "order", "scope")

    def handler(ctx: Context, node: ast.Call) -> Value:
        arguments = bind(ctx, node, f"tj.atomic.{name}", parameters, 1 + len(operation.operands))
        memory = shared_place(ctx, arguments["place"])
        require_writable(ctx, node, memory)
        _need_type(ctx, arguments["place"], name, memory.dtype)
        order = f"{_order(ctx, node, arguments.get('order'))}.{memory_scope(ctx, node, arguments)}"
        operands = tuple(_operand(ctx, arguments[operand], memory.dtype) for operand in operation.operands)
        if name == "sub":
            operands = tuple(_negated(operand) for operand in operands)
        span = ctx.span(node)
        var = Var(ctx.unique(f"{memory.buffer.root.name}.before"), memory.dtype, span=span)
        ctx.emit(Atomic(op, element(ctx, node, memory), operands, order, var, span))
        return Scalar(var)

    return handler


def _need_type(ctx: Context, node: ast.expr, name: str, dtype: DType) -> None:
    op = ATOMICS[name]
    if has_type(op, dtype):
        return
    having = ", ".join(t.name for t in DTYPES.values() if has_type(op, t))
    hint = f"there is one of {having}"
    if dtype.is_float and dtype.bits in (32, 64) and op == "cas":
        hint += f"; compare the bits: A.view(tj.int{dtype.bits})"
    raise ctx.type_error(node, f"there is no atomic {name} of {dtype}", hint)


def _operand(ctx: Context, node: ast.expr, dtype: DType) -> Expr:
    value = ctx.evaluate(node)
    if isinstance(value, Memory):
        raise ctx.type_error(node, f"one element takes a scalar; this is {describe(value)}", "index it, as in x[i, j]")
    return convert(ctx, node, value, dtype).expr


def _negated(value: Expr) -> Expr:
    """What is added for a value that is subtracted; of unsigned integers it wraps around."""
    return build.op("neg", value) if value.dtype.is_float else build.sub(build.const(0, value.dtype), value)


def _order(ctx: Context, node: ast.Call, argument: ast.expr | None) -> str:
    value = optional(ctx, argument)
    order = "relaxed" if value is None else ctx.constant(value, node, "the order")
    if order not in _ORDERS:
        raise ctx.type_error(node, f"there is no order {order!r}", f"one of {', '.join(_ORDERS)}")
    return str(order)


#: name -> what a call of it gives: the element from before
ATOMIC_CALLS: dict[str, Callable[[Context, ast.Call], Value]] = {f"atomic.{name}": _atomic(name) for name in ATOMICS}
