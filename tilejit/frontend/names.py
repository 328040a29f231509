"""Names and functions: lookup in the functions that are being translated and among the values that they capture.

`@tj.function`s and nested functions are inlined where they are called.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Mapping, Sized
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import Any

import numpy as np

from ..dataclass import replace
from ..dtypes import DType
from ..layout import TileLayout
from ..wording import array, guessed, is_array, shown, with_article
from .arguments import bind
from .context import Context, Frame, Hinted
from .flow import Construct
from .foreign import hint_for_name
from .joins import run_block
from .language import Function, LanguageName
from .source import as_function, local_names, parameter_nodes
from .values import Binding, Closure, Constant, Unset, Value, describe, from_parts, from_python

#: the name to which a function's result is bound; not a valid identifier
RESULT = "<result>"

#: types whose values are all usable; testing for them first is faster than testing for arrays and containers
_USABLE = frozenset((bool, float, NoneType, ModuleType, BuiltinFunctionType, FunctionType, DType, TileLayout, Function))

#: immutable containers; others are refused, since changes to them between launches could go unnoticed
_FIXED = (tuple, frozenset, range, bytes, str)


def lookup(ctx: Context, node: ast.Name) -> Value:
    """Return the value of a name: a binding of the current or of an enclosing function, or else a captured value."""
    frame, name = ctx.frame, node.id
    while True:
        binding = frame.env.get(name)
        if binding is not None:
            value = binding.value
            if isinstance(value, Unset):
                raise ctx.type_error(node, value.reason, value.hint)
            return value
        if name in local_names(frame.node):
            raise ctx.type_error(node, f"{name} has no value yet", "assign it before it is read, on every path")
        if frame.outer is None:
            break
        frame = frame.outer
    outside = ctx.outside.get((frame.source, name))
    if outside is None:
        outside = ctx.outside[frame.source, name] = _from_outside(ctx, frame, node)
    return outside


def _from_outside(ctx: Context, frame: Frame, node: ast.Name) -> Value:
    exists, value = frame.source.lookup(node.id)
    if not exists:
        names = [*frame.env, *frame.source.function.__globals__]
        hint = guessed(node.id, names, "assign it, or define it at the top of the module")
        hint = hint_for_name(ctx, node) or hint
        raise ctx.type_error(node, f"{node.id} is not defined", hint)
    return captured(ctx, node, value)


def captured(ctx: Context, node: ast.AST, value: Any, name: str = "", item: str = "") -> Value:
    """Return a captured Python object as a `Value`.

    name: the name in errors, by default the source of the node. item: a subscript to append to it, such as `[0]`.
    raises: KernelTypeError for an array with dimensions, a container of a type not in `_FIXED`, or too large a value.
    """
    # most captured values are small integers and objects of the language; the checks below take 3 µs per value
    kind = type(value)
    if kind in _USABLE or (kind is int and value.bit_length() <= 64) or issubclass(kind, LanguageName):
        return Constant(value)
    if kind in (int, str) or isinstance(value, (type, np.dtype)):
        return from_python(value)
    called = f"{name or ast.unparse(node)}{item}"
    wrong = next((k for k in value if not isinstance(k, (str, int, float))), None) if kind is dict else None
    if wrong is not None:
        raise ctx.type_error(node, f"{called} has the key {shown(wrong)}", "use strings or numbers as keys")
    container = from_parts(value, lambda part, suffix: captured(ctx, node, part, name, item + suffix))
    if container is not None:
        return container
    if hasattr(value, "__array_interface__") and value.shape == ():
        return Constant(value.item())
    if is_array(value):
        raise ctx.type_error(
            node,
            f"{called} is an array, {with_article(array(value))}; a kernel can't capture arrays",
            "pass it as an argument",
        )
    options = None if isinstance(value, Enum) else getattr(kind, "__dataclass_params__", None)
    is_record = options is not None and not options.frozen
    if is_record or isinstance(value, (Sized, Container, Iterable)) and not isinstance(value, (*_FIXED, LanguageName)):
        raise ctx.type_error(
            node,
            f"{called} is {with_article(kind.__name__)}; a kernel captures numbers, types, layouts, frozen "
            "dataclasses, and tuples and dicts of these",
            "make its class frozen: @dataclass(frozen=True)" if is_record
            else "make it a dict" if isinstance(value, Mapping) else "make it a tuple",
        )
    return Constant(value)


def closure_of(ctx: Context, value: Value) -> Closure | None:
    """Return a nested function or a `@tj.function` as a `Closure`, with its default values; None for other values."""
    if not isinstance(value, Constant) or not isinstance(value.value, Function):
        return value if isinstance(value, Closure) else None
    source = value.value.source
    values = {name: captured(ctx, source.node, value, name) for name, value in source.defaults.items()}
    return Closure(source.node, source, None, values)


def make_closure(ctx: Context, node: ast.FunctionDef | ast.Lambda) -> Closure:
    """Return a nested function as a `Closure`; its defaults are evaluated at the definition, as in Python."""
    node = as_function(node) if isinstance(node, ast.Lambda) else node
    a = node.args
    if a.vararg is not None or a.kwarg is not None:
        raise ctx.syntax_error(node, "*args and **kwargs can't be used in a kernel", "name the parameters")
    values = [*a.defaults, *a.kw_defaults]
    optional = parameter_nodes(node)[-len(values) :] if values else ()
    defaults = {arg.arg: ctx.evaluate(value) for arg, value in zip(optional, values, strict=True) if value is not None}
    return Closure(node, ctx.frame.source, ctx.frame, defaults)


def inline(ctx: Context, node: ast.Call, closure: Closure) -> Value:
    """Inline a call of `closure`, and return its result."""
    a = closure.node.args
    if a.vararg is not None or a.kwarg is not None:
        raise ctx.syntax_error(node, f"{closure.node.name} has *args or **kwargs", "name its parameters")
    names = tuple([arg.arg for arg in parameter_nodes(closure.node)])
    arguments = bind(ctx, node, closure.node.name, names, 0)
    env: dict[str, Binding] = {}
    for name in names:
        argument = arguments.get(name)
        if argument is None and name not in closure.defaults:
            raise ctx.type_error(node, f"{closure.node.name} needs {name}", f"its parameters: {', '.join(names)}")
        value = closure.defaults[name] if argument is None else ctx.evaluate(argument)
        env[name] = Binding(value, ctx.span(node if argument is None else argument))
    return run(ctx, node, closure, env)


def applied(ctx: Context, node: ast.expr, value: Value) -> Value:
    """Return what a function, the value of `node`, returns for one argument."""
    function = ctx.evaluate(node)
    closure = closure_of(ctx, function)
    names = [] if closure is None else [arg.arg for arg in parameter_nodes(closure.node)]
    needed = [] if closure is None else [name for name in names if name not in closure.defaults]
    if closure is None or not names or needed not in ([], names[:1]):
        raise ctx.type_error(
            node, f"this must be a function of one value; it is {describe(function)}",
            "pass a @tj.function or a nested function with one parameter",
        )
    env = {name: Binding(given, ctx.span(node)) for name, given in {**closure.defaults, names[0]: value}.items()}
    return run(ctx, node, closure, env)


def is_word(value: Value) -> bool:
    """True for a word of the language, such as `tj.maximum`."""
    return isinstance(value, Constant) and isinstance(value.value, LanguageName)


def run(ctx: Context, node: ast.AST, closure: Closure, env: dict[str, Binding]) -> Value:
    """Like `inline`, with the parameters bound by `env`; raise KernelTypeError for recursion."""
    if closure.node in ctx.calls:
        raise ctx.type_error(
            node, f"{closure.node.name} calls itself: functions are inlined, so they can't be recursive",
            "write a loop",
        )
    frame = Frame(closure.source, closure.node, ctx.span(node), closure.frame, dict(env), ctx.frame)
    outer = ctx.frame
    ctx.frame = frame
    ctx.calls.append(closure.node)
    try:
        with Hinted(ctx, None):
            run_block(ctx, frame.node, Construct.FUNCTION, node, (RESULT,), lambda: _body(ctx, frame))
            return _result(ctx, frame)
    finally:
        ctx.frame = outer
        ctx.calls.pop()


def _body(ctx: Context, frame: Frame) -> bool:
    reached = ctx.execute(frame.node.body)
    if reached:
        ctx.frame.env[RESULT] = Binding(Constant(None), ctx.span(frame.node))
    return reached


def _result(ctx: Context, frame: Frame) -> Value:
    if RESULT not in frame.env:
        return Constant(None)
    value = frame.env[RESULT].value
    if isinstance(value, Unset):
        named = replace(value, name=value.name.replace(RESULT, f"the result of {frame.node.name}"))
        raise ctx.type_error(frame.node, named.reason, "return one kind of value, on every path")
    return value
