"""Python's operators: folded on compile-time values, otherwise elementwise operations or matrix products."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from ..ir.arithmetic import build
from . import tiles
from .context import Context
from .products import product
from .scalars import fold, truth
from .values import Constant, Items, Scalar, Value, describe

#: operator -> (elementwise operation, the function that folds it)
_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv),
    ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("mod", operator.mod),
    ast.Pow: ("pow", operator.pow),
    ast.BitAnd: ("bitwise_and", operator.and_),
    ast.BitOr: ("bitwise_or", operator.or_),
    ast.BitXor: ("bitwise_xor", operator.xor),
    ast.LShift: ("left_shift", operator.lshift),
    ast.RShift: ("right_shift", operator.rshift),
}

_UNARY: dict[type[ast.unaryop], tuple[str, Callable[[Any], Any]]] = {
    ast.USub: ("neg", operator.neg),
    ast.Invert: ("bitwise_not", operator.invert),
    ast.UAdd: ("", operator.pos),
}

_COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("equal", operator.eq),
    ast.NotEq: ("not_equal", operator.ne),
    ast.Lt: ("less", operator.lt),
    ast.LtE: ("less_equal", operator.le),
    ast.Gt: ("greater", operator.gt),
    ast.GtE: ("greater_equal", operator.ge),
}


def binary(ctx: Context, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(op, ast.MatMult):
        stride = fold(ctx, node, operator.matmul, (left, right))
        if stride is not None:
            return stride
        return product(ctx, node, left, right)
    name, compute = _BINARY[type(op)]
    if isinstance(left, Items) and isinstance(right, Items) and name == "add":
        return Items(left.items + right.items)
    folded = fold(ctx, node, compute, (left, right))
    return tiles.apply(ctx, node, name, (left, right)) if folded is None else folded


def unary(ctx: Context, node: ast.UnaryOp, value: Value) -> Value:
    if isinstance(node.op, ast.Not):
        holds = truth(ctx, node.operand, value)
        return Constant(not holds) if isinstance(holds, bool) else Scalar(build.op("logical_not", holds))
    name, compute = _UNARY[type(node.op)]
    folded = fold(ctx, node, compute, (value,))
    if folded is not None:
        return folded
    return tiles.apply(ctx, node, name, (value,)) if name else value


def comparison(ctx: Context, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(ctx, node, op, left, right)
    if isinstance(op, (ast.In, ast.NotIn)):
        hint = "compare with each: x == 1 or x == 2"
        sought, among = (Constant(ctx.constant(v, node, "each side of in", hint)) for v in (left, right))
        wanted = isinstance(op, ast.In)
        answer = fold(ctx, node, lambda item, items: (item in items) == wanted, (sought, among))
        assert answer is not None
        return answer
    name, compute = _COMPARE[type(op)]
    folded = fold(ctx, node, compute, (left, right))
    return tiles.apply(ctx, node, name, (left, right)) if folded is None else folded


def _identity(ctx: Context, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
    wanted = isinstance(op, ast.Is)
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant((left.value is right.value) == wanted)
    if any(isinstance(v, Constant) and v.value is None for v in (left, right)):
        return Constant(not wanted)
    raise ctx.type_error(node, f"is can't compare {describe(left)} with {describe(right)}", "compare values with ==")
