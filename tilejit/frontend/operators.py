"""Python's operators: folded on compile-time values, otherwise elementwise operations or matrix products.

Matrix products, `a @ b` and `acc += a @ b`, are computed on tensor cores, batches matrix by matrix. The formula of
`tj.tile_order` is here too.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..dataclass import replace
from ..dtypes import bool_, float32, int64, promote
from ..ir.arithmetic import build, facts
from ..ir.nodes import Const, Expr, TileOp
from ..ops.broadcast import common_shape
from ..ops.copies import FILL
from ..ops.gemm import GEMM, accumulator_type, multiplied
from ..ops.record import Fault
from ..scopes import SCOPES
from ..wording import counted
from . import tiles
from .arguments import bind, optional
from .context import Context
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
        return _product(ctx, node, left, right) if stride is None else stride
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


def _product(ctx: Context, node: ast.AST, left: Value, right: Value) -> Memory:
    a, b = _factors(ctx, node, left, right)
    scope, span = _scope(ctx, node, (a, b)), ctx.span(node)
    dtype = accumulator_type(a.dtype)
    acc = ctx.tile("product", scope, _shape(a, b), dtype, span)
    ctx.emit(TileOp(FILL.name, scope, (acc.region(span), build.const(0, dtype)), (), span))
    _multiply(ctx, node, acc, a, b)
    return acc


def _multiply(ctx: Context, node: ast.AST, acc: Memory, a: Memory, b: Memory) -> None:
    """Emit `acc += a @ b`, a product for each matrix of a batch."""
    scope, span = _scope(ctx, node, (acc, a, b)), ctx.span(node)
    for batch in itertools.product(*map(range, acc.shape[:-2])):
        operands = tuple([_matrix(each, batch).region(span) for each in (acc, a, b)])
        tiles.emit_sound(ctx, node, TileOp(GEMM.name, scope, operands, (), span))


def _matrix(tile: Memory, batch: tuple[int, ...]) -> Memory:
    """Return the matrix at an index of the batch, along which the tile broadcasts."""
    starts, extents = list(tile.starts), list(tile.extents)
    leading = tile.dims[:-2]
    for dim, index in zip(leading, batch[len(batch) - len(leading) :], strict=True):
        before = starts[dim]
        assert isinstance(before, Const), "a tile that is a value starts at a constant"
        starts[dim] = Const(int(before.value) + (index if extents[dim] != 1 else 0), before.dtype)
        extents[dim] = None
    return replace(tile, starts=tuple(starts), extents=tuple(extents))


def accumulated(ctx: Context, node: ast.AST, acc: Memory, left: Value, right: Value) -> Memory:
    """Translate `acc + left @ right`, accumulated in a copy of `acc`, or as an addition if the shapes differ."""
    a, b = _factors(ctx, node, left, right)
    if acc.shape != _shape(a, b):
        return tiles.elementwise(ctx, node, "add", (acc, _product(ctx, node, a, b)))
    _scope(ctx, node, (acc, a, b))
    result = tiles.cast(ctx, node, acc, acc.dtype)
    _multiply(ctx, node, result, a, b)
    return result


def _factors(ctx: Context, node: ast.AST, left: Value, right: Value) -> tuple[Memory, Memory]:
    a, b = (tiles.local_tile(ctx, node, "@", value) for value in (left, right))
    _scope(ctx, node, (a, b))
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise ctx.type_error(
            node, f"@ multiplies matrices, (M, K) by (K, N); got {a.shape} by {b.shape}",
            "give each operand two dimensions: for a vector x, x[:, None] or x[None, :]",
        )
    if a.shape[-1] != b.shape[-2]:
        raise ctx.type_error(
            node, f"@ multiplies (M, K) by (K, N); got {a.shape} by {b.shape}: {a.shape[-1]} isn't {b.shape[-2]}",
            "slice or transpose the operands: .T, or .permute(0, 2, 1) for batches",
        )
    batch = common_shape([a.shape[:-2], b.shape[:-2]])
    if isinstance(batch, Fault):
        raise ctx.type_error(node, f"@ of {a.shape} by {b.shape}: the batches' {batch.message}", batch.hint)
    if a.dtype == b.dtype == float32:
        raise ctx.type_error(
            node, 'float32 operands need precision="tf32": tensor cores round them to 10 bits of fraction',
            _recipe(ctx, _scope(ctx, node, (a, b)), _shape(a, b)),
        )
    if not multiplied(a.dtype, b.dtype):
        raise ctx.type_error(
            node, f"@ can't multiply {a.dtype} by {b.dtype}",
            "convert both with x.astype(...) to float16, bfloat16 or an 8-bit type",
        )
    return a, b


def _recipe(ctx: Context, scope: str, shape: tuple[int, ...]) -> str:
    warps = SCOPES[scope].threads(ctx.threads) // 32
    rows, columns = shape[-2:]
    grids = [(n, warps // n) for n in range(1, warps + 1) if warps % n == 0]
    # prefer nearly square blocks per warp; their rows must be a multiple of 16, their columns a multiple of 8
    blocks = sorted((abs(rows * wn - columns * wm), wm, wn) for wm, wn in grids
                    if rows % (16 * wm) == 0 and columns % (8 * wn) == 0)
    convert = "convert: a.astype(tj.float16) @ b.astype(tj.float16)"
    if len(shape) > 2:
        return convert
    if not blocks:
        return f"{convert}; {counted(warps, 'warp')} can't divide a float32 accumulator of {rows} x {columns} evenly"
    _, wm, wn = blocks[0]
    layout = f"layout=tj.mma.layout_c({shape}, warps=({wm}, {wn}))"
    return (
        f'ask for it: acc = tj.alloc_local({shape}, tj.float32, {layout}); tj.{scope}.fill(acc, 0); '
        f'tj.{scope}.gemm(acc, a, b, precision="tf32"); or {convert}'
    )


def _shape(a: Memory, b: Memory) -> tuple[int, ...]:
    batch = common_shape([a.shape[:-2], b.shape[:-2]])
    assert not isinstance(batch, Fault), "checked by `_factors`"
    return *batch, a.shape[-2], b.shape[-1]


def _scope(ctx: Context, node: ast.AST, operands: Sequence[Memory]) -> str:
    scope = tiles.common_scope(ctx, node, "@", operands)
    if SCOPES[scope] not in GEMM.scopes:
        raise ctx.type_error(
            node, f"@ multiplies tiles of a {' or '.join(map(str, GEMM.scopes))}; these are of a {scope}",
            "create them on one of those scopes, for example with tj.cta.load",
        )
    return scope


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
