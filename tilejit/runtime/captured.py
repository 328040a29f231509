"""Detection of changes to the global and closure values that a kernel reads.

Computing a key of the values (`frontend.captures`) is slow, so every launch compares the objects by identity, and
recomputes the key only if an object was replaced, or can change in place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from types import CellType, ModuleType
from typing import Any, NamedTuple

from ..constants import parts_of
from ..errors import LaunchError
from ..forks import renewed_at_fork
from ..frontend import KernelSource, captures, changes
from ..frontend.language import Function

#: placeholder for the value of an undefined name or an empty cell
MISSING = object()


class CapturedPlaces(NamedTuple):
    """The sources of a kernel's captured values. names: (namespace, name) pairs. cells: closure cells."""

    names: tuple[tuple[dict[str, Any], str], ...]
    cells: tuple[CellType, ...]

    def are(self, others: CapturedPlaces) -> bool:
        return self._ids() == others._ids()

    def _ids(self) -> tuple[object, ...]:
        return (tuple((id(namespace), name) for namespace, name in self.names), tuple(map(id, self.cells)))


class CapturedValues(NamedTuple):
    """The captured values at one moment, with their places.

    number: equal for equal values only. is_fixed: True if no value can change while each place holds the same object.
    """

    number: int
    names: tuple[tuple[dict[str, Any], str, Any], ...]
    cells: tuple[tuple[CellType, Any], ...]
    is_fixed: bool

    @property
    def places(self) -> CapturedPlaces:
        return CapturedPlaces(
            tuple((namespace, name) for namespace, name, _ in self.names), tuple(cell for cell, _ in self.cells)
        )

    @property
    def values(self) -> tuple[Any, ...]:
        return *(value for _, _, value in self.names), *(value for _, value in self.cells)

    def hold(self) -> bool:
        """True if each place still holds the same object and this implies equal values."""
        for namespace, name, value in self.names:
            if namespace.get(name, MISSING) is not value:
                return False
        for cell, value in self.cells:
            if _content(cell) is not value:
                return False
        return self.is_fixed

    def watch(self) -> Callable[[], bool]:
        """Return a function equivalent to `hold`, but faster if `is_fixed`, without cells and with at most one name."""
        if self.cells or not self.is_fixed:
            return self.hold
        if not self.names:
            return lambda: True
        missing, ((namespace, name, value), *others) = MISSING, self.names
        get = namespace.get
        if not others:
            return lambda: get(name, missing) is value
        return self.hold


class Captured:
    """Reads the captured values of a kernel, and assigns a number to each distinct set of values."""

    def __init__(self, source: KernelSource) -> None:
        self._source = source
        self._numbers: dict[Hashable, int] = {}
        self._current: CapturedValues | None = None
        self._lock = renewed_at_fork(threading.RLock())

    def number(self) -> int:
        return self.current().number

    def current(self) -> CapturedValues:
        # read the attribute once, because another thread may set it concurrently
        current = self._current
        if current is None or not current.hold():
            with self._lock:
                current = self._current = self._read()
        return current

    def changes(self, old: int, new: int) -> list[str]:
        tokens = list(self._numbers)
        return changes(tokens[old], tokens[new])

    def _read(self) -> CapturedValues:
        while True:
            watched = _Watched()
            try:
                watched.source(self._source, [])
                token = captures(self._source)
            except RecursionError:
                raise LaunchError(
                    f"{self._source.name} captures a value nested several hundred levels deep, beyond Python's "
                    "recursion limit",
                    hint="capture a flat tuple or dict",
                ) from None
            number = self._numbers.setdefault(token, len(self._numbers))
            names = tuple((namespace, name, value) for (_, name), (namespace, value) in watched.places.items())
            current = CapturedValues(number, names, tuple(watched.cells.values()), watched.is_fixed)
            # retry if another thread changed a value between the two reads
            if not current.is_fixed or current.hold():
                return current


class _Watched:
    """Collects captured values and their places. is_fixed: True if comparison by identity detects all changes."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, str], tuple[dict[str, Any], Any]] = {}
        self.cells: dict[int, tuple[CellType, Any]] = {}
        self.is_fixed = True

    def source(self, source: KernelSource, inside: list[KernelSource]) -> None:
        if source in inside:
            return
        for chain in source.references:
            value = self._root(source, chain[0])
            for name in chain[1:]:
                # only the attributes of modules are followed, and tilejit's own names don't change
                if not isinstance(value, ModuleType) or value.__name__.partition(".")[0] == "tilejit":
                    break
                value = self._name(vars(value), name)
                # a module's `__getattr__` may return another object next time
                self.is_fixed &= value is not MISSING
            self._value(value, [*inside, source])
        for value in source.defaults.values():
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
        if isinstance(value, Function):
            self.source(value.source, inside)
        elif isinstance(value, ModuleType):
            # not inspected, because accessing attributes of tilejit would import the whole language
            return
        elif isinstance(value, dict) or getattr(value, "shape", None) == () and hasattr(value, "__setitem__"):
            # a dict and a zero-dimensional array can change in place
            self.is_fixed = False
        for _, part in parts_of(value):
            self._value(part, inside)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING
