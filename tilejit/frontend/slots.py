"""Slots: storage for names whose values differ between paths that join.

An assignment binds its name to an immutable value. Names with different values on different paths are kept in slots,
which are written before a loop, at the end of a branch, at the end of a loop body, and before `break`, `continue` and
`return` from an inlined function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..dataclass import dataclass
from ..dtypes import DType, int32
from ..errors import KernelTypeError
from ..ir.arithmetic import build
from ..ir.names import names_in
from ..ir.nodes import Assign, Declare, Expr, Let, TileOp, Var
from ..ops.copies import CAST
from ..source import Span
from . import buffer_choices
from .context import Context, EmitInto, Hinted, fitting
from .flow import Draft
from .kinds import ItemsKind, Kind, Same, ScalarKind
from .scalars import scalar_of
from .values import Binding, Constant, Items, Memory, Scalar, Value, owner_scope


@dataclass(frozen=True, slots=True)
class NameSlot:
    """Storage for the values of one kind.

    value: the stored value, made of the slot's variables and tiles; for `Same`, which needs no storage, `Same.value`.
    """

    kind: Kind
    value: Value

    @staticmethod
    def of(ctx: Context, name: str, kind: Kind, span: Span, init: Value | None = None) -> NameSlot:
        """Return a new slot for values of a kind, initialized with `init` unless that is None."""
        return NameSlot(kind, _storage(ctx, name, kind, init, span))

    @property
    def typed_value(self) -> Value:
        return typed(self.kind, self.value)


def typed(kind: Kind, value: Value) -> Value:
    """Return a value of a kind with weak scalars made typed."""
    if isinstance(kind, ScalarKind) and isinstance(value, Scalar):
        return Scalar(value.expr)
    if isinstance(kind, ItemsKind) and isinstance(value, Items):
        return Items(tuple(map(typed, kind.items, value.items)), kind.names, kind.container)
    return value


def join(
    ctx: Context, slots: Mapping[str, NameSlot], paths: Iterable[tuple[Draft, Mapping[str, Binding], Span]]
) -> None:
    """At the end of each path, assign to each slot the value that its name has there, if any.

    paths: for each path, its block, the bindings at its end, and the location of its end.
    """
    for block, env, span in paths:
        with EmitInto(ctx, block):
            _move(ctx, [(slot, env[name].value) for name, slot in slots.items() if name in env], span)


def _storage(ctx: Context, name: str, kind: Kind, init: Value | None, span: Span) -> Value:
    if isinstance(kind, Same):
        return kind.value
    name = name.strip("<>")
    if isinstance(kind, ScalarKind):
        first = None if init is None else coerced(ctx, init, kind.dtype, span)
        return Scalar(ctx.declare(name, kind.dtype, first, span, data=kind.data), kind.weak)
    if isinstance(kind, ItemsKind):
        inits = init.items if isinstance(init, Items) else (None,) * len(kind.items)
        pairs = enumerate(zip(kind.items, inits, strict=True))
        items = [_storage(ctx, f"{name}.{k}", item, first, span) for k, (item, first) in pairs]
        return Items(tuple(items), kind.names, kind.container)
    if isinstance(kind, buffer_choices.PlaceKind):
        return _place(ctx, name, kind, init, span)
    with Hinted(ctx, name):
        tile = ctx.tile(name, kind.scope, kind.shape, kind.dtype, span)
    if isinstance(init, Memory):
        _fill(ctx, tile, init, span)
    return tile


def _place(ctx: Context, name: str, kind: buffer_choices.PlaceKind, init: Value | None, span: Span) -> Memory:
    """Return a region of `kind` whose varying parts are kept in new variables, initialized from `init` if given."""
    phi = ctx.unique(name) if kind.is_phi else ""
    if phi:
        ctx.buffer_choices[phi] = buffer_choices.BufferChoice(name.partition(".")[0], kind.sources, is_phi=True)
    firsts = _held(ctx, kind, init) if isinstance(init, Memory) else [None] * (len(kind.varying) + 1)
    rank, parts = len(kind.like.starts), buffer_choices.parts_of(kind.like, is_phi=kind.is_phi)
    held: list[Var] = []
    for k, first in zip(kind.varying, firsts, strict=False):
        part, data = f"{name}.{buffer_choices.PARTS[k // rank]}.{k % rank}", kind.data and k < rank
        held.append(ctx.declare(part, parts[k].dtype, first, span, data=data))
    if phi:
        ctx.emit(Declare(Var(phi, int32, span=span), firsts[-1], span))
    return buffer_choices.with_parts(kind, phi, held, span)


def _held(ctx: Context, kind: buffer_choices.PlaceKind, place: Memory) -> list[Expr]:
    """Return the values that a slot stores for a region: its varying parts and, for a phi, the index of its buffer."""
    parts, name = buffer_choices.parts_of(place, is_phi=kind.is_phi), place.buffer.name
    held = [parts[k] for k in kind.varying]
    if not kind.is_phi:
        return held
    if ctx.phi(place.buffer) is not None:
        return [*held, Var(name, int32, span=place.buffer.span)]
    ctx.alternatives.setdefault(name, place.buffer)
    return [*held, build.const(list(ctx.alternatives).index(name), int32)]


def _fill(ctx: Context, slot: Memory, value: Memory, span: Span) -> None:
    name, source = slot.buffer.name, value.buffer.root
    if source.name in ctx.allocated_in or source.name in ctx.buffer_choices or name in ctx.buffer_choices:
        before = ctx.buffer_choices.get(name, buffer_choices.BufferChoice(name.partition(".")[0], ()))
        if source.name not in [tile for tile, _ in before.sources]:
            sources = (*before.sources, (source.name, source.span))
            ctx.buffer_choices[name] = buffer_choices.BufferChoice(before.name, sources)
    ctx.emit(TileOp(CAST.name, owner_scope(slot.buffer), (slot.region(span), value.region(span)), (), span))


def coerced(ctx: Context, value: Value, dtype: DType, span: Span) -> Expr:
    """Return a number, scalar or rank-0 tile converted to `dtype`; raise KernelTypeError if a number doesn't fit."""
    if isinstance(value, Memory):
        value = scalar_of(ctx, value, span)
    if isinstance(value, Scalar):
        return build.cast(value.expr, dtype)
    assert isinstance(value, Constant)
    try:
        return fitting(value.value, dtype)
    except KernelTypeError as error:
        error.span = span
        raise


def _move(ctx: Context, pairs: Iterable[tuple[NameSlot, Value]], span: Span) -> None:
    """Assign values to slots in parallel, as if every value were read before any slot changes."""
    scalars: list[tuple[Expr, Expr]] = []
    tiles: list[tuple[Memory, Memory]] = []
    for slot, value in pairs:
        _flatten(ctx, slot, value, scalars, tiles, span)
    variables = [(var, expr) for var, expr in scalars if isinstance(var, Var) and expr != var]
    tiles = [(dst, src) for dst, src in tiles if dst.buffer != src.buffer]
    changed = {var.name for var, _ in variables}
    for k, (var, expr) in enumerate(variables):
        if len(changed) > 1 and not (changed - {var.name}).isdisjoint(names_in(expr)):
            held = Var(ctx.unique(f"{var.name}.next"), expr.dtype, span=span)
            ctx.emit(Let(held, expr, span))
            variables[k] = (var, held)
    _move_tiles(ctx, tiles, span)
    for var, expr in variables:
        ctx.emit(Assign(var, expr, span))


def _move_tiles(ctx: Context, tiles: list[tuple[Memory, Memory]], span: Span) -> None:
    changed = {dst.buffer.root.name for dst, _ in tiles}
    for k, (dst, src) in enumerate(tiles):
        if src.buffer.root.name in changed:
            held = ctx.tile(f"{dst.buffer.name}.next", owner_scope(dst.buffer), src.shape, src.dtype, span)
            _fill(ctx, held, src, span)
            tiles[k] = (dst, held)
    for dst, src in tiles:
        _fill(ctx, dst, src, span)


def _flatten(
    ctx: Context, slot: NameSlot, value: Value, scalars: list[tuple[Expr, Expr]], tiles: list[tuple[Memory, Memory]],
    span: Span,
) -> None:
    """Append to `scalars` and `tiles` each variable and tile of the slot, paired with its new contents from `value`."""
    kind, stored = slot.kind, slot.value
    if isinstance(kind, Same):
        return
    if isinstance(kind, ScalarKind):
        assert isinstance(stored, Scalar)
        scalars.append((stored.expr, coerced(ctx, value, kind.dtype, span)))
    elif isinstance(kind, ItemsKind):
        assert isinstance(stored, Items) and isinstance(value, Items)
        for each in zip(map(NameSlot, kind.items, stored.items), value.items, strict=True):
            _flatten(ctx, *each, scalars, tiles, span)
    else:
        assert isinstance(stored, Memory) and isinstance(value, Memory)
        if isinstance(kind, buffer_choices.PlaceKind):
            scalars.extend(zip(_held(ctx, kind, stored), _held(ctx, kind, value), strict=True))
        else:
            tiles.append((stored, value))
