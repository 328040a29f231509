"""Processes that compile, so that several kernels are compiled at the same time.

Threads can't: Python's part of the compiler holds the interpreter's lock, and llvmlite lets one thread into LLVM at a
time. A process gets tile IR and gives what was made of it. It imports nothing of the user's, so that kernels of
notebooks and of programs without `if __name__ == "__main__"` can be compiled there, too; and where LLVM ends it, only
that one kernel is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from ..dataclass import dataclass, replace
from ..errors import TilejitError
from ..ir.types import Signature
from ..target import Target
from ..target import target as find_target
from .making import Compiler
from .variants import call_site, called_from

if TYPE_CHECKING:
    from ..compiled import Compiled
    from ..ir.nodes import Kernel as TileKernel

T = TypeVar("T")

#: what a process runs: the parent's modules are looked up where the parent found them
_PROGRAM = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes the pipe
sys.path[:] = json.loads(sys.argv[1])
from tilejit.runtime.workers import serve
serve()
"""

#: seconds that a process takes until it compiles; where less is left to do, none is started
START_SECONDS = 0.5

#: processes of one pool: the frontend, a fifth of the work, stays in this one, one kernel after the other
_MOST = 8

#: seconds that a process has to end by itself
_PATIENCE = 2.0


class WorkerError(TilejitError):
    """A process that compiles has ended, or can't be started."""


def processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What became of one task. number: its place among the tasks. error: None where there is a result."""

    number: int
    result: T | None
    error: Exception | None

    @property
    def value(self) -> T:
        """The result.

        raises: the error.
        """
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


#: what is done with a way to compile, which may be None for `pipeline.compile`
Task = Callable[[Compiler | None], T]


def run_all(tasks: Sequence[Task[T]], workers: int | None = None) -> Generator[Outcome[T], None, None]:
    """Does the tasks and gives each one's outcome as soon as it is known.

    workers: processes that compile; 0 for none; None for as many as pay: one for each processor, up to `_MOST`, where
    what is left takes longer than starting them, by the first task that ends well.
    """
    remaining = list(enumerate(tasks))
    while workers is None and remaining:
        began = time.perf_counter()
        outcome = _here(*remaining.pop(0))
        expected = (time.perf_counter() - began) * len(remaining)
        if outcome.error is None:
            workers = min(processors(), _MOST) if expected > 2 * START_SECONDS else 0
        yield outcome
    if not workers or len(remaining) < 2 or not sys.executable or getattr(sys, "frozen", False):
        yield from (_here(number, task) for number, task in remaining)
        return
    with Workers(min(workers, len(remaining))) as crew:
        yield from crew.run(remaining)


def _here(number: int, task: Task[T]) -> Outcome[T]:
    try:
        return Outcome(number, task(None), None)
    except Exception as error:
        # whatever a task raises is what came of it
        return Outcome(number, None, error)


class Workers:
    """Processes, each with a thread of this process that waits for it."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, "tilejit-compile")
        self._free: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        self._processes: list[WorkerProcess] = []
        self._lock = threading.Lock()
        self._is_over = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the processes; what they were doing is lost."""
        with self._lock:
            self._is_over = True
            processes, self._processes = self._processes, []
        for process in processes:
            process.end()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def run(self, tasks: Sequence[tuple[int, Task[T]]]) -> Iterator[Outcome[T]]:
        """The tasks' outcomes, as they come."""
        numbers: dict[Future[T], int] = {}
        with called_from(call_site()):
            for number, task in tasks:
                # each with the caller's device and other settings
                numbers[self._threads.submit(copy_context().run, task, self._compile)] = number
        for future in as_completed(numbers):
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            yield Outcome(numbers[future], None if error else future.result(), error)

    def _compile(self, kernel: TileKernel, signature: Signature, target: Target) -> Compiled:
        process = self._take()
        try:
            compiled = process.compile(kernel, signature, target)
        except TilejitError as error:
            if isinstance(error, WorkerError):
                process.end()
            else:
                self._free.put(process)
            raise
        except BaseException:
            # an answer may be on its way that nobody would take
            process.end()
            raise
        self._free.put(process)
        return compiled

    def _take(self) -> WorkerProcess:
        try:
            return self._free.get_nowait()
        except queue.Empty:
            pass
        process = WorkerProcess()
        with self._lock:
            if not self._is_over:
                self._processes.append(process)
                return process
        process.end()
        raise WorkerError("compiling was stopped")


class WorkerProcess:
    """A process that compiles one kernel after the other."""

    def __init__(self) -> None:
        # Python itself skips what is no text
        paths, folder = [path for path in sys.path if isinstance(path, str)], str(Path(__file__).parents[2])
        if folder not in paths:
            paths.insert(0, folder)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(paths)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError as error:
            raise WorkerError(f"no process for compiling can be started: {error}", hint="use workers=0") from error

    def compile(self, kernel: TileKernel, signature: Signature, target: Target) -> Compiled:
        """As `pipeline.compile`.

        raises: WorkerError where the process ends.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            question = pickle.dumps((kernel, target.name), pickle.HIGHEST_PROTOCOL)
        except RecursionError:
            return _compile_here(kernel, signature, target)
        try:
            self._process.stdin.write(question)
            self._process.stdin.flush()
            answer, error, trace = pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError) as broken:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
            raise WorkerError(
                f"the process that compiled {kernel.name} ended with status {self._process.returncode}",
                hint="compile it in this process (workers=0) to see more",
            ) from broken
        if error is not None:
            # a mistake of the user's needs no lines of the compiler's
            raise error from (RuntimeError(f"in another process:\n{trace}") if trace else None)
        if answer is None:
            return _compile_here(kernel, signature, target)
        from ..compiled import Compiled

        executable, timings = answer
        # its derivation, which has functions in it, is made again where somebody asks
        derive = lambda: _compile_here(kernel, signature, target).derivation  # noqa: E731
        return Compiled(replace(executable, signature=signature, target=target), timings, derive)

    def end(self) -> None:
        """Ends the process, and whoever waits for its answer."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError, ValueError):
                    pipe.close()


def _compile_here(kernel: TileKernel, signature: Signature, target: Target) -> Compiled:
    from .. import pipeline

    return pipeline.compile(kernel, signature, target, sound=True)


def serve() -> None:
    """Compiles what comes through standard input, until that ends."""
    answers = os.fdopen(os.dup(1), "wb")
    # whatever prints something, it is no answer
    os.dup2(2, 1)
    while True:
        try:
            kernel, target = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answers.write(_answer(kernel, target))
        answers.flush()


def _answer(kernel: TileKernel, target: str) -> bytes:
    """((executable, timings) or None, error or None, its traceback) as bytes; without either, it can't travel."""
    try:
        compiled = _compile_here(kernel, Signature(()), find_target(target))
    except TilejitError as error:
        return pickle.dumps((None, error.with_traceback(None), ""), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        # a fault of the compiler's own: the other process tells of it with its place
        return pickle.dumps((None, RuntimeError(str(error)), traceback.format_exc()), pickle.HIGHEST_PROTOCOL)
    try:
        return pickle.dumps(((compiled.executable, compiled.timings), None, ""), pickle.HIGHEST_PROTOCOL)
    except RecursionError:
        return pickle.dumps((None, None, ""), pickle.HIGHEST_PROTOCOL)
