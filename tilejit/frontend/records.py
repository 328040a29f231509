"""The fields of NamedTuples and frozen dataclasses, and the entries of dicts, among compile-time values."""

from __future__ import annotations

import ast

from ..wording import guessed
from .arguments import bind, positional_values
from .context import Context
from .values import Constant, Items, Method, Record, Table, Unset, Value, describe

#: the methods of dicts that kernels can call
_OF_DICTS = ("get", "items", "keys", "values")


def field(ctx: Context, node: ast.Attribute, base: Items | Record) -> Value:
    """Return a field; raise KernelTypeError for any other attribute."""
    if node.attr in base.names:
        item = base.items[base.names.index(node.attr)]
        if isinstance(item, Unset):
            raise ctx.type_error(node, item.reason, item.hint)
        return item
    member = getattr(base.kind, node.attr, None) if isinstance(base, Record) else None
    names = ", ".join(base.names)
    if member is not None:
        what = "a method" if callable(member) else "a property" if hasattr(member, "__get__") else "a class attribute"
        raise ctx.type_error(
            node, f"{node.attr} is {what} of {describe(base)}: a kernel can only read its fields",
            f"its fields: {names}; write what computes with them as a @tj.function outside the class",
        )
    hint = guessed(node.attr, base.names, f"its fields: {names}") if base.names else "index it: x[0]"
    if isinstance(base, Items) and base.container is not None:
        hint = f"a kernel can use only the fields of a container ({names}), not its methods and properties"
    raise ctx.type_error(node, f"{describe(base)} has no attribute {node.attr}", hint)


def table_attribute(ctx: Context, node: ast.Attribute, base: Table) -> Value:
    if node.attr in _OF_DICTS:
        return Method(base, node.attr)
    hint = f"write {ast.unparse(node.value)}[{node.attr!r}]" if Constant(node.attr) in base.keys else (
        f"it has {', '.join(_OF_DICTS)}"
    )
    raise ctx.type_error(node, f"{describe(base)} has no attribute {node.attr} that a kernel can use", hint)


def entry(ctx: Context, node: ast.AST, base: Table, key: Value) -> Value | None:
    """Return the value at a compile-time key, which is compared as in Python; None if the dict lacks it."""
    sought = ctx.constant(key, node, "the key of a dict")
    if not isinstance(sought, (str, int, float, type(None))):
        raise ctx.type_error(node, f"the keys of a dict are strings and numbers; got {describe(key)}",
                             "write a string or a number")
    places = {each.value: place for place, each in enumerate(base.keys)}
    return base.items[places[sought]] if sought in places else None


def subscript(ctx: Context, node: ast.Subscript, base: Table) -> Value:
    key = ctx.evaluate(node.slice)
    found = entry(ctx, node.slice, base, key)
    if found is None:
        names = [str(each.value) for each in base.keys]
        hint = f"its keys: {', '.join(repr(each.value) for each in base.keys) or 'none'}"
        written = key.value if isinstance(key, Constant) and isinstance(key.value, str) else ""
        raise ctx.type_error(node, f"the dict has no key {ctx.constant(key, node, 'a key')!r}",
                             guessed(written, names, hint))
    return found


def call_method(ctx: Context, node: ast.Call, base: Table, name: str) -> Value:
    """Translate a call of a dict's method; keys, values and items are tuples."""
    if name == "get":
        arguments = bind(ctx, node, ".get", ("key", "default"), 1)
        found = entry(ctx, arguments["key"], base, ctx.evaluate(arguments["key"]))
        default = ctx.evaluate(arguments["default"]) if "default" in arguments else Constant(None)
        return default if found is None else found
    if positional_values(ctx, node):
        raise ctx.type_error(node, f".{name} takes no arguments", f"write {ast.unparse(node.func)}()")
    pairs = Items(tuple([Items(pair) for pair in zip(base.keys, base.items, strict=True)]))
    return {"keys": Items(base.keys), "values": Items(base.items), "items": pairs}[name]
