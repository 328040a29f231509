"""Functions that run with Python's cyclic garbage collector disabled.

Imported modules and compiled kernels stay alive, so the collector would traverse more and more objects and free few.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeGuard, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: token of a call in progress, in any thread -> whether to re-enable the collector at the end, and the call's `clear`
_inside: dict[object, tuple[bool, Callable[[], object] | None]] = {}


def stop(token: object, clear: Callable[[], object] | None) -> None:
    """Disable the collector for a call identified by `token`. clear: see `gc_paused_until`."""
    _inside[token] = gc.isenabled() or (True in [was_on for was_on, _ in list(_inside.values())]), clear
    gc.disable()


def _is_only(clear: Callable[[], object] | None) -> TypeGuard[Callable[[], object]]:
    """True unless another call with the same `clear` is in progress, or there is nothing to call."""
    return clear is not None and [each for _, each in list(_inside.values())].count(clear) <= 1


def gc_paused_until(clear: Callable[[], object] | None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator for functions that run with the collector disabled in all threads.

    clear: called first, and at the end before the collector is re-enabled, if no other call with the same `clear` is in
    progress.

    An interrupt may arrive when the interpreter enters a Python function or after a call returns. A context manager
    is not safe: an interrupt at the first instruction of its `__exit__` would leave the collector disabled.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            token = object()
            try:
                stop(token, clear)
                if _is_only(clear):
                    clear()
                return function(*args, **kwargs)
            finally:
                try:
                    if _is_only(clear):
                        clear()
                finally:
                    # no call happens before the collector is enabled, so no interrupt can arrive
                    if token in _inside:
                        was_on, _ = _inside[token]
                        del _inside[token]
                        if was_on and not _inside:
                            gc.enable()

        return call

    return decorate


#: decorator for imports, and for the simulator's translation of PTX
gc_paused = gc_paused_until(None)


def _enable_in_child() -> None:
    """Enable the collector in a forked process if calls in progress disabled it: their threads may not exist there."""
    if any(was_on for was_on, _ in _inside.values()):
        gc.enable()
    _inside.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enable_in_child)
