"""Thread-safe memoization: concurrent callers share one computation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class _Computation:
    """A computation in progress in one thread. error: the error that it raised, for the waiting threads."""

    __slots__ = ("done", "error", "process", "thread")

    def __init__(self) -> None:
        self.process = os.getpid()
        self.thread = threading.get_ident()
        # A plain lock, held until the computation is finished. An interrupt inside an `Event` can leave its lock held.
        self.done = threading.Lock()
        self.done.acquire()
        self.error: Exception | None = None


class Once(Generic[K, V]):
    """Values by key, each computed by one thread and shared by all. peek: returns the value of a key, or None."""

    __slots__ = ("_running", "_values", "peek")

    def __init__(self) -> None:
        self._values: dict[K, V] = {}
        self._running: dict[K, _Computation] = {}
        self.peek: Callable[[K], V | None] = self._values.get

    def get(self, key: K, make: Callable[[], V], allow: Callable[[], object] | None = None) -> V:
        """Return the value of a key, computed now if necessary.

        allow: called before this thread computes the value; its errors are raised in this thread only. An error of
        `make` is raised in all waiting threads, and the next call tries again. If the computing thread is interrupted,
        a waiting thread takes over.
        """
        while True:
            value = self._values.get(key)
            if value is not None:
                return value
            computation = _Computation()
            try:
                # atomic under the GIL, so exactly one of several threads is first
                first = self._running.setdefault(key, computation)
                if first is computation:
                    return self._make(key, computation, make, allow)
            finally:
                # released first: if an interrupt prevents the removal, the next caller removes the entry
                computation.done.release()
                self._forget(key, computation)
            if first.process != computation.process or not first.done.locked():
                # the computation ended, or an interrupt left its entry, or its thread exists only in the parent process
                self._forget(key, first)
                continue
            if first.thread == computation.thread:
                # `make` requested its own value, as a finalizer that runs during it may do
                return make()
            with first.done:
                self._forget(key, first)
            if first.error is not None:
                raise first.error

    def _forget(self, key: K, computation: _Computation) -> None:
        if self._running.get(key) is computation:
            del self._running[key]

    def _make(self, key: K, computation: _Computation, make: Callable[[], V], allow: Callable[[], object] | None) -> V:
        value = self._values.get(key)
        if value is not None:
            # another thread stored it after `get` looked it up
            return value
        if allow is not None:
            allow()
        try:
            value = make()
        except Exception as error:
            # waiting threads raise the error too; after an interrupt, which isn't recorded, one of them tries again
            computation.error = error
            raise
        return self._values.setdefault(key, value)

    def put(self, key: K, value: V) -> V:
        """Store the value of a key unless it has one, and return the stored value."""
        return self._values.setdefault(key, value)

    @property
    def keys(self) -> tuple[K, ...]:
        return tuple(self._values)

    @property
    def values(self) -> tuple[V, ...]:
        return tuple(self._values.values())
