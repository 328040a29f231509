"""Kernels to tune, and a clock that says how long each configuration takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tilejit.runtime import simulated


def configs(*blocks: int, threads: int | None = None) -> list[tj.Config]:
    return [tj.Config({"B": block}, threads=threads) for block in blocks]


def grid(meta: Mapping[str, Any]) -> tuple[int]:
    return (tj.cdiv(meta["N"], meta["B"]),)


def adding(**options: Any) -> Any:
    """A new kernel that adds 1 to N elements, B of them in a CTA, and says in T which B it was."""
    options = {"configs": configs(32, 64, 128), "key": ["N"], **options}

    @tj.autotune(**options)
    @tj.kernel(threads=32)
    def add_one(A: tj.Tensor, T: tj.Tensor, N: tj.int32, B: tj.constexpr):
        start = tj.cta_id(0) * B
        T[0] = B
        tj.cta.store(A[start : start + B], tj.cta.load(A[start : start + B]) + 1.0)

    return add_one


class Clock:
    """A device's bench with a fake clock: the launch that T identifies takes the time set for it.

    rounds: how many configurations each round timed. limit: rounds after which Ctrl-C is pressed.
    """

    unit, is_exact = "ms", False

    def __init__(self, times: Mapping[int, float], table: np.ndarray, limit: int = 10**9) -> None:
        self.times, self.table, self.limit = times, table, limit
        self.rounds: list[int] = []
        self.tried: list[int] = []

    def staged(self, call: Any) -> Any:
        return call

    def round(self, works: Sequence[Callable[[], object]]) -> list[float]:
        if len(self.rounds) >= self.limit:
            raise KeyboardInterrupt
        self.rounds.append(len(works))
        return [self.time(work) for work in works]

    def time(self, work: Callable[[], object]) -> float:
        work()
        self.tried.append(int(self.table[0]))
        return self.times[self.tried[-1]]


def installed_clock(monkeypatch: pytest.MonkeyPatch, counted: Any) -> Clock:
    """A clock that the simulator's tunings go by, on which 64 is the fastest of three."""
    clock = Clock({32: 3.0, 64: 1.0, 128: 1.05}, counted)

    @contextmanager
    def bench(*_: object) -> Iterator[Clock]:
        yield clock

    monkeypatch.setattr(simulated.SimulatedDevice, "bench", bench)
    return clock
