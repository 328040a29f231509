"""Lookup of names in the functions that are being translated, and among the values that they capture."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Sized
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import Any

import numpy as np

from ..dtypes import DType
from ..layout import TileLayout
from ..wording import array, guessed, is_array, with_article
from .context import Context, Frame
from .foreign import hint_for_name
from .language import Function, LanguageName
from .sizes import check_elements
from .values import Constant, Items, Unset, Value, from_python

#: types whose values are all usable; testing for them first is faster than testing for arrays and containers
_USABLE = frozenset((bool, float, NoneType, ModuleType, BuiltinFunctionType, FunctionType, DType, TileLayout, Function))

#: types whose values have a size limit
_SIZED = (int, str)

#: immutable containers; a change to any other container would go unnoticed between launches
_FIXED = (tuple, frozenset, range, bytes, str, type)


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
        if name in frame.locals:
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
    raises: KernelTypeError for an array with dimensions, a container not in `_FIXED`, or a value over a size limit.
    """
    # most captured values are small integers and names of the language; the checks below take 3 µs per value
    kind = type(value)
    if kind in _USABLE or (kind is int and value.bit_length() <= 64) or issubclass(kind, LanguageName):
        return Constant(value)
    if type(value) in _SIZED or isinstance(value, (type, np.dtype)):
        return from_python(value)
    if type(value) is tuple:
        check_elements(len(value))
        return Items(tuple([captured(ctx, node, part, name, f"{item}[{k}]") for k, part in enumerate(value)]))
    if hasattr(value, "__array_interface__") and value.shape == ():
        return Constant(value.item())
    if is_array(value):
        raise ctx.type_error(
            node,
            f"{_called(node, name, item)} is an array, {with_article(array(value))}; a kernel can't capture arrays",
            "pass it as an argument",
        )
    if isinstance(value, (Sized, Container, Iterable)) and not isinstance(value, (*_FIXED, LanguageName)):
        raise ctx.type_error(
            node,
            f"{_called(node, name, item)} is {with_article(type(value).__name__)}; a kernel captures numbers, types, "
            "layouts and tuples of these",
            "capture its values under separate names, or as a tuple" if isinstance(value, dict)
            else "make it a tuple",
        )
    return Constant(value)


def _called(node: ast.AST, name: str, item: str) -> str:
    return f"{name or ast.unparse(node)}{item}"
