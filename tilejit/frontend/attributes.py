"""Attributes: `A.shape`, `x.dtype`, `r.registers`, `tj.warp.copy`, and methods before they are called."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, EnumMeta
from types import ModuleType
from typing import Any, TypeAlias

from ..dtypes import DType
from ..ir.nodes import Expr, Strided
from ..layout import TileLayout
from ..ops.tile import CALLS
from ..scopes import CTA, SCOPES
from ..wording import guessed
from . import barriers, foreign
from . import memory as mem
from .context import Context
from .fixing import fixed_layout
from .foreign_words import NOT_YET
from .names import captured
from .regions import strides_of
from .scalars import fold, operate
from .values import Constant, Items, Memory, Method, Rows, Scalar, ScopedOperation, Value, describe, owner_scope
from .words import Namespace, ScopeNamespace

_MISSING = object()

# the attributes of each kind of value; `annotations` declares them for type checkers
OF_MEMORY = ("T", "astype", "at", "dtype", "layout", "ndim", "permute", "registers", "reshape", "scope", "shape",
             "size", "strides", "tile", "view")
_METHODS_OF_MEMORY = ("astype", "at", "permute", "reshape", "tile", "view")
OF_ROWS = ("dtype", "ndim", "shape", "size")
OF_SCALAR = ("astype", "dtype", "view")
_METHODS_OF_SCALAR = ("astype", "view")

#: None for a dimension that an index dropped
Extents: TypeAlias = Sequence[int | Expr | None]


def shape_of(extents: Extents) -> Items:
    """Return the extents of the dimensions that no index dropped."""
    return Items(tuple([Constant(e) if isinstance(e, int) else Scalar(e) for e in extents if e is not None]))


def size_of(ctx: Context, node: ast.AST, extents: Extents) -> Value:
    """Return the product of the extents."""
    product: Value = Constant(1)
    for extent in shape_of(extents).items:
        folded = fold(ctx, node, operator.mul, (product, extent))
        product = operate(ctx, node, "mul", (product, extent)) if folded is None else folded
    return product


def length(extents: Extents) -> Value | None:
    """Return the first extent; None for rank 0."""
    return next(iter(shape_of(extents).items), None)


def attribute(ctx: Context, node: ast.Attribute) -> Value:
    """Return the value of an attribute; raise KernelTypeError if its base doesn't have it."""
    base = ctx.evaluate(node.value)
    if isinstance(base, Constant):
        known = ctx.attributes.get((id(base), node.attr))
        if known is None:
            known = ctx.attributes[id(base), node.attr] = base, _of_constant(ctx, node, base)
        return known[1]
    handler = _ATTRIBUTES.get(type(base))
    if handler is None:
        hint = "tensors, tiles and scalars have attributes"
        raise ctx.type_error(node, f"{describe(base)} has no attribute {node.attr}", hint)
    return handler(ctx, node, base)


#: attribute that is not implemented yet -> the hint
_NOT_YET = {
    "in_cta": "only copies fill the shared memory of other CTAs: copy_async(..., barrier=ring[i], multicast=0), with "
    "ring = tj.alloc_ring(..., multicast=0)",
}


def _missing(ctx: Context, node: ast.Attribute, what: str, names: tuple[str, ...]) -> Exception:
    hint = _NOT_YET.get(node.attr) or guessed(node.attr, names, f"it has {', '.join(names)}")
    if node.attr in CALLS and CTA in CALLS[node.attr].scopes:
        hint = f"call it on the scope that executes it: tj.cta.{node.attr}({ast.unparse(node.value)}, ...)"
    return ctx.type_error(node, f"{what} has no attribute {node.attr}", foreign.instead(node.attr) or hint)


def _of_module(ctx: Context, node: ast.Attribute, module: ModuleType) -> Value:
    member = getattr(module, node.attr, _MISSING)
    if member is _MISSING:
        raise _not_in_module(ctx, node, module)
    return captured(ctx, node, member)


def _not_in_module(ctx: Context, node: ast.Attribute, module: ModuleType) -> Exception:
    if module.__name__ == __package__.partition(".")[0] and node.attr in NOT_YET:
        word = NOT_YET[node.attr]
        what = f"{module.__name__}.{node.attr}, {word.meaning}, is not available in this version"
        return ctx.type_error(node, what, word.instead)
    names = [n for n in dir(module) if n[0] != "_" and not isinstance(vars(module).get(n), ModuleType)]
    hint = guessed(node.attr, names, f"dir({module.__name__}) lists its names")
    members = [getattr(module, name, None) for name in names]
    namespaces = [member for member in members if isinstance(member, ScopeNamespace)]
    scopes = dict.fromkeys(str(namespace) for namespace in namespaces if node.attr in namespace.operations)
    if scopes:
        hint = f"call it on the scope that executes it: {', '.join(f'{scope}.{node.attr}' for scope in scopes)}"
        return ctx.type_error(node, f"{module.__name__} has no {node.attr}", hint)
    return ctx.type_error(node, f"{module.__name__} has no {node.attr}", foreign.instead(node.attr) or hint)


def _of_memory(ctx: Context, node: ast.Attribute, base: Memory) -> Value:
    name = node.attr
    if name == "shape":
        return shape_of(base.extents)
    if name == "size":
        return size_of(ctx, node, base.extents)
    if name == "strides":
        return Items(strides_of(ctx, node, base))
    if name == "dtype":
        return Constant(base.dtype)
    if name == "ndim":
        return Constant(len(base.dims))
    if name == "layout" and not isinstance(base.buffer.layout, Strided) and base.is_whole:
        return Constant(fixed_layout(ctx, ctx.span(node), base))
    if name == "scope" and base.is_local:
        return Constant(ScopeNamespace(SCOPES[owner_scope(base.buffer)]))
    if name == "T":
        return mem.permute(ctx, node, base, tuple(reversed(range(len(base.dims)))))
    if name == "registers":
        return mem.registers(ctx, node, base)
    if name in _METHODS_OF_MEMORY:
        return Method(base, name)
    raise _missing(ctx, node, describe(base), OF_MEMORY)


def _of_rows(ctx: Context, node: ast.Attribute, base: Rows) -> Value:
    if node.attr == "shape":
        return shape_of(base.extents)
    if node.attr == "dtype":
        return Constant(base.dtype)
    if node.attr == "ndim":
        return Constant(len(base.extents))
    if node.attr == "size":
        return size_of(ctx, node, base.extents)
    if node.attr in OF_MEMORY and node.attr != "at":
        raise ctx.type_error(
            node, f"{describe(base)} has no attribute {node.attr}",
            f"load it first: x = tj.cta.load({base.memory.buffer.name}.at(index)), and write x.{node.attr}",
        )
    raise _missing(ctx, node, describe(base), OF_ROWS)


def _of_scalar(ctx: Context, node: ast.Attribute, base: Scalar) -> Value:
    if node.attr == "dtype":
        return Constant(base.dtype)
    if node.attr in _METHODS_OF_SCALAR:
        return Method(base, node.attr)
    raise _missing(ctx, node, describe(base), OF_SCALAR)


def _of_constant(ctx: Context, node: ast.Attribute, base: Constant) -> Value:
    value = base.value
    if isinstance(value, ModuleType):
        return _of_module(ctx, node, value)
    if isinstance(value, ScopeNamespace):
        if node.attr in value.operations:
            return ScopedOperation(value.scope.name, node.attr)
        fault = value.missing(node.attr)
        raise ctx.type_error(node, fault.message, fault.hint)
    if isinstance(value, Namespace):
        if node.attr in value.members:
            return Constant(getattr(value, node.attr))
        names = tuple(value.members)
        hint = guessed(node.attr, names, f"it has {', '.join(names)}")
        what = f"{value!r} has no attribute {node.attr}"
        raise ctx.type_error(node, what, foreign.instead(ast.unparse(node)) or hint)
    if isinstance(value, DType) and node.attr in ("name", "kind", "bits", "bytes", "is_float", "is_integer"):
        return Constant(getattr(value, node.attr))
    if isinstance(value, TileLayout) and node.attr in ("shape", "size", "span"):
        fact = getattr(value, node.attr)
        return Constant(fact) if callable(fact) else Items(tuple(map(Constant, fact)))
    if isinstance(value, EnumMeta) and node.attr in value.__members__:
        return Constant(value.__members__[node.attr])
    if isinstance(value, Enum) and node.attr in ("name", "value"):
        return captured(ctx, node, getattr(value, node.attr))
    if isinstance(value, (bool, int, float)) and node.attr == "astype":
        return Method(Constant(value), "astype")
    raise foreign.no_attribute(ctx, node, value)


_ATTRIBUTES: Mapping[type[Value], Callable[[Context, ast.Attribute, Any], Value]] = {
    Memory: _of_memory,
    Rows: _of_rows,
    Scalar: _of_scalar,
    **dict.fromkeys(barriers.WITH_ATTRIBUTES, barriers.attribute),
}
