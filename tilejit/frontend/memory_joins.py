"""Joins of tiles and regions, and the kinds that regions have after the loop or helper that created them."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.nodes import Open
from ..scopes import THREAD
from .buffer_choices import ONE_BUFFER
from .context import Context
from .kinds import ItemsKind, Kind, Same, TileKind, kind_of
from .places import PlaceKind, Source, difference, place_kind
from .tiles import shared_scope
from .values import Binding, Conflict, Constant, Items, Memory, Unset, describe, owner_scope


def merge_memory(ctx: Context, name: str, bindings: Sequence[Binding]) -> Kind:
    """Return the kind of a name that is memory on each path; `Same(Unset)` if the values conflict."""
    places = [b.value for b in bindings if isinstance(b.value, Memory)]
    is_one_buffer = all(place.buffer == places[0].buffer for place in places)
    if all(place.is_value or (not is_one_buffer and _is_own(place)) for place in places):
        return _merge_tiles(ctx, name, bindings)
    return _merge_places(ctx, name, bindings)


def _is_own(place: Memory) -> bool:
    """True for a thread's own tile, or a part of one, that can be copied to a slot; False for `.registers`."""
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
    assert isinstance(binding.value, Memory)
    root = binding.value.buffer.root
    choice = ctx.buffer_choices.get(root.name)
    return ((root.name, root.span or binding.span),) if choice is None else choice.sources


def kind_outside(ctx: Context, name: str, kind: Kind, last: Binding) -> Kind:
    """Return the kind of a value after the loop or block that created it, or `Same(Unset)` if it can't be used there.

    last: one of its bindings. The parts of a region that aren't constant are kept in variables, because they may depend
    on names that the loop changes.
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
        problem = "is a region whose location is known only inside the loop or helper that created it"
        return Same(Unset(name, problem, "take the region again where it is used"))
    is_phi = ctx.phi(value.buffer) is not None
    place = place_kind((value,), _sources(ctx, Binding(value, last.span)), is_phi=is_phi).moving()
    return place if place.varying else kind


def conflict(
    name: str, first: tuple[Binding, str], second: tuple[Binding, str],
    remedy: str = "convert one of them, for example with .astype(...)",
) -> Same:
    """Return `Same(Conflict)` for a name whose bindings conflict. first, second: a binding and its description."""
    (a, what_a), (b, what_b) = first, second
    return Same(Conflict.between(name, (what_a, a.span), (what_b, b.span), remedy))
