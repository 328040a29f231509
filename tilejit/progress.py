"""One line on a terminal that says how far something has come; nothing anywhere else."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

__all__ = ["Progress"]

#: seconds before the line is shown, and between two states of it: what is quick needs none
_DELAY = 0.5
_PAUSE = 0.1

_CLEAR = "\r\x1b[2K"


class Progress:
    """Inside, `advance` shows how many of `total` steps are done. what: is being done, as `compiling`.

    stream: else standard error. The line is gone afterwards.
    """

    def __init__(self, what: str, total: int, stream: TextIO | None = None) -> None:
        self._what = what
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = bool(self._stream is not None and self._stream.isatty())
        self._done = 0
        self._began = self._last = time.monotonic()
        self._is_there = False

    def __enter__(self) -> Progress:
        self._began = self._last = time.monotonic()
        return self

    def advance(self, name: str = "", steps: int = 1) -> None:
        """Some more steps are done. name: what is going on now."""
        self._done += steps
        now = time.monotonic()
        if not self._is_shown or now - self._began < _DELAY or now - self._last < _PAUSE and self._is_there:
            return
        self._last = now
        text = f"{self._what} {self._done}/{self._total}, {now - self._began:.0f} s" + (f": {name}" if name else "")
        # a line that wraps can't be cleared
        self._write(_CLEAR + text[: shutil.get_terminal_size().columns - 1])
        self._is_there = True

    def __exit__(self, *_: object) -> None:
        if self._is_there:
            self._write(_CLEAR)
            self._is_there = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # the terminal is gone, or can't show a name's letters: no reason to end what is going on
            self._is_shown = False
