"""Kinds: what a name may hold whose value changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..dataclass import dataclass
from ..dtypes import DType, int64
from ..ir.arithmetic.facts import is_data
from .places import PlaceKind
from .values import Constant, Items, Memory, Scalar, Unset, Value, default_type, is_number, owner_scope

__all__ = ["Heads", "ItemsKind", "Kind", "Same", "ScalarKind", "TileKind", "kind_of", "settled"]


@dataclass(frozen=True, slots=True)
class Same:
    """One value on every path."""

    value: Value


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """Scalars of one type; weak: literals only, so far. data: one of int64 may be data, see `facts.is_data`."""

    dtype: DType
    weak: bool = False
    data: bool = False

    @staticmethod
    def holding(dtype: DType, values: Iterable[Value], *, weak: bool = False) -> ScalarKind:
        """The kind of a variable of this type to which these values are assigned."""
        data = dtype is int64 and any(isinstance(v, Scalar) and is_data(v.expr) for v in values)
        return ScalarKind(dtype, weak, data)


@dataclass(frozen=True, slots=True)
class TileKind:
    """Local tiles of one type and shape, which the threads of one scope own together."""

    dtype: DType
    shape: tuple[int, ...]
    scope: str


@dataclass(frozen=True, slots=True)
class ItemsKind:
    """Tuples of one length."""

    items: tuple[Kind, ...]


Kind = Same | ScalarKind | TileKind | PlaceKind | ItemsKind


def kind_of(value: Value) -> Kind:
    """The kind of a name that has this value and may change: a literal's type is open, any other type stays."""
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
    """Literals get their default type."""
    if isinstance(kind, ItemsKind):
        return ItemsKind(tuple(settled(item) for item in kind.items))
    return ScalarKind(kind.dtype, data=kind.data) if isinstance(kind, ScalarKind) else kind


@dataclass(frozen=True, slots=True)
class Heads:
    """What names hold at the head of a loop.

    entry: what they hold before it. kinds: what they hold at its head, as far as is known.
    changing: names that were expected to keep one value, and that the body then changed.
    """

    entry: Mapping[str, Kind]
    kinds: Mapping[str, Kind]
    changing: frozenset[str] = frozenset()

    @staticmethod
    def expected(entry: Mapping[str, Value], last: Heads | None) -> Heads:
        """The first guess: what held when the loop was read last, for names that enter it as they did then."""
        kinds = {name: kind_of(value) for name, value in entry.items()}
        if last is None:
            return Heads(kinds, kinds)
        resumed = {
            name: _resumed(last.kinds[name], entry[name]) if last.entry.get(name) == kind else kind
            for name, kind in kinds.items()
        }
        return Heads(kinds, resumed)

    def agrees(self, shown: Mapping[str, Kind], *, literals_matter: bool) -> bool:
        """Whether the body, read with these kinds, shows the same; literals_matter: then none may be weak."""
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
        """The kind that was shown of a name; for one in `changing` that shows one value, the kind guessed for it."""
        return self.kinds[name] if name in self.changing and _is_one(shown[name]) else shown[name]


def _is_one(kind: Kind) -> bool:
    """Whether it is one value, which the name keeps."""
    return isinstance(kind, Same) and not isinstance(kind.value, Unset)


def _resumed(kind: Kind, value: Value) -> Kind:
    """The kind; where it stands for one value, that of the present reading."""
    if isinstance(kind, Same) and not isinstance(kind.value, Unset):
        return Same(value)
    if isinstance(kind, ItemsKind) and isinstance(value, Items):
        return ItemsKind(tuple(map(_resumed, kind.items, value.items)))
    return kind
