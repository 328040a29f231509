"""Kinds: descriptions of the values that a name may hold on the paths that join, such as scalars of one type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..dataclass import dataclass
from ..dtypes import DType, int64
from ..ir.arithmetic.facts import is_data
from .places import PlaceKind
from .values import Constant, Items, Memory, Scalar, Unset, Value, default_type, is_number, owner_scope


@dataclass(frozen=True, slots=True)
class Same:
    """One value, the same on every path."""

    value: Value


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """Scalars of one type. weak: True if all are literals so far. data: True if an int64 may be data, see `is_data`."""

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
    """Tuples of one length, with a kind for each item."""

    items: tuple[Kind, ...]


Kind = Same | ScalarKind | TileKind | PlaceKind | ItemsKind


def kind_of(value: Value) -> Kind:
    """Return the kind of a variable that holds this value; for a literal, it is weak."""
    if isinstance(value, Constant) and is_number(value):
        return ScalarKind(default_type(value.value), weak=True)
    if isinstance(value, Scalar):
        return ScalarKind.holding(value.dtype, (value,), weak=value.weak)
    if isinstance(value, Memory) and value.is_value:
        return TileKind(value.dtype, value.shape, owner_scope(value.buffer))
    if isinstance(value, Items):
        return ItemsKind(tuple(kind_of(item) for item in value.items))
    return Same(value)


def settled(kind: Kind) -> Kind:
    """Return the kind with every weak scalar fixed at its current type."""
    if isinstance(kind, ItemsKind):
        return ItemsKind(tuple(settled(item) for item in kind.items))
    return ScalarKind(kind.dtype, data=kind.data) if isinstance(kind, ScalarKind) else kind


@dataclass(frozen=True, slots=True)
class Heads:
    """The kinds of loop-carried names at the head of a loop."""

    #: the kinds before the loop
    entry: Mapping[str, Kind]
    #: the assumed kinds at the head of the loop
    kinds: Mapping[str, Kind]
    #: the names that kept one value in an earlier guess, but that the body changed
    changing: frozenset[str] = frozenset()

    @staticmethod
    def expected(entry: Mapping[str, Value], last: Heads | None) -> Heads:
        """Return the first guess: the kinds on entry, or those in `last` for names with the same kind on entry."""
        kinds = {name: kind_of(value) for name, value in entry.items()}
        if last is None:
            return Heads(kinds, kinds)
        resumed = {
            name: _resumed(last.kinds[name], entry[name]) if last.entry.get(name) == kind else kind
            for name, kind in kinds.items()
        }
        return Heads(kinds, resumed)

    def agrees(self, shown: Mapping[str, Kind], *, literals_matter: bool) -> bool:
        """True if the guess equals the observed kinds up to weakness and, if `literals_matter`, has no weak kinds."""
        if literals_matter and any(kind != settled(kind) for kind in self.kinds.values()):
            return False
        return all(settled(kind) == settled(self._held(name, shown)) for name, kind in self.kinds.items())

    def corrected(self, shown: Mapping[str, Kind]) -> Heads:
        """Return the next guess: the observed kinds, of which those that equal the current guess are `settled`."""
        held = {name: self._held(name, shown) for name in shown}
        kinds = {name: settled(kind) if kind == self.kinds[name] else kind for name, kind in held.items()}
        changing = {name for name, kind in kinds.items() if _is_one(self.kinds[name]) and not _is_one(kind)}
        return Heads(self.entry, kinds, self.changing | changing)

    def _held(self, name: str, shown: Mapping[str, Kind]) -> Kind:
        """Return the kind observed for a name; a name in `changing` that now has one value keeps its guessed kind."""
        return self.kinds[name] if name in self.changing and _is_one(shown[name]) else shown[name]


def _is_one(kind: Kind) -> bool:
    return isinstance(kind, Same) and not isinstance(kind.value, Unset)


def _resumed(kind: Kind, value: Value) -> Kind:
    """Return a kind from an earlier translation of the loop, with `Same` updated to the current value."""
    if isinstance(kind, Same) and not isinstance(kind.value, Unset):
        return Same(value)
    if isinstance(kind, ItemsKind) and isinstance(value, Items):
        return ItemsKind(tuple(map(_resumed, kind.items, value.items)))
    return kind
