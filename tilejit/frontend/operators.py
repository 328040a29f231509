"""Python's operators: folded on compile-time values, otherwise elementwise operations or matrix products.

The formula of `tj.tile_order` is here too.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..dtypes import bool_, int64, promote
from ..ir.arithmetic import build, facts
from ..ir.nodes import Const, Expr
from . import tiles
from .arguments import bind, optional
from .context import Context
from .products import product
from .records import entry
from .scalars import as_scalar, condition, fold, truth
from .values import Constant, Items, Memory, Scalar, Table, Value, describe

#: operator -> (elementwise operation, the function that computes it at compile time)
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
        return product(ctx, node, left, right) if stride is None else stride
    name, compute = _BINARY[type(op)]
    if isinstance(left, Items) and isinstance(right, Items) and name == "add":
        return Items(left.items + right.items)
    return operation(ctx, node, name, compute, (left, right))


def operation(ctx: Context, node: ast.AST, name: str, compute: Callable[..., Any], values: Sequence[Value]) -> Value:
    """Return the result of `compute` on compile-time values, or of the elementwise operation `name` on other values."""
    folded = fold(ctx, node, compute, values)
    return tiles.apply(ctx, node, name, values) if folded is None else folded


def unary(ctx: Context, node: ast.UnaryOp, value: Value) -> Value:
    if isinstance(node.op, ast.Not):
        holds = truth(ctx, node.operand, value)
        return Constant(not holds) if isinstance(holds, bool) else Scalar(build.op("logical_not", holds))
    name, compute = _UNARY[type(node.op)]
    if name:
        return operation(ctx, node, name, compute, (value,))
    folded = fold(ctx, node, compute, (value,))
    return value if folded is None else folded


def comparison(ctx: Context, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(ctx, node, op, left, right)
    if isinstance(op, (ast.In, ast.NotIn)):
        return _membership(ctx, node, op, left, right)
    name, compute = _COMPARE[type(op)]
    return operation(ctx, node, name, compute, (left, right))


def _membership(ctx: Context, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
    """Translate `x in (a, b)` as `x == a or x == b`."""
    wanted = isinstance(op, ast.In)
    if isinstance(right, Table):
        return Constant((entry(ctx, node, right, left) is not None) == wanted)
    folded = fold(ctx, node, lambda item, items: (item in items) == wanted, (left, right))
    if folded is not None:
        return folded
    left = as_scalar(ctx, node, left)
    if isinstance(left, Memory):
        raise ctx.type_error(
            node, f"in takes a scalar; this is {describe(left)}", "compare element by element: (x == a) | (x == b)"
        )
    if not isinstance(right, Items):
        raise ctx.type_error(
            node, f"in takes a tuple on its right side; this is {describe(right)}", "write x in (a, b), or compare"
        )
    found: Expr = build.const(False, bool_)
    for item in right.items:
        equal = condition(ctx, node, operation(ctx, node, "equal", operator.eq, (left, item)))
        found = build.op("logical_or", found, equal)
    if isinstance(found, Const):
        return Constant(bool(found.value) == wanted)
    return Scalar(found if wanted else build.op("logical_not", found))


def _identity(ctx: Context, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
    wanted = isinstance(op, ast.Is)
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant((left.value is right.value) == wanted)
    if any(isinstance(v, Constant) and v.value is None for v in (left, right)):
        return Constant(not wanted)
    raise ctx.type_error(node, f"is can't compare {describe(left)} with {describe(right)}", "compare values with ==")


def tile_order(ctx: Context, node: ast.Call) -> Value:
    """Translate `tj.tile_order(t, shape, group)`.

    The formula of the host function computes `group * columns`, which may overflow here. Unless the product
    fits (see `_fits`), t is divided by columns first, so that no product exceeds t.
    """
    arguments = bind(ctx, node, "tile_order", ("t", "shape", "group"), 2)
    shape = ctx.evaluate(arguments["shape"])
    if not isinstance(shape, Items) or len(shape.items) != 2:
        raise ctx.type_error(
            arguments["shape"], f"the shape must be (rows, columns); this is {describe(shape)}", "pass two numbers"
        )
    group = optional(ctx, arguments, "group") or Constant(8)
    if not isinstance(group, Scalar):
        place = arguments.get("group", node)
        number = ctx.integer(group, place, "the number of rows of a group")
        if number < 1:
            raise ctx.type_error(place, f"a group can't have {number} rows", "pass at least 1")
    t, (rows, columns) = ctx.evaluate(arguments["t"]), shape.items

    def compute(a: Value, op: ast.operator, b: Value) -> Value:
        return binary(ctx, node, op, a, b)

    if _fits(group, columns, t):
        per_group = compute(group, ast.Mult(), columns)
        first = compute(compute(t, ast.FloorDiv(), per_group), ast.Mult(), group)
        within = compute(t, ast.Mod(), per_group)
    else:
        first = compute(compute(compute(t, ast.FloorDiv(), columns), ast.FloorDiv(), group), ast.Mult(), group)
        within = compute(t, ast.Sub(), compute(first, ast.Mult(), columns))
    height = operation(ctx, node, "minimum", min, (compute(rows, ast.Sub(), first), group))
    row = compute(first, ast.Add(), compute(within, ast.Mod(), height))
    return Items((row, compute(within, ast.FloorDiv(), height)))


def _fits(group: Value, columns: Value, t: Value) -> bool:
    """True unless group * columns may exceed its type (for two constants, that of `t`); in int64, only data may."""
    if isinstance(group, Constant) and isinstance(columns, Constant):
        return not isinstance(t, Scalar) or group.value * columns.value <= facts.full_range(t.dtype)[1]
    exprs = [v.expr if isinstance(v, Scalar) else build.const(v.value, int64) for v in (group, columns)
             if isinstance(v, (Scalar, Constant))]
    product = build.mul(*[build.cast(e, int64) for e in exprs])
    dtype = promote(*[v.dtype for v in (group, columns) if isinstance(v, Scalar)])
    return facts.fits(facts.bounds(product), dtype) or (dtype is int64 and not facts.is_data(product))
