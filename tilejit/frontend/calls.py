"""Calls: intrinsics, Python's builtins, types, methods, helpers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType
from typing import Any

from ..dtypes import DType, bool_, float32, int32
from ..ir.arithmetic import build
from ..ir.nodes import Instruction, Special, Sync
from ..isa import Row, cp_async, tcgen05
from ..isa.barriers import BARRIERS
from ..layout import R, S, Swizzle, TileLayout, atom_layout, datapath, layout_a, layout_b, layout_c
from ..ops.elementwise import ELEMENTWISE
from . import memory as mem
from . import regions, tiles
from .arguments import bind, optional
from .context import Context
from .inline import closure_of, inline
from .language import Function, Intrinsic, cdiv, next_power_of_2, static_assert
from .messages import print_values
from .scalars import convert, fold, operate, truth
from .tileops import call_operation, memory_operand
from .values import Closure, Constant, Items, Memory, Method, Operation, Scalar, Value, describe

__all__ = ["call"]

#: builtins that run in Python on compile-time values
_PURE: tuple[Any, ...] = (
    abs, all, any, bin, bool, divmod, float, hex, int, isinstance, issubclass, len, max, min, oct, ord, chr, pow, repr,
    reversed, round, sorted, str, sum, tuple, type, format, callable, complex, hash, cdiv, next_power_of_2,
    layout_a, layout_b, layout_c, atom_layout, datapath,
)  # fmt: skip


def call(ctx: Context, node: ast.Call) -> Value:
    """What a call gives."""
    callee = ctx.evaluate(node.func)
    if isinstance(callee, Operation):
        return call_operation(ctx, node, callee)
    if isinstance(callee, Method):
        return _METHODS[callee.name](ctx, node, callee.receiver)
    if isinstance(callee, Closure):
        return inline(ctx, node, callee)
    if isinstance(callee, Constant):
        return _call_constant(ctx, node, callee.value)
    raise ctx.type_error(node, f"{describe(callee)} can't be called", "index memory with [ ]; call a @tj.function")


def _call_constant(ctx: Context, node: ast.Call, callee: Any) -> Value:
    if isinstance(callee, Intrinsic):
        return _intrinsic(ctx, node, callee)
    if isinstance(callee, Function):
        return inline(ctx, node, closure_of(ctx, callee))
    if isinstance(callee, DType):
        return _convert_to(ctx, node, callee)
    if callee is static_assert:
        return _static_assert(ctx, node)
    if callee is print:
        return print_values(ctx, node)
    if callee is range or getattr(callee, "name", None) == "static_range":
        raise ctx.syntax_error(node, "a range is for loops only", "write for i in range(...)")
    handler = _BUILTINS.get(callee) if isinstance(callee, (type, BuiltinFunctionType, FunctionType)) else None
    if handler is not None:
        return handler(ctx, node)
    if _runs_in_python(callee):
        return _python_call(ctx, node, callee)
    raise _not_callable(ctx, node, callee)


def _runs_in_python(callee: Any) -> bool:
    if any(callee is known for known in _PURE) or callee in (TileLayout, Swizzle):
        return True
    if getattr(callee, "__module__", None) == "math" and isinstance(callee, BuiltinFunctionType):
        return True
    owner = getattr(callee, "__self__", None)
    return isinstance(owner, (TileLayout, type(S), type(R)))


def _not_callable(ctx: Context, node: ast.Call, callee: Any) -> Exception:
    if isinstance(callee, FunctionType):
        return ctx.syntax_error(
            node, f"{callee.__name__} is a plain Python function: a kernel can't call it",
            f"decorate {callee.__name__} with @tj.function",
        )  # fmt: skip
    if _is_kernel(callee):
        return ctx.syntax_error(
            node, f"{callee.__name__} is a kernel: a kernel can't launch another",
            "launch them one after the other, or make it a @tj.function that both call",
        )  # fmt: skip
    if isinstance(callee, type) or callable(callee):
        name = getattr(callee, "__name__", repr(callee))
        return ctx.syntax_error(
            node, f"{name} can't be called in a kernel", "compute it outside and capture the value"
        )
    return ctx.type_error(node, f"{callee!r} can't be called", "call a @tj.function or an operation of tilejit")


def _is_kernel(callee: Any) -> bool:
    """Whether it is what `@tj.kernel` makes, a class above this part."""
    return hasattr(callee, "signatures") and hasattr(callee, "source")


def _values(ctx: Context, node: ast.Call) -> list[Value]:
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            raise ctx.syntax_error(argument, "* can't be used in calls in a kernel", "write the arguments out")
    return [ctx.evaluate(argument) for argument in node.args]


def _python_call(ctx: Context, node: ast.Call, callee: Callable[..., Any]) -> Value:
    values = _values(ctx, node)
    keywords = {k.arg: ctx.constant(ctx.evaluate(k.value), k.value, k.arg) for k in node.keywords if k.arg}
    found = fold(ctx, node, lambda *a: callee(*a, **keywords), values)
    if found is None:
        other = next(v for v in values if not isinstance(v, Constant))
        name = getattr(callee, "__name__", repr(callee))
        raise ctx.type_error(
            node, f"{name} runs when the kernel is compiled; this is {describe(other)}",
            _RUN_TIME_NAMES.get(name) or _run_time_name(name),
        )  # fmt: skip
    return found


def _run_time_name(name: str) -> str:
    return f"at run time there is tj.{name}" if name in ELEMENTWISE else "give it compile-time values"


_RUN_TIME_NAMES = {
    "sum": "for tiles there is tj.sum",
    "len": "the extents of memory are in .shape",
    "round": "at run time there is tj.round",
    "pow": "at run time there is **",
}


# ---- builtins that take run-time scalars too ----------------------------------------------------------------


def _extreme(name: str, python: Callable[..., Any]) -> Callable[[Context, ast.Call], Value]:
    def handler(ctx: Context, node: ast.Call) -> Value:
        if node.keywords:
            return _python_call(ctx, node, python)
        values = _values(ctx, node)
        if len(values) == 1 and isinstance(values[0], Items):
            values = list(values[0].items)
        if all(isinstance(v, Constant) for v in values):
            return _python_call(ctx, node, python)
        if any(isinstance(v, Memory) for v in values):
            raise ctx.type_error(
                node, f"{python.__name__} takes scalars; this is {describe(values[0])}",
                f"element by element there is tj.{name}(a, b)",
            )  # fmt: skip
        found = values[0]
        for value in values[1:]:
            folded = fold(ctx, node, python, (found, value))
            found = operate(ctx, node, name, (found, value)) if folded is None else folded
        return found

    return handler


def _abs(ctx: Context, node: ast.Call) -> Value:
    values = _values(ctx, node)
    if len(values) != 1:
        raise ctx.type_error(node, f"abs takes 1 argument; got {len(values)}", "abs(x)")
    folded = fold(ctx, node, abs, values)
    if folded is not None:
        return folded
    return tiles.apply(ctx, node, "abs", values)


def _cdiv(ctx: Context, node: ast.Call) -> Value:
    """a / b, rounded up. Where b is known to be positive a + b - 1 stays positive too, and cheap to divide."""
    values = _values(ctx, node)
    folded = fold(ctx, node, cdiv, values)
    if folded is not None:
        return folded
    if len(values) != 2 or node.keywords:
        raise ctx.type_error(node, f"cdiv takes 2 arguments; got {len(values) + len(node.keywords)}", "cdiv(a, b)")
    a, b = values
    if isinstance(b, Constant) and isinstance(b.value, int) and b.value > 0:
        return operate(ctx, node, "floordiv", (operate(ctx, node, "add", (a, Constant(b.value - 1))), b))
    down = operate(ctx, node, "floordiv", (operate(ctx, node, "neg", (a,)), b))
    return operate(ctx, node, "neg", (down,))


def _conversion(python: Callable[..., Any], dtype: DType) -> Callable[[Context, ast.Call], Value]:
    """int(x), float(x), bool(x): of run-time scalars to int32 (int64 stays), float32 (float64 stays), bool_."""

    def handler(ctx: Context, node: ast.Call) -> Value:
        values = _values(ctx, node)
        folded = fold(ctx, node, python, values)
        if folded is not None:
            return folded
        if len(values) != 1:
            raise ctx.type_error(node, f"{python.__name__} takes 1 argument; got {len(values)}", "give it one scalar")
        if dtype == bool_:
            found = truth(ctx, node, values[0])
            return Constant(found) if isinstance(found, bool) else Scalar(found)
        expr = ctx.scalar(values[0], node)
        keeps = expr.dtype.is_integer if dtype.is_integer else expr.dtype.is_float
        return Scalar(expr) if keeps else Scalar(build.cast(expr, dtype))

    return handler


_BUILTINS: dict[Any, Callable[[Context, ast.Call], Value]] = {
    min: _extreme("minimum", min),
    max: _extreme("maximum", max),
    abs: _abs,
    cdiv: _cdiv,
    int: _conversion(int, int32),
    float: _conversion(float, float32),
    bool: _conversion(bool, bool_),
}


def _convert_to(ctx: Context, node: ast.Call, dtype: DType) -> Value:
    arguments = bind(ctx, node, f"tj.{dtype}", ("value",), 1)
    value = ctx.evaluate(arguments["value"])
    if isinstance(value, Memory):
        return tiles.cast(ctx, node, value, dtype)
    return convert(ctx, node, value, dtype)


def _static_assert(ctx: Context, node: ast.Call) -> Value:
    arguments = bind(ctx, node, "tj.static_assert", ("condition", "message"), 1)
    condition = arguments["condition"]
    holds = truth(ctx, condition, ctx.evaluate(condition))
    if not isinstance(holds, bool):
        raise ctx.type_error(condition, "static_assert needs a condition that is known at compile time", "use assert")
    message = optional(ctx, arguments.get("message"))
    if not holds:
        text = "" if message is None else f": {ctx.constant(message, node, 'the message')}"
        raise ctx.type_error(node, f"static_assert failed{text}", "change what the condition tests")
    return Constant(None)


# ---- intrinsics ---------------------------------------------------------------------------------------------


def _intrinsic(ctx: Context, node: ast.Call, callee: Intrinsic) -> Value:
    handler = _INTRINSICS.get(callee.name)
    if handler is not None:
        return handler(ctx, node)
    if callee.name in ELEMENTWISE:
        return _expression(ctx, node, callee.name)
    raise ctx.type_error(
        node, f"tj.{callee.name} is not available in this version of tilejit",
        "there are copies, fill, cast, gemm and elementwise operations",
    )  # fmt: skip


def _expression(ctx: Context, node: ast.Call, name: str) -> Value:
    parameters = ELEMENTWISE[name].operands
    arguments = bind(ctx, node, f"tj.{name}", parameters, len(parameters))
    values = [ctx.evaluate(arguments[p]) for p in parameters]
    return tiles.apply(ctx, node, name, values)


def _axis(name: str) -> Callable[[Context, ast.Call], Value]:
    def handler(ctx: Context, node: ast.Call) -> Value:
        arguments = bind(ctx, node, f"tj.{name}", ("axis",), 0)
        axis = optional(ctx, arguments.get("axis"))
        number = 0 if axis is None else ctx.integer(axis, node, "the axis")
        if number not in (0, 1, 2):
            raise ctx.type_error(node, f"axis {number} of the grid; there are 0, 1 and 2", "a grid has three axes")
        return Scalar(Special(f"{name}.{number}", ctx.span(node)))

    return handler


def _special(name: str) -> Callable[[Context, ast.Call], Value]:
    def handler(ctx: Context, node: ast.Call) -> Value:
        bind(ctx, node, f"tj.{name}", (), 0)
        return Scalar(Special(name, ctx.span(node)))

    return handler


def _elect(ctx: Context, node: ast.Call) -> Value:
    """One thread of the warp: lane 0."""
    bind(ctx, node, "tj.elect", (), 0)
    return Scalar(build.op("equal", Special("lane_id", ctx.span(node)), build.const(0, int32)))


def _sync(scope: str) -> Callable[[Context, ast.Call], Value]:
    def handler(ctx: Context, node: ast.Call) -> Value:
        bind(ctx, node, f"tj.{scope}_sync", (), 0)
        ctx.emit(Sync(scope, ctx.span(node)))
        return Constant(None)

    return handler


def _commit(ctx: Context, node: ast.Call) -> Value:
    bind(ctx, node, "tj.cp_async.commit", (), 0)
    ctx.emit(Instruction(cp_async.COMMIT.name, span=ctx.span(node)))
    return Constant(None)


def _wait(ctx: Context, node: ast.Call) -> Value:
    arguments = bind(ctx, node, "tj.cp_async.wait", ("n",), 1)
    argument = arguments["n"]
    groups = ctx.integer(ctx.evaluate(argument), argument, "the number of groups that may be unfinished")
    if groups < 0:
        raise ctx.type_error(argument, f"{groups} groups can't be unfinished", "wait(0) waits for all")
    ctx.emit(Instruction(cp_async.WAIT.name, (), (build.const(groups, int32),), ctx.span(node)))
    return Constant(None)


def _tcgen05_wait(row: Row) -> Callable[[Context, ast.Call], Value]:
    def handler(ctx: Context, node: ast.Call) -> Value:
        bind(ctx, node, f"tj.{row.spelling}", (), 0)
        mem.need_tensor_memory(ctx, node)
        ctx.emit(Instruction(row.name, span=ctx.span(node)))
        return Constant(None)

    return handler


def _assume_in_bounds(ctx: Context, node: ast.Call) -> Value:
    arguments = bind(ctx, node, "tj.assume_in_bounds", ("region",), 1)
    return replace(memory_operand(ctx, arguments["region"], "what is assumed in bounds"), in_bounds=True)


_INTRINSICS: dict[str, Callable[[Context, ast.Call], Value]] = {
    **{name: _axis(name) for name in ("cta_id", "num_ctas")},
    **{name: _special(name) for name in ("thread_id", "lane_id", "warp_id", "warpgroup_id")},
    **{f"{scope}_sync": _sync(scope.name) for scope in BARRIERS},
    "elect": _elect,
    "cp_async.commit": _commit,
    "cp_async.wait": _wait,
    "tcgen05.wait_ld": _tcgen05_wait(tcgen05.WAIT_LD),
    "tcgen05.wait_st": _tcgen05_wait(tcgen05.WAIT_ST),
    "assume_in_bounds": _assume_in_bounds,
    "alloc_shared": mem.alloc_shared,
    "alloc_local": mem.alloc_local,
    "alloc_tmem": mem.alloc_tmem,
}


# ---- methods ------------------------------------------------------------------------------------------------


def _astype(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    arguments = bind(ctx, node, ".astype", ("dtype", "saturate"), 1)
    wanted = arguments["dtype"]
    dtype = mem.element_type(ctx, wanted, ctx.evaluate(wanted))
    given = optional(ctx, arguments.get("saturate"))
    saturate = True if given is None else bool(ctx.constant(given, node, "saturate="))
    if isinstance(receiver, Memory):
        return tiles.cast(ctx, node, receiver, dtype, saturate)
    return convert(ctx, node, receiver, dtype, saturate)


def _tile(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Memory)
    arguments = bind(ctx, node, ".tile", ("shape", "index"), 2)
    shape_node, index_node = arguments["shape"], arguments["index"]
    shape = mem.static_shape(ctx, shape_node, ctx.evaluate(shape_node))
    at = ctx.evaluate(index_node)
    items = at.items if isinstance(at, Items) else (at,)
    coordinates = [regions.index_value(ctx, index_node, item, receiver.buffer) for item in items]
    return regions.tile(ctx, node, receiver, shape, coordinates)


def _permute(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Memory)
    values = _values(ctx, node)
    if len(values) == 1 and isinstance(values[0], Items):
        values = list(values[0].items)
    return mem.permute(ctx, node, receiver, tuple(ctx.integer(v, node, "a dimension") for v in values))


def _view(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Memory)
    return mem.view(ctx, node, receiver)


_METHODS: dict[str, Callable[[Context, ast.Call, Value], Value]] = {
    "astype": _astype,
    "tile": _tile,
    "permute": _permute,
    "view": _view,
}


