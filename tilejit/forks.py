"""Locks and cached properties that work in a forked process, even if another thread of the parent held a lock."""

from __future__ import annotations

import functools
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

__all__ = ["await_at_fork", "cached_property", "importing", "renewed_at_fork"]

L = TypeVar("L")

#: seconds that a fork waits for each lock; after a timeout, the child gets a free lock and maybe inconsistent data
_PATIENCE = 30.0

_awaited: list[Any] = []
_taken: list[Any] = []
_renewed: WeakSet[Any] = WeakSet()


def renewed_at_fork(lock: L) -> L:
    """Register a lock to be released in forked children, and return it. The guarded data must always be consistent."""
    _renewed.add(lock)
    return lock


def await_at_fork(lock: Any) -> None:
    """Make forks wait up to `_PATIENCE` for other threads to release the lock, so that its data is consistent."""
    if lock not in _awaited:
        _awaited.append(lock)


#: held during deferred imports: a child would otherwise wait forever for a module that a thread of its parent was
#: importing
importing = threading.RLock()
await_at_fork(importing)


def _before() -> None:
    for lock in _awaited:
        if lock.acquire(timeout=_PATIENCE):
            _taken.append(lock)


def _after_in_parent() -> None:
    while _taken:
        _taken.pop().release()


def _after_in_child() -> None:
    for lock in [*_renewed, *(lock for lock in _awaited if lock not in _taken)]:
        lock._at_fork_reinit()
    _after_in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)


if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):
        """A cached property without the lock that Python takes before 3.12, which another thread may hold at a fork."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
