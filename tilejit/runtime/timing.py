"""Races between functions: each function is timed repeatedly, in rotation, and clearly slower ones drop out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import overload

from ..dataclass import dataclass, field
from ..errors import LaunchError, entry_point
from . import devices
from .device import Bench

#: (timings, factor): after this many timings, work drops out if its fastest time exceeds factor times the best median.
#: A single slow timing, for example at a low clock rate, drops no work.
OUT_AFTER = ((2, 2.0), (4, 1.1))

#: the minimum number of timings of work that doesn't drop out, unless `most` is smaller or the bench is exact
LEAST = 5


@dataclass(slots=True)
class Contender:
    """A piece of work and its times, in `Bench.unit`. is_out: True if it dropped out because it is clearly slower."""

    work: Callable[[], object]
    samples: list[float] = field(default_factory=list)
    is_out: bool = False

    @property
    def median(self) -> float:
        return median(self.samples)


def race(
    bench: Bench, contenders: Sequence[Contender], most: int, enough: float, after: Callable[[], object] = lambda: None
) -> None:
    """Time the contenders in rotation, so that drifting clocks affect all of them.

    most: the maximum number of timings of each. enough: a contender's total time after which `LEAST` timings suffice.
    They also suffice if all others are out. after: called after each round.
    """
    first = 0
    while running := [c for c in contenders if not (c.is_out or _is_known(bench, c, contenders, most, enough))]:
        first = (first + 1) % len(running)
        order = running[first:] + running[:first]
        for contender, time in zip(order, bench.round([c.work for c in order]), strict=True):
            contender.samples.append(time)
        _drop_losers(contenders, running)
        after()


def _is_known(bench: Bench, contender: Contender, contenders: Sequence[Contender], most: int, enough: float) -> bool:
    count = len(contender.samples)
    if bench.is_exact or count >= most:
        return count > 0
    if count < LEAST:
        return False
    is_alone = len(contenders) > 1 and all(c.is_out for c in contenders if c is not contender)
    return is_alone or sum(contender.samples) >= enough


def _drop_losers(contenders: Sequence[Contender], running: Sequence[Contender]) -> None:
    best = min(c.median for c in contenders if c.samples)
    for contender in running:
        fastest, count = min(contender.samples), len(contender.samples)
        contender.is_out = any(count >= least and fastest > limit * best for least, limit in OUT_AFTER)


#: the maximum number of timings per function in `do_bench`, and of its warm-up rounds
_MOST = 1000


@overload
def do_bench(work: Callable[[], object], *, warmup: float = 25.0, rep: float = 100.0) -> float: ...


@overload
def do_bench(work: Sequence[Callable[[], object]], *, warmup: float = 25.0, rep: float = 100.0) -> list[float]: ...


@entry_point
def do_bench(
    work: Callable[[], object] | Sequence[Callable[[], object]], *, warmup: float = 25.0, rep: float = 100.0
) -> float | list[float]:
    """Return the median time in ms of a function that launches kernels, measured on the GPU with a cold L2 cache.

    For a list of functions, return a list of times. The functions should launch on the current stream; they are timed
    in rotation, and clearly slower ones are dropped early. On the simulator each function runs once, and the result is
    its modeled cost in cycles of one multiprocessor (`tilejit/runtime/simulated.py` defines the weights).
    warmup: ms of warm-up, of all functions together. rep: ms of timing each function that isn't dropped, in 5
    to 1,000 timings.
    raises: LaunchError for an empty list, and for anything that can't be called.
    """
    works = [work] if callable(work) else list(work) if isinstance(work, Iterable) else []
    if not works or not all(map(callable, works)):
        raise LaunchError(
            "do_bench times functions without arguments: one, or a nonempty list",
            hint="write do_bench(lambda: k[grid](...)), or a list of functions",
        )
    contenders = [Contender(each) for each in works]
    with devices.default().bench(None, None, ()) as bench:
        spent, rounds = 0.0, 0 if bench.is_exact else _MOST
        while rounds and spent <= warmup:
            spent, rounds = spent + sum(bench.round(works)), rounds - 1
        race(bench, contenders, _MOST, rep)
    medians = [c.median for c in contenders]
    return medians[0] if callable(work) else medians
