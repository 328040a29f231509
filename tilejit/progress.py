"""One line that says how far long work has come, on a terminal or in a notebook; nothing anywhere else.

Whatever may take long reports here. Of work within work the outermost has the line. Where there is something to count,
tqdm or rich draw it if they are installed.
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

__all__ = ["Progress", "goes_on"]

#: seconds before the line is shown, and between two states of it: what is quick needs none
_DELAY = 2.0
_PAUSE = 0.1

_CLEAR = "\r\x1b[2K"

#: the innermost work of this thread, or of the one that started it
_innermost: ContextVar[Progress | None] = ContextVar("tilejit_progress", default=None)

#: who has the line
_line = renewed_at_fork(threading.Lock())


class Progress:
    """Inside, `advance` says that some of `total` steps are done, if they can be counted. what: is being done.

    stream: a terminal, else standard error, or the cell of a notebook. The line is gone afterwards.
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
            # what shows the line must go on where one step takes long; in a notebook it belongs to this cell
            thread = threading.Thread(
                target=copy_context().run, args=(self._show,), name="tilejit-progress", daemon=True
            )
            # no thread can be started where the interpreter is ending
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread
        return self

    def advance(self, name: str = "", steps: int = 1) -> None:
        """Some more steps are done. name: what is going on now."""
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
        """Shows the line, once that took long, until it has ended."""
        if self._ended.wait(_DELAY):
            return
        # another thread's work may have it
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
            # sys.stderr may be anybody's, and gone, or unable to show a name's letters: no reason to end the work
            return
        finally:
            _line.release()


def goes_on(name: str) -> None:
    """Says that the innermost work, if there is any, goes on with its next step, which has this name."""
    work = _innermost.get()
    if work is not None:
        work.advance(name)


class _Line(Protocol):
    """What shows how far work has come."""

    def show(self, work: Progress) -> None: ...

    def erase(self) -> None: ...


def _is_watched(stream: TextIO | None) -> bool:
    """Whether there is somebody to see a line."""
    if stream is None or os.environ.get("TILEJIT_PROGRESS") == "0":
        return False
    return _is_notebook() or bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def _is_notebook() -> bool:
    """Whether cells are run for a notebook, rather than typed at a terminal."""
    return getattr(running_shell(), "kernel", None) is not None


def _line_of(work: Progress, stream: TextIO) -> _Line:
    """The best that there is."""
    makers: tuple[Callable[[Progress, TextIO], _Line], ...]
    makers = (_NotebookBar, _Cell) if _is_notebook() else (_Tqdm, _Rich, _Plain)
    for maker in makers if work.total > 1 else makers[-1:]:
        try:
            return maker(work, stream)
        except ImportError:
            continue
    raise AssertionError("the last one needs no package")


class _Plain:
    """A line of a terminal."""

    def __init__(self, _: Progress, stream: TextIO) -> None:
        self._stream = stream

    def show(self, work: Progress) -> None:
        # 4 ms to import
        import shutil

        # a line that wraps can't be cleared
        self._write(_CLEAR + str(work)[: shutil.get_terminal_size().columns - 1])

    def erase(self) -> None:
        self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class _Cell:
    """A line below a cell of a notebook."""

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
    """tqdm's bar on a terminal."""

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
    """tqdm's bar below a cell, which needs ipywidgets."""

    def _made(self, work: Progress, stream: TextIO) -> Any:
        import ipywidgets  # noqa: F401
        from tqdm.notebook import tqdm

        return tqdm(total=work.total, desc=work.what, leave=False)


class _Rich:
    """rich's bar on a terminal."""

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
