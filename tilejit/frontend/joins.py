"""Control-flow joins: the kind of a name that may have different values on the paths that join."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..dtypes import DType, promote
from ..ir.arithmetic import build
from ..ir.nodes import Var
from .carried import loop_type
from .context import Context
from .kinds import ItemsKind, Kind, Same, ScalarKind
from .memory_joins import conflict, merge_memory
from .singles import is_single
from .values import Binding, Constant, Items, Memory, Scalar, Unset, Value, describe, is_number, owner_scope, weak_type


def merge(ctx: Context, name: str, bindings: Sequence[Binding]) -> Kind:
    """Return the kind of a name where paths join; `Same(Unset)` if it has no value on a path or the values conflict."""
    first = bindings[0]
    for binding in bindings:
        if isinstance(binding.value, Unset):
            return Same(binding.value)
    for binding in bindings[1:]:
        if binding.value != first.value:
            break
    else:
        return Same(first.value)
    bindings = _numbers(bindings)
    values = [b.value for b in bindings]
    if all(isinstance(v, Scalar) or is_number(v) for v in values):
        return _merge_scalars(ctx, name, bindings)
    if all(isinstance(v, Items) for v in values):
        lengths = {len(v.items) for v in values if isinstance(v, Items)}
        if len(lengths) == 1:
            return _merge_items(ctx, name, bindings, lengths.pop())
    if all(isinstance(v, Memory) for v in values):
        return merge_memory(ctx, name, bindings)
    other = next(b for b in bindings if b.value != first.value)
    sides = (first, describe(first.value)), (other, describe(other.value))
    tile = next((v for v in values if isinstance(v, Memory) and v.is_local and v.is_value), None)
    number = next((v.value for v in values if isinstance(v, Constant) and is_number(v)), None)
    if tile is not None and number is not None:
        full = f"tj.{owner_scope(tile.buffer)}.full({tile.shape}, {_written(number)}, tj.{tile.dtype})"
        return conflict(name, *sides, f"begin with a tile: {name} = {full}" if name.isidentifier() else f"write {full}")
    return conflict(name, *sides)


def _written(number: float) -> str:
    name = repr(abs(number))
    return repr(number) if math.isfinite(number) else repr(number).replace(name, f"tj.{name}")


def _numbers(bindings: Sequence[Binding]) -> Sequence[Binding]:
    """Return the bindings, with read-only rank-0 tiles replaced by scalars if any binding is a scalar or a number."""
    if not any(isinstance(b.value, Scalar) or is_number(b.value) for b in bindings):
        return bindings
    return [
        Binding(Scalar(Var("", b.value.dtype, data=True)), b.span)
        if isinstance(b.value, Memory) and is_single(b.value) and not b.value.writable else b
        for b in bindings
    ]


def _merge_scalars(ctx: Context, name: str, bindings: Sequence[Binding]) -> Kind:
    typed = [b for b in bindings if isinstance(b.value, Scalar) and not b.value.weak]
    literals = [b for b in bindings if b not in typed]
    if not typed:
        dtype = promote(*[weak_type(b.value) for b in bindings])
        typed_once = any(isinstance(b.value, Scalar) for b in bindings)
        for literal in literals:
            ctx.takes_type(literal.value, dtype, matters=typed_once and not can_take(literal.value, dtype))
        return ScalarKind(dtype, weak=True)
    first = typed[0]
    dtype = weak_type(first.value)
    for other in typed[1:]:
        if weak_type(other.value) != dtype:
            # the loop will convert values that are assigned to the name to a common type, which isn't final yet
            common = loop_type([], [dtype, weak_type(other.value)]) if name in ctx.frame.carried else None
            if common is not None:
                dtype = common
                continue
            return conflict(name, (first, str(dtype)), (other, str(weak_type(other.value))))
    for literal in literals:
        ctx.takes_type(literal.value, dtype)
        if not can_take(literal.value, dtype):
            return conflict(name, (first, str(dtype)), (literal, describe(literal.value)))
    return ScalarKind.holding(dtype, [b.value for b in bindings])


def can_take(value: Value, dtype: DType) -> bool:
    """True if a literal can take the type `dtype`.

    A bool takes only bool_, and a float only float types. An integer takes float types, and also integer types
    unless its value is known not to fit.
    """
    default = weak_type(value)
    if default.kind == "bool" or dtype.kind == "bool":
        return default.kind == dtype.kind
    if default.is_float:
        return dtype.is_float
    if isinstance(value, Constant) and dtype.is_integer:
        return bool(build.const(value.value, dtype).value == value.value)
    return True


def _merge_items(ctx: Context, name: str, bindings: Sequence[Binding], length: int) -> Kind:
    kinds: list[Kind] = []
    for k in range(length):
        column = [Binding(b.value.items[k], b.span) for b in bindings if isinstance(b.value, Items)]
        kind = merge(ctx, f"{name}[{k}]", column)
        if isinstance(kind, Same) and isinstance(kind.value, Unset):
            return kind
        kinds.append(kind)
    return ItemsKind(tuple(kinds))
