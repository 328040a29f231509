"""A progress line for long-running tasks, on a terminal or in a notebook.

Only the outermost of nested tasks shows a line. On a terminal, tqdm draws a bar if it is installed and the total
number of steps is known and greater than one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token, copy_context
from functools import partial
from typing import Any, TextIO

from .errors import running_shell
from .forks import renewed_at_fork

#: seconds before the line appears, and seconds between its updates
_DELAY = 2.0
_PAUSE = 0.1

_CLEAR = "\r\x1b[2K"

#: the innermost task in this context
_innermost: ContextVar[Progress | None] = ContextVar("tilejit_progress", default=None)

#: held while the line of a task is shown
_line = renewed_at_fork(threading.Lock())


class Progress:
    """A context manager that shows the progress of a task on one line, which is erased at the end; see `advance`.

    what: a description of the task.
    total: number of steps, 0 if unknown.
    stream: a terminal, by default standard error; in a notebook, the line is below the cell instead.
    """

    def __init__(self, what: str, total: int = 0, stream: TextIO | None = None) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self.name = ""
        self._stream = sys.stderr if stream is None else stream
        self._began = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._token: Token[Progress | None] | None = None

    def __enter__(self) -> Progress:
        is_outermost = _innermost.get() is None
        self._token = _innermost.set(self)
        self._began = time.monotonic()
        if is_outermost and _is_watched(self._stream):
            # in a thread, because a step may take long; in a copy of this context, so that a notebook finds the cell
            thread = threading.Thread(
                target=copy_context().run, args=(self._show,), name="tilejit-progress", daemon=True
            )
            # threads can't be started while the interpreter shuts down
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread
        return self

    def advance(self, name: str = "", steps: int = 1) -> None:
        """Record that `steps` more steps are done. name: the step in progress."""
        self.done += steps
        self.name = name

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _innermost.reset(self._token)
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def __str__(self) -> str:
        count = f" {self.done}/{self.total}" if self.total > 1 else ""
        return f"{self.what}{count}, {self.seconds:.0f} s" + (f": {self.name}" if self.name else "")

    def _show(self) -> None:
        """Show the line after a delay, until the task ends."""
        if self._ended.wait(_DELAY):
            return
        # a task of another thread may be showing its line
        while not _line.acquire(blocking=False):
            if self._ended.wait(_PAUSE):
                return
        try:
            show = _line_of(self, self._stream)
            try:
                show(self)
                while not self._ended.wait(_PAUSE):
                    show(self)
            finally:
                show(None)
        except Exception:
            # a stream that is closed, or can't encode a name, only ends the display, without a traceback
            return
        finally:
            _line.release()


def report_step(name: str) -> None:
    """Advance the innermost task of this context, if there is one, by a step; `name` is the next step."""
    work = _innermost.get()
    if work is not None:
        work.advance(name)


def _is_watched(stream: TextIO | None) -> bool:
    """True in a notebook or on a terminal that isn't dumb; False without a stream, or with TILEJIT_PROGRESS=0."""
    if stream is None or os.environ.get("TILEJIT_PROGRESS") == "0":
        return False
    return _is_notebook() or bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def _is_notebook() -> bool:
    """True in a notebook, but not in a terminal session of IPython."""
    return getattr(running_shell(), "kernel", None) is not None


#: shows the progress of a task; None erases the line
Show = Callable[[Progress | None], object]


def _line_of(work: Progress, stream: TextIO) -> Show:
    """Return a function that shows a line or, on a terminal, a bar if tqdm is installed and there are several steps."""
    if _is_notebook():
        return _cell()
    if work.total > 1:
        with suppress(ImportError):
            return _bar(work, stream)
    return partial(_write, stream)


def _write(stream: TextIO, work: Progress | None) -> None:
    # imported here, because that takes 4 ms
    import shutil

    # cut the line to fit, because _CLEAR would erase only the last row of a wrapped line
    stream.write(_CLEAR + ("" if work is None else str(work)[: shutil.get_terminal_size().columns - 1]))
    stream.flush()


def _cell() -> Show:
    """Return a function that shows a line below a notebook cell."""
    from IPython.display import display

    shown: Any = display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
    return lambda work: shown.update({"text/plain": "" if work is None else str(work)}, raw=True)


def _bar(work: Progress, stream: TextIO) -> Show:
    from tqdm import tqdm

    bar = tqdm(total=work.total, desc=work.what, leave=False, file=stream, dynamic_ncols=True)
    bar.start_t -= work.seconds

    def show(now: Progress | None) -> None:
        if now is None:
            bar.close()
            return
        bar.n = now.done
        bar.set_postfix_str(now.name, refresh=False)
        bar.refresh()

    return show
