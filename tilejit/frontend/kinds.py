"""Kinds: descriptions of the values that a name may hold on the paths that join, such as scalars of one type.

A loop-carried name that starts as a literal has one type in the whole loop: the promoted type of the typed values
assigned to it, with float16 and bfloat16 widened to float32, and narrow integers to int32. If the name also holds a
float literal, an integer type becomes float32.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence

from ..dataclass import dataclass, replace
from ..dtypes import DType, float32, int32, int64, promote
from ..errors import KernelTypeError, shown_file
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import is_data
from ..ir.nodes import Open, Var
from ..ir.types import ContainerType
from ..scopes import THREAD
from ..source import Span
from .buffer_choices import ONE_BUFFER, PlaceKind, Source, difference, place_kind
from .context import Context
from .scalars import is_single
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


@dataclass(frozen=True, slots=True)
class Same:
    """One value, the same on every path; an `Unset` if the name has no usable value."""

    value: Value


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """Scalars of one type. weak: True if all are literals so far. data: True if int64s may be data (see `is_data`)."""

    dtype: DType
    weak: bool = False
    data: bool = False

    @staticmethod
    def holding(dtype: DType, values: Iterable[Value], *, weak: bool = False) -> ScalarKind:
        data = dtype is int64 and any(isinstance(v, Scalar) and is_data(v.expr) for v in values)
        return ScalarKind(dtype, weak, data)


@dataclass(frozen=True, slots=True)
class TileKind:
    """Local tiles of one type, shape and owning scope."""

    dtype: DType
    shape: tuple[int, ...]
    scope: str


@dataclass(frozen=True, slots=True)
class ItemsKind:
    """Tuples of one length, with a kind for each item. names, container: as in `Items`, each if all have the same."""

    items: tuple[Kind, ...]
    names: tuple[str, ...] = ()
    container: ContainerType | None = None


Kind = Same | ScalarKind | TileKind | PlaceKind | ItemsKind


def kind_of(value: Value) -> Kind:
    """Return the kind of a variable that holds this value; the kind of a literal is weak."""
    if isinstance(value, Constant) and is_number(value):
        return ScalarKind(weak_type(value), weak=True)
    if isinstance(value, Scalar):
        return ScalarKind.holding(value.dtype, (value,), weak=value.weak)
    if isinstance(value, Memory) and value.is_value:
        return TileKind(value.dtype, value.shape, owner_scope(value.buffer))
    if isinstance(value, Items):
        return ItemsKind(tuple(kind_of(item) for item in value.items), value.names, value.container)
    return Same(value)


def _settled(kind: Kind) -> Kind:
    """Return the kind with every weak scalar fixed at its current type."""
    if isinstance(kind, ItemsKind):
        return replace(kind, items=tuple(_settled(item) for item in kind.items))
    return ScalarKind(kind.dtype, data=kind.data) if isinstance(kind, ScalarKind) else kind


def merge(ctx: Context, name: str, bindings: Sequence[Binding]) -> Kind:
    """Return the kind of a name where paths join; `Same(Unset)` if it has no value on a path or the values conflict."""
    return _settled(_merge(ctx, name, bindings))


def agreed(ctx: Context, node: ast.AST, values: Sequence[Value]) -> Kind:
    """Return the kind of an expression whose value is one of `values`; raise KernelTypeError if they conflict."""
    span = ctx.span(node)
    kind = merge(ctx, "the value", [Binding(value, span) for value in values])
    if isinstance(kind, Same) and isinstance(kind.value, Conflict):
        raise ctx.type_error(node, f"{kind.value.name} {kind.value.difference}", kind.value.remedy)
    return kind


def _merge(ctx: Context, name: str, bindings: Sequence[Binding]) -> Kind:
    """Like `merge`, but the kind of literals is weak."""
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
        return _merge_memory(ctx, name, bindings)
    other = next(b for b in bindings if b.value != first.value)
    sides = (first, describe(first.value)), (other, describe(other.value))
    tile = next((v for v in values if isinstance(v, Memory) and v.is_local and v.is_value), None)
    number = next((v.value for v in values if isinstance(v, Constant) and is_number(v)), None)
    if tile is not None and number is not None:
        full = f"tj.{owner_scope(tile.buffer)}.full({tile.shape}, {_written(number)}, tj.{tile.dtype})"
        remedy = f"begin with a tile: {name} = {full}" if name.isidentifier() else f"write {full}"
        return _conflict(name, *sides, remedy)
    return _conflict(name, *sides)


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
            ctx.takes_type(literal.value, dtype, matters=typed_once and not _can_take(literal.value, dtype))
        return ScalarKind(dtype, weak=True)
    first = typed[0]
    dtype = weak_type(first.value)
    for other in typed[1:]:
        if weak_type(other.value) != dtype:
            # the loop will convert the values assigned to this name to one common type, which isn't final yet
            common = _loop_type([], [dtype, weak_type(other.value)]) if name in ctx.frame.carried else None
            if common is not None:
                dtype = common
                continue
            return _conflict(name, (first, str(dtype)), (other, str(weak_type(other.value))))
    for literal in literals:
        ctx.takes_type(literal.value, dtype)
        if not _can_take(literal.value, dtype):
            return _conflict(name, (first, str(dtype)), (literal, describe(literal.value)))
    return ScalarKind.holding(dtype, [b.value for b in bindings])


def _can_take(value: Value, dtype: DType) -> bool:
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


def converts_to(value: Value, dtype: DType) -> bool:
    """True if a number or scalar assigned to a loop-carried name of type `dtype` is converted to that type."""
    if _is_literal(value):
        return _can_take(value, dtype)
    return dtype.kind != "bool" or weak_type(value).kind == "bool"


def _merge_items(ctx: Context, name: str, bindings: Sequence[Binding], length: int) -> Kind:
    kinds: list[Kind] = []
    for k in range(length):
        column = [Binding(b.value.items[k], b.span) for b in bindings if isinstance(b.value, Items)]
        kind = _merge(ctx, f"{name}[{k}]", column)
        if isinstance(kind, Same) and isinstance(kind.value, Unset):
            return kind
        kinds.append(kind)
    values = [b.value for b in bindings if isinstance(b.value, Items)]
    names, containers = {value.names for value in values}, {value.container for value in values}
    return ItemsKind(
        tuple(kinds), names.pop() if len(names) == 1 else (), containers.pop() if len(containers) == 1 else None
    )


def _is_literal(value: Value) -> bool:
    """True for a number whose type isn't fixed yet."""
    return value.weak if isinstance(value, Scalar) else is_number(value)


def merge_carried(
    ctx: Context, name: str, entry: Binding, changes: Sequence[Binding], assigned: Iterable[DType] | None
) -> Kind:
    """Return the kind of a loop-carried name.

    entry: its binding before the loop. changes: its bindings in the loop. assigned: the types of the typed scalars
    assigned to it if it starts as a literal, else None.
    """
    if assigned is not None and all(isinstance(b.value, Scalar) or is_number(b.value) for b in changes):
        literals = [b.value for b in (entry, *changes) if _is_literal(b.value)]
        types = {*assigned, *(b.value.dtype for b in changes if isinstance(b.value, Scalar) and not b.value.weak)}
        dtype = _loop_type(literals, types) if types else None
        if dtype is not None and all(_can_take(literal, dtype) for literal in literals):
            for literal in literals:
                ctx.takes_type(literal, dtype)
            return ScalarKind.holding(dtype, [b.value for b in changes])
    return _merge(ctx, name, [entry, *changes])


def _loop_type(literals: Sequence[Value], types: Iterable[DType]) -> DType | None:
    """Return the type of a name that holds `literals` and values of `types`; None if they have no common type."""
    kinds = {weak_type(literal).kind for literal in literals}
    listed = sorted(set(types), key=lambda t: t.name)
    if "bool" in kinds:
        return listed[0] if kinds == {"bool"} and all(t.kind == "bool" for t in listed) else None
    try:
        common = promote(*listed)
    except KernelTypeError:
        return None
    if common.is_half:
        return float32
    if not common.is_float and "float" in kinds:
        return float32
    return int32 if not common.is_float and common.bits < 32 else common


def _merge_memory(ctx: Context, name: str, bindings: Sequence[Binding]) -> Kind:
    places = [(b.value, b) for b in bindings if isinstance(b.value, Memory)]
    is_one_buffer = all(place.buffer == places[0][0].buffer for place, _ in places)
    if all(place.is_value or (not is_one_buffer and _is_own(place)) for place, _ in places):
        return _merge_tiles(ctx, name, places)
    return _merge_places(ctx, name, places)


def _is_own(place: Memory) -> bool:
    """True for a thread's own tile, or a part of one, that can be copied to a slot; False for `.registers`."""
    return place.is_local and not place.constant_indices and owner_scope(place.buffer) == THREAD.name


def _merge_tiles(ctx: Context, name: str, tiles: Sequence[tuple[Memory, Binding]]) -> Kind:
    a, first = given, laid_out = tiles[0]
    scope = owner_scope(a.buffer)
    for b, other in tiles[1:]:
        if a.dtype != b.dtype:
            return _conflict(name, (first, str(a.dtype)), (other, str(b.dtype)))
        if a.shape != b.shape:
            shapes = (first, f"of shape {a.shape}"), (other, f"of shape {b.shape}")
            return _conflict(name, *shapes, "keep one shape, or unroll the loop with tj.static_range")
        common = shared_scope(ctx, (scope, owner_scope(b.buffer)))
        if common is None:
            scopes = (first, f"a tile of a {scope}"), (other, f"a tile of a {owner_scope(b.buffer)}")
            return _conflict(name, *scopes, "create both on one scope")
        scope = common
        if not (a.is_whole and b.is_whole) and _is_own(a) and _is_own(b):
            continue
        if isinstance(given.buffer.layout, Open):
            given, laid_out = b, other
        elif not isinstance(b.buffer.layout, Open) and not given.buffer.is_laid_out_as(b.buffer):
            layouts = (laid_out, f"in layout {given.buffer.layout}"), (other, f"in layout {b.buffer.layout}")
            return _conflict(name, *layouts, "create both with the same layout=")
    return TileKind(a.dtype, a.shape, scope)


def _merge_places(ctx: Context, name: str, places: Sequence[tuple[Memory, Binding]]) -> Kind:
    like, first = places[0]
    for place, binding in places:
        sides = difference(like, place)
        if sides is None and (_is_view_of_phi(ctx, like) or _is_view_of_phi(ctx, place)):
            sides = describe(like), describe(place)
        if sides is not None:
            return _conflict(name, (first, sides[0]), (binding, sides[1]), ONE_BUFFER)
    sources = dict(source for place, binding in places for source in _sources(ctx, place, binding.span))
    is_phi = len({place.buffer.name for place, _ in places}) > 1 or ctx.phi(like.buffer) is not None
    return place_kind([place for place, _ in places], tuple(sources.items()), is_phi=is_phi)


def _is_view_of_phi(ctx: Context, place: Memory) -> bool:
    return ctx.phi(place.buffer) is not None and place.buffer.base is not None


def _sources(ctx: Context, place: Memory, span: Span) -> tuple[Source, ...]:
    root = place.buffer.root
    choice = ctx.buffer_choices.get(root.name)
    return ((root.name, root.span or span),) if choice is None else choice.sources


def _conflict(
    name: str, first: tuple[Binding, str], second: tuple[Binding, str],
    remedy: str = "convert one of them, for example with .astype(...)",
) -> Same:
    """Return a `Same(Conflict)`. first, second: the conflicting bindings, with descriptions of their values."""
    (a, what_a), (b, what_b) = (first[0].span, first[1]), (second[0].span, second[1])
    differs = f"is {what_a} where line {a.line} assigns it, and {what_b} where line {b.line} does"
    differs = f"is {what_a} on one path, and {what_b} on another" if a == b else differs
    problem = f"{differs}: paths that join must agree in dtype, shape and layout"
    hint = f"{remedy}, or use another name (lines {a.line} and {b.line} of {shown_file(a.file)})"
    return Same(Conflict(name, problem, hint, differs, remedy))


def exit_kinds(
    ctx: Context, names: Sequence[str], before: Mapping[str, Binding], ends: Sequence[Mapping[str, Binding]]
) -> dict[str, Kind]:
    """Return the kinds of the names that an enclosure changes and that all `ends` bind.

    ends: the bindings on each path to the code after the enclosure.
    """
    kinds: dict[str, Kind] = {}
    for name in names:
        if not ends or not all(name in env for env in ends):
            continue
        kind = _merge(ctx, name, [env[name] for env in ends])
        if name not in before or kind != Same(before[name].value):
            kinds[name] = _settled(_outside(ctx, name, kind, ends[0][name]))
    return kinds


def _outside(ctx: Context, name: str, kind: Kind, last: Binding) -> Kind:
    """Return the kind of a value after the loop or block that created it, or `Same(Unset)` if it can't be used there.

    last: one of its bindings. The parts of a region that aren't constant are kept in variables, because they may depend
    on names that the loop changes.
    """
    if isinstance(kind, ItemsKind):
        assert isinstance(last.value, Items)
        pairs = enumerate(zip(kind.items, last.value.items, strict=True))
        items = [_outside(ctx, f"{name}[{k}]", inner, Binding(item, last.span)) for k, (inner, item) in pairs]
        unset = next((i for i in items if isinstance(i, Same) and isinstance(i.value, Unset)), None)
        return unset or replace(kind, items=tuple(items))
    if isinstance(kind, PlaceKind):
        return kind.moving()
    if not isinstance(kind, Same) or isinstance(kind.value, (Constant, Unset)):
        return kind
    value = kind.value
    if isinstance(value, Items):
        kind = ItemsKind(tuple(map(Same, value.items)), value.names, value.container)
        return _outside(ctx, name, kind, Binding(value, last.span))
    if not isinstance(value, Memory) or value.is_value:
        return kind_of(value)
    known = all(e is None or isinstance(e, int) or e in value.buffer.shape for e in value.extents)
    if value.constant_indices or not known or _is_view_of_phi(ctx, value):
        problem = "is a region whose location is known only inside the loop or helper that created it"
        return Same(Unset(name, problem, "take the region again where it is used"))
    is_phi = ctx.phi(value.buffer) is not None
    place = place_kind((value,), _sources(ctx, value, last.span), is_phi=is_phi).moving()
    return place if place.varying or is_phi else kind


@dataclass(frozen=True, slots=True)
class Heads:
    """The kinds of loop-carried names at the head of a loop."""

    entry: Mapping[str, Kind]
    #: the assumed kinds at the head of the loop
    kinds: Mapping[str, Kind]
    #: the names that an earlier guess assumed to keep one value, but that the body changed
    changing: frozenset[str] = frozenset()

    def literal_types(self, entry: Mapping[str, Binding]) -> dict[str, DType | None]:
        """Return the types of names that start as literals; None for a weak kind. entry: the bindings on entry."""
        kinds = [(name, kind) for name, kind in self.kinds.items() if _is_literal(entry[name].value)]
        return {name: None if kind.weak else kind.dtype for name, kind in kinds if isinstance(kind, ScalarKind)}

    @staticmethod
    def expected(entry: Mapping[str, Value], last: Heads | None) -> Heads:
        """Return the first guess: the kinds on entry, or those in `last.kinds` where `last.entry` has the same kind."""
        kinds = {name: kind_of(value) for name, value in entry.items()}
        if last is None:
            return Heads(kinds, kinds)
        resumed = {
            name: _resumed(last.kinds[name], entry[name]) if last.entry.get(name) == kind else kind
            for name, kind in kinds.items()
        }
        return Heads(kinds, resumed)

    def agrees(self, shown: Mapping[str, Kind], *, literals_matter: bool) -> bool:
        """True if the guess equals, up to weakness, the kinds that `_held` returns.

        literals_matter: require also that the guess has no weak kinds.
        """
        if literals_matter and any(kind != _settled(kind) for kind in self.kinds.values()):
            return False
        return all(_settled(kind) == _settled(self._held(name, shown)) for name, kind in self.kinds.items())

    def corrected(self, shown: Mapping[str, Kind]) -> Heads:
        """Return the next guess: the observed kinds, made non-weak where they equal the current guess."""
        held = {name: self._held(name, shown) for name in shown}
        kinds = {name: _settled(kind) if kind == self.kinds[name] else kind for name, kind in held.items()}
        changing = {name for name, kind in kinds.items() if _is_one(self.kinds[name]) and not _is_one(kind)}
        return Heads(self.entry, kinds, self.changing | changing)

    def _held(self, name: str, shown: Mapping[str, Kind]) -> Kind:
        """Return a name's observed kind, or its guessed kind if it is in `changing` but was observed with one value."""
        return self.kinds[name] if name in self.changing and _is_one(shown[name]) else shown[name]


def _is_one(kind: Kind) -> bool:
    return isinstance(kind, Same) and not isinstance(kind.value, Unset)


def _resumed(kind: Kind, value: Value) -> Kind:
    """Return a kind from an earlier translation of the loop, with `Same` updated to the current value."""
    if isinstance(kind, Same) and not isinstance(kind.value, Unset):
        return Same(value)
    if isinstance(kind, ItemsKind) and isinstance(value, Items):
        return replace(kind, items=tuple(map(_resumed, kind.items, value.items)))
    return kind
