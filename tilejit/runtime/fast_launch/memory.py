"""The tables in which generated launchers look up entries. Each kernel and each prepared launch has its own tables.

No lookup is needed if all arrays are torch tensors with the same properties as those of the last launch, and the rest
of the key is equal. Torch's tensor guards compare the tensors in one call, which takes 0.7 us; computing and comparing
a key takes 1.9 us. The guards are private to torch and may be missing; then the key is computed at each launch.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...forks import renewed_at_fork
from ..arrays import ArrayView
from ..captured import CapturedValues
from ..device import LoadedKernel
from ..readers import view_of
from .generated import GeneratedLauncher, ResolvedLaunch, can_be_direct

if TYPE_CHECKING:
    from .entries import SlotLayout
    from .text import LauncherText

#: a table with fewer entries adds an entry when it first sees a key; a larger table, only when it sees a key again, so
#: that a program whose shapes never recur doesn't pay for entries
_FIRST_KEYS = 32
#: maximum numbers of entries per table, of hashes of seen keys, and of tables (one per function and captured values)
_ENTRIES, _SEEN, _TABLES = 4096, 65536, 64


def never(*tensors: Any) -> bool:
    """Return False: no tensors pass this guard."""
    return False


#: placeholder for the last launch (check, the key's items that aren't from arrays, key, entry); no launch matches it
_NOTHING = (never, None, None, None)

Table = dict[Any, tuple[Any, ...]]


class LaunchMemory:
    """Entries by key, for each generated function and each state of the captured values.

    states: by the function's number, a tuple, which the function reads in one step so that its items are consistent:
    the captured values, their table and, with guards, a list of one item, the last launch.
    warned: parameters for which a PrecisionWarning was issued.
    """

    def __init__(self, warned: set[str] | None = None) -> None:
        self.warned: set[str] = set() if warned is None else warned
        self.states: list[tuple[Any, ...]] = []
        self._tables: dict[tuple[int, int], tuple[Table, list[tuple[Any, ...]]]] = {}
        # by the function's number: the captured values of its state, and their table
        self._kept: dict[int, tuple[CapturedValues, Table]] = {}
        self._layouts: dict[tuple[int, LoadedKernel], SlotLayout] = {}
        self._seen: set[int] = set()
        self._in_context = False
        self._lock = renewed_at_fork(threading.RLock())

    def ready(self, generated: GeneratedLauncher) -> None:
        text, number = generated.text, generated.text.number
        if number < len(self.states) and self.states[number]:
            return
        with self._lock:
            for _ in range(len(self.states), number + 1):
                self.states.append(())
            # no captured values are identical to these objects
            values = tuple(object() for _ in range(len(text.captured) + text.cells))
            self.states[number] = self.states[number] or _state(text, values, {}, [_NOTHING])

    def remember(
        self, generated: GeneratedLauncher, key: tuple[Any, ...] | None, resolved: ResolvedLaunch
    ) -> None:
        """Record a launch of the slow path, so that later launches can find its entry in the function's state.

        key: as the function computed it; None to update the captured values without adding an entry.
        """
        text, captured = generated.text, resolved.captured
        kept = self._kept.get(text.number)
        table = kept[1] if kept is not None and kept[0] is captured else self._follow(generated, captured)
        if key is None or len(table) >= _FIRST_KEYS and not self._was_seen((captured.number, key)):
            return
        if can_be_direct(text.parts, resolved):
            self._enter(table, key, text, resolved)

    def _follow(self, generated: GeneratedLauncher, captured: CapturedValues) -> Table:
        text = generated.text
        self.ready(generated)
        with self._lock:
            of = text.number, captured.number
            if of not in self._tables and len(self._tables) >= _TABLES:
                self._tables.clear()
            table, last = self._tables.setdefault(of, ({}, [_NOTHING]))
            self.states[text.number] = _state(text, captured.values, table, last)
            self._kept[text.number] = captured, table
        return table

    def _enter(
        self, table: Table, key: tuple[Any, ...], text: LauncherText, resolved: ResolvedLaunch
    ) -> None:
        from .entries import SlotLayout, bounds_of, entry_key, entry_of, special_entry

        arrays = [resolved.call.flat[i] for i, _ in text.arrays]
        views = [view for i, _ in text.arrays if type(view := resolved.call.arguments[i]) is ArrayView]
        pointers, bounds = [view.pointer for view in views], bounds_of(views)
        exact_key = entry_key(text, key, pointers, bounds)
        check = guard_of(arrays) if text.is_guarded else never
        if not _matches(key, text, views) or not _are_unchanged(arrays, views):
            return
        if len(table) >= _ENTRIES:
            table.clear()
        direct = resolved.function.direct
        assert direct is not None
        if self._in_context:
            direct = direct._replace(launch=direct.launch_in_context)
        layout = self._layouts.get((text.number, resolved.function))
        if layout is None:
            layout = SlotLayout(text, resolved.function.compiled.executable, direct.workspace, self.warned)
            self._layouts[text.number, resolved.function] = layout
        if exact_key is not key:
            table.setdefault(key, special_entry(text, bounds, check))
        table[exact_key] = entry_of(text, layout, direct, bounds, resolved, check)

    def _was_seen(self, key: tuple[Any, ...]) -> bool:
        number = hash(key)
        if number in self._seen:
            return True
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen.add(number)
        return False

    def launch_in_context(self) -> None:
        """Make later launches switch to the device's context, for threads in which another context is current."""
        with self._lock:
            self._in_context = True
            for table, last in self._tables.values():
                last[0] = _NOTHING
                table.clear()


def _state(text: LauncherText, values: tuple[Any, ...], table: Table, last: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return (*values, table, last) if text.is_guarded else (*values, table)


def _are_unchanged(arrays: Sequence[Any], views: Sequence[ArrayView]) -> bool:
    try:
        return [view_of(array).facts for array in arrays] == [view.facts for view in views]
    except Exception:
        # reading a freed array can raise anything
        return False


def _matches(key: tuple[Any, ...], text: LauncherText, views: Sequence[ArrayView]) -> bool:
    items = iter(key)
    return all(
        part.matches(view.facts, *(next(items) for _ in part.key))
        for (_, part), view in zip(text.arrays, views, strict=True)
    )


def _guard_class() -> Any:
    found: Any = sys.modules.get("torch")
    for name in ("_C", "_dynamo", "guards", "TensorGuards"):
        found = getattr(found, name, None)
    return found


def has_guards() -> bool:
    return _guard_class() is not None


def guard_of(tensors: Sequence[Any]) -> Callable[..., bool]:
    """Return a function that compares other tensors with `tensors` by type, dtype, device, shape and strides.

    It keeps no reference to `tensors`. It also returns False if one tensor is passed twice, or if tensors differ in a
    property that a launch ignores, such as `requires_grad`. Without usable guards, it always returns False.
    """
    try:
        check: Callable[..., bool] = _guard_class()(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        return check if check(*tensors) is True else never
    except Exception:
        # other versions of torch may take other arguments and raise anything
        return never
