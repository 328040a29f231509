"""Worker processes that compile kernels in parallel.

Threads don't run in parallel: Python code holds the GIL, and llvmlite lets one thread into LLVM at a time; compiling in
two threads took as long as in one. A worker receives tile IR and returns the compiled kernel. It imports no user
modules, so that kernels of notebooks and of programs without `if __name__ == "__main__"` can be compiled. If LLVM
crashes, only one kernel is lost. Kernels that can't be sent, or that fail in a worker, are compiled in this process,
which reports their errors. If no worker starts, as in a program that embeds Python, this process compiles all kernels.
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
from typing import IO, TYPE_CHECKING, Any, TypeVar

from ..callers import call_site, called_from
from ..dataclass import replace
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

#: a compiled kernel, and milliseconds by stage; None if no worker has compiled it
Answer = tuple["Executable", dict[str, float]] | None

#: the worker's program. It imports modules from the paths of this process, ignores Ctrl-C (this process kills it then),
#: and redirects all output other than answers to stderr
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

#: the line that reports that the worker is ready; output of startup code, such as `sitecustomize`, may precede it
_READY = b"this is tilejit, which compiles\n"

_READY_SECONDS = 30.0

#: set in the environment of workers, which never start workers themselves
_MARK = "TILEJIT_WORKER"

#: executables with which a worker failed to start
_unable: set[str] = set()

#: seconds that a worker takes to start; by default, workers start only if the remaining work takes over twice that
START_SECONDS = 0.5

#: size of the length field that precedes a message
_HEAD_BYTES = 8

#: the default limit on workers; more would gain little, because the frontend, a fifth of the work, runs in this process
_MOST = 8

#: seconds to wait for a worker to exit after its pipe has broken
_PATIENCE = 2.0


class WorkerError(TilejitError):
    """A worker process ended before it had answered, or compilation was stopped."""


def processors(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return the number of processors that this process may use. quota: the file with the CPU limit of its cgroup."""
    seen = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        limit, period = map(int, quota.read_text().split())
        return max(1, min(seen, round(limit / period))) if limit > 0 else seen
    except (OSError, ValueError, ZeroDivisionError):
        # the file doesn't exist, or contains "max": no limit
        return seen


#: a function with one parameter: a compiler, or None for `pipeline.compile`
Task = Callable[[Compiler | None], T]

#: the index of a task and its outcome
Done = tuple[int, Future[T]]


def run_all(tasks: Sequence[Task[T]], workers: int | None = None) -> Generator[Done[T], None, None]:
    """Run the tasks and yield the outcome of each as soon as it is known.

    workers: the maximum number of worker processes; None for one per processor, up to `_MOST`, but only if there are
    several processors and the remaining tasks are expected to take over twice `START_SECONDS`.
    """
    remaining = deque(enumerate(tasks))
    most, pays = _most(workers), workers is not None
    while remaining and not (most and pays and len(remaining) > 1):
        began = time.perf_counter()
        number, outcome = _here(*remaining.popleft())
        expected = (time.perf_counter() - began) * len(remaining)
        pays = pays or (outcome.exception() is None and expected > 2 * START_SECONDS)
        yield number, outcome
    if remaining:
        with Workers(min(most, len(remaining))) as pool:
            yield from pool.run(tuple(remaining))


def _most(workers: int | None) -> int:
    if not sys.executable or getattr(sys, "frozen", False) or sys.executable in _unable or _MARK in os.environ:
        return 0
    if workers is not None:
        return workers
    # on a single processor, workers would only compete with this process
    return min(processors(), _MOST) if processors() > 1 else 0


def _here(number: int, task: Task[T]) -> Done[T]:
    outcome: Future[T] = Future()
    try:
        outcome.set_result(task(None))
    except Exception as error:
        # an error is an outcome, too
        outcome.set_exception(error)
    return number, outcome


class Workers:
    """A pool of worker processes, each used by one thread at a time."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, "tilejit-compile")
        self._free: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        self._processes: list[WorkerProcess] = []
        self._lock = renewed_at_fork(threading.Lock())
        self._is_over = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_over = True
            processes, self._processes = self._processes, []
        for process in processes:
            process.end()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def run(self, tasks: Sequence[tuple[int, Task[T]]]) -> Iterator[Done[T]]:
        numbers: dict[Future[T], int] = {}
        refused = []
        with called_from(call_site()):
            for number, task in tasks:
                try:
                    # run the task with the caller's device and other context variables
                    numbers[self._threads.submit(copy_context().run, task, self._compile)] = number
                except RuntimeError:
                    # no thread can be started, as at interpreter exit
                    refused.append((number, task))
        yield from (_here(number, task) for number, task in refused)
        for future in as_completed(numbers):
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            yield numbers[future], future

    def _compile(self, kernel: TileKernel, signature: Signature, target: Target) -> Compiled:
        question = _question(kernel, target)
        answer = None if question is None else self._ask(question, kernel.name)
        if answer is None:
            return _compile_here(kernel, signature, target)
        from ..compiled import Compiled

        executable, timings = answer
        # a derivation contains functions and can't be pickled, so recompute it on demand
        derive = lambda: _compile_here(kernel, signature, target).derivation  # noqa: E731
        return Compiled(replace(executable, signature=signature, target=target), timings, derive)

    def _ask(self, question: bytes, name: str) -> Answer:
        process = self._take()
        if process is None:
            return None
        try:
            answer = process.ask(question, name)
        except BaseException:
            # the worker has ended, or may still send its answer, which would be taken for the next question's answer
            process.end()
            raise
        self._free.put(process)
        return answer

    def _take(self) -> WorkerProcess | None:
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
                # so that `__exit__` also kills it while it starts
                self._processes.append(process)
        if is_wanted and process.is_ready():
            return process
        process.end()
        if self._is_over:
            raise WorkerError("compilation was stopped")
        _unable.add(sys.executable)
        return None


class WorkerProcess:
    """A worker process, which compiles kernels one by one. Starting it may raise OSError."""

    def __init__(self) -> None:
        # Python ignores path entries that aren't strings
        paths, folder = [path for path in sys.path if isinstance(path, str)], str(Path(__file__).parents[2])
        if folder not in paths:
            paths.insert(0, folder)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, repr(IMPORTED), *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, _MARK: "1"},
        )
        self._output = b""
        # set when the worker is ready, has ended or is being killed
        self._has_started = threading.Event()
        threading.Thread(target=self._listen, name="tilejit-start", daemon=True).start()

    def _listen(self) -> None:
        """Read until the worker is ready or its pipe closes; in a daemon thread, because a child may keep it open."""
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            # bypass the file object's buffer, whose lock would be held during the read
            number = self._process.stdout.fileno()
            while not self._output.endswith(_READY) and (more := os.read(number, 1 << 12)):
                self._output += more
        self._has_started.set()

    def is_ready(self) -> bool:
        """Wait for the worker; return True if it starts in time and finds the package as this process imported it."""
        self._has_started.wait(_READY_SECONDS)
        return self._output.endswith(_READY)

    def ask(self, question: bytes, name: str) -> Answer:
        """Send a kernel and return the answer; raise WorkerError if the worker ends first. name: the kernel's name."""
        assert self._process.stdin is not None and self._process.stdout is not None
        broken: Exception | None = None
        try:
            _send(self._process.stdin, question)
            answer = _received(self._process.stdout)
        except (OSError, ValueError) as error:
            # the pipe is broken, or `end` has closed it
            answer, broken = None, error
        if answer is not None:
            return _unpickled(answer)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        raise WorkerError(
            f"the process that compiled {name} {_ending(self._process.returncode)}",
            hint="compile it in this process, with tj.compile_many(..., workers=0), to see the cause",
        ) from broken

    def end(self) -> None:
        """Kill the worker, which also wakes the thread that waits for its answer."""
        self._process.kill()
        self._process.wait()
        # leave a pipe open while `_listen` reads it, because another file could get its descriptor
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
    if status is None:
        return "closed its end of the pipe"
    if status >= 0:
        return f"ended with status {status}"
    return f"was ended by signal {-status} ({signal.strsignal(-status)})"


def _question(kernel: TileKernel, target: Target) -> bytes | None:
    try:
        return pickle.dumps((kernel, target.name), pickle.HIGHEST_PROTOCOL)
    except Exception:
        # the kernel may be nested deeper than the recursion limit, for example, or contain an instance of a local class
        return None


def serve(questions: IO[bytes], answers: IO[bytes], imported: float) -> None:
    """Compile kernels until the stream ends, unless the package has changed since the parent process imported it."""
    if not is_as_imported(imported):
        return
    answers.write(_READY)
    answers.flush()
    # the collector would repeatedly traverse memo tables, which took a sixth of the time to compile the examples
    gc.disable()
    while (question := _received(questions)) is not None:
        answer = _answer(question)
        try:
            _send(answers, answer)
        except BrokenPipeError:
            # the parent has closed the pipe; a normal exit would flush the stream again and report an error
            os._exit(1)
        forget()
        # collect only the young generation, which contains this kernel's cycles
        gc.collect(0)


class _Unpickler(pickle.Unpickler):
    """Loads only this package's classes and functions, because loading others would import the user's modules."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] != __package__.partition(".")[0]:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of this package")
        return super().find_class(module, name)


def _answer(question: bytes) -> bytes:
    answer: Answer = None
    try:
        kernel, target = _Unpickler(io.BytesIO(question)).load()
        compiled = _compile_here(kernel, Signature(()), find_target(target))
        answer = compiled.executable_to_keep, compiled.timings
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception:
        # the parent compiles the kernel again and reports the error
        return pickle.dumps(None)


def _unpickled(answer: bytes) -> Answer:
    # may fail if classes have changed here since the worker started
    with contextlib.suppress(Exception):
        unpickled: Answer = pickle.loads(answer)
        return unpickled
    return None


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(_HEAD_BYTES, "little"))
    stream.write(message)
    stream.flush()


def _received(stream: IO[bytes]) -> bytes | None:
    head = stream.read(_HEAD_BYTES)
    if len(head) < _HEAD_BYTES:
        return None
    count = int.from_bytes(head, "little")
    message = stream.read(count)
    return message if len(message) == count else None
