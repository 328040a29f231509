"""Stretches of code in which Python's cyclic collector doesn't run by itself.

What is imported or compiled stays, so that the collector would go through ever more of it and find next to nothing.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable

__all__ = ["Uncollected", "uncollected"]


class _Collector:
    """Stands still while any thread is inside a stretch, of whichever kind."""

    def __init__(self) -> None:
        # what is being collected may have a finalizer that enters a stretch
        self._lock = threading.RLock()
        self._inside = 0
        self._was_enabled = False

    def stop(self) -> None:
        with self._lock:
            if not self._inside:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside += 1

    def go_on(self) -> None:
        with self._lock:
            self._inside = max(self._inside - 1, 0)
            if not self._inside and self._was_enabled:
                gc.enable()

    def leave_in_child(self) -> None:
        """For the threads that a forked process hasn't."""
        self._lock = threading.RLock()
        if self._inside and self._was_enabled:
            gc.enable()
        self._inside = 0


_collector = _Collector()


class Uncollected:
    """Inside, the collector doesn't run by itself, in any thread; it goes on when the last thread leaves.

    then: what the last one that is inside this one does first.
    """

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self._then = then
        self._lock = threading.RLock()
        self._inside = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_in_child)

    def __enter__(self) -> None:
        with self._lock:
            _collector.stop()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside = max(self._inside - 1, 0)
            try:
                if not self._inside:
                    self._then()
            finally:
                # Ctrl-C may come meanwhile
                _collector.go_on()

    def _leave_in_child(self) -> None:
        self._lock = threading.RLock()
        self._inside = 0


#: around imports
uncollected = Uncollected()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_collector.leave_in_child)
