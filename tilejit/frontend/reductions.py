"""Calls that take whole tiles: `tj.cat`, `tj.split`, `tj.broadcast_to`, and reductions such as `tj.sum` and `tj.mean`.

The `combine` function of `reduce` is translated once, with variables as arguments, and converted to expressions. The
translation yields statements: definitions, assignments in branches, and loops of one iteration around code that may be
left early, as by a `return` in a branch. Each path gets a condition, and an assignment becomes a selection by the
condition of its path.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import prod
from typing import NoReturn

from ..dataclass import dataclass, field, replace
from ..dtypes import DType, float32, int64
from ..errors import KernelTypeError
from ..ir import nodes as ir
from ..ir.arithmetic import build
from ..ir.combine import Combine
from ..ops.broadcast import broadcasts
from ..ops.copies import CAST, COPY, FILL
from ..ops.elementwise import ELEMENTWISE
from ..ops.fold import COMBINE, PAIRS, REDUCE
from ..ops.record import AttributeValue, TileOperation
from ..ops.tile import TILE_OPERATIONS
from ..source import Span
from ..wording import counted, with_article
from . import context, names, scalars, tiles
from . import memory as mem
from .arguments import Arguments, optional
from .exchanges import section
from .flow import sealed
from .methods import with_shape
from .values import Binding, Closure, Constant, Items, Memory, Scalar, Value, describe, is_number, owner_scope


def reduced(record: TileOperation, ctx: context.Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.<name>(x, axis=None, keepdims=False)`, some also with `dtype=` and `initial=`.

    returns: a tile, even of rank 0.
    """
    tile = _reducible(ctx, arguments["x"], record.name, ctx.evaluate(arguments["x"]))
    axes, keeps = _axes(ctx, arguments, len(tile.shape)), _keeps(ctx, arguments)
    wanted, reduction = optional(ctx, arguments, "dtype"), record.reduction
    assert reduction is not None
    dtype = reduction.result_type(tile.dtype) if wanted is None else mem.element_type(ctx, arguments["dtype"], wanted)
    first = optional(ctx, arguments, "initial")
    if first is None:
        return _emitted(ctx, node, record, [tile], [dtype], axes, keeps)[0]
    compute = reduction.combines_in(tile.dtype, dtype) if reduction.grows else dtype
    initial = _initial(ctx, arguments["initial"], scalars.as_scalar(ctx, arguments["initial"], first), compute)
    if 0 in [tile.shape[d] for d in axes]:
        result = ctx.tile(record.name, owner_scope(tile.buffer), _kept(tile.shape, axes, keeps), dtype, ctx.span(node))
        fill = result.region(ctx.span(node)), build.cast(initial.expr, dtype)
        tiles.emit_sound(ctx, node, ir.TileOp(FILL.name, owner_scope(tile.buffer), fill, (), ctx.span(node)))
        return result
    others = _emitted(ctx, node, record, [tile], [compute], axes, keeps)[0]
    combined = tiles.elementwise(ctx, node, reduction.combines, (initial, others))
    return combined if combined.dtype == dtype else tiles.cast(ctx, node, combined, dtype)


def _initial(ctx: context.Context, node: ast.expr, value: Value, dtype: DType) -> Scalar:
    if not isinstance(value, Scalar) and not is_number(value):
        raise ctx.type_error(node, f"initial must be a number or a scalar; this is {describe(value)}",
                             "combine a tile with the result: x + tj.sum(y, axis), or tj.maximum(x, tj.max(y, axis))")
    expr = scalars.as_type(ctx, node, value, dtype)
    if scalars.RANK[expr.dtype.kind] > scalars.RANK[dtype.kind]:
        raise ctx.type_error(
            node, f"initial is a {expr.dtype}; the reduction computes in {dtype}", f"convert it: tj.{dtype}(...)"
        )
    return Scalar(build.cast(expr, dtype))


def statistic(name: str, ctx: context.Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.mean(x, axis=None, keepdims=False)`, and `tj.var` and `tj.std`, which also take `ddof=`."""
    source = arguments["x"]
    tile = _reducible(ctx, source, name, ctx.evaluate(source))
    axes, keeps = _axes(ctx, arguments, len(tile.shape)), _keeps(ctx, arguments)
    ddof = optional(ctx, arguments, "ddof")
    less = 0 if ddof is None else ctx.integer(ddof, arguments["ddof"], "ddof")
    if tile.dtype.is_fp8:
        raise ctx.type_error(node, f"{name} of {tile.dtype}: fp8 is a storage type", "convert it: x.astype(tj.float32)")
    count = prod(tile.shape[d] for d in axes)
    if count == 0:
        raise ctx.type_error(
            node, f"{name} of no elements has no value: it reduces an empty axis of a tile of shape {tile.shape}",
            "leave it out where there is nothing to reduce, or reduce a tile that has elements",
        )
    dtype = tile.dtype if tile.dtype.is_float else float32
    compute = float32 if dtype.is_half else dtype
    x = tile if tile.dtype == compute else tiles.cast(ctx, node, tile, compute)

    def mean(values: Memory, divisor: int, keepdims: bool) -> Memory:
        total = _emitted(ctx, node, TILE_OPERATIONS["sum"], [values], [compute], axes, keepdims)[0]
        return tiles.elementwise(ctx, node, "div", (total, Constant(float(divisor))))

    if name == "mean":
        result = mean(x, count, keeps)
    else:
        difference = tiles.elementwise(ctx, node, "sub", (x, mean(x, count, keepdims=True)))
        square = tiles.elementwise(ctx, node, "mul", (difference, difference))
        result = mean(square, max(count - less, 0), keeps)
        result = tiles.elementwise(ctx, node, "sqrt", (result,)) if name == "std" else result
    return result if result.dtype == dtype else tiles.cast(ctx, node, result, dtype)


def reduce(ctx: context.Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.reduce(x, axis, combine, keepdims=False)`; for a tuple of tiles, return a tuple."""
    value = ctx.evaluate(arguments["x"])
    values = value.items if isinstance(value, Items) else (value,)
    if not 1 <= len(values) <= len(PAIRS):
        raise ctx.type_error(
            arguments["x"], f"reduce can't take {len(values)} tiles", f"give one tile, or a tuple of 1 to {len(PAIRS)}"
        )
    sources = [_reducible(ctx, arguments["x"], REDUCE.name, each) for each in values]
    keeps = _keeps(ctx, arguments)
    axes, dtypes = _axes(ctx, arguments, len(sources[0].shape)), [tile.dtype for tile in sources]
    function = arguments["combine"]
    combine = read_combine(ctx, function, ctx.evaluate(function), dtypes, is_tuple=isinstance(value, Items))
    results = _emitted(ctx, node, REDUCE, sources, dtypes, axes, keeps, (COMBINE.name, combine))
    return Items(tuple(results)) if isinstance(value, Items) else results[0]


def _emitted(
    ctx: context.Context, node: ast.AST, record: TileOperation, sources: list[Memory], dtypes: list[DType],
    axes: tuple[int, ...], keeps: bool, *attrs: tuple[str, AttributeValue],
) -> list[Memory]:
    """Emit a reduction of tiles, and return its results. keeps: True to keep the reduced axes, with extent 1."""
    extents, span = sources[0].shape, ctx.span(node)
    scope = tiles.common_scope(ctx, node, record.name, sources)
    shape = _kept(extents, axes, keeps=False)
    results = [ctx.tile(record.name, scope, shape, dtype, span) for dtype in dtypes]
    operands = tuple([tile.region(span) for pair in zip(results, sources, strict=True) for tile in pair])
    tiles.emit_sound(ctx, node, ir.TileOp(record.name, scope, operands, (("axis", axes), *attrs), span))
    return [with_shape(ctx, node, result, _kept(extents, axes, keeps=True)) for result in results] if keeps else results


def _kept(extents: tuple[int, ...], axes: tuple[int, ...], keeps: bool) -> tuple[int, ...]:
    """Return the shape of a reduced tile. keeps: True to keep the reduced axes, with extent 1."""
    return tuple([1 if d in axes else n for d, n in enumerate(extents) if keeps or d not in axes])


def _keeps(ctx: context.Context, arguments: Arguments) -> bool:
    keeps = optional(ctx, arguments, "keepdims")
    return keeps is not None and bool(ctx.constant(keeps, arguments["keepdims"], "keepdims="))


def _reducible(ctx: context.Context, node: ast.AST, name: str, value: Value) -> Memory:
    if isinstance(value, Scalar) or is_number(value):
        hint = "combine several scalars with min(a, b), max(a, b) or +"
        if isinstance(value, Scalar):
            n = ctx.threads
            hint += (
                f"; for a scalar x per thread write r = tj.alloc_local(({n},), tj.{value.dtype}, "
                f"layout=tj.S[({n},) : (1 @ tj.tx)]), r.registers[0] = x, and tj.{name}(r)"
            )
        raise ctx.type_error(node, f"{name} reduces a local tile; this is {describe(value)}", hint)
    return tiles.local_tile(ctx, node, name, value)


def _axes(ctx: context.Context, arguments: Arguments, rank: int) -> tuple[int, ...]:
    value = optional(ctx, arguments, "axis")
    return tuple(range(rank)) if value is None else mem.axes_of(ctx, arguments["axis"], value, rank)


def cat(ctx: context.Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.cat(a, b, axis)`."""
    parts = [tiles.local_tile(ctx, arguments[n], "cat", ctx.evaluate(arguments[n])) for n in ("a", "b")]
    rank = len(parts[0].shape)
    axis = mem.axis_of(ctx, arguments["axis"], rank)
    others = [part.shape[:axis] + part.shape[axis + 1 :] for part in parts]
    if any(len(part.shape) != rank for part in parts) or others[0] != others[1]:
        raise ctx.type_error(
            node, f"can't concatenate tiles of shapes {parts[0].shape} and {parts[1].shape} along axis {axis}",
            "their ranks and their other extents must be equal",
        )
    scope = tiles.common_scope(ctx, node, "cat", parts)
    try:
        dtype = ELEMENTWISE["maximum"].common_type([part.dtype for part in parts])
    except KernelTypeError as error:
        raise ctx.type_error(node, error.message, error.hint) from None
    parts = [part if part.dtype == dtype else tiles.cast(ctx, node, part, dtype) for part in parts]
    extent = sum(part.shape[axis] for part in parts)
    shape = (*parts[0].shape[:axis], extent, *parts[0].shape[axis + 1 :])
    span = ctx.span(node)
    result = ctx.tile("cat", scope, shape, dtype, span)
    start = 0
    for part in parts:
        place = section(result, axis, start, part.shape[axis])
        ctx.emit(ir.TileOp(COPY.name, scope, (place.region(span), part.region(span)), (), span))
        start += part.shape[axis]
    return result


def broadcast_to(ctx: context.Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.broadcast_to(x, shape)`."""
    value = ctx.evaluate(arguments["x"])
    if isinstance(value, Scalar) or is_number(value):
        raise ctx.type_error(
            arguments["x"], f"broadcast_to takes a local tile; this is {describe(value)}",
            "create a tile of a scope's threads: tj.cta.full(shape, value, dtype)",
        )
    tile = tiles.local_tile(ctx, arguments["x"], "broadcast_to", value)
    shape = mem.static_shape(ctx, arguments["shape"], ctx.evaluate(arguments["shape"]))
    if not broadcasts(tile.shape, shape):
        raise ctx.type_error(
            node, f"a tile of shape {tile.shape} doesn't broadcast to {shape}",
            "extents must be equal or 1, counted from the right; x[:, None] adds a dimension",
        )
    if shape == tile.shape:
        return tile
    scope, span = owner_scope(tile.buffer), ctx.span(node)
    result = ctx.tile("broadcast", scope, shape, tile.dtype, span)
    tiles.emit_sound(ctx, node, ir.TileOp(CAST.name, scope, (result.region(span), tile.region(span)), (), span))
    return result


def split(ctx: context.Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.split(x, parts, axis)`."""
    tile = tiles.local_tile(ctx, arguments["x"], "split", ctx.evaluate(arguments["x"]))
    count = ctx.integer(ctx.evaluate(arguments["parts"]), arguments["parts"], "the number of parts")
    axis = mem.axis_of(ctx, arguments["axis"], len(tile.shape))
    extent = tile.shape[axis]
    if count < 1 or extent % count:
        raise ctx.type_error(
            arguments["parts"], f"axis {axis} of extent {extent} doesn't split into {count} equal parts",
            "pass a positive number that divides it, or slice: x[:, a:b]",
        )
    width = extent // count
    return Items(tuple(section(tile, axis, k * width, width).at(ctx.span(node)) for k in range(count)))


_HINT = "it can only compute with its two arguments; do this before or after the reduction"


def read_combine(
    ctx: context.Context, node: ast.expr, value: Value, dtypes: Sequence[DType], *, is_tuple: bool
) -> Combine:
    """Return what a function computes from two scalars or, if `is_tuple`, two tuples of scalars, of types `dtypes`.

    raises: KernelTypeError unless `value` is a function of two arguments, with only scalar code, that returns scalars.
    """
    closure = names.closure_of(ctx, value)
    if closure is None:
        hint = "write @tj.function above a def with two parameters, and pass its name"
        if names.is_word(value):
            hint = f"write a lambda: lambda a, b: {ast.unparse(node)}(a, b)"
        raise ctx.type_error(
            node, f"combine must be a @tj.function or a nested function of two values; this is {describe(value)}", hint
        )
    parameters, span = _parameters(ctx, node, closure), ctx.span(node)
    sides = tuple(_variables(ctx, span, name, dtypes, is_tuple=is_tuple) for name in parameters)
    values = dict(closure.defaults)
    for name, side in zip(parameters, sides, strict=True):
        values[name] = Items(tuple(map(Scalar, side))) if is_tuple else Scalar(side[0])
    allocated = len(ctx.allocations)
    with context.EmitInto(ctx, []) as block:
        result = names.run(ctx, node, closure, {name: Binding(value, span) for name, value in values.items()})
    reading = _Reading(ctx, closure.node.name, span, {var.name: var for side in sides for var in side})
    if len(ctx.allocations) > allocated:
        reading.refuse("an operation on tiles or an allocation", ctx.allocations[allocated].span)
    reading.block(sealed(block), build.const(True, ir.TRUE.dtype))
    results = _results(ctx, node, closure, result, dtypes, is_tuple=is_tuple)
    lower, higher = sides
    return Combine(lower, higher, tuple(reading.steps), tuple([reading.value(expr, None) for expr in results]))


def _parameters(ctx: context.Context, node: ast.expr, closure: Closure) -> tuple[str, str]:
    a = closure.node.args
    names = [arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs) if arg.arg not in closure.defaults]
    if len(names) != 2:
        raise ctx.type_error(
            node, f"{closure.node.name} has {counted(len(names), 'parameter')} without a default; combine needs two",
            "its parameters are the values at the lower and at the higher index; for several tiles, each is a tuple",
        )
    return names[0], names[1]


def _variables(
    ctx: context.Context, span: Span, name: str, dtypes: Sequence[DType], *, is_tuple: bool
) -> tuple[ir.Var, ...]:
    stems = [f"{name}.{k}" for k in range(len(dtypes))] if is_tuple else [name]
    pairs = zip(stems, dtypes, strict=True)
    return tuple([ir.Var(ctx.unique(stem), dtype, span=span, data=dtype is int64) for stem, dtype in pairs])


def _results(
    ctx: context.Context, node: ast.AST, closure: Closure, result: Value, dtypes: Sequence[DType], *, is_tuple: bool
) -> list[ir.Expr]:
    values = result.items if isinstance(result, Items) else (result,)
    if result == Constant(None) or isinstance(result, Items) != is_tuple or len(values) != len(dtypes):
        returns = "nothing" if result == Constant(None) else describe(result)
        wanted = f"a tuple of {counted(len(dtypes), 'value')}, one for each tile" if is_tuple else "one value"
        raise ctx.type_error(closure.node, f"{closure.node.name} returns {returns}; it must return {wanted}", _CALLED)
    results = []
    for value, dtype in zip(values, dtypes, strict=True):
        if isinstance(value, Memory) or not (isinstance(value, Scalar) or is_number(value)):
            raise ctx.type_error(
                closure.node, f"{closure.node.name} returns {describe(value)}; it must return scalars", _CALLED
            )
        is_typed = isinstance(value, Scalar) and not value.weak
        typed = value if isinstance(value, Scalar) and is_typed else scalars.convert(ctx, node, value, dtype)
        results.append(typed.expr)
    return results


_CALLED = "its result is an argument of the next call"


@dataclass(slots=True)
class _Reading:
    ctx: context.Context
    name: str
    #: the location of the argument `combine`
    span: Span
    #: the current values of the variables defined so far, by name; None before the first assignment
    values: dict[str, ir.Expr | None]
    steps: list[ir.Let] = field(default_factory=list)

    def refuse(self, what: str, span: Span | None) -> NoReturn:
        raise KernelTypeError(
            f"{self.name} combines two values; it can't contain {what}", span=span or self.span, hint=_HINT
        )

    def block(self, body: Sequence[ir.Stmt], holds: ir.Expr) -> ir.Expr:
        """Convert statements that run if `holds` is true; return the condition under which the code after them runs."""
        for stmt in body:
            holds = self.statement(stmt, holds)
        return holds

    def statement(self, stmt: ir.Stmt, holds: ir.Expr) -> ir.Expr:
        match stmt:
            case ir.Let(var, value):
                if var.uniform:
                    self.refuse("tj.uniform", stmt.span)
                if isinstance(value, ir.Load):
                    self.refuse(f"a load of {value.place.buffer.root.name}", stmt.span)
                self.steps.append(replace(stmt, value=self.value(value, stmt.span)))
                self.values[var.name] = var
            case ir.Declare(var, init):
                self.values[var.name] = None if init is None else self.value(init, stmt.span)
            case ir.Assign(var, value):
                self.assign(var, self.value(value, stmt.span), holds, stmt)
            case ir.If():
                return self.branch(stmt, holds)
            case ir.Loop(body) if self.block(body, holds) == ir.FALSE:
                # every path leaves the loop in its first iteration, as in a helper with a `return` in a branch
                pass
            case ir.Break():
                return ir.FALSE
            case _:
                self.refuse(_STATEMENT_NAMES.get(type(stmt), with_article(type(stmt).__name__.lower())), stmt.span)
        return holds

    def branch(self, stmt: ir.If, holds: ir.Expr) -> ir.Expr:
        cond = self.named("condition", self.value(stmt.cond, stmt.span), stmt.span)
        yes = self.named("holds", build.logical_and(holds, cond), stmt.span)
        no = self.named("holds", build.logical_and(holds, build.logical_not(cond)), stmt.span)
        after = self.block(stmt.then, yes), self.block(stmt.orelse, no)
        return holds if after == (yes, no) else self.named("holds", build.logical_or(*after), stmt.span)

    def assign(self, var: ir.Var, value: ir.Expr, holds: ir.Expr, stmt: ir.Stmt) -> None:
        if var.name not in self.values:
            self.refuse(f"an assignment to {var.name}, a variable of the kernel", stmt.span)
        before = self.values[var.name]
        chosen = value if before is None else build.where(holds, value, before)
        self.values[var.name] = self.named(var.name, chosen, stmt.span)

    def named(self, name: str, value: ir.Expr, span: Span | None) -> ir.Expr:
        if isinstance(value, (ir.Const, ir.Var)):
            return value
        var = ir.Var(self.ctx.unique(name), value.dtype, span=span, data=value.dtype is int64)
        self.steps.append(ir.Let(var, value, span))
        return var

    def value(self, expr: ir.Expr, span: Span | None) -> ir.Expr:
        if isinstance(expr, ir.Load):
            self.refuse(f"a load of {expr.place.buffer.root.name}", expr.span or span)
        if isinstance(expr, ir.Special):
            self.refuse(f"{expr.name}, a special register", expr.span or span)
        if isinstance(expr, ir.Var):
            current = self.values.get(expr.name)
            if current is None:
                self.refuse(f"{expr.name}, a run-time value of the kernel", expr.span if span is None else span)
            return current
        if isinstance(expr, ir.Op):
            return replace(expr, args=tuple([self.value(arg, span) for arg in expr.args]))
        return replace(expr, x=self.value(expr.x, span)) if isinstance(expr, ir.Cast) else expr


_STATEMENT_NAMES: dict[type[ir.Stmt], str] = {
    ir.For: "a loop",
    ir.Loop: "a loop",
    ir.TileOp: "a tile operation",
    ir.Print: "a print",
    ir.Breakpoint: "a breakpoint",
    ir.Assert: "an assert",
    ir.Sync: "a barrier",
    ir.Arrive: "an arrival at a barrier",
    ir.WaitPhase: "a wait at a barrier",
    ir.Expect: "a barrier",
    ir.Atomic: "an atomic operation",
    ir.Instruction: "an operation such as a shuffle, a barrier or a fence",
}
