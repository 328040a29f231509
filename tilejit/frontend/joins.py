"""Where control flow meets: what a name may hold after a branch or at the head of a loop, and where it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from ..dtypes import DType, promote
from ..ir import build, walk
from ..ir.nodes import Alloc, Assign, Buffer, Const, Expr, Let, Stmt, TileOp, Var
from ..layout import TileLayout
from ..source import Span
from .context import Context
from .scalars import weak_type
from .values import (
    Binding,
    Constant,
    Items,
    Memory,
    Scalar,
    Unset,
    Value,
    default_type,
    describe,
    is_number,
    owner_scope,
)  # fmt: skip

__all__ = [
    "Kind", "Same", "ScalarKind", "Slot", "agrees", "kind_of", "merge", "move", "outlived", "place", "settled",
    "value_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Same:
    """One value on every path."""

    value: Value


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """Scalars of one type; weak: literals only, so far."""

    dtype: DType
    weak: bool = False


@dataclass(frozen=True, slots=True)
class TileKind:
    """Local tiles of one type, shape and layout."""

    dtype: DType
    shape: tuple[int, ...]
    layout: TileLayout


@dataclass(frozen=True, slots=True)
class ItemsKind:
    """Tuples of one length."""

    items: tuple[Kind, ...]


Kind = Same | ScalarKind | TileKind | ItemsKind


def kind_of(value: Value) -> Kind:
    """What a name holds that may change: literals have no type yet, the rest keeps its own."""
    if isinstance(value, Constant) and is_number(value):
        return ScalarKind(default_type(value.value), weak=True)
    if isinstance(value, Scalar):
        return ScalarKind(value.dtype, value.weak)
    if isinstance(value, Memory) and value.is_local and value.is_whole:
        assert isinstance(value.buffer.layout, TileLayout)
        return TileKind(value.dtype, value.shape, value.buffer.layout)
    if isinstance(value, Items):
        return ItemsKind(tuple(kind_of(item) for item in value.items))
    return Same(value)


def settled(kind: Kind) -> Kind:
    """Literals get their default type."""
    if isinstance(kind, ItemsKind):
        return ItemsKind(tuple(settled(item) for item in kind.items))
    return ScalarKind(kind.dtype) if isinstance(kind, ScalarKind) else kind


def agrees(guess: Kind, found: Kind) -> bool:
    """Whether slots made for one kind hold what was found; a slot without a type yet doesn't."""
    if isinstance(guess, ItemsKind) and isinstance(found, ItemsKind):
        return len(guess.items) == len(found.items) and all(map(agrees, guess.items, found.items))
    return guess == settled(guess) == settled(found)


def outlived(name: str, kind: Kind) -> Kind:
    """The kind of a value that was made inside a loop or block, for use behind it."""
    if not isinstance(kind, Same) or isinstance(kind.value, (Constant, Unset)):
        return kind
    value = kind.value
    if isinstance(value, Memory) and not (value.is_local and value.is_whole) and not _is_static(value):
        return Same(
            Unset(f"{name} is a region whose place is known only inside the loop or helper that made it",
                  "take the region again where it is used")
        )  # fmt: skip
    return kind_of(value)


def _is_static(value: Memory) -> bool:
    extents = [e for e in value.extents if e is not None and not isinstance(e, int)]
    return all(isinstance(s, Const) for s in value.starts) and all(e in value.buffer.shape for e in extents)


def merge(name: str, bindings: Sequence[Binding]) -> Kind:
    """What a name may hold where several paths meet; `Same(Unset)` where their values don't fit together."""
    first = bindings[0]
    for binding in bindings:
        if isinstance(binding.value, Unset):
            return Same(binding.value)
    if all(_equal(b.value, first.value) for b in bindings):
        return Same(first.value)
    values = [b.value for b in bindings]
    if all(isinstance(v, Scalar) or is_number(v) for v in values):
        return _merge_scalars(name, bindings)
    if all(isinstance(v, Memory) and v.is_local and v.is_whole for v in values):
        return _merge_tiles(name, bindings)
    if all(isinstance(v, Items) for v in values):
        lengths = {len(v.items) for v in values if isinstance(v, Items)}
        if len(lengths) == 1:
            return _merge_items(name, bindings, lengths.pop())
    other = next(b for b in bindings if not _equal(b.value, first.value))
    return _conflict(name, first, describe(first.value), other, describe(other.value))


def _equal(a: Value, b: Value) -> bool:
    if isinstance(a, Constant) and isinstance(b, Constant):
        if type(a.value) is not type(b.value):
            return False
        # repr tells 0.0 from -0.0 and finds nan equal to itself
        if isinstance(a.value, float):
            return repr(a.value) == repr(b.value)
        return bool(a.value == b.value)
    return bool(a == b)


def _merge_scalars(name: str, bindings: Sequence[Binding]) -> Kind:
    typed = [b for b in bindings if isinstance(b.value, Scalar) and not b.value.weak]
    loose = [b for b in bindings if b not in typed]
    if not typed:
        return ScalarKind(reduce(promote, [weak_type(b.value) for b in bindings]), weak=True)
    first = typed[0]
    dtype = _typed(first)
    for other in typed[1:]:
        if _typed(other) != dtype:
            return _conflict(name, first, str(dtype), other, str(_typed(other)))
    for other in loose:
        if not _takes(other.value, dtype):
            return _conflict(name, first, str(dtype), other, describe(other.value))
    return ScalarKind(dtype)


def _typed(binding: Binding) -> DType:
    assert isinstance(binding.value, Scalar)
    return binding.value.dtype


def _takes(value: Value, dtype: DType) -> bool:
    """Whether a literal can take a type: no float becomes an integer, no number a bool, no bool a number."""
    own = weak_type(value)
    if own.kind == "bool" or dtype.kind == "bool":
        return own.kind == dtype.kind
    if own.is_float:
        return dtype.is_float
    if isinstance(value, Constant) and dtype.is_integer:
        return bool(build.const(value.value, dtype).value == value.value)
    return True


def _merge_tiles(name: str, bindings: Sequence[Binding]) -> Kind:
    first = bindings[0]
    a = first.value
    assert isinstance(a, Memory) and isinstance(a.buffer.layout, TileLayout)
    for other in bindings[1:]:
        b = other.value
        assert isinstance(b, Memory)
        if a.dtype != b.dtype:
            return _conflict(name, first, str(a.dtype), other, str(b.dtype))
        if a.extents != b.extents:
            return _conflict(name, first, f"of shape {a.shape}", other, f"of shape {b.shape}")
        if a.buffer.layout != b.buffer.layout:
            return _conflict(name, first, f"in layout {a.buffer.layout}", other, f"in layout {b.buffer.layout}")
    return TileKind(a.dtype, a.shape, a.buffer.layout)


def _merge_items(name: str, bindings: Sequence[Binding], length: int) -> Kind:
    kinds: list[Kind] = []
    for k in range(length):
        column = [Binding(b.value.items[k], b.span) for b in bindings if isinstance(b.value, Items)]
        kind = merge(f"{name}[{k}]", column)
        if isinstance(kind, Same) and isinstance(kind.value, Unset):
            return kind
        kinds.append(kind)
    return ItemsKind(tuple(kinds))


def _conflict(name: str, a: Binding, what_a: str, b: Binding, what_b: str) -> Same:
    return Same(
        Unset(
            f"{name} is {what_a} where line {a.span.line} gives it, and {what_b} where line {b.span.line} does: "
            "paths that meet must agree in dtype, shape and layout",
            f"convert one of them, for example with .astype(...), or use another name (lines {a.span.line} and "
            f"{b.span.line} of {a.span.file})",
        )
    )


# ---- slots: where a joined value is kept --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScalarSlot:
    var: Var
    weak: bool


@dataclass(frozen=True, slots=True)
class TileSlot:
    memory: Memory


@dataclass(frozen=True, slots=True)
class ItemsSlot:
    items: tuple[Slot, ...]


Slot = ScalarSlot | TileSlot | ItemsSlot | Same


def place(ctx: Context, name: str, kind: Kind, init: Value | None, span: Span) -> Slot:
    """Declare where values of a kind are kept, holding `init` at first."""
    if isinstance(kind, Same):
        return kind
    name = name.strip("<>")
    if isinstance(kind, ScalarKind):
        value = None if init is None else coerced(init, kind.dtype)
        return ScalarSlot(ctx.declare(name, kind.dtype, value, span), kind.weak)
    if isinstance(kind, ItemsKind):
        inits = init.items if isinstance(init, Items) else (None,) * len(kind.items)
        return ItemsSlot(tuple(place(ctx, f"{name}.{k}", n, i, span) for k, (n, i) in _numbered(kind.items, inits)))
    buffer = Buffer(ctx.unique(name), "local", kind.dtype, kind.shape, kind.layout, 16, None, span)
    ctx.allocations.append(Alloc(buffer, span=span))
    slot = TileSlot(Memory.whole(buffer, writable=False))
    if isinstance(init, Memory):
        ctx.emit(_tile_move(slot.memory, init, span))
    return slot


def _numbered(kinds: Sequence[Kind], inits: Sequence[Value | None]) -> list[tuple[int, tuple[Kind, Value | None]]]:
    return list(enumerate(zip(kinds, inits, strict=True)))


def value_of(slot: Slot) -> Value:
    """What a name that is kept in a slot stands for."""
    if isinstance(slot, ScalarSlot):
        return Scalar(slot.var, slot.weak)
    if isinstance(slot, TileSlot):
        return slot.memory
    if isinstance(slot, ItemsSlot):
        return Items(tuple(value_of(item) for item in slot.items))
    return slot.value


def coerced(value: Value, dtype: DType) -> Expr:
    """A scalar in the type of its slot; only literals change."""
    if isinstance(value, Scalar):
        return build.cast(value.expr, dtype)
    assert isinstance(value, Constant)
    return build.const(value.value, dtype)


def move(ctx: Context, pairs: Sequence[tuple[Slot, Value]], span: Span) -> None:
    """Put values into slots, all at once: each value is what it was before any slot changed."""
    scalars: list[tuple[Var, Expr]] = []
    tiles: list[tuple[Memory, Memory]] = []
    for slot, value in pairs:
        _flatten(slot, value, scalars, tiles)
    scalars = [(var, expr) for var, expr in scalars if expr != var]
    tiles = [(dst, src) for dst, src in tiles if dst.buffer != src.buffer]
    changed = {var.name for var, _ in scalars}
    for k, (var, expr) in enumerate(scalars):
        if _mentions(expr, changed - {var.name}):
            held = Var(ctx.unique(f"{var.name}.next"), expr.dtype, span=span)
            ctx.emit(Let(held, expr, span))
            scalars[k] = (var, held)
    _move_tiles(ctx, tiles, span)
    for var, expr in scalars:
        ctx.emit(Assign(var, expr, span))


def _move_tiles(ctx: Context, tiles: list[tuple[Memory, Memory]], span: Span) -> None:
    changed = {dst.buffer.root.name for dst, _ in tiles}
    for k, (dst, src) in enumerate(tiles):
        if src.buffer.root.name in changed:
            assert isinstance(src.buffer.layout, TileLayout)
            held = ctx.local(f"{dst.buffer.name}.next", src.shape, src.dtype, src.buffer.layout, span)
            ctx.emit(_tile_move(held, src, span))
            tiles[k] = (dst, held)
    for dst, src in tiles:
        ctx.emit(_tile_move(dst, src, span))


def _flatten(
    slot: Slot, value: Value, scalars: list[tuple[Var, Expr]], tiles: list[tuple[Memory, Memory]]
) -> None:
    """Values that don't fit their slot are left out: the kinds were guessed wrong, and reading starts again."""
    if isinstance(slot, ScalarSlot) and _fits(value, slot.var.dtype):
        scalars.append((slot.var, coerced(value, slot.var.dtype)))
    if isinstance(slot, TileSlot) and isinstance(value, Memory) and value.is_local and value.is_whole:
        tiles.append((slot.memory, value))
    if isinstance(slot, ItemsSlot) and isinstance(value, Items):
        for inner, item in zip(slot.items, value.items, strict=False):
            _flatten(inner, item, scalars, tiles)


def _fits(value: Value, dtype: DType) -> bool:
    if isinstance(value, Scalar) and not value.weak:
        return value.dtype == dtype
    return (isinstance(value, Scalar) or is_number(value)) and _takes(value, dtype)


def _tile_move(dst: Memory, src: Memory, span: Span) -> Stmt:
    """Registers to registers of the same layout: each owner copies its own."""
    assert isinstance(dst.buffer.layout, TileLayout)
    return TileOp("cast", owner_scope(dst.buffer.layout), (dst.region(span), src.region(span)), (), span)


def _mentions(expr: Expr, names: set[str]) -> bool:
    return any(isinstance(part, Var) and part.name in names for part in walk.subexpressions(expr))
