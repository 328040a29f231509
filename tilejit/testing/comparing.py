"""`check`, which compares a kernel with NumPy, and a hypothesis strategy for launches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from ..dataclass import dataclass
from ..dtypes import DType, float32, from_numpy
from ..errors import SimulationError
from ..frontend import ParameterKind
from ..frontend.containers import container_type, is_container, items_of, with_items
from ..wording import counted
from .arrays import Array, assert_equal, in_room

if TYPE_CHECKING:
    from ..jit import Kernel
    from ..simulator.orders.answer import Orders

# pytest omits these frames and shows the line of the test
__tracebackhide__ = True

#: expected contents of arrays: by parameter name, for the last array arguments, or for the last one
Expected = Mapping[str, Any] | Sequence[Any] | Array

#: a grid as in `k[grid]`
Grid = int | tuple[int, ...] | Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class DrawnLaunch:
    """A launch of a kernel in a test, which `check` accepts in place of a grid.

    threads, target: None for the default.
    schedule: seed of the thread order on the simulator.

    Example:
        from tilejit.testing import DrawnLaunch, check

        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        check(k, DrawnLaunch(1, schedule=3), np.zeros(32, np.float32), expected=np.ones(32, np.float32))
    """

    grid: Grid
    threads: int | None = None
    target: str | None = None
    schedule: int = 0


def launches(
    grid: Grid | st.SearchStrategy[Any] | None = None,
    *,
    threads: Sequence[int] | None = None,
    targets: Sequence[str] | None = None,
    schedules: int = 16,
) -> st.SearchStrategy[DrawnLaunch]:
    """Return a strategy for launches in various thread orders; it shrinks toward the default order.

    grid: a grid as in `k[grid]`, or a strategy for grids; None for one to four CTAs.
    threads, targets: the values to choose from; None for the default.
    schedules: number of thread orders to choose from.

    Example:
        from hypothesis import given, settings
        from tilejit.testing import check, launches

        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            tj.atomic.add(A[0], 1)

        @settings(max_examples=5, deadline=None)
        @given(launches(threads=[32, 64]))
        def test(launch):
            count = launch.grid * launch.threads
            check(k, launch, np.zeros(1, np.int32), expected=np.array([count], np.int32))

        test()
    """
    named: dict[str, st.SearchStrategy[Any]] = {}
    if threads is not None:
        named["threads"] = st.sampled_from(list(threads))
    if targets is not None:
        named["target"] = st.sampled_from(list(targets))
    if schedules > 1:
        named["schedule"] = st.integers(0, schedules - 1)
    grids = st.integers(1, 4) if grid is None else grid
    return st.builds(DrawnLaunch, grids if isinstance(grids, st.SearchStrategy) else st.just(grids), **named)


def check(
    kernel: Kernel,
    grid: Any,
    *args: Any,
    expected: Expected | Callable[..., Expected | None],
    rtol: float = 0,
    atol: float = 0,
    ulp: float = 0,
    target: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    schedules: int | None = None,
    orders: int | str | None = None,
    **constexprs: Any,
) -> None:
    """Run `kernel` on copies of the NumPy arrays in `args`, and compare their contents with the expected ones.

    The copies have the strides and the alignment (up to 128 bytes) of the arrays. The simulator runs the checked build.

    grid: a grid as in `k[grid]`, or a value drawn from `launches()`.
    expected: the contents that the arrays must have: a mapping by parameter name, an array for the last array argument,
    or a sequence for the last ones; all other arrays must be unchanged. It may also be a function, which is called with
    copies of `args` and returns one of these, or modifies its arguments and returns None.
    rtol, atol: tolerances as in `numpy.isclose`. If they and `ulp` are 0, bits must be equal; all NaNs are equal.
    ulp: maximum error of floats in units in the last place. A function `expected` then receives floats as float64, and
    its float64 results are not rounded before the comparison.
    target: the architecture to simulate.
    device: "sim", "cuda" and the like; by default the device set by `tj.use_device`, `--tilejit-device` or
    TILEJIT_DEVICE, else the simulator.
    threads: threads per CTA, by default the kernel's own.
    schedules: number of thread orders to simulate, by default that of `--tilejit-schedules` or TILEJIT_SCHEDULES, or 1.
    orders: "all" or a number: the orders of synchronizing events that the simulator tries; see `tj.simulate`. The
    default is that of `--tilejit-orders` or TILEJIT_ORDERS, if any. Each order must leave the expected contents.
    raises: AssertionError for the first element that differs, for bytes changed between elements, or, with `orders`,
    if there are more orders; SimulationError from the simulator; ValueError if `expected` is invalid or, unless
    `grid` was drawn, `target` is passed for a GPU.

    Example:
        from tilejit.testing import check

        @tj.kernel(threads=32)
        def roots(A: tj.Tensor) -> None:
            A[tj.thread_id()] = tj.sqrt(A[tj.thread_id()])

        check(roots, 1, np.arange(32, dtype=np.float32), expected=lambda a: np.sqrt(a), ulp=0.5)
    """
    plan = grid if isinstance(grid, DrawnLaunch) else DrawnLaunch(grid)
    plan = DrawnLaunch(plan.grid, threads or plan.threads, target or plan.target, plan.schedule)
    names = [p.name for p in kernel.parameters[: len(args)]]
    exact = [
        _in_double(p.dtype, value) if ulp and not (p.kind is ParameterKind.CONSTEXPR and is_container(value)) else value
        for p, value in zip(kernel.parameters, args, strict=False)
    ]
    wanted = _wanted(expected, exact, names)
    is_simulated, run = _runner(kernel, plan, device, isinstance(grid, DrawnLaunch))
    wanted_orders = _orders(orders) if is_simulated else None
    tries = [(number, wanted_orders) for number in range(_schedules(schedules) if is_simulated else 1)]
    for number, tried in tries:
        rooms: dict[str, tuple[Array, Array]] = {}
        copies = [_copied(name, value, rooms) for name, value in zip(names, args, strict=True)]
        before = {name: room.copy() for name, (_, room) in rooms.items()}
        schedule = plan.schedule + number if is_simulated else 0
        try:
            found = run(copies, constexprs, schedule, tried)
            if found is not None and found.different:
                tries.append((number, f"replay:{found.different}"))
            for name, (copy, room) in rooms.items():
                assert_equal(name, copy, wanted[name], rtol, atol, ulp)
                _same_between(name, copy, room, before[name])
        except (AssertionError, SimulationError) as error:
            _name_schedule(error, schedule)
            if isinstance(error, AssertionError) and isinstance(tried, str) and found is not None and found.story:
                error.args = (f"{error}\n{found.narrative()}",)
            raise


def _schedules(wanted: int | None) -> int:
    """Return the number of thread orders: `wanted`, else TILEJIT_SCHEDULES, which the pytest plugin sets, else 1."""
    return wanted if wanted is not None else int(os.environ.get("TILEJIT_SCHEDULES") or 1)


def _orders(wanted: int | str | None) -> int | str | None:
    """Return the orders to try: `wanted`, else TILEJIT_ORDERS, which the pytest plugin sets, else None."""
    text = os.environ.get("TILEJIT_ORDERS") if wanted is None else None
    return int(text) if text is not None and text.isdecimal() else text or wanted


def _name_schedule(error: AssertionError | SimulationError, schedule: int) -> None:
    if schedule and isinstance(error, SimulationError):
        error.message += f"\nunder schedule {schedule}, which is another legal order of the threads"
    elif schedule:
        error.args = (f"{error}; under schedule {schedule}",)


#: launches a kernel with (positional arguments, constexprs by name, schedule, orders)
_Run = Callable[[Sequence[Any], Mapping[str, Any], int, int | str | None], "Orders | None"]


def _runner(
    kernel: Kernel, plan: DrawnLaunch, device: str | None, is_drawn: bool
) -> tuple[bool, _Run]:
    """Return (is simulated, runner). For a GPU, raise ValueError if the plan has a target, unless `is_drawn`."""
    # imported late, because strategies for layouts need no device
    from ..jit import simulate
    from ..runtime import devices

    name = device or devices.chosen() or os.environ.get("TILEJIT_DEVICE") or "sim"
    if devices.is_simulator(name):
        target = plan.target or name.partition(":")[2] or None

        def simulated(
            args: Sequence[Any], constexprs: Mapping[str, Any], schedule: int, orders: int | str | None
        ) -> Orders | None:
            report = simulate(
                kernel, plan.grid, *args, target=target, threads=plan.threads, schedule=schedule, orders=orders,
                **constexprs,
            )
            is_replay = isinstance(orders, str) and orders != "all"
            assert report.orders is None or report.orders.verdict == "clean" or is_replay, str(report.orders)
            return report.orders

        return True, simulated
    if plan.target is not None and not is_drawn:
        raise ValueError("target= is for the simulator; leave it out on a GPU, which has an architecture of its own")

    def launched(
        args: Sequence[Any], constexprs: Mapping[str, Any], schedule: int, orders: int | str | None
    ) -> None:
        sizes = (plan.grid,) if isinstance(plan.grid, int) else plan.grid
        with devices.use_device(name):
            launcher = kernel[sizes] if plan.threads is None else kernel[sizes, plan.threads]
            launcher(*args, **constexprs)
            devices.synchronize()

    return False, launched


def _in_double(dtype: DType | None, value: Any) -> Any:
    """Convert a float array to float64; round a Python float to the type of its parameter, by default float32."""
    if is_container(value):
        return with_items(value, [_in_double(None, item) for item in items_of(value)])
    kind = from_numpy(value.dtype) if isinstance(value, np.ndarray) else None
    if kind is not None:
        return value.astype(np.float64) if kind.is_float else value
    if not isinstance(value, float):
        return value
    narrow = dtype if dtype is not None and dtype.is_float else float32
    return float(narrow.numpy.type(value))


def _wanted(
    expected: Expected | Callable[..., Expected | None], args: Sequence[Any], names: Sequence[str]
) -> dict[str, Any]:
    """Map argument names to expected contents; raise ValueError for an unknown name or too many arrays."""
    arguments = _leaves(names, args)
    if callable(expected):
        copies = [_duplicate(a) for a in args]
        # Drawn values may include NaNs and numbers that overflow.
        with np.errstate(all="ignore"):
            answer = expected(*copies)
        if answer is None:
            return _leaves(names, copies)
        expected = answer
    if isinstance(expected, Mapping):
        strangers = [name for name in expected if name not in arguments]
        if strangers:
            raise ValueError(
                f"`expected` has an entry '{strangers[0]}', which is not an argument; "
                f"the arguments are {', '.join(arguments)}"
            )
        return {**arguments, **expected}
    values = [expected] if isinstance(expected, np.ndarray) else list(expected)
    outputs = [n for n, a in arguments.items() if isinstance(a, np.ndarray)]
    if len(values) > len(outputs):
        raise ValueError(f"`expected` has {counted(len(values), 'array')}; NumPy arrays in the call: {len(outputs)}")
    return {**arguments, **dict(zip(outputs[len(outputs) - len(values) :], values, strict=True))}


def _leaves(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments by name, with the items of a container in its place."""
    found: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        is_leaf = not is_container(value)
        found |= {name: value} if is_leaf else _leaves([name + s for s in container_type(value).items], items_of(value))
    return found


def _duplicate(value: Any) -> Any:
    if is_container(value):
        return with_items(value, [_duplicate(item) for item in items_of(value)])
    return value.copy() if isinstance(value, np.ndarray) else value


def _copied(name: str, value: Any, rooms: dict[str, tuple[Array, Array]]) -> Any:
    """Return an argument with copies of its arrays, and add these with their memory to `rooms`, by name."""
    if is_container(value):
        pairs = zip(container_type(value).items, items_of(value), strict=True)
        return with_items(value, [_copied(name + suffix, item, rooms) for suffix, item in pairs])
    if not isinstance(value, np.ndarray):
        return value
    rooms[name] = _copy(value)
    return rooms[name][0]


def _copy(array: Array) -> tuple[Array, Array]:
    below = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True) if s < 0] if array.size else []
    copy, room = in_room(array.shape, array.dtype, array.strides, array.ctypes.data + sum(below), 0xA5)
    copy[...] = array
    return copy, room


def _same_between(name: str, copy: Array, room: Array, before: Array) -> None:
    """Raise AssertionError if bytes of `room` outside all elements differ from `before`, which is overwritten."""
    start = copy.ctypes.data - room.ctypes.data
    over: Array = np.ndarray(copy.shape, np.dtype((np.void, copy.itemsize)), before, start, copy.strides)
    over[...] = np.ndarray(copy.shape, over.dtype, room, start, copy.strides)
    changed = np.flatnonzero(room != before)
    if changed.size:
        raise AssertionError(f"{name}: {counted(changed.size, 'byte')} changed outside of its elements")
