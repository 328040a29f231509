"""Checks of launch configurations, `k[grid, threads, stream]`, and of a kernel's cluster and maximum registers."""

from __future__ import annotations

import inspect
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..callers import stack_level
from ..errors import GridWarning, LaunchError, ResourceError
from ..target import MAX_GRID, MAX_REGISTERS, MAX_THREADS
from ..wording import shown

_MORE_WORK = "give each CTA more work"
_THREADS = "threads and a stream follow a tuple: k[(4,), 128, stream]"


def split(configuration: Any) -> tuple[Any, Any, Any]:
    """Split the contents of the brackets in `k[...]` into the grid, threads or None, and stream or None.

    Python passes the same value for `k[4, 4]` and `k[(4, 4)]`, so a tuple that contains only integers is a grid. With
    threads, a grid of integers is a nested tuple, `k[(4,), 64]`.
    raises: LaunchError for more than three values, unless all are integers.
    """
    if type(configuration) is not tuple or all(_is_integer(n) for n in configuration):
        return configuration, None, None
    if len(configuration) > 3:
        raise LaunchError(
            f"k[...] takes a grid, threads and a stream; got {len(configuration)} values",
            hint="write k[grid], k[grid, threads] or k[grid, threads, stream], with a tuple or a function as the grid",
        )
    grid, threads, stream = (*configuration, None, None)[:3]
    return grid, threads, stream


def _is_integer(value: Any) -> bool:
    # before version 2.3, NumPy's bools have `__index__`
    is_bool = isinstance(value, (bool, np.bool_))
    return hasattr(value, "__index__") and not is_bool and getattr(value, "ndim", 0) == 0


def _sizes(value: Any) -> tuple[int, ...] | None:
    """Return one to three integers, given as one integer, a tuple or a list; None for anything else."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return tuple(map(operator.index, given)) if 1 <= len(given) <= 3 and all(map(_is_integer, given)) else None


def check_grid(grid: Any) -> tuple[int, int, int]:
    """Return the grid in three dimensions; raise LaunchError unless it is 1 to 3 integers within CUDA's limits."""
    if type(grid) is int and 0 < grid <= MAX_GRID[0]:
        return grid, 1, 1
    sizes = _sizes(grid)
    if sizes is None:
        is_long = isinstance(grid, (tuple, list)) and len(grid) > 1
        raise LaunchError(
            f"{shown(grid)} is not a grid",
            hint="write an int, a tuple of one to three ints, or a function that returns one"
            + (f"; {_THREADS}" if is_long else ""),
        )
    for axis, (size, limit) in enumerate(zip(sizes, MAX_GRID, strict=False)):
        if size < 0:
            raise LaunchError(
                f"grid {sizes} has {size} CTAs along axis {axis}",
                hint="write 0 to launch nothing, or a positive number",
            )
        if size > limit:
            hint = f"axis 0 may be the longest: put the largest extent there, or {_MORE_WORK}" if axis else _MORE_WORK
            raise LaunchError(f"grid {sizes} has {size} CTAs along axis {axis}; at most {limit} fit", hint=hint)
    return _three(sizes)


class GridArguments(dict[str, Any]):
    """A launch's arguments by name, also accessible as attributes; passed to `prune` and to some grid functions."""

    def __missing__(self, name: str) -> NoReturn:
        raise LaunchError(f"the launch has no argument {name!r}", hint=f"its arguments: {', '.join(self) or 'none'}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]


class GridFunction:
    """A function that returns a grid.

    names: (name, is required) for each parameter, which is named like an argument of the launch; None if the function
    takes a mapping of all arguments: it has parameters of which at most one is required, or its signature is unknown.
    """

    __slots__ = ("function", "names")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.names: tuple[tuple[str, bool], ...] | None = None
        try:
            parameters = tuple(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            # builtins may have no signature
            return
        plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        needed = [p for p in plain if p.default is p.empty]
        if len(needed) > 1 or not parameters:
            self.names = tuple((p.name, p.default is p.empty) for p in plain)

    def __call__(self, names: Sequence[str], values: Sequence[Any]) -> tuple[int, int, int]:
        """Return the grid for a launch's arguments; raise LaunchError if the grid is invalid or the function fails."""
        named = GridArguments(zip(names, values, strict=True))
        try:
            if self.names is None:
                grid = self.function(named)
            else:
                grid = self.function(**{p: named[p] for p, needed in self.names if needed or p in named})
        except LaunchError:
            raise
        except Exception as error:
            # the user's function can raise anything
            name = getattr(self.function, "__name__", type(self.function).__name__)
            raise LaunchError(
                f"the grid function {name} raised {type(error).__name__}: {error}",
                hint=f"it receives the launch's arguments: {', '.join(names) or 'none'}",
            ) from error
        return check_grid(grid)


def check_threads(threads: Any) -> int:
    if not _is_integer(threads) or operator.index(threads) < 1:
        raise LaunchError(f"{shown(threads)} is not a number of threads", hint=_threads_hint(threads))
    count = operator.index(threads)
    if count > MAX_THREADS:
        raise ResourceError(f"a CTA of {count} threads exceeds the limit of {MAX_THREADS}", hint="use more CTAs")
    return count


def _threads_hint(threads: Any) -> str:
    sizes = _sizes(threads) if isinstance(threads, (tuple, list)) else None
    if sizes is None or min(sizes) < 1 or math.prod(sizes) > MAX_THREADS:
        return f"write a number from 1 to {MAX_THREADS}"
    if len(sizes) == 1:
        return f"write {sizes[0]}"
    indices, before = [], 1
    for name, size in zip("xyz", sizes, strict=False):
        down = "t" if before == 1 else f"t // {before}"
        before *= size
        indices.append(f"{name} = {down}" if name == "xyz"[len(sizes) - 1] else f"{name} = {down} % {size}")
    return f"write threads={math.prod(sizes)}, and in the kernel t = tj.thread_id(); {'; '.join(indices)}"


def check_registers(limit: Any) -> int:
    if not _is_integer(limit) or not 1 <= operator.index(limit) <= MAX_REGISTERS:
        raise ResourceError(
            f"max_registers={shown(limit)} is not between 1 and {MAX_REGISTERS}", hint="leave it out for no limit"
        )
    return operator.index(limit)


def check_cluster(cluster: Any) -> tuple[int, int, int]:
    sizes = _sizes(cluster)
    if sizes is None or min(sizes) < 1:
        raise LaunchError(f"{shown(cluster)} is not a cluster", hint="write one to three positive CTA counts")
    return _three(sizes)


#: words of the error for a grid that can't be divided into clusters
UNEVEN = "is not a multiple of the cluster"


def check_clustered(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> None:
    """Raise LaunchError if the grid is not a multiple of the cluster."""
    if any(n % c for n, c in zip(grid, cluster, strict=True)):
        raise LaunchError(
            f"grid {grid} {UNEVEN} of {cluster} CTAs", hint="round each extent up to a multiple"
        )


def warn_of_unused_axes(name: str, grid: tuple[int, int, int], axes: Sequence[int]) -> None:
    """Warn if a grid has several CTAs, or none, along an axis whose index and extent the kernel never reads.

    Likely mistakes are `k[4, 256]`, as in Numba, and `k[4, 256, 0]`, with stream 0 as in CUDA. In an empty grid, only
    the axes without CTAs are reported.
    axes: those whose index or extent the kernel reads. Without 0, nothing is reported: CTAs may repeat work on purpose.
    """
    if grid[1:] == (1, 1) or 0 not in axes:
        return
    is_empty = 0 in grid
    for axis in (n for n, size in enumerate(grid) if n not in axes and (size == 0 if is_empty else size > 1)):
        sizes = grid if grid[2] != 1 else grid[:2]
        threads = f"for {grid[1]} threads, write {name}[({grid[0]},), {grid[1]}]; otherwise " if len(sizes) == 2 else ""
        work = "nothing is launched" if is_empty else f"the same work is done {grid[axis]} times"
        warnings.warn(
            f"{name}{list(sizes)} starts {' x '.join(map(str, sizes))} CTAs, and {name} never reads "
            f"tj.cta_id({axis}): {work}\n"
            f"help: {f'{_THREADS}; otherwise ' if is_empty else threads}leave that axis of the grid out",
            GridWarning, stacklevel=stack_level(),
        )


def _three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def stream_handle(stream: Any) -> int:
    """Return the handle of a stream that a user passed.

    accepts: an int, or an object with `__cuda_stream__` (cuda.core, CuPy) or `.cuda_stream` (PyTorch).
    raises: LaunchError for anything else, and for a closed stream.
    """
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    if getattr(stream, "is_closed", False):
        raise LaunchError("the stream was closed", hint="create another one")
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        _, handle = protocol() if callable(protocol) else protocol
        return int(handle)
    handle = getattr(stream, "cuda_stream", None)
    if handle is not None:
        return int(handle)
    raise LaunchError(
        f"{type(stream).__name__} is not a stream",
        hint="pass a cuda.core stream, an int handle, or an object with __cuda_stream__ or .cuda_stream",
    )
