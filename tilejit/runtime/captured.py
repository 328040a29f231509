"""Whether the values that a kernel reads from outside have changed since its last launch.

`frontend.captures` makes a key of them, which takes long. So every launch compares only the objects by identity, and
the key is made again where one is another object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from types import CellType, ModuleType
from typing import Any, NamedTuple

from ..frontend import KernelSource, captures, changes
from ..frontend.language import Function

#: what a name or a cell without a value holds
MISSING = object()


class CapturedPlaces(NamedTuple):
    """Where a kernel's captured values come from.

    names: namespaces, each with a name in it. cells: of a closure. is_fixed: every change shows in their identities.
    """

    names: tuple[tuple[dict[str, Any], str], ...]
    cells: tuple[CellType, ...]
    is_fixed: bool

    def values(self) -> tuple[Any, ...]:
        """What the places hold now, the names first."""
        return (
            *(namespace.get(name, MISSING) for namespace, name in self.names),
            *(_content(cell) for cell in self.cells),
        )

    def are(self, others: CapturedPlaces) -> bool:
        """Whether both are the same places."""
        return (
            [(id(namespace), name) for namespace, name in self.names]
            == [(id(namespace), name) for namespace, name in others.names]
            and list(map(id, self.cells)) == list(map(id, others.cells))
            and self.is_fixed == others.is_fixed
        )


class CapturedValues(NamedTuple):
    """The captured values of one moment. number: equal numbers mean equal values. values: in the order of places."""

    number: int
    places: CapturedPlaces
    values: tuple[Any, ...]

    def hold(self) -> bool:
        """Whether no place holds another object now."""
        places, values = self.places, iter(self.values)
        for (namespace, name), value in zip(places.names, values, strict=False):
            if namespace.get(name, MISSING) is not value:
                return False
        return places.is_fixed and all(_content(c) is v for c, v in zip(places.cells, values, strict=True))


    def watch(self) -> Callable[[], bool]:
        """What `hold` says, in a third of its time where one name is looked up."""
        names, cells, missing = self.places.names, self.places.cells, MISSING
        if len(names) != 1 or cells or not self.places.is_fixed:
            return self.hold
        get, name, value = names[0][0].get, names[0][1], self.values[0]
        return lambda: get(name, missing) is value


class Captured:
    """The captured values of a kernel, as a number that changes whenever one of them does."""

    def __init__(self, source: KernelSource) -> None:
        self._source = source
        self._numbers: dict[tuple[Hashable, tuple[str, ...]], int] = {}
        self._current: CapturedValues | None = None
        self._lock = threading.RLock()

    def number(self) -> int:
        """Equal numbers mean equal values, now and before."""
        return self.current().number

    def current(self) -> CapturedValues:
        """The values as they are."""
        # read once, because another thread may set it meanwhile
        current = self._current
        if current is None or not current.hold():
            with self._lock:
                current = self._current = self._read()
        return current

    def changes(self, old: int, new: int) -> list[str]:
        """What differs between the values of two numbers, in words."""
        tokens = list(self._numbers)
        return changes(tokens[old][0], tokens[new][0])

    def _read(self) -> CapturedValues:
        while True:
            watched = _Watched()
            watched.source(self._source, [])
            token = captures(self._source), tuple(map(repr, watched.loose))
            number = self._numbers.setdefault(token, len(self._numbers))
            current = CapturedValues(number, *watched.held())
            # another thread may have changed a value between the two readings
            if not current.places.is_fixed or current.hold():
                return current


class _Watched:
    """The places that a kernel's captured values come from, with what they hold now.

    is_fixed: comparing these objects by identity tells every change. loose: numbers that change in place.
    """

    def __init__(self) -> None:
        self.places: dict[tuple[int, str], tuple[dict[str, Any], Any]] = {}
        self.cells: dict[int, tuple[CellType, Any]] = {}
        self.loose: list[Any] = []
        self.is_fixed = True

    def held(self) -> tuple[CapturedPlaces, tuple[Any, ...]]:
        """The places, and what they held."""
        names = tuple((namespace, name) for (_, name), (namespace, _) in self.places.items())
        cells = tuple(cell for cell, _ in self.cells.values())
        values = *(value for _, value in self.places.values()), *(value for _, value in self.cells.values())
        return CapturedPlaces(names, cells, self.is_fixed), values

    def source(self, source: KernelSource, inside: list[KernelSource]) -> None:
        """Everything that one function reads, and the functions among it."""
        if source in inside:
            return
        for chain in source.references:
            value = self._root(source, chain[0])
            for name in chain[1:]:
                # tilejit's own names don't change
                if not isinstance(value, ModuleType) or value.__name__.partition(".")[0] == "tilejit":
                    break
                value = self._name(vars(value), name)
                # a module that computes its attributes may compute another one next time
                self.is_fixed &= value is not MISSING
            self._value(value, [*inside, source])

    def _root(self, source: KernelSource, name: str) -> Any:
        fn = source.function
        if name in fn.__code__.co_freevars and fn.__closure__ is not None:
            cell = fn.__closure__[fn.__code__.co_freevars.index(name)]
            self.cells[id(cell)] = cell, _content(cell)
            return _content(cell)
        value = self._name(fn.__globals__, name)
        return source.lookup(name)[1] if value is MISSING else value

    def _name(self, namespace: dict[str, Any], name: str) -> Any:
        value = namespace.get(name, MISSING)
        self.places[id(namespace), name] = namespace, value
        return value

    def _value(self, value: Any, inside: list[KernelSource]) -> None:
        if isinstance(value, tuple):
            for item in value:
                self._value(item, inside)
        elif isinstance(value, Function):
            self.source(value.source, inside)
        elif getattr(value, "shape", None) == () and hasattr(value, "__setitem__"):
            self.loose.append(value)
            self.is_fixed = False


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING
