"""Statements: one function per kind of syntax. Each returns whether control reaches what follows."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

from ..dtypes import DType, int32, promote
from ..ir.arithmetic import build, facts
from ..ir.nodes import Const, Expr, For, Loop, Return, Var
from .context import Context
from .control import branch, run_block
from .enclosures import Enclosure, Form, Way
from .exits import innermost, leave
from .expressions import binary
from .inline import RESULT, make_closure
from .language import Intrinsic
from .loops import run_loop
from .messages import assert_holds
from .regions import load_element, place, store_element
from .scalars import convert, truth
from .source import assigned_names
from .values import Binding, Constant, Items, Memory, Scalar, Unset, Value, describe

__all__ = ["STATEMENTS"]

_MAX_UNROLLED = 4096


# ---- assignment ---------------------------------------------------------------------------------------------


def _assign(ctx: Context, node: ast.Assign) -> bool:
    name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else None
    with ctx.hinted(name):
        value = ctx.evaluate(node.value)
    for target in node.targets:
        _bind(ctx, target, value)
    return True


def _annotated(ctx: Context, node: ast.AnnAssign) -> bool:
    if node.value is None:
        raise ctx.syntax_error(node, "a declaration without a value can't be used in a kernel", "assign a value")
    name = node.target.id if isinstance(node.target, ast.Name) else None
    with ctx.hinted(name):
        value = ctx.evaluate(node.value)
    annotation = ctx.evaluate(node.annotation)
    if isinstance(annotation, Constant) and isinstance(annotation.value, DType) and not isinstance(value, Memory):
        value = convert(ctx, node, value, annotation.value)
    _bind(ctx, node.target, value)
    return True


def _bind(ctx: Context, target: ast.expr, value: Value) -> None:
    """Give a name, the names of a tuple, or an element its value."""
    if isinstance(target, ast.Name):
        ctx.bind(target.id, Binding(_named(ctx, target, target.id, value), ctx.span(target)))
        return
    if isinstance(target, (ast.Tuple, ast.List)):
        _unpack(ctx, target, value)
        return
    if isinstance(target, ast.Subscript):
        memory = place(ctx, target)
        _check_place(ctx, target, memory, value)
        assert isinstance(memory, Memory)
        store_element(ctx, target, memory, value)
        return
    if isinstance(target, ast.Attribute):
        raise ctx.syntax_error(target, "an attribute can't be assigned in a kernel", "keep the value in a variable")
    raise ctx.syntax_error(target, "this can't be assigned to in a kernel", "assign to names and elements")


def _named(ctx: Context, node: ast.AST, name: str, value: Value) -> Value:
    """The value as a name holds it: computed once."""
    if isinstance(value, Scalar):
        return Scalar(ctx.let(name, value.expr, ctx.span(node)), value.weak)
    if isinstance(value, Items):
        return Items(tuple(_named(ctx, node, f"{name}.{k}", item) for k, item in enumerate(value.items)))
    return value


def _unpack(ctx: Context, target: ast.Tuple | ast.List, value: Value) -> None:
    if not isinstance(value, Items):
        raise ctx.type_error(target, f"{describe(value)} can't be unpacked; a tuple can", "use one name")
    if any(isinstance(t, ast.Starred) for t in target.elts):
        raise ctx.syntax_error(target, "* can't be used in an assignment in a kernel", "name every item")
    if len(value.items) != len(target.elts):
        raise ctx.type_error(
            target, f"{len(target.elts)} names for a tuple of {len(value.items)}", "give each item a name, or _"
        )
    for inner, item in zip(target.elts, value.items, strict=True):
        _bind(ctx, inner, item)


def _check_place(ctx: Context, node: ast.Subscript, memory: Value, value: Value) -> None:
    if isinstance(memory, Items):
        raise ctx.type_error(node, "a tuple can't be changed", "make a new tuple, or use tj.alloc_local")
    if not isinstance(memory, Memory):
        raise ctx.type_error(
            node, f"{describe(memory)} has no elements to assign", "assign to elements of tensors and buffers"
        )
    if memory.dims:
        instead = "tj.cta.store(region, tile)" if isinstance(value, Memory) else "tj.cta.fill(region, value)"
        raise ctx.type_error(
            node, f"only single elements can be assigned; this is {describe(memory)}", f"write {instead}"
        )


def _augmented(ctx: Context, node: ast.AugAssign) -> bool:
    if isinstance(node.target, ast.Subscript):
        memory = place(ctx, node.target)
        _check_place(ctx, node.target, memory, Constant(None))
        assert isinstance(memory, Memory)
        old: Value = load_element(ctx, node.target, memory)
        store_element(ctx, node.target, memory, binary(ctx, node, node.op, old, ctx.evaluate(node.value)))
        return True
    if not isinstance(node.target, ast.Name):
        raise ctx.syntax_error(node.target, "this can't be assigned to in a kernel", "assign to names and elements")
    old = ctx.evaluate(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
    with ctx.hinted(node.target.id):
        value = binary(ctx, node, node.op, old, ctx.evaluate(node.value))
    _bind(ctx, node.target, value)
    return True


# ---- branches and loops -------------------------------------------------------------------------------------


def _if(ctx: Context, node: ast.If) -> bool:
    cond = truth(ctx, node.test, ctx.evaluate(node.test))
    if isinstance(cond, bool):
        return ctx.execute(node.body if cond else node.orelse)
    return branch(ctx, cond, lambda: ctx.execute(node.body), lambda: ctx.execute(node.orelse), ctx.span(node.test))


def _while(ctx: Context, node: ast.While) -> bool:
    _no_else(ctx, node)
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)

    def body(loop: Enclosure) -> bool:
        if not endless and not _go_on(ctx, node, loop):
            return False
        return ctx.execute(node.body)

    names, span = sorted(assigned_names(node)), ctx.span(node)
    return run_loop(ctx, node, names, body, lambda block: Loop(block, span), only_breaks=True)


def _go_on(ctx: Context, node: ast.While, loop: Enclosure) -> bool:
    """Test the condition of `while` at the head; returns whether the body can run."""
    cond = truth(ctx, node.test, ctx.evaluate(node.test))
    if isinstance(cond, bool):
        if not cond:
            leave(ctx, loop, Way.BREAK, ctx.span(node.test))
        return cond

    def stop() -> bool:
        leave(ctx, loop, Way.BREAK, ctx.span(node.test))
        return False

    return branch(ctx, build.op("logical_not", cond), stop, lambda: True, ctx.span(node.test))


def _no_else(ctx: Context, node: ast.While | ast.For) -> None:
    if node.orelse:
        raise ctx.syntax_error(
            node.orelse[0], "else of a loop can't be used in a kernel", "set a flag before break and test it afterwards"
        )


def _for(ctx: Context, node: ast.For) -> bool:
    _no_else(ctx, node)
    if not isinstance(node.iter, ast.Call):
        return _over_tuple(ctx, node, ctx.evaluate(node.iter))
    callee = ctx.evaluate(node.iter.func)
    function = callee.value if isinstance(callee, Constant) else None
    if function is range:
        return _range_loop(ctx, node, _range(ctx, node.iter))
    if isinstance(function, Intrinsic) and function.name == "static_range":
        return _static_loop(ctx, node, _static_range(ctx, node.iter))
    raise _not_iterable(ctx, node.iter)


def _not_iterable(ctx: Context, node: ast.expr) -> Exception:
    return ctx.syntax_error(
        node, "a for loop goes over range(...), tj.static_range(...) or a tuple",
        "loop over tj.static_range(len(x)) and index",
    )  # fmt: skip


def _over_tuple(ctx: Context, node: ast.For, value: Value) -> bool:
    """A tuple's items, unrolled."""
    if not isinstance(value, Items):
        raise _not_iterable(ctx, node.iter)
    return _static_loop(ctx, node, value.items)


def _range_arguments(ctx: Context, node: ast.Call, what: str) -> list[Value]:
    if node.keywords or not 1 <= len(node.args) <= 3 or any(isinstance(a, ast.Starred) for a in node.args):
        raise ctx.type_error(node, f"{what} takes stop, or start and stop, or start, stop and step", "as in Python")
    values = [ctx.evaluate(argument) for argument in node.args]
    if len(values) == 1:
        values.insert(0, Constant(0))
    return values if len(values) == 3 else [*values, Constant(1)]


def _range(ctx: Context, node: ast.Call) -> tuple[Expr, Expr, Expr]:
    """Start, stop and step of a run-time range, of one integer type."""
    values = _range_arguments(ctx, node, "range")
    typed = [v.dtype for v in values if isinstance(v, Scalar) and not v.weak]
    for value in values:
        integral = isinstance(value, Constant) and type(value.value) is int
        if not integral and not (isinstance(value, Scalar) and value.dtype.is_integer):
            raise ctx.type_error(node, f"range takes integers; this is {describe(value)}", "convert it: int(x)")
    dtype = int32
    for other in typed:
        dtype = other if dtype is int32 and other is typed[0] else promote(dtype, other)
    if isinstance(values[2], Constant) and values[2].value == 0:
        raise ctx.type_error(node, "range with a step of 0 doesn't end", "give a step other than 0")
    for value in values:
        ctx.takes_type(value, dtype)
    start, stop, step = (
        ctx.literal(v.value, dtype, node) if isinstance(v, Constant) else build.cast(v.expr, dtype)  # type: ignore[union-attr]
        for v in values
    )
    return start, stop, step


def _range_loop(ctx: Context, node: ast.For, limits: tuple[Expr, Expr, Expr]) -> bool:
    if not isinstance(node.target, ast.Name):
        raise ctx.syntax_error(node.target, "the variable of a range loop is one name", "write for i in range(...)")
    span, name = ctx.span(node), node.target.id
    start, stop, step = (ctx.let(f"{name}.{what}", e, span) for what, e in zip(_ENDS, limits, strict=True))
    constants = [int(e.value) for e in limits if isinstance(e, Const)]
    if len(constants) == len(limits) and not range(*constants):
        return True
    made: list[Var] = []

    def body(_: Enclosure) -> bool:
        made.append(_loop_var(ctx, node.target, name, start, stop, step))
        ctx.bind(name, Binding(Scalar(made[-1]), ctx.span(node.target)))
        return ctx.execute(node.body)

    before = ctx.frame.env.get(name)
    names = sorted(assigned_names(node) - {name})
    reached = run_loop(
        ctx, node, names, body, lambda block: For(made[-1], start, stop, step, block, False, span)
    )
    problem = f"has no value behind its loop (line {span.line})"
    unset = Unset(name, problem, "copy it to another name inside the loop")
    ctx.bind(name, Binding(unset, before.span if before else span))
    return reached


_ENDS = ("start", "stop", "step")


def _loop_var(ctx: Context, node: ast.AST, name: str, start: Expr, stop: Expr, step: Expr) -> Var:
    """The index, with what its range says of it."""
    multiple = gcd(facts.multiple_of(start), facts.multiple_of(step))
    (first, after), (low, high) = facts.bounds(start), facts.bounds(stop)
    bounds: tuple[int, int] | None = None
    rising = not isinstance(step, Const) or step.value > 0
    if rising and first is not None and high is not None:
        bounds = (first, max(high - 1, first))
    if not rising and after is not None and low is not None:
        bounds = (min(low + 1, after), after)
    return Var(ctx.unique(name), start.dtype, multiple, bounds, ctx.span(node))


def _static_range(ctx: Context, node: ast.Call) -> Sequence[Value]:
    values = _range_arguments(ctx, node, "tj.static_range")
    limits = [ctx.integer(v, node, "a limit of tj.static_range") for v in values]
    if limits[2] == 0:
        raise ctx.type_error(node, "tj.static_range with a step of 0 doesn't end", "give a step other than 0")
    count = -((limits[0] - limits[1]) // limits[2])
    if count > _MAX_UNROLLED:
        raise ctx.type_error(
            node, f"tj.static_range writes its body out {count} times; the limit is {_MAX_UNROLLED}",
            "loop over range(...)",
        )  # fmt: skip
    return [Constant(i) for i in range(*limits)]


def _static_loop(ctx: Context, node: ast.For, items: Sequence[Value]) -> bool:
    """An unrolled loop, which `break` leaves, of rounds that `continue` leaves."""
    names = sorted(assigned_names(node))

    def rounds() -> bool:
        for k, item in enumerate(items):
            _bind(ctx, node.target, item)
            if not run_block(ctx, node, Form.ITERATION, k, names, lambda: ctx.execute(node.body)):
                return False
        return True

    return run_block(ctx, node, Form.STATIC, node, names, rounds)


def _break(ctx: Context, node: ast.Break) -> bool:
    loop = innermost(ctx, Form.LOOP, Form.STATIC)
    assert loop is not None
    leave(ctx, loop, Way.BREAK, ctx.span(node))
    return False


def _continue(ctx: Context, node: ast.Continue) -> bool:
    loop = innermost(ctx, Form.LOOP, Form.ITERATION)
    assert loop is not None
    leave(ctx, loop, Way.BREAK if loop.form is Form.ITERATION else Way.CONTINUE, ctx.span(node))
    return False


def _return(ctx: Context, node: ast.Return) -> bool:
    function = innermost(ctx, Form.FUNCTION)
    if function is None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            raise ctx.syntax_error(node.value, "a kernel returns nothing", "store the result into an array argument")
        ctx.emit(Return(ctx.span(node)))
        return False
    value = Constant(None) if node.value is None else ctx.evaluate(node.value)
    named = _named(ctx, node, ctx.frame.node.name, value)
    ctx.bind(RESULT, Binding(named, ctx.span(node)))
    leave(ctx, function, Way.BREAK, ctx.span(node))
    return False


# ---- the rest -----------------------------------------------------------------------------------------------


def _expression(ctx: Context, node: ast.Expr) -> bool:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return True
    ctx.evaluate(node.value)
    return True


def _assert(ctx: Context, node: ast.Assert) -> bool:
    return assert_holds(ctx, node)


def _pass(ctx: Context, node: ast.Pass) -> bool:
    return True


def _nested_function(ctx: Context, node: ast.FunctionDef) -> bool:
    for decorator in node.decorator_list:
        value = ctx.evaluate(decorator)
        if getattr(getattr(value, "value", None), "__name__", "") != "function":
            raise ctx.syntax_error(decorator, "a nested function takes no decorator but @tj.function", "leave it out")
    closure = make_closure(ctx, node)
    ctx.bind(node.name, Binding(closure, ctx.span(node)))
    return True


STATEMENTS: dict[type[ast.stmt], Callable[[Context, Any], bool]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
    ast.Expr: _expression,
    ast.Assert: _assert,
    ast.Pass: _pass,
    ast.FunctionDef: _nested_function,
}
