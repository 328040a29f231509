"""Kinds: what a name may hold that has several values in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..dtypes import DType
from ..ir.nodes import Const
from ..layout import TileLayout
from .values import Constant, Items, Memory, Scalar, Unset, Value, default_type, is_number

__all__ = ["Heads", "ItemsKind", "Kind", "Same", "ScalarKind", "TileKind", "kind_of", "outlived", "settled"]


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


def outlived(name: str, kind: Kind) -> Kind:
    """The kind of a value that was made inside a loop or block, for use behind it."""
    if not isinstance(kind, Same) or isinstance(kind.value, (Constant, Unset)):
        return kind
    value = kind.value
    if isinstance(value, Memory) and not (value.is_local and value.is_whole) and not _is_static(value):
        problem = "is a region whose place is known only inside the loop or helper that made it"
        return Same(Unset(name, problem, "take the region again where it is used"))
    return kind_of(value)


def _is_static(value: Memory) -> bool:
    extents = [e for e in value.extents if e is not None and not isinstance(e, int)]
    return all(isinstance(s, Const) for s in value.starts) and all(e in value.buffer.shape for e in extents)


@dataclass(frozen=True, slots=True)
class Heads:
    """What names hold at the head of a loop.

    entry: what they hold before it. kinds: what they hold at its head, as far as is known.
    changing: names that a body which was read with one value for them has given another.
    """

    entry: Mapping[str, Kind]
    kinds: Mapping[str, Kind]
    changing: frozenset[str] = frozenset()

    def agrees(self, shown: Mapping[str, Kind], *, literals_matter: bool) -> bool:
        """Whether a body that was read with these kinds shows the same; literals_matter: and that none is weak."""
        if literals_matter and any(kind != settled(kind) for kind in self.kinds.values()):
            return False
        return all(settled(kind) == settled(self._held(name, shown)) for name, kind in self.kinds.items())

    def corrected(self, shown: Mapping[str, Kind]) -> Heads:
        """The next guess: what the body showed; a literal that kept its kind gets its default type."""
        held = {name: self._held(name, shown) for name in shown}
        kinds = {name: settled(kind) if kind == self.kinds[name] else kind for name, kind in held.items()}
        changing = {name for name, kind in kinds.items() if _is_one(self.kinds[name]) and not _is_one(kind)}
        return Heads(self.entry, kinds, self.changing | changing)

    def _held(self, name: str, shown: Mapping[str, Kind]) -> Kind:
        """What was shown of a name; of one that changes where it isn't expected to, that it may change."""
        return self.kinds[name] if name in self.changing and _is_one(shown[name]) else shown[name]


def _is_one(kind: Kind) -> bool:
    """Whether it is a value that a name can have."""
    return isinstance(kind, Same) and not isinstance(kind.value, Unset)
