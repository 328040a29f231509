"""Functions during which Python's cyclic collector does not run on its own.

What is imported or compiled stays alive, so the collector would traverse ever more objects and free almost nothing.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["gc_paused", "gc_paused_until"]

P = ParamSpec("P")
T = TypeVar("T")

#: by call that is in progress, in any thread: whether the collector was on before, and what the last call runs
_inside: dict[object, tuple[bool, Callable[[], object] | None]] = {}


def stop(token: object, last: Callable[[], object] | None) -> None:
    """Turn the collector off for a call."""
    _inside[token] = gc.isenabled() or (True in [was_on for was_on, _ in list(_inside.values())]), last
    gc.disable()


def gc_paused_until(last: Callable[[], object] | None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of functions during which the collector does not run, in any thread.

    last: run when no thread is left in a function with this `last`, before the collector is turned on again.

    An interrupt may arrive wherever the interpreter enters a Python function or a call has returned. This is no context
    manager because an interrupt at the first instruction of its `__exit__` would leave the collector off.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            token = object()
            try:
                stop(token, last)
                return function(*args, **kwargs)
            finally:
                try:
                    if last is not None and [each for _, each in list(_inside.values())].count(last) <= 1:
                        last()
                finally:
                    # nothing here is a call before the collector is on, so that no interrupt arrives
                    if token in _inside:
                        was_on, _ = _inside[token]
                        del _inside[token]
                        if was_on and not _inside:
                            gc.enable()

        return call

    return decorate


#: around imports and translations
gc_paused = gc_paused_until(None)


def _enable_in_child() -> None:
    """Turn the collector on in a forked process, which does not have the threads that turned it off."""
    if any(was_on for was_on, _ in _inside.values()):
        gc.enable()
    _inside.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enable_in_child)
