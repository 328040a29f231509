"""The user's call site: the innermost stack frame outside this package."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

_PACKAGE = os.path.dirname(__file__) + os.sep

#: the call site to report in this context; None to take it from the stack
_caller: ContextVar[str | None] = ContextVar("tilejit_caller", default=None)


def is_ours(frame: FrameType) -> bool:
    """True if a frame executes code of this package."""
    return frame.f_code.co_filename.startswith(_PACKAGE)


def call_site() -> str:
    """Return `file:line` of the innermost caller outside the package, or the call site that `called_from` has set."""
    caller = _caller.get()
    if caller is not None:
        return caller
    frame, _ = _outside(sys._getframe(1))
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@contextmanager
def called_from(site: str) -> Iterator[None]:
    """Report `site` (`file:line`) as the call site in the `with` block, and in threads with a copy of its context."""
    token = _caller.set(site)
    try:
        yield
    finally:
        _caller.reset(token)


def stack_level() -> int:
    """Return the `stacklevel` with which a warning issued by the calling function points outside the package."""
    _, depth = _outside(sys._getframe(1))
    return depth


def _outside(frame: FrameType) -> tuple[FrameType, int]:
    depth = 1
    while frame.f_back is not None and is_ours(frame):
        frame, depth = frame.f_back, depth + 1
    return frame, depth
