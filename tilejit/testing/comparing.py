"""A kernel against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import Array, assert_equal

if TYPE_CHECKING:
    from ..jit import Kernel

__all__ = ["check"]

#: what `check` takes as expected: by name, or the last argument or arguments
Expected = Mapping[str, Any] | Sequence[Any] | Array


def check(
    kernel: Kernel,
    grid: Any,
    *args: Any,
    expected: Expected | Callable[..., Expected | None],
    rtol: float = 0,
    atol: float = 0,
    target: str | None = None,
    device: str = "sim",
    threads: int | None = None,
    **constexprs: Any,
) -> None:
    """Runs `kernel` on copies of the NumPy arrays in `args`, and compares what it leaves in them.

    The copies have the arrays' strides and alignment. On the simulator all checks are on.
    expected: what the arrays must hold: a mapping by parameter name, one array for the last array argument, or a
    sequence for the last ones; every other array must be unchanged. Or a function of copies of `args`, which returns
    one of these, or changes its arguments and returns None.
    rtol, atol: as in `numpy.isclose`. Both 0: bit for bit, but for NaNs, which all are equal.
    device: "sim", or "cuda" and the like. target: the architecture to compile for.
    raises: AssertionError that names the first element that differs; `SimulationError`s.
    """
    copies = [_copy(a) if isinstance(a, np.ndarray) else (a, None) for a in args]
    buffers = [array for array, _ in copies]
    names = [p.name for p in kernel.parameters[: len(args)]]
    wanted = _wanted(expected, args, names)
    before = [None if room is None else room.copy() for _, room in copies]
    _launch(kernel, grid, buffers, constexprs, target, device, threads)
    for name, array, (copy, room), old in zip(names, args, copies, before, strict=True):
        if isinstance(array, np.ndarray) and room is not None and old is not None:
            assert_equal(name, copy, wanted[name], rtol, atol)
            _same_between(name, copy, room, old)


def _launch(
    kernel: Kernel,
    grid: Any,
    args: Sequence[Any],
    constexprs: Mapping[str, Any],
    target: str | None,
    device: str,
    threads: int | None,
) -> None:
    # layouts are tested without a device
    from ..jit import simulate
    from ..runtime.devices import synchronize, use_device

    kind, _, architecture = device.partition(":")
    if kind == "sim":
        simulate(kernel, grid, *args, target=target or architecture or None, threads=threads, **constexprs)
        return
    if target is not None:
        raise ValueError("target= is for the simulator; a GPU runs what it is")
    sizes = (grid,) if isinstance(grid, int) else grid
    with use_device(device):
        launcher = kernel[sizes] if threads is None else kernel[sizes, threads]
        launcher(*args, **constexprs)
        synchronize()


def _wanted(
    expected: Expected | Callable[..., Expected | None], args: Sequence[Any], names: Sequence[str]
) -> dict[str, Any]:
    """What each array must hold, by name."""
    arguments = dict(zip(names, args, strict=True))
    if callable(expected):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        answer = expected(*copies)
        if answer is None:
            return dict(zip(names, copies, strict=True))
        expected = answer
    if isinstance(expected, Mapping):
        strangers = [name for name in expected if name not in arguments]
        if strangers:
            raise ValueError(f"expected names {strangers[0]}; the arguments are {', '.join(names)}")
        return {**arguments, **expected}
    values = [expected] if isinstance(expected, np.ndarray) else list(expected)
    outputs = [n for n, a in arguments.items() if isinstance(a, np.ndarray)]
    if len(values) > len(outputs):
        raise ValueError(f"{len(values)} arrays are expected; the call has {len(outputs)}")
    return {**arguments, **dict(zip(outputs[len(outputs) - len(values) :], values, strict=True))}


def _copy(array: Array) -> tuple[Array, Array]:
    """A copy with the same strides and alignment, and the bytes in which it lies."""
    reach = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)] if array.size else []
    low = -sum(r for r in reach if r < 0)
    size = low + sum(r for r in reach if r > 0) + array.itemsize
    room = np.full(size + 256, 0xA5, np.uint8)
    start = low + (array.ctypes.data - low - room.ctypes.data) % 128
    copy: Array = np.ndarray(array.shape, array.dtype, room, start, array.strides)
    copy[...] = array
    return copy, room


def _same_between(name: str, copy: Array, room: Array, before: Array) -> None:
    """Raise AssertionError where bytes changed that belong to no element."""
    start = copy.ctypes.data - room.ctypes.data
    over: Array = np.ndarray(copy.shape, np.dtype((np.void, copy.itemsize)), before, start, copy.strides)
    over[...] = np.ndarray(copy.shape, over.dtype, room, start, copy.strides)
    changed = np.flatnonzero(room != before)
    if changed.size:
        raise AssertionError(f"{name}: {changed.size} bytes changed that belong to none of its elements")
