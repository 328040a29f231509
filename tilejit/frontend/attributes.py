"""Attributes: `A.shape`, `x.dtype`, `r.registers`, `tj.warp.copy`, and bound methods."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from enum import Enum, EnumMeta
from functools import partial, reduce
from types import ModuleType
from typing import Any

from ..dtypes import DType
from ..ir.nodes import Strided
from ..layout import TileLayout
from ..ops.tile import CALLS
from ..scopes import CTA, SCOPES
from ..wording import guessed
from . import barriers, foreign, methods, records, values
from .annotations import members
from .buffers import fixed_layout
from .context import Context
from .language import Intrinsic
from .names import captured
from .operators import binary
from .values import Constant, Memory, Scalar, Value
from .words import Namespace, ScopeNamespace, intrinsics

_MISSING = object()

_OF_MEMORY = members("Region", "Tile")


def _shape(base: Memory | values.Rows) -> values.Items:
    """Return the extents of the dimensions that no index dropped."""
    kept = [e for e in base.extents if e is not None]
    return values.Items(tuple([Constant(e) if isinstance(e, int) else Scalar(e) for e in kept]))


def length(ctx: Context, node: ast.AST, value: Value) -> Value | None:
    """Return the first extent of memory; None for rank 0 and for other values. raises: KernelTypeError for a ring."""
    hint = barriers.ring_loop_hint(value)
    if hint is not None:
        raise ctx.type_error(node, f"{values.describe(value)} has no length", hint)
    return next(iter(_shape(value).items), None) if isinstance(value, (Memory, values.Rows)) else None


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
        raise ctx.type_error(node, f"{values.describe(base)} has no attribute {node.attr}", hint)
    return handler(ctx, node, base)


#: attribute that only some memory has -> the hint for other memory
_OF_SOME = {
    "layout": "only a whole tile or buffer with compile-time shape and strides has a layout",
    "scope": "only tiles have a scope; write the scope, such as tj.warp",
}
#: attribute that is not implemented yet -> the hint
_NOT_YET = {
    "in_cta": "only copies fill the shared memory of other CTAs: copy_async(..., barrier=ring[i], multicast=0), with "
    "ring = tj.alloc_ring(..., multicast=0)",
}


def _missing(ctx: Context, node: ast.Attribute, base: Value, names: tuple[str, ...]) -> Exception:
    known = _NOT_YET.get(node.attr) or (_OF_SOME.get(node.attr) if node.attr in names else None)
    hint = known or guessed(node.attr, names, f"it has {', '.join(names)}")
    if node.attr in CALLS and CTA in CALLS[node.attr].scopes:
        hint = f"call it on the scope that executes it: tj.cta.{node.attr}({ast.unparse(node.value)}, ...)"
    word = intrinsics().get(node.attr)
    if isinstance(word, Intrinsic) and word.parameters and "Tile" in word.parameters[0].type:
        hint = f"write {word}({ast.unparse(node.value)}, ...)"
    what = f"{values.describe(base)} has no attribute {node.attr}"
    return ctx.type_error(node, what, foreign.instead(node.attr) or hint)


def _of_module(ctx: Context, node: ast.Attribute, module: ModuleType) -> Value:
    member = getattr(module, node.attr, _MISSING)
    if member is _MISSING:
        raise foreign.not_in_module(ctx, node, module)
    return captured(ctx, node, member)


def _of_memory(ctx: Context, node: ast.Attribute, base: Memory | values.Rows) -> Value:
    name, extents = node.attr, _shape(base)
    if name == "shape":
        return extents
    if name == "size":
        return reduce(partial(binary, ctx, node, ast.Mult()), [Constant(1), *extents.items])
    if name == "dtype":
        return Constant(base.dtype)
    if name == "ndim":
        return Constant(len(extents.items))
    if isinstance(base, values.Rows):
        raise _missing_in_rows(ctx, node, base)
    if name == "strides":
        return values.Items(methods.strides_of(ctx, node, base))
    if name == "layout" and not isinstance(base.buffer.layout, Strided) and base.is_whole:
        return Constant(fixed_layout(ctx, ctx.span(node), base))
    if name == "scope" and base.is_local:
        return Constant(ScopeNamespace(SCOPES[values.owner_scope(base.buffer)]))
    if name == "T":
        return methods.permute(ctx, node, base, tuple(reversed(range(len(base.dims)))))
    if name == "registers":
        return methods.registers(ctx, node, base)
    if name in _OF_MEMORY and name in methods.METHODS:
        return values.Method(base, name)
    raise _missing(ctx, node, base, _OF_MEMORY)


def _missing_in_rows(ctx: Context, node: ast.Attribute, base: values.Rows) -> Exception:
    if node.attr in _OF_MEMORY and node.attr != "at":
        return ctx.type_error(
            node, f"{values.describe(base)} has no attribute {node.attr}",
            f"load it first: x = tj.cta.load({ast.unparse(node.value)}), and write x.{node.attr}",
        )
    return _missing(ctx, node, base, members("Gather"))


def _of_scalar(ctx: Context, node: ast.Attribute, base: Scalar) -> Value:
    if node.attr == "dtype":
        return Constant(base.dtype)
    if node.attr in members("Scalar"):
        return values.Method(base, node.attr)
    raise _missing(ctx, node, base, members("Scalar"))


def _of_constant(ctx: Context, node: ast.Attribute, base: Constant) -> Value:
    value = base.value
    if isinstance(value, ModuleType):
        return _of_module(ctx, node, value)
    if isinstance(value, ScopeNamespace):
        if node.attr in value:
            return values.ScopedOperation(value.scope.name, node.attr)
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
        return Constant(fact) if callable(fact) else values.Items(tuple(map(Constant, fact)))
    if isinstance(value, EnumMeta) and node.attr in value.__members__:
        return Constant(value.__members__[node.attr])
    if isinstance(value, Enum) and node.attr in ("name", "value"):
        return captured(ctx, node, getattr(value, node.attr))
    if isinstance(value, (bool, int, float)) and node.attr == "astype":
        return values.Method(Constant(value), "astype")
    raise foreign.no_attribute(ctx, node, value)


_ATTRIBUTES: Mapping[type[Value], Callable[[Context, ast.Attribute, Any], Value]] = {
    **dict.fromkeys((Memory, values.Rows), _of_memory),
    Scalar: _of_scalar,
    **dict.fromkeys((values.Items, values.Record), records.field),
    values.Table: records.table_attribute,
    **dict.fromkeys(barriers.WITH_ATTRIBUTES, barriers.attribute),
}
