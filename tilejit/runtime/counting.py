"""A deterministic cost of a launch on the simulator, used in place of its duration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from .arrays import ArrayView, host_bytes
from .signature import Call

if TYPE_CHECKING:
    from ..simulator import Report

#: cycles of one H100 multiprocessor per event. Four schedulers each issue one warp instruction per cycle;
#: shared memory delivers one wavefront of 128 bytes per cycle; global memory one sector of 32 bytes in 2.2 cycles
#: (3,350 GB/s for 132 multiprocessors at 1.755 GHz). The sum assumes no overlap, so it ranks kernels by work, not by
#: how well they hide latency.
THREAD_INSTRUCTION = 1 / 128
WAVEFRONT = 1.0
SECTOR = 2.2


def cost(report: Report) -> float:
    """Return the cost in cycles of a profiled launch."""
    traffic = [line.traffic for line in report.lines.values()]
    return (
        THREAD_INSTRUCTION * report.thread_instructions
        + WAVEFRONT * sum(t.wavefronts for t in traffic)
        + SECTOR * sum(t.sectors for t in traffic)
    )


#: the list to which launches in this context append their costs, or None; with a list, the simulator's checks are off
ledger: ContextVar[list[float] | None] = ContextVar("tilejit_ledger", default=None)


class CountingBench:
    """Counts the cost of work on the simulator, with the interface of `CudaBench`."""

    unit = "cycles (counted)"
    is_exact = True

    def __init__(self, entries: list[float], kept: Sequence[ArrayView]) -> None:
        self._ledger = entries
        memories = [host_bytes(view.pointer, view.facts, view.owner) for view in kept]
        self._kept = [(memory, memory.copy()) for memory in memories]

    def staged(self, call: Call) -> Call:
        return call

    def round(self, works: Sequence[Callable[[], object]]) -> list[float]:
        costs = []
        for work in works:
            self.restore()
            self._ledger.clear()
            work()
            costs.append(float(sum(self._ledger)))
        return costs

    def restore(self) -> None:
        for memory, before in self._kept:
            memory[:] = before


@contextmanager
def counting(call: Call | None, kept: Sequence[int]) -> Iterator[CountingBench]:
    """Yield a bench on the simulator. kept: positions of arrays of `call` to restore before each run and at the end."""
    entries: list[float] = []
    views = [] if call is None else [call.arguments[position] for position in kept]
    bench = CountingBench(entries, [view for view in views if isinstance(view, ArrayView)])
    token = ledger.set(entries)
    try:
        yield bench
    finally:
        ledger.reset(token)
        bench.restore()
