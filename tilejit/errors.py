"""The exceptions and warnings of tilejit, and decorators that keep its own frames out of tracebacks."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from .callers import is_ours

if TYPE_CHECKING:
    from .source import Span

# pytest omits the frames of this module from tracebacks
__tracebackhide__ = True

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class TilejitError(Exception):
    """Base class of tilejit's errors.

    message: the problem, with the relevant numbers.
    span: the location in the user's source, or None if there is none.
    hint: how to fix the problem, or None; printed last.

    Example:
        try:
            tj.spec("x", tj.float32)
        except tj.TilejitError as error:
            assert error.hint is not None
            raise
    """

    def __init__(self, message: str, *, span: Span | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint

    def __str__(self) -> str:
        parts = [self.message]
        if self.span is not None:
            parts.append(self.span.render())
        if self.hint is not None:
            parts.append(f"help: {self.hint}")
        return "\n".join(parts)

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython and Jupyter show: user frames, or all with TILEJIT_FULL_TRACEBACK=1."""
        traceback = self.__traceback__ if _shows_all() else _of_users(self.__traceback__)
        lines: list[str] = running_shell().InteractiveTB.structured_traceback(type(self), self, traceback)
        return lines


class KernelSyntaxError(TilejitError):
    """A kernel uses a Python feature that kernels don't support, or its decorator is misapplied.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            import numpy

        k.compile(tj.spec(8, tj.float32))
    """


class KernelTypeError(TilejitError):
    """The types, shapes or names in a kernel don't fit together.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[0] = A.mean

        k.compile(tj.spec(8, tj.float32))
    """


class LayoutError(TilejitError):
    """A layout or swizzle is invalid, doesn't fit its shape or use, or isn't injective where it must be.

    Example:
        S[(32, 8) : (1 @ laneid,)]
    """


class DispatchError(TilejitError):
    """An operation can't be lowered: for example, no variant accepts it, or some threads may not reach it.

    declines: variant name -> the reasons for which it declined; {} if no variant was asked.

    Example:
        tmem, shared = (tj.operand(space, (128, 8), tj.float32) for space in ("tmem", "shared"))
        tj.dispatch("copy", "warpgroup", shared, tmem, threads=128, target="sm_100a")
    """

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        hint: str | None = None,
        declines: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        super().__init__(message, span=span, hint=hint)
        self.declines = dict(declines or {})


class ResourceError(TilejitError):
    """A kernel or array exceeds a limit, such as that on memory, or the target lacks a feature, such as clusters.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            x = tj.alloc_shared((1024, 1024), tj.float32)
            tj.cta.fill(x, 0)

        k.compile(tj.spec(8, tj.float32))
    """


class LaunchError(TilejitError):
    """A launch or another call has invalid arguments, or CUDA reported an error.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        k[0.5](np.zeros(32, np.float32))
    """


class DeviceError(TilejitError):
    """A device or target doesn't exist, the two don't match, the driver or LLVM is unusable, or the driver rejects PTX.

    Example:
        with tj.use_device("gpu"):
            pass
    """


class SimulationError(TilejitError):
    """The simulator detected an error in a kernel, or can't run it.

    The message names the threads, CTAs and source lines involved, if they are known.

    instructions: indices in the kernel's PTX of the instructions involved; () if unknown.
    threads: zero-based indices in the grid of the threads that are at fault or waiting; for two conflicting accesses,
    of those that executed `instructions[0]`. () if unknown.
    column: the column in the `.loc` directive of `instructions[0]`, or of PTX that isn't supported, 0 if it has none.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        tj.simulate(k, 1, np.zeros(31, np.float32))
    """

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        hint: str | None = None,
        instructions: Sequence[int] = (),
        threads: Sequence[int] = (),
    ) -> None:
        super().__init__(message, span=span, hint=hint)
        self.instructions = tuple(instructions)
        self.threads = tuple(threads)
        self.column = 0


class OutOfBoundsError(SimulationError):
    """An index is outside its dimension, or an address is outside all memory that the kernel may access.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        tj.simulate(k, 1, np.zeros(31, np.float32))
    """


class MisalignedError(SimulationError):
    """An address, or the size of a bulk copy, isn't a multiple of the number of bytes that the access requires."""


class UninitializedReadError(SimulationError):
    """A kernel uses a value read from a memory location or register that was never written.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            x = tj.alloc_shared(32, tj.float32)
            A[tj.thread_id()] = x[tj.thread_id()]

        tj.simulate(k, 1, np.zeros(32, np.float32))
    """


class RaceError(SimulationError):
    """Two accesses to a location, at least one of them a write, are unordered, or one is an `ld.global.nc`.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[0] = tj.thread_id()

        tj.simulate(k, 1, np.zeros(1, np.int32))
    """


class DeadlockError(SimulationError):
    """Threads wait for an event that can no longer occur, or run a loop that cannot end.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            while tj.load_acquire(A[0]) == 0:
                pass

        tj.simulate(k, 1, np.zeros(1, np.int32))
    """


class DivergenceError(SimulationError):
    """A barrier or an aligned instruction was not executed together by all threads that it requires."""


class AsyncHazardError(SimulationError):
    """An operand of an asynchronous operation is accessed without the necessary wait or fence, or a barrier is misused.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            x = tj.alloc_shared(32, tj.float32)
            tj.cta.copy_async(x, A[0:32])
            A[tj.thread_id()] = x[tj.thread_id()]

        tj.simulate(k, 1, np.zeros(32, np.float32))
    """


class UnsupportedInstructionError(SimulationError):
    """The PTX has an instruction or syntax that the simulator doesn't support, or lacks the requested kernel."""


class SimulatedAssertionError(SimulationError, AssertionError):
    """An `assert` failed on the simulator.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            assert A[0] > 0, "A begins with a positive number"

        tj.simulate(k, 1, np.zeros(1, np.float32))
    """


class DivisionByZeroError(SimulationError, ZeroDivisionError):
    """An integer was divided by zero on the simulator.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor, n: int) -> None:
            A[tj.thread_id()] = 1 // n

        tj.simulate(k, 1, np.zeros(32, np.int32), 0)
    """


class DeviceCheckError(LaunchError):
    """A checked build (`debug=True`) detected an error on a GPU. Raised when tilejit next synchronizes."""


class DeviceAssertionError(DeviceCheckError, AssertionError):
    """An `assert` failed on a GPU, in a kernel with `debug=True`."""


class PrecisionWarning(UserWarning):
    """A number that float32 can't represent exactly was passed for a float32 parameter that is used as float64.

    Issued once per kernel and parameter.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor, x: float) -> None:
            A[tj.thread_id()] *= x

        k[1](np.ones(32, np.float64), 0.1)
    """


class OutsideWarning(UserWarning):
    """A simulated launch accessed only regions of a tensor that lie entirely outside it.

    Tensors without elements are exempt. If only some regions lie outside, `Report.outside` lists them instead.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor, B: tj.Tensor) -> None:
            tj.cta.store(B[0:8], tj.cta.load(A[tj.cta_id(0) + 77, 0:8]))

        tj.simulate(k, 1, np.zeros((50, 8), np.float32), np.zeros(8, np.float32))
    """


class GridWarning(UserWarning):
    """A grid has several CTAs, or none, along an axis whose index and extent the kernel never reads.

    Not issued if the kernel doesn't read the index or extent of axis 0 either.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.cta_id(0)] = 1

        k[4, 8](np.zeros(4, np.float32))
    """


class PerformanceWarning(UserWarning):
    """The driver's compiler serialized products, ignored an instruction, or spilled registers of a kernel.

    Issued at a kernel's first launch on a GPU, except for checked builds. If the kernel comes from a cache, only spills
    are known.
    """


class CacheWarning(UserWarning):
    """The cache on disk, or an entry of it, can't be used or written, or a setting of the cache is invalid."""


def shown_file(file: str) -> str:
    """Return a source file's name for messages: `Cell In[3]` for a cell of a notebook or IPython session."""
    named = getattr(getattr(running_shell(), "compile", None), "format_code_name", None)
    return " ".join((named and named(file)) or (file,))


def running_shell() -> Any:
    """Return IPython's running shell, or None if there is none. If a shell runs, IPython is already imported."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _shows_all() -> bool:
    return os.environ.get("TILEJIT_FULL_TRACEBACK", "0") != "0"


def _of_users(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the library's own frames, or None if no others remain."""
    if traceback is None:
        return None
    inner = _of_users(traceback.tb_next)
    if is_ours(traceback.tb_frame):
        return inner
    return TracebackType(inner, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def assert_never(node: NoReturn) -> NoReturn:
    """Mark unreachable code for type checkers, like `typing.assert_never`, which Python 3.10 lacks."""
    raise AssertionError(f"no case for {type(node).__name__}")


#: options of Triton's launches -> their replacements
TRITON_OPTIONS = {
    "num_warps": "pass threads= to @tj.kernel or tj.Config, 32 per warp",
    "num_stages": "leave it out: the kernel itself implements the stages of a loop, with copy_async and a ring",
    "num_ctas": "pass cluster= to @tj.kernel",
}


def without_triton_options(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that it rejects Triton's options with a LaunchError."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for option in TRITON_OPTIONS.keys() & kwargs.keys():
            raise LaunchError(f"there is no option {option}=", hint=TRITON_OPTIONS[option])
        return function(*args, **kwargs)

    return checked


def entry_point(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that users call: tilejit errors and interrupts lose their inner frames (see `for_users`)."""

    @functools.wraps(function)
    def entry(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (TilejitError, KeyboardInterrupt) as error:
            raise for_users(error) from error.__cause__

    return entry


def for_users(error: E) -> E:
    """Return `error`, with its traceback removed unless TILEJIT_FULL_TRACEBACK=1."""
    return error if _shows_all() else error.with_traceback(None)
