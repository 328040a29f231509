"""A progress line for long work, on a terminal or in a notebook.

Only the outermost of nested work shows a line. If its number of steps is known and tqdm or rich is installed, that
package draws a bar instead.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token, copy_context
from typing import Any, Protocol, TextIO

from .errors import running_shell
from .forks import renewed_at_fork

#: seconds before the line appears, and between updates
_DELAY = 2.0
_PAUSE = 0.1

_CLEAR = "\r\x1b[2K"

#: the innermost `Progress` in this context
_innermost: ContextVar[Progress | None] = ContextVar("tilejit_progress", default=None)

#: held by the `Progress` that shows a line
_line = renewed_at_fork(threading.Lock())


class Progress:
    """A context manager that shows the progress of long work in a line, which disappears at the end; see `advance`.

    what: a description of the work.
    total: number of steps, 0 if unknown.
    stream: a terminal, by default standard error, or the cell of a notebook.
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
            # in a thread, because a step may take long, and in this context, so that the line appears in this cell
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
        if self._ended.wait(_DELAY):
            return
        # the line may belong to another thread's work
        while not _line.acquire(blocking=False):
            if self._ended.wait(_PAUSE):
                return
        try:
            line = _line_of(self, self._stream)
            try:
                line.show(self)
                while not self._ended.wait(_PAUSE):
                    line.show(self)
            finally:
                line.erase()
        except Exception:
            # sys.stderr may be replaced, closed, or unable to encode a name, which must not end the work
            return
        finally:
            _line.release()


def report_step(name: str) -> None:
    """Advance the innermost `Progress` of this context, if any, to the step `name`."""
    work = _innermost.get()
    if work is not None:
        work.advance(name)


class _Line(Protocol):

    def show(self, work: Progress) -> None: ...

    def erase(self) -> None: ...


def _is_watched(stream: TextIO | None) -> bool:
    """True if the stream is a terminal or a notebook's, and TILEJIT_PROGRESS allows a line."""
    if stream is None or os.environ.get("TILEJIT_PROGRESS") == "0":
        return False
    return _is_notebook() or bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def _is_notebook() -> bool:
    return getattr(running_shell(), "kernel", None) is not None


def _line_of(work: Progress, stream: TextIO) -> _Line:
    """Return a bar if the number of steps is known and a package for it is installed, else a line."""
    makers: tuple[Callable[[Progress, TextIO], _Line], ...]
    makers = (_NotebookBar, _Cell) if _is_notebook() else (_Tqdm, _Rich, _Plain)
    for maker in makers if work.total > 1 else makers[-1:]:
        try:
            return maker(work, stream)
        except ImportError:
            continue
    raise AssertionError("the last display needs no package")


class _Plain:
    def __init__(self, _: Progress, stream: TextIO) -> None:
        self._stream = stream

    def show(self, work: Progress) -> None:
        # takes 4 ms to import
        import shutil

        # truncated, because a wrapped line can't be cleared
        self._write(_CLEAR + str(work)[: shutil.get_terminal_size().columns - 1])

    def erase(self) -> None:
        self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class _Cell:
    def __init__(self, *_: object) -> None:
        from IPython.display import display

        self._shown: Any = display(  # type: ignore[no-untyped-call]
            {"text/plain": ""}, raw=True, display_id=True
        )

    def show(self, work: Progress) -> None:
        self._shown.update({"text/plain": str(work)}, raw=True)

    def erase(self) -> None:
        self._shown.update({"text/plain": ""}, raw=True)


class _Tqdm:
    def __init__(self, work: Progress, stream: TextIO) -> None:
        self._bar = self._made(work, stream)
        self._bar.start_t -= work.seconds

    def _made(self, work: Progress, stream: TextIO) -> Any:
        from tqdm import tqdm

        return tqdm(total=work.total, desc=work.what, leave=False, file=stream, dynamic_ncols=True)

    def show(self, work: Progress) -> None:
        self._bar.n = work.done
        self._bar.set_postfix_str(work.name, refresh=False)
        self._bar.refresh()

    def erase(self) -> None:
        self._bar.close()


class _NotebookBar(_Tqdm):
    """tqdm's bar, below a notebook cell; requires ipywidgets."""

    def _made(self, work: Progress, stream: TextIO) -> Any:
        import ipywidgets  # noqa: F401
        from tqdm.notebook import tqdm

        return tqdm(total=work.total, desc=work.what, leave=False)


class _Rich:
    def __init__(self, work: Progress, stream: TextIO) -> None:
        from rich import progress
        from rich.console import Console

        columns = ("{task.description}", progress.BarColumn(), progress.MofNCompleteColumn(), "{task.fields[tail]}")
        self._progress = progress.Progress(
            *columns, console=Console(file=stream), transient=True, auto_refresh=False,
            redirect_stdout=False, redirect_stderr=False,
        )
        self._task = self._progress.add_task(work.what, total=work.total, tail="")
        self._progress.start()

    def show(self, work: Progress) -> None:
        tail = f"{work.seconds:.0f} s {work.name}"
        self._progress.update(self._task, completed=work.done, tail=tail, refresh=True)

    def erase(self) -> None:
        self._progress.stop()
