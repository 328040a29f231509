"""Parser for the `repr` of layouts, such as `S[(32, 8) : (8, 1)] + R[4 : 1 @ laneid]`, and of swizzles."""

from __future__ import annotations

import ast
from typing import TypeVar

from ...errors import KernelSyntaxError
from ...layout import Axis, R, Replica, S, Swizzle, Term, TileLayout

T = TypeVar("T", TileLayout, Swizzle)

_Parsed = int | tuple[object, ...] | slice | Axis | Term | Replica | TileLayout | Swizzle


def layout_from_text(text: str) -> TileLayout:
    """Parse the `repr` of a layout. raises: KernelSyntaxError for other text, LayoutError for an invalid layout."""
    return _parsed(text, TileLayout)


def swizzle_from_text(text: str) -> Swizzle:
    """Parse the `repr` of a swizzle. raises: KernelSyntaxError for other text, LayoutError for an invalid swizzle."""
    return _parsed(text, Swizzle)


def _parsed(text: str, kind: type[T]) -> T:
    try:
        value = _value(ast.parse(text, mode="eval").body)
    except SyntaxError:
        value = None
    if not isinstance(value, kind):
        raise _Unreadable(text)
    return value


class _Unreadable(KernelSyntaxError):
    def __init__(self, text: str) -> None:
        hint = "write the `repr` of a layout, such as S[extents : strides], or of a swizzle"
        super().__init__(f"not a layout, a swizzle or a part of one: {text}", hint=hint)


def _value(node: ast.expr | ast.slice) -> _Parsed:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_integer(operand)
        case ast.Tuple(elts=parts):
            return tuple(_value(p) for p in parts)
        case ast.Slice(lower=ast.expr() as lower, upper=ast.expr() as upper, step=None):
            return slice(_value(lower), _value(upper))
        case ast.Name(id=name):
            return Axis(name)
        case ast.Subscript(value=ast.Name(id="S"), slice=inner):
            return S[_value(inner)]
        case ast.Subscript(value=ast.Name(id="R"), slice=inner):
            return R[_value(inner)]
        case ast.BinOp():
            return _binary(node)
        case ast.Call():
            return _call(node)
    raise _Unreadable(ast.unparse(node))


def _integer(node: ast.expr) -> int:
    value = _value(node)
    if not isinstance(value, int):
        raise _Unreadable(ast.unparse(node))
    return value


def _binary(node: ast.BinOp) -> _Parsed:
    if isinstance(node.op, ast.MatMult):
        axis = _value(node.right)
        if isinstance(axis, Axis):
            return Term(_integer(node.left), axis)
    if isinstance(node.op, ast.Add):
        layout, more = _value(node.left), _value(node.right)
        if isinstance(layout, TileLayout) and isinstance(more, (Replica, Term, Axis, int)):
            return layout + more
    raise _Unreadable(ast.unparse(node))


def _call(node: ast.Call) -> _Parsed:
    match node:
        case ast.Call(func=ast.Name(id="Axis"), args=[ast.Constant(value=str(name))], keywords=[]):
            return Axis(name)
        case ast.Call(func=ast.Name(id="Swizzle"), args=[bits, base, shift], keywords=keywords):
            return Swizzle(_integer(bits), _integer(base), _integer(shift), inner=not keywords)
        case ast.Call(func=ast.Attribute(value=inner, attr="swizzled"), args=[by], keywords=[]):
            layout, swizzle = _value(inner), _value(by)
            if isinstance(layout, TileLayout) and isinstance(swizzle, Swizzle):
                return layout.swizzled(swizzle)
    raise _Unreadable(ast.unparse(node))
