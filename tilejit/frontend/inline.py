"""Calls of `@tj.function`s and nested functions, which are translated where they are called."""

from __future__ import annotations

import ast

from ..dataclass import replace
from .arguments import bind
from .context import Context, Frame
from .enclosures import Construct
from .exits import run_block
from .language import Function
from .names import captured
from .values import Binding, Closure, Constant, Unset, Value

#: the name of a function's result; not a valid Python name
RESULT = "<result>"


def closure_of(ctx: Context, value: Value) -> Closure | None:
    """Return a nested function or a `@tj.function` as a `Closure`, with its default values; None for other values."""
    if not isinstance(value, Constant) or not isinstance(value.value, Function):
        return value if isinstance(value, Closure) else None
    source = value.value.source
    values = {name: captured(ctx, source.node, value, name) for name, value in source.defaults.items()}
    return Closure(source.node, source, None, values)


def make_closure(ctx: Context, node: ast.FunctionDef) -> Closure:
    """Return a nested function as a `Closure`; its defaults are evaluated at the definition, as in Python."""
    a = node.args
    if a.vararg is not None or a.kwarg is not None:
        raise ctx.syntax_error(node, "*args and **kwargs can't be used in a kernel", "name the parameters")
    positional = [*a.posonlyargs, *a.args]
    defaults = {
        arg.arg: ctx.evaluate(value)
        for arg, value in zip(positional[len(positional) - len(a.defaults) :], a.defaults, strict=True)
    }
    for arg, value in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        if value is not None:
            defaults[arg.arg] = ctx.evaluate(value)
    return Closure(node, ctx.frame.source, ctx.frame, defaults)


def inline(ctx: Context, node: ast.Call, closure: Closure) -> Value:
    return run(ctx, node, closure, _arguments(ctx, node, closure))


def run(ctx: Context, node: ast.AST, closure: Closure, env: dict[str, Binding]) -> Value:
    """Inline a call of `closure` with its parameters bound by `env`; raise KernelTypeError for recursion."""
    if closure.node in ctx.calls:
        raise ctx.type_error(
            node, f"{closure.node.name} calls itself: functions are inlined, so they can't be recursive",
            "write a loop",
        )
    frame = Frame(closure.source, closure.node, ctx.span(node), closure.frame)
    frame.env.update(env)
    outer = ctx.frame
    ctx.frame = frame
    ctx.calls.append(closure.node)
    try:
        with ctx.hinted(None):
            run_block(ctx, frame.node, Construct.FUNCTION, node, (RESULT,), lambda: _body(ctx, frame))
            return _result(ctx, frame)
    finally:
        ctx.frame = outer
        ctx.calls.pop()


def _arguments(ctx: Context, node: ast.Call, closure: Closure) -> dict[str, Binding]:
    a = closure.node.args
    if a.vararg is not None or a.kwarg is not None:
        raise ctx.syntax_error(node, f"{closure.node.name} has *args or **kwargs", "name its parameters")
    names = tuple([arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs)])
    arguments = bind(ctx, node, closure.node.name, names, 0)
    env: dict[str, Binding] = {}
    for name in names:
        argument = arguments.get(name)
        if argument is None and name not in closure.defaults:
            raise ctx.type_error(node, f"{closure.node.name} needs {name}", f"its parameters: {', '.join(names)}")
        value = closure.defaults[name] if argument is None else ctx.evaluate(argument)
        env[name] = Binding(value, ctx.span(node if argument is None else argument))
    return env


def _body(ctx: Context, frame: Frame) -> bool:
    reached = ctx.execute(frame.node.body)
    if reached:
        ctx.bind(RESULT, Binding(Constant(None), ctx.span(frame.node)))
    return reached


def _result(ctx: Context, frame: Frame) -> Value:
    if RESULT not in frame.env:
        return Constant(None)
    value = frame.env[RESULT].value
    if isinstance(value, Unset):
        named = replace(value, name=value.name.replace(RESULT, f"the result of {frame.node.name}"))
        raise ctx.type_error(frame.node, named.reason, "return one kind of value, on every path")
    return value
