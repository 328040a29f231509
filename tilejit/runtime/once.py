"""Values that are made once, however many threads ask for them at the same time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

class _Making:
    """A value that one thread of a process is making. error: what it ended with, for those who wait."""

    __slots__ = ("done", "error", "process", "thread")

    def __init__(self) -> None:
        self.process = os.getpid()
        self.thread = threading.get_ident()
        # A plain lock, free once the thread has left. An interrupt inside an `Event` can leave its own lock taken.
        self.done = threading.Lock()
        self.done.acquire()
        self.error: Exception | None = None


class Once(Generic[K, V]):
    """Values by their keys. Different ones are made side by side; of one key all threads get the same value.

    peek: the value of a key, or None where there is none yet.
    """

    __slots__ = ("_making", "_values", "peek")

    def __init__(self) -> None:
        self._values: dict[K, V] = {}
        self._making: dict[K, _Making] = {}
        self.peek: Callable[[K], V | None] = self._values.get

    def get(self, key: K, make: Callable[[], V], allow: Callable[[], object] | None = None) -> V:
        """The value of a key, made now if there is none.

        allow: called before this thread makes it; what it raises is for this thread alone. What `make` raises, all
        threads get that wait for it, and the next call makes the value anew. A thread that is interrupted leaves
        the value to one of those that wait.
        """
        while True:
            value = self._values.get(key)
            if value is not None:
                return value
            making = _Making()
            try:
                # one step of the interpreter, so that of two threads one is first
                first = self._making.setdefault(key, making)
                if first is making:
                    return self._make(key, making, make, allow)
            finally:
                # first, because an interrupt may arrive when a call has returned; the next caller then does the rest
                making.done.release()
                self._forget(key, making)
            if first.process != making.process or not first.done.locked():
                # this process was forked from the one that was making it, or an interrupt came before it was forgotten
                self._forget(key, first)
                continue
            if first.thread == making.thread:
                # what is made asks for itself, as a finalizer may that runs in between
                return make()
            with first.done:
                self._forget(key, first)
            if first.error is not None:
                raise first.error

    def _forget(self, key: K, making: _Making) -> None:
        """No thread is making the value any more, if it was this one."""
        if self._making.get(key) is making:
            del self._making[key]

    def _make(self, key: K, making: _Making, make: Callable[[], V], allow: Callable[[], object] | None) -> V:
        value = self._values.get(key)
        if value is not None:
            # another thread was ready between the two looks
            return value
        if allow is not None:
            allow()
        try:
            value = make()
        except Exception as error:
            # whatever it is, who waits for the value gets it too; an interrupt is for one thread, and another makes it
            making.error = error
            raise
        return self._values.setdefault(key, value)

    def put(self, key: K, value: V) -> V:
        """The value of a key from now on: this one, unless there is one."""
        return self._values.setdefault(key, value)

    @property
    def keys(self) -> tuple[K, ...]:
        """Of the values that are made, oldest first."""
        return tuple(self._values)

    @property
    def values(self) -> tuple[V, ...]:
        """All that are made, oldest first."""
        return tuple(self._values.values())
