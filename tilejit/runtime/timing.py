"""Which of several pieces of work is the fastest: rounds in which each is timed once, and which clear losers leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import overload

from ..dataclass import dataclass, field
from ..errors import LaunchError, entry_point
from . import devices
from .device import Bench

#: rounds after which work is out whose fastest time is so many times the median of the best
OUT_AFTER = ((2, 2.0), (4, 1.1))

#: timings that a median needs at least
LEAST = 5


@dataclass(slots=True)
class Contender:
    """A piece of work with what it took so far. is_out: it is clearly slower than another, and timed no more."""

    work: Callable[[], object]
    samples: list[float] = field(default_factory=list)
    is_out: bool = False

    @property
    def median(self) -> float:
        return median(self.samples)


def _nothing() -> None:
    pass


def race(
    bench: Bench, contenders: Sequence[Contender], most: int, enough: float, after: Callable[[], object] = _nothing
) -> None:
    """Times the contenders in turn, each with the next one as neighbour in time, because clocks drift.

    most: timings of each. enough: sum of its times from which on `LEAST` timings do. after: called behind each round.
    """
    turn = 0
    while running := [c for c in contenders if not (c.is_out or _is_known(bench, c, contenders, most, enough))]:
        turn = (turn + 1) % len(running)
        order = running[turn:] + running[:turn]
        for contender, time in zip(order, bench.round([c.work for c in order]), strict=True):
            contender.samples.append(time)
        _drop_losers(contenders, running)
        after()


def _is_known(bench: Bench, contender: Contender, contenders: Sequence[Contender], most: int, enough: float) -> bool:
    """Whether more timings would tell nothing that matters."""
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
        contender.is_out = any(count >= rounds and fastest > limit * best for rounds, limit in OUT_AFTER)


#: timings of each piece of work of `do_bench` at most
_MOST = 1000


@overload
def do_bench(work: Callable[[], object], *, warmup: float = 25.0, rep: float = 100.0) -> float: ...


@overload
def do_bench(work: Sequence[Callable[[], object]], *, warmup: float = 25.0, rep: float = 100.0) -> list[float]: ...


@entry_point
def do_bench(
    work: Callable[[], object] | Sequence[Callable[[], object]], *, warmup: float = 25.0, rep: float = 100.0
) -> float | list[float]:
    """The median time of a function that launches kernels, in milliseconds by the GPU's clock, with a cold L2 cache.

    Of several functions a list: they are timed in turn, and one that is clearly slower than another is timed less.
    What they launch runs on the current stream. On the simulator a function runs once, and the number is what it costs
    as the simulator counts it, in cycles of one multiprocessor (`tilejit/runtime/counting.py` has the weights).
    warmup, rep: milliseconds of warming up, and of timing each.
    raises: LaunchError for what can't be called.
    """
    works = [work] if callable(work) else list(work)
    if not works or not all(map(callable, works)):
        raise LaunchError(
            "do_bench times functions without arguments, and got none",
            hint="write do_bench(lambda: k[grid](...)), or a list of such functions",
        )
    contenders = [Contender(each) for each in works]
    with devices.default().bench(None, None, ()) as bench:
        spent, rounds = 0.0, 0 if bench.is_exact else _MOST
        while rounds and spent <= warmup:
            spent, rounds = spent + sum(bench.round(works)), rounds - 1
        race(bench, contenders, _MOST, rep)
    medians = [c.median for c in contenders]
    return medians[0] if callable(work) else medians
