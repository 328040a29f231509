"""Stretches of code in which Python's cyclic collector doesn't run by itself.

What is imported or compiled stays, so that the collector would go through ever more of it and find next to nothing.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable

__all__ = ["Uncollected", "uncollected"]


class Uncollected:
    """Inside, the collector doesn't run by itself, in any thread; it goes on when the last thread leaves.

    then: what the last one does first.
    """

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self._then = then
        self._lock = threading.Lock()
        self._inside = 0
        self._was_enabled = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_in_child)

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside = max(self._inside - 1, 0)
            if self._inside:
                return
            try:
                self._then()
            finally:
                # Ctrl-C may come meanwhile
                if self._was_enabled:
                    gc.enable()

    def _leave_in_child(self) -> None:
        """Leaves for the threads that a forked process hasn't."""
        self._lock = threading.Lock()
        if self._inside and self._was_enabled:
            gc.enable()
        self._inside = 0


#: around imports
uncollected = Uncollected()
