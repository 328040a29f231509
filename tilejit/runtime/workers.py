"""Processes that compile, so that several kernels are compiled at the same time.

Threads can't: Python's part of the compiler holds the interpreter's lock, and llvmlite lets one thread into LLVM at a
time. A process gets tile IR and gives what was made of it. It imports nothing of the user's, so that kernels of
notebooks and of programs without `if __name__ == "__main__"` can be compiled there, too; and where LLVM ends it, only
that one kernel is lost. What can't be sent, or fails there, is compiled in this process, which tells of errors as ever,
and so is all where no process comes up: what runs Python here may be another program that starts itself again.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

from ..callers import call_site, called_from
from ..dataclass import dataclass, replace
from ..errors import TilejitError
from ..forks import renewed_at_fork
from ..ir.types import Signature
from ..remember import forget
from ..target import Target
from ..target import target as find_target
from .fingerprint import IMPORTED, is_as_imported
from .variant_builder import Compiler

if TYPE_CHECKING:
    from ..compiled import Compiled
    from ..executable import Executable
    from ..ir.nodes import Kernel as TileKernel

T = TypeVar("T")

#: what a process made of a kernel, and milliseconds by stage; None where it could make nothing
Answer = tuple["Executable", dict[str, float]] | None

#: what a process runs. All that it imports, of Python's own too, is looked up where this process finds it. Ctrl-C is
#: for this process, which then ends the other. What anybody prints there is no answer.
_PROGRAM = """
import sys
sys.path[:] = sys.argv[2:]
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
from tilejit.runtime.workers import serve
serve(sys.stdin.buffer, answers, float(sys.argv[1]))
"""

#: a process's first line of its own; what its start prints, such as a `sitecustomize`, comes before
_READY = b"this is tilejit, which compiles\n"

#: seconds that a process has to say so
_READY_SECONDS = 30.0

#: set in the processes that are started: none of them starts others, whatever it runs
_MARK = "TILEJIT_WORKER"

#: the programs that run Python here and of which one didn't come up
_unable: set[str] = set()

#: seconds that a process takes until it compiles; where less is left to do, none is started
START_SECONDS = 0.5

#: of a message's length in front of it
_HEAD_BYTES = 8

#: processes of one pool: the frontend, a fifth of the work, stays in this one, one kernel after the other
_MOST = 8

#: seconds that a process has to end by itself
_PATIENCE = 2.0


class WorkerError(TilejitError):
    """A process that compiles has ended."""


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

    workers: processes that compile; 0 for none; None for one for each processor, up to `_MOST`, once what is left takes
    longer than starting them, by the last task that ended well.
    """
    remaining = deque(enumerate(tasks))
    most, pays = _most(workers), workers is not None
    while remaining and not (most and pays and len(remaining) > 1):
        began = time.perf_counter()
        outcome = _here(*remaining.popleft())
        expected = (time.perf_counter() - began) * len(remaining)
        pays = pays or (outcome.error is None and expected > 2 * START_SECONDS)
        yield outcome
    if remaining:
        with Workers(min(most, len(remaining))) as crew:
            yield from crew.run(tuple(remaining))


def _most(workers: int | None) -> int:
    """How many processes may be started. workers: as `run_all` has it."""
    if not sys.executable or getattr(sys, "frozen", False) or sys.executable in _unable or _MARK in os.environ:
        return 0
    if workers is not None:
        return workers
    # on a single processor they would only take turns with this one
    return min(processors(), _MOST) if processors() > 1 else 0


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
        self._lock = renewed_at_fork(threading.Lock())
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
        refused = []
        with called_from(call_site()):
            for number, task in tasks:
                try:
                    # each with the caller's device and other settings
                    numbers[self._threads.submit(copy_context().run, task, self._compile)] = number
                except RuntimeError:
                    # no thread can be started: the interpreter is ending
                    refused.append((number, task))
        yield from (_here(number, task) for number, task in refused)
        for future in as_completed(numbers):
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            yield Outcome(numbers[future], None if error else future.result(), error)

    def _compile(self, kernel: TileKernel, signature: Signature, target: Target) -> Compiled:
        question = _question(kernel, target)
        answer = None if question is None else self._ask(question, kernel.name)
        if answer is None:
            return _compile_here(kernel, signature, target)
        from ..compiled import Compiled

        executable, timings = answer
        # its derivation, which has functions in it, is made again where somebody asks
        derive = lambda: _compile_here(kernel, signature, target).derivation  # noqa: E731
        return Compiled(replace(executable, signature=signature, target=target), timings, derive)

    def _ask(self, question: bytes, name: str) -> Answer:
        process = self._take()
        if process is None:
            return None
        try:
            answer = process.ask(question, name)
        except BaseException:
            # it has ended, or an answer may be on its way that nobody would take
            process.end()
            raise
        self._free.put(process)
        return answer

    def _take(self) -> WorkerProcess | None:
        """One that waits, else a new one; None where none comes up."""
        with contextlib.suppress(queue.Empty):
            return self._free.get_nowait()
        if sys.executable in _unable:
            return None
        try:
            process = WorkerProcess()
        except OSError:
            return None
        with self._lock:
            is_wanted = not self._is_over
            if is_wanted:
                # so that it is ended, too, while it starts
                self._processes.append(process)
        if is_wanted and process.is_ready():
            return process
        process.end()
        if self._is_over:
            raise WorkerError("compiling was stopped")
        _unable.add(sys.executable)
        return None


class WorkerProcess:
    """A process that compiles one kernel after the other.

    raises: OSError where none can be started.
    """

    def __init__(self) -> None:
        # Python itself skips what is no text
        paths, folder = [path for path in sys.path if isinstance(path, str)], str(Path(__file__).parents[2])
        if folder not in paths:
            paths.insert(0, folder)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, repr(IMPORTED), *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, _MARK: "1"},
        )
        self._said = b""
        # it has said what it says at its start, or has ended
        self._has_started = threading.Event()
        threading.Thread(target=self._listen, name="tilejit-start", daemon=True).start()

    def _listen(self) -> None:
        """Reads until it is ready, in a thread that nobody waits for: what it has started may keep the pipe open."""
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            # past the file's buffer, which would be locked meanwhile
            number = self._process.stdout.fileno()
            while not self._said.endswith(_READY) and (more := os.read(number, 1 << 12)):
                self._said += more
        self._has_started.set()

    def is_ready(self) -> bool:
        """Whether it compiles, once it has said so, and as this process would: with the same files of this package."""
        self._has_started.wait(_READY_SECONDS)
        return self._said.endswith(_READY)

    def ask(self, question: bytes, name: str) -> Answer:
        """What becomes of a kernel; None where it can make nothing of it. name: its name.

        raises: WorkerError where the process ends.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        broken: Exception | None = None
        try:
            _send(self._process.stdin, question)
            answer = _received(self._process.stdout)
        except (OSError, ValueError) as error:
            # the pipe is broken, or `end` has closed it
            answer, broken = None, error
        if answer is not None:
            return _made(answer)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        raise WorkerError(
            f"the process that compiled {name} {_ending(self._process.returncode)}",
            hint="compile it in this process (workers=0) to see more",
        ) from broken

    def end(self) -> None:
        """Ends the process, and whoever waits for its answer."""
        self._process.kill()
        self._process.wait()
        # another descriptor may get the number of a pipe that is still listened to
        pipes = [self._process.stdin, self._process.stdout if self._has_started.is_set() else None]
        self._has_started.set()
        for pipe in pipes:
            if pipe is not None:
                with contextlib.suppress(OSError, ValueError):
                    pipe.close()


def _compile_here(kernel: TileKernel, signature: Signature, target: Target) -> Compiled:
    from .. import pipeline

    return pipeline.compile(kernel, signature, target, sound=True)


def _ending(status: int | None) -> str:
    """How a process ended, by its status; None while it runs."""
    if status is None:
        return "closed its end of the pipe"
    if status >= 0:
        return f"ended with status {status}"
    return f"was ended by signal {-status} ({signal.strsignal(-status)})"


def _question(kernel: TileKernel, target: Target) -> bytes | None:
    """A kernel as a process gets it; None where it can't be sent."""
    try:
        return pickle.dumps((kernel, target.name), pickle.HIGHEST_PROTOCOL)
    except Exception:
        # it is deeper than pickle recurses, or has a number or a text of a class of the user's that has no name
        return None


def serve(questions: IO[bytes], answers: IO[bytes], imported: float) -> None:
    """Compiles one kernel after the other, until none comes. imported: when who asks had imported this package."""
    if not is_as_imported(imported):
        return
    answers.write(_READY)
    answers.flush()
    # it would go through what compilations remember, again and again: a sixth of the time of compiling the examples
    gc.disable()
    while (question := _received(questions)) is not None:
        answer = _answer(question)
        try:
            _send(answers, answer)
        except BrokenPipeError:
            # nobody waits for it any more; Python would try again, and complain, when it closes the pipe
            os._exit(1)
        forget()
        # what the kernel left in cycles; what is older was looked at before
        gc.collect(0)


class _Unpickler(pickle.Unpickler):
    """Reads what consists of this package's classes.

    A class of the user's, such as an IntEnum that is a shape's extent, would import the user's modules.
    """

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] != __package__.partition(".")[0]:
            raise pickle.UnpicklingError(f"{module}.{name} is not of this package")
        return super().find_class(module, name)


def _answer(question: bytes) -> bytes:
    """An `Answer`, pickled."""
    answer: Answer = None
    try:
        kernel, target = _Unpickler(io.BytesIO(question)).load()
        compiled = _compile_here(kernel, Signature(()), find_target(target))
        answer = compiled.executable_to_keep, compiled.timings
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception:
        # whoever asked compiles it again, and tells of what happens then with all that is known there
        return pickle.dumps(None)


def _made(answer: bytes) -> Answer:
    try:
        made: Answer = pickle.loads(answer)
    except Exception:
        # it is of classes that are others here, whose files were changed meanwhile
        return None
    return made


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(_HEAD_BYTES, "little"))
    stream.write(message)
    stream.flush()


def _received(stream: IO[bytes]) -> bytes | None:
    """The next message; None where the stream ends first."""
    head = stream.read(_HEAD_BYTES)
    if len(head) < _HEAD_BYTES:
        return None
    count = int.from_bytes(head, "little")
    message = stream.read(count)
    return message if len(message) == count else None
