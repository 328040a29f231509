"""A hypothesis strategy for launches of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from ..dataclass import dataclass

#: a grid as in `k[grid]`
Grid = int | tuple[int, ...] | Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class DrawnLaunch:
    """A launch of a kernel in a test, which `check` accepts in place of a grid.

    threads, target: None for the default.
    schedule: number of the thread order on the simulator.

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
    """Return a strategy for launches in various thread orders; it shrinks towards the default order.

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
