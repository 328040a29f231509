"""Strategies for how a kernel is launched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from ..dataclass import dataclass

__all__ = ["DrawnLaunch", "launches"]

#: what `k[...]` takes as its grid
Grid = int | tuple[int, ...] | Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class DrawnLaunch:
    """How a test launches a kernel: `check` takes it in place of a grid.

    threads, target: None for the kernel's own. schedule: the order of the threads on the simulator.

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
    """Launches of any legal order of the threads, the usual one first.

    grid: as `k[grid]` takes it, or a strategy; None for any of up to four CTAs.
    threads, targets: those to choose from; None for the kernel's own. schedules: how many orders.

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
