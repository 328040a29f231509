"""Matrix products of tiles: `a @ b`, `tj.matmul(a, b, precision)` and `acc += ...` of both, batches matrix by matrix.

Products are computed on tensor cores, except those of float32 in precision "ieee": the scope stores both matrices to
shared memory, and each thread adds the products of parts of a column of `a` and a row of `b` to its elements.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence

from ..dataclass import replace
from ..dtypes import float32
from ..ir.arithmetic import build
from ..ir.nodes import Const, Expr, For, TileOp, Var
from ..ops.broadcast import common_shape
from ..ops.copies import FILL
from ..ops.gemm import GEMM, PRECISION, TF32X3, accumulator_type, multiplied
from ..ops.record import Fault
from ..scopes import SCOPES
from . import flow, tiles
from .arguments import Arguments, bind, optional
from .context import Context, EmitInto
from .exchanges import Scratch
from .language import Intrinsic
from .value_words import MATMUL
from .values import Constant, Memory, Value

IEEE = "ieee"
PRECISIONS = ("tf32", TF32X3, IEEE)

#: the steps along K in an iteration of a loop of precision "ieee"
_STEPS = 8


def matmul(ctx: Context, node: ast.Call, arguments: Arguments) -> Memory:
    """Translate `tj.matmul(a, b, precision=None)`."""
    return product(ctx, node, *_arguments(ctx, arguments))


def plus_product(ctx: Context, node: ast.AugAssign, acc: Memory) -> Memory | None:
    """Translate `acc += a @ b` and `acc += tj.matmul(a, b, precision=None)`; return None for anything else.

    returns: a copy of `acc` to which the product was accumulated, or a sum if the shapes differ.
    """
    added = node.value
    if isinstance(added, ast.BinOp) and isinstance(added.op, ast.MatMult):
        return _accumulated(ctx, node, acc, ctx.evaluate(added.left), ctx.evaluate(added.right), None)
    if not isinstance(added, ast.Call) or not _is_matmul(ctx, added.func):
        return None
    arguments = bind(ctx, added, f"tj.{MATMUL.name}", MATMUL.names, MATMUL.required)
    return _accumulated(ctx, added, acc, *_arguments(ctx, arguments))


def _is_matmul(ctx: Context, function: ast.expr) -> bool:
    start = function.value if isinstance(function, ast.Attribute) else function
    if not isinstance(start, ast.Name):
        # evaluating any other expression twice could emit code twice
        return False
    callee = ctx.evaluate(function)
    return isinstance(callee, Constant) and isinstance(callee.value, Intrinsic) and callee.value.name == MATMUL.name


def _arguments(ctx: Context, arguments: Arguments) -> tuple[Value, Value, str | None]:
    a, b = (ctx.evaluate(arguments[name]) for name in ("a", "b"))
    value = optional(ctx, arguments, "precision")
    if value is None:
        return a, b, None
    precision = ctx.constant(value, arguments["precision"], "precision=")
    if precision not in PRECISIONS:
        raise ctx.type_error(
            arguments["precision"], f"precision is one of {', '.join(map(repr, PRECISIONS))}; got {precision!r}",
            "leave it out unless both operands are float32",
        )
    return a, b, precision


def product(ctx: Context, node: ast.AST, left: Value, right: Value, precision: str | None = None) -> Memory:
    a, b = _factors(ctx, node, left, right, precision)
    scope, span = _scope(ctx, node, (a, b)), ctx.span(node)
    dtype = accumulator_type(a.dtype)
    acc = ctx.tile("product", scope, _shape(a, b), dtype, span)
    ctx.emit(TileOp(FILL.name, scope, (acc.region(span), build.const(0, dtype)), (), span))
    _multiply(ctx, node, acc, a, b, precision)
    return acc


def _multiply(ctx: Context, node: ast.AST, acc: Memory, a: Memory, b: Memory, precision: str | None) -> None:
    """Emit `acc += a @ b`, a product for each matrix of a batch."""
    scope, span = _scope(ctx, node, (acc, a, b)), ctx.span(node)
    attrs = () if precision is None else ((PRECISION.name, precision),)
    for batch in itertools.product(*map(range, acc.shape[:-2])):
        matrices = [_matrix(each, batch) for each in (acc, a, b)]
        if precision == IEEE:
            _need_float32(ctx, node, acc)
            _multiply_in_order(ctx, node, scope, *matrices)
        else:
            operands = tuple([matrix.region(span) for matrix in matrices])
            tiles.emit_sound(ctx, node, TileOp(GEMM.name, scope, operands, attrs, span))


def _need_float32(ctx: Context, node: ast.AST, acc: Memory) -> None:
    if acc.dtype != float32:
        raise ctx.type_error(
            node, f"float32 by float32 accumulates in float32; got {acc.dtype}", "convert the sum: x.astype(tj.float32)"
        )


def _multiply_in_order(ctx: Context, node: ast.AST, scope: str, acc: Memory, a: Memory, b: Memory) -> None:
    """Emit `acc = fma(a[:, k], b[k], acc)` for each k in ascending order.

    Shared memory holds column k of `a` and row k of `b` one after the other, so that threads load wide vectors.
    """
    (rows, depth), columns, span = a.shape, b.shape[1], ctx.span(node)
    if 0 in (rows, depth, columns):
        return
    width = rows + columns
    scratch = Scratch.of(ctx, node, scope, float32, depth * width)
    left, right = scratch.view((width, depth), (1, width)), scratch.view((depth, width), (width, 1))
    part, zero = left.starts[-1], left.starts[0]
    first = build.const(rows, zero.dtype)
    scratch.copy(replace(left, extents=(rows, depth, None)).region(span), a.region(span))
    scratch.store(b, replace(right, starts=(zero, first, part), extents=(depth, columns, None)))

    def step(k: Expr) -> None:
        column = scratch.load(replace(left, starts=(zero, k, part), extents=(rows, 1, None)))
        row = scratch.load(replace(right, starts=(k, first, part), extents=(1, columns, None)))
        operands = tuple([each.region(span) for each in (acc, column, row, acc)])
        tiles.emit_sound(ctx, node, TileOp("fma", scope, operands, (), span))

    whole = depth - depth % _STEPS
    if whole > _STEPS:
        k = Var(ctx.unique("k"), zero.dtype, _STEPS, (0, whole - _STEPS), span)
        enclosure = flow.Enclosure(flow.Construct.LOOP, node, span, ctx.depth, is_loop=True)
        with EmitInto(ctx, [], 1, enclosure) as block:
            for n in range(_STEPS):
                step(build.add(k, n))
        start, stop, by = (build.const(n, k.dtype) for n in (0, whole, _STEPS))
        ctx.emit(For(k, start, stop, by, flow.sealed(block), False, span))
    for n in range(whole if whole > _STEPS else 0, depth):
        step(build.const(n, zero.dtype))


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


def _accumulated(
    ctx: Context, node: ast.AST, acc: Memory, left: Value, right: Value, precision: str | None
) -> Memory:
    a, b = _factors(ctx, node, left, right, precision)
    if acc.shape != _shape(a, b):
        return tiles.elementwise(ctx, node, "add", (acc, product(ctx, node, a, b, precision)))
    _scope(ctx, node, (acc, a, b))
    result = tiles.cast(ctx, node, acc, acc.dtype)
    _multiply(ctx, node, result, a, b, precision)
    return result


def _factors(
    ctx: Context, node: ast.AST, left: Value, right: Value, precision: str | None
) -> tuple[Memory, Memory]:
    name = _name(node)
    a, b = (tiles.local_tile(ctx, node, name, value) for value in (left, right))
    _scope(ctx, node, (a, b))
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise ctx.type_error(
            node, f"{name} multiplies matrices, (M, K) by (K, N); got {a.shape} by {b.shape}",
            "give each operand two dimensions: for a vector x, x[:, None] or x[None, :]",
        )
    if a.shape[-1] != b.shape[-2]:
        raise ctx.type_error(
            node, f"{name} multiplies (M, K) by (K, N); got {a.shape} by {b.shape}: {a.shape[-1]} isn't {b.shape[-2]}",
            "slice or transpose the operands: .T, or .permute(0, 2, 1) for batches",
        )
    batch = common_shape([a.shape[:-2], b.shape[:-2]])
    if isinstance(batch, Fault):
        raise ctx.type_error(node, f"{name} of {a.shape} by {b.shape}: the batches' {batch.message}", batch.hint)
    if a.dtype == b.dtype == float32 and precision is None:
        raise ctx.type_error(
            node, "float32 operands need a precision: tensor cores round them to 10 bits of fraction",
            'write tj.matmul(a, b, precision="tf32"), or "tf32x3" or "ieee" for more bits; or convert: '
            "a.astype(tj.float16) @ b.astype(tj.float16)",
        )
    if not a.dtype == b.dtype == float32 and precision is not None:
        raise ctx.type_error(
            node, f"precision={precision!r} is for float32 operands; got {a.dtype} and {b.dtype}",
            "leave precision= out, or convert both with x.astype(tj.float32)",
        )
    if not multiplied(a.dtype, b.dtype):
        raise ctx.type_error(
            node, f"{name} can't multiply {a.dtype} by {b.dtype}",
            "convert both with x.astype(...) to float16, bfloat16 or an 8-bit type",
        )
    return a, b


def _name(node: ast.AST) -> str:
    return "tj.matmul" if isinstance(node, ast.Call) else "@"


def _shape(a: Memory, b: Memory) -> tuple[int, ...]:
    batch = common_shape([a.shape[:-2], b.shape[:-2]])
    assert not isinstance(batch, Fault), "checked by `_factors`"
    return *batch, a.shape[-2], b.shape[-1]


def _scope(ctx: Context, node: ast.AST, operands: Sequence[Memory]) -> str:
    scope = tiles.common_scope(ctx, node, _name(node), operands)
    if SCOPES[scope] not in GEMM.scopes:
        raise ctx.type_error(
            node, f"{_name(node)} multiplies tiles of a {' or '.join(map(str, GEMM.scopes))}; these are of a {scope}",
            "create them on one of those scopes, for example with tj.cta.load",
        )
    return scope
