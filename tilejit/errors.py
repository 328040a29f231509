"""Every exception that tilejit raises on purpose."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar

from .callers import is_ours

# pytest leaves `entry_point` out of its tracebacks
__tracebackhide__ = True

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class Rendered(Protocol):
    """A place in source code that can show itself with a caret (see `tilejit.source.Span`)."""

    def render(self) -> str: ...


class TilejitError(Exception):
    """Base of all errors: what was wrong, where, and what to do.

    message: what was wrong, as one sentence with the numbers that matter.
    span: the place in the user's source, or None where there is none.
    hint: what to do about it; printed last.

    Example:
        try:
            tj.spec("x", tj.float32)
        except tj.TilejitError as error:
            assert error.hint is not None
            raise
    """

    def __init__(self, message: str, *, span: Rendered | None = None, hint: str | None = None) -> None:
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
        """What IPython and Jupyter show: the frames of the user's code, and the error."""
        traceback = self.__traceback__ if _shows_all() else _of_users(self.__traceback__)
        lines: list[str] = running_shell().InteractiveTB.structured_traceback(type(self), self, traceback)
        return lines


class KernelSyntaxError(TilejitError):
    """The kernel's text uses something that kernels can't.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            import numpy

        k.compile(tj.spec(8, tj.float32))
    """


class KernelTypeError(TilejitError):
    """The kernel's types, shapes or names don't fit together.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[0] = A.mean

        k.compile(tj.spec(8, tj.float32))
    """


class LayoutError(TilejitError):
    """A layout that doesn't fit, isn't injective where it must be, or has a wrong size.

    Example:
        S[(32, 8) : (1 @ laneid,)]
    """


class DispatchError(TilejitError):
    """No variant accepts a tile operation.

    declines: variant name -> its reasons, one string each.

    Example:
        tmem, shared = (tj.operand(space, (128, 8), tj.float32) for space in ("tmem", "shared"))
        tj.dispatch("copy", "warpgroup", shared, tmem, threads=128, target="sm_100a")
    """

    def __init__(
        self,
        message: str,
        *,
        span: Rendered | None = None,
        hint: str | None = None,
        declines: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        super().__init__(message, span=span, hint=hint)
        self.declines = dict(declines or {})


class ResourceError(TilejitError):
    """Shared memory, tensor memory, registers or threads beyond the target's limit.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            x = tj.alloc_shared((1024, 1024), tj.float32)
            tj.cta.fill(x, 0)

        k.compile(tj.spec(8, tj.float32))
    """


class LaunchError(TilejitError):
    """Arguments, grid or stream that can't be launched, or a CUDA error by its name.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        k[0.5](np.zeros(32, np.float32))
    """


class DeviceError(TilejitError):
    """No such device, a driver too old for the target, or PTX that the driver refused.

    Example:
        with tj.use_device("gpu"):
            pass
    """


class SimulationError(TilejitError):
    """What the simulator found wrong with a running kernel.

    The message names thread, CTA and the source lines of both parties.

    instructions: numbers of both parties' instructions in the kernel's PTX, of the first alone, or none.
    threads: numbers in the grid, from 0, of those of the first party.
    column: that of the `.loc` of the first party's instruction, 0 where there is none.

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
        span: Rendered | None = None,
        hint: str | None = None,
        instructions: Sequence[int] = (),
        threads: Sequence[int] = (),
    ) -> None:
        super().__init__(message, span=span, hint=hint)
        self.instructions = tuple(instructions)
        self.threads = tuple(threads)
        self.column = 0


class OutOfBoundsError(SimulationError):
    """An access outside every array, buffer or window.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        tj.simulate(k, 1, np.zeros(31, np.float32))
    """


class MisalignedError(SimulationError):
    """An address that isn't a multiple of the access's size."""


class UninitializedReadError(SimulationError):
    """A read of memory or of a register that nothing has written.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            x = tj.alloc_shared(32, tj.float32)
            A[tj.thread_id()] = x[tj.thread_id()]

        tj.simulate(k, 1, np.zeros(32, np.float32))
    """


class RaceError(SimulationError):
    """Two threads access one place, at least one writes, and nothing orders them.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[0] = tj.thread_id()

        tj.simulate(k, 1, np.zeros(1, np.int32))
    """


class DeadlockError(SimulationError):
    """Threads that wait for something that can no longer happen, or whose loop can no longer end.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            while tj.load_acquire(A[0]) == 0:
                pass

        tj.simulate(k, 1, np.zeros(1, np.int32))
    """


class DivergenceError(SimulationError):
    """A barrier or an aligned instruction that not all of its threads reached together."""


class AsyncHazardError(SimulationError):
    """The result of an asynchronous operation touched before its wait.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            x = tj.alloc_shared(32, tj.float32)
            tj.cta.copy_async(x, A[0:32])
            A[tj.thread_id()] = x[tj.thread_id()]

        tj.simulate(k, 1, np.zeros(32, np.float32))
    """


class UnsupportedInstructionError(SimulationError):
    """PTX that the simulator doesn't know."""


class SimulatedAssertionError(SimulationError, AssertionError):
    """An `assert` that failed on the simulator.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            assert A[0] > 0, "A begins with a positive number"

        tj.simulate(k, 1, np.zeros(1, np.float32))
    """


class DivisionByZeroError(SimulationError, ZeroDivisionError):
    """A division of integers by zero on the simulator.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor, n: int) -> None:
            A[tj.thread_id()] = 1 // n

        tj.simulate(k, 1, np.zeros(32, np.int32), 0)
    """


class DeviceCheckError(LaunchError):
    """An error that a checked build (`debug=True`) found on a GPU; raised at the next synchronization."""


class DeviceAssertionError(DeviceCheckError, AssertionError):
    """An `assert` that failed on a GPU, in a kernel with `debug=True`."""


class PrecisionWarning(UserWarning):
    """A number that float32 rounds was passed as float32, and the kernel computes with it in float64.

    It is given once for each kernel and parameter.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor, x: float) -> None:
            A[tj.thread_id()] *= x

        k[1](np.ones(32, np.float64), 0.1)
    """


class OutsideWarning(UserWarning):
    """Every region of a tensor that a launch on the simulator used lay wholly outside that tensor.

    A tensor without elements doesn't count. One region beside others that lie inside is not reported; a `Report` lists
    it in `outside`.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor, B: tj.Tensor) -> None:
            tj.cta.store(B[0:8], tj.cta.load(A[tj.cta_id(0) + 77, 0:8]))

        tj.simulate(k, 1, np.zeros((50, 8), np.float32), np.zeros(8, np.float32))
    """


class GridWarning(UserWarning):
    """A grid with an axis along which all CTAs do the same.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.cta_id(0)] = 1

        k[4, 8](np.zeros(4, np.float32))
    """


class CacheWarning(UserWarning):
    """Kernels are compiled again in each process because the cache on disk can't be used."""


def shown_file(file: str) -> str:
    """A source file as messages name it: `Cell In[3]` for the cell of a notebook or of an IPython session."""
    named = getattr(getattr(running_shell(), "compile", None), "format_code_name", None)
    return " ".join((named and named(file)) or (file,))


def running_shell() -> Any:
    """IPython's running shell, or None: who runs cells has imported IPython already."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _shows_all() -> bool:
    return os.environ.get("TILEJIT_FULL_TRACEBACK", "0") != "0"


def _of_users(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the library's own frames."""
    if traceback is None:
        return None
    inner = _of_users(traceback.tb_next)
    if is_ours(traceback.tb_frame):
        return inner
    return TracebackType(inner, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def assert_never(node: NoReturn) -> NoReturn:
    """Type checking fails where this may be reached. It is `typing.assert_never`, which Python 3.10 lacks."""
    raise AssertionError(f"no case for {type(node).__name__}")


def without(**instead: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Refuses options that other libraries have. instead: what to write, by the option's name."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            for option in instead.keys() & kwargs.keys():
                raise LaunchError(f"there is no option {option}=", hint=instead[option])
            return function(*args, **kwargs)

        return checked

    return decorate


#: Triton's options of a launch, and what is written here
TRITON_OPTIONS = {
    "num_warps": "write threads=: 32 for each warp",
    "num_stages": "leave it out: a loop has the stages that the kernel writes, with copy_async and a ring",
    "num_ctas": "write cluster= above the kernel",
}
without_triton_options = without(**TRITON_OPTIONS)


def entry_point(function: Callable[P, T]) -> Callable[P, T]:
    """Marks what users call: an error of ours, or Ctrl-C, leaves it without the frames of the library's inside.

    `TILEJIT_FULL_TRACEBACK=1` keeps them.
    """

    @functools.wraps(function)
    def entry(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (TilejitError, KeyboardInterrupt) as error:
            raise for_users(error) from error.__cause__

    return entry


def for_users(error: E) -> E:
    """The error without the frames that it has come through, unless all are to be shown."""
    return error if _shows_all() else error.with_traceback(None)
