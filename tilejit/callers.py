"""Who is calling: the first code outside of this package."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

__all__ = ["call_site", "called_from", "is_ours", "stack_level"]

#: where this package's files are
_PACKAGE = os.path.dirname(__file__) + os.sep


#: the code for which this thread works, where another thread was called by it
_caller: ContextVar[str | None] = ContextVar("tilejit_caller", default=None)


def is_ours(frame: FrameType) -> bool:
    """Whether its code is of this package."""
    return frame.f_code.co_filename.startswith(_PACKAGE)


def call_site() -> str:
    """`file:line` of the code outside that is calling."""
    caller = _caller.get()
    if caller is not None:
        return caller
    frame, _ = _outside(sys._getframe(1))
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@contextmanager
def called_from(site: str) -> Iterator[None]:
    """Inside, and in threads that get this context, the code at `site`, `file:line`, is calling."""
    token = _caller.set(site)
    try:
        yield
    finally:
        _caller.reset(token)


def stack_level() -> int:
    """The `stacklevel` with which a warning of the function that asks is shown at the line outside."""
    _, depth = _outside(sys._getframe(1))
    return depth


def _outside(frame: FrameType) -> tuple[FrameType, int]:
    """The first frame outside among this one and those that called it, and its place among these, from 1."""
    depth = 1
    while frame.f_back is not None and is_ours(frame):
        frame, depth = frame.f_back, depth + 1
    return frame, depth
