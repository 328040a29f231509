"""What a launch on the simulator costs, counted instead of timed: the same on every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import ArrayView, host_bytes
from .signature import Call

if TYPE_CHECKING:
    from ..simulator import Report

#: cycles that one multiprocessor of an H100 takes for each: its four schedulers issue an instruction for 32 threads
#: each; shared memory delivers one wavefront of 128 bytes; global memory one sector of 32 bytes in 2.2 (3,350 GB/s for
#: 132 multiprocessors at 1.755 GHz). Nothing is taken to overlap, which ranks kernels by their work and not by how
#: they hide latency.
THREAD_INSTRUCTION = 1 / 128
WAVEFRONT = 1.0
SECTOR = 2.2


def cost(report: Report) -> float:
    """Cycles, by the weights above, of a launch that was profiled."""
    traffic = [line.traffic for line in report.lines.values()]
    return (
        THREAD_INSTRUCTION * report.thread_instructions
        + WAVEFRONT * sum(t.wavefronts for t in traffic)
        + SECTOR * sum(t.sectors for t in traffic)
    )


class Ledger:
    """What the launches of one thread have cost since `clear`."""

    def __init__(self) -> None:
        self.cycles = 0.0

    def clear(self) -> None:
        self.cycles = 0.0

    def add(self, report: Report) -> None:
        self.cycles += cost(report)


#: where launches on the simulator are counted now, which then run the plain build as a GPU does
ledger: ContextVar[Ledger | None] = ContextVar("tilejit_ledger", default=None)


class CountingBench:
    """Counts what work costs on the simulator; see `device.Bench`."""

    unit = "cycles (counted)"
    is_exact = True

    def __init__(self, entries: Ledger, kept: Sequence[ArrayView]) -> None:
        self._ledger = entries
        self._kept = [(memory, memory.copy()) for memory in map(_bytes, kept)]

    def staged(self, call: Call) -> Call:
        return call

    def round(self, works: Sequence[Callable[[], object]]) -> list[float]:
        costs = []
        for work in works:
            self.restore()
            self._ledger.clear()
            work()
            costs.append(self._ledger.cycles)
        return costs

    def restore(self) -> None:
        for memory, before in self._kept:
            memory[:] = before


@contextmanager
def counting(call: Call | None, kept: Sequence[int]) -> Iterator[CountingBench]:
    """A bench on the simulator. kept: positions of the arrays that are restored before each timing and at the end."""
    entries = Ledger()
    token = ledger.set(entries)
    try:
        views = [] if call is None else [call.arguments[position] for position in kept]
        bench = CountingBench(entries, [view for view in views if isinstance(view, ArrayView)])
        try:
            yield bench
        finally:
            bench.restore()
    finally:
        ledger.reset(token)


def _bytes(view: ArrayView) -> np.ndarray[Any, Any]:
    """The bytes of host memory that an array reaches."""
    facts = view.facts
    return host_bytes(view.pointer + facts.low_bytes, facts.high_bytes - facts.low_bytes, view.owner)
