"""Control-flow joins: the kind of a name that has a value on each of several paths."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..dtypes import DType, promote
from ..ir.arithmetic import build
from ..ir.nodes import Open, Var
from ..scopes import THREAD
from .buffer_choices import ONE_BUFFER
from .carried import loop_type
from .context import Context
from .kinds import ItemsKind, Kind, Same, ScalarKind, TileKind, kind_of
from .places import PlaceKind, Source, difference, place_kind
from .singles import is_single
from .tiles import shared_scope
from .values import (
    Binding,
    Conflict,
    Constant,
    Items,
    Memory,
    Scalar,
    Unset,
    Value,
    describe,
    is_number,
    owner_scope,
    weak_type,
)

__all__ = ["can_take", "conflict", "kind_outside", "merge", "merge_memory"]


def merge(ctx: Context, name: str, bindings: Sequence[Binding]) -> Kind:
    """Return the kind of a name where paths join; `Same(Unset)` if its values don't agree."""
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
    """Return the bindings; if one is a number, read-only rank-0 tiles count as scalars."""
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
            # in a loop that will convert assignments, whose type isn't known yet
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
    """True if a literal can take a type: floats don't become integers, and bools and numbers don't mix."""
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


def merge_memory(ctx: Context, name: str, bindings: Sequence[Binding]) -> Kind:
    """Return the kind of a name that is memory on each path; `Same(Unset)` if the values don't agree."""
    places = [b.value for b in bindings if isinstance(b.value, Memory)]
    is_one_buffer = all(place.buffer == places[0].buffer for place in places)
    if all(place.is_value or (not is_one_buffer and _is_own(place)) for place in places):
        return _merge_tiles(ctx, name, bindings)
    return _merge_places(ctx, name, bindings)


def _is_own(place: Memory) -> bool:
    """True for a part of a thread's own tile, which can be copied."""
    return place.is_local and not place.constant_indices and owner_scope(place.buffer) == THREAD.name


def _merge_tiles(ctx: Context, name: str, bindings: Sequence[Binding]) -> Kind:
    first = bindings[0]
    a = first.value
    assert isinstance(a, Memory)
    scope, laid_out = owner_scope(a.buffer), first
    for other in bindings[1:]:
        b = other.value
        assert isinstance(b, Memory)
        if a.dtype != b.dtype:
            return conflict(name, (first, str(a.dtype)), (other, str(b.dtype)))
        if a.shape != b.shape:
            shapes = (first, f"of shape {a.shape}"), (other, f"of shape {b.shape}")
            return conflict(name, *shapes, "keep one shape, or unroll the loop with tj.static_range")
        common = shared_scope(ctx, (scope, owner_scope(b.buffer)))
        if common is None:
            scopes = (first, f"a tile of a {scope}"), (other, f"a tile of a {owner_scope(b.buffer)}")
            return conflict(name, *scopes, "create both on one scope")
        scope = common
        if not (a.is_whole and b.is_whole) and _is_own(a) and _is_own(b):
            continue
        given, new = (v.value.buffer for v in (laid_out, other) if isinstance(v.value, Memory))
        if isinstance(given.layout, Open):
            laid_out = other
        elif not isinstance(new.layout, Open) and not given.is_laid_out_as(new):
            layouts = (laid_out, f"in layout {given.layout}"), (other, f"in layout {new.layout}")
            return conflict(name, *layouts, "create both with the same layout=")
    return TileKind(a.dtype, a.shape, scope)


def _merge_places(ctx: Context, name: str, bindings: Sequence[Binding]) -> Kind:
    first = bindings[0]
    places: list[Memory] = []
    for binding in bindings:
        assert isinstance(binding.value, Memory) and isinstance(first.value, Memory)
        sides = difference(first.value, binding.value)
        if sides is None and (_is_view_of_phi(ctx, first) or _is_view_of_phi(ctx, binding)):
            sides = describe(first.value), describe(binding.value)
        if sides is not None:
            return conflict(name, (first, sides[0]), (binding, sides[1]), ONE_BUFFER)
        places.append(binding.value)
    sources = dict(source for binding in bindings for source in _sources(ctx, binding))
    is_phi = len({place.buffer.name for place in places}) > 1 or ctx.phi(places[0].buffer) is not None
    return place_kind(places, tuple(sources.items()), is_phi=is_phi)


def _is_view_of_phi(ctx: Context, binding: Binding) -> bool:
    assert isinstance(binding.value, Memory)
    buffer = binding.value.buffer
    return ctx.phi(buffer) is not None and buffer.base is not None


def _sources(ctx: Context, binding: Binding) -> tuple[Source, ...]:
    """Return the buffers that a name bound to memory may be."""
    assert isinstance(binding.value, Memory)
    root = binding.value.buffer.root
    choice = ctx.buffer_choices.get(root.name)
    return ((root.name, root.span or binding.span),) if choice is None else choice.sources


def kind_outside(ctx: Context, name: str, kind: Kind, last: Binding) -> Kind:
    """Return the kind of a value for use after the loop or block that created it. last: one of its bindings.

    Its parts may change when the next iteration begins, or when the loop ends.
    """
    if isinstance(kind, ItemsKind):
        assert isinstance(last.value, Items)
        pairs = enumerate(zip(kind.items, last.value.items, strict=True))
        items = [kind_outside(ctx, f"{name}[{k}]", inner, Binding(item, last.span)) for k, (inner, item) in pairs]
        return next((i for i in items if isinstance(i, Same) and isinstance(i.value, Unset)), ItemsKind(tuple(items)))
    if isinstance(kind, PlaceKind):
        return kind.moving()
    if not isinstance(kind, Same) or isinstance(kind.value, (Constant, Unset)):
        return kind
    value = kind.value
    if isinstance(value, Items):
        return kind_outside(ctx, name, ItemsKind(tuple(map(Same, value.items))), Binding(value, last.span))
    if not isinstance(value, Memory) or value.is_value:
        return kind_of(value)
    known = all(e is None or isinstance(e, int) or e in value.buffer.shape for e in value.extents)
    if value.constant_indices or not known or _is_view_of_phi(ctx, Binding(value, last.span)):
        problem = "is a region whose place is known only inside the loop or helper that created it"
        return Same(Unset(name, problem, "take the region again where it is used"))
    is_phi = ctx.phi(value.buffer) is not None
    place = place_kind((value,), _sources(ctx, Binding(value, last.span)), is_phi=is_phi).moving()
    return place if place.varying else kind


def conflict(
    name: str,
    first: tuple[Binding, str],
    second: tuple[Binding, str],
    remedy: str = "convert one of them, for example with .astype(...)",
) -> Same:
    """Return the kind of a name whose bindings don't agree, with a description of each."""
    (a, what_a), (b, what_b) = first, second
    return Same(Conflict.between(name, (what_a, a.span), (what_b, b.span), remedy))
