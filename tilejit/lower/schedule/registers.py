"""Registers that are selected at run time.

Registers have no addresses. If few registers are possible, the code is emitted once for each. Otherwise the whole tile
is kept in the thread's local memory, whose elements have addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import product
from math import prod

from ...dataclass import lean
from ...ir.arithmetic import build, facts
from ...ir.nodes import Buffer, Const, Expr
from ..builder import Builder

#: Maximum number of copies of an operation's code, one per combination of starts. With 8 starts a read takes 26
#: instructions (25 through local memory), a write 35 (40), and a copy of a row of 16 elements 100 (79), 33 of them
#: executed. The copy compiles in 10 ms (8), and with 16 starts in 25 ms (12). Measured with `compile` of `r[n]`,
#: `r[n] = x` and `copy(s, r[n : n + 1, :])` for sm_90a, with this constant set to 100 and to 1.
MOST_COPIES = 8


@lean(frozen=True, slots=True)
class RegisterRun:
    """The registers of a local buffer that an operation accesses: `reach` of them from `first` on."""

    buffer: Buffer
    first: Expr
    reach: int

    def possible(self) -> range:
        """Return the registers at which the run may start without leaving the buffer."""
        low, high = facts.bounds(self.first)
        last = self.buffer.tile_layout.span() - self.reach
        step = max(facts.multiple_of(self.first), 1)
        lowest = -(-max(low or 0, 0) // step) * step
        return range(lowest, min(last, last if high is None else high) + 1, step)


def each_start(b: Builder, *runs: RegisterRun) -> Iterator[tuple[Expr, ...]]:
    """Yield each combination of starts that the runs may have, in a branch that is executed only for these starts."""
    firsts = tuple([run.first for run in runs])
    if {Const}.issuperset(map(type, firsts)):
        yield firsts
        return
    _address(b, runs)
    choices = {run: choice(b, run) for run in runs}
    for starts in product(*(starts for _, starts in choices.values())):
        chosen = dict(zip(choices, starts, strict=True))
        with ExitStack() as conditions:
            for run, start in chosen.items():
                conditions.enter_context(b.when(build.equal(choices[run][0], start)))
            yield tuple(chosen[run] for run in runs)


def choice(b: Builder, run: RegisterRun) -> tuple[Expr, Sequence[Expr]]:
    """Return a run's start and the starts for which code must be emitted: itself, or constants, one of which it equals.

    If there are too many starts, the run's buffer is moved to local memory.

    In local memory there is a single, run-time start. It is assumed to keep the run inside the buffer; other starts are
    undefined behavior. So addresses don't wrap around, and a run's accesses have constant offsets from a common base.
    """
    if isinstance(run.first, Const):
        return run.first, (run.first,)
    _address(b, (run,))
    possible = run.possible()
    if b.is_addressed(run.buffer):
        first = b.let("register", run.first, (possible[0], possible[-1]) if possible else None)
        return first, (first,)
    first = b.let("register", run.first)
    return first, [build.const(start, first.dtype) for start in possible]


def _address(b: Builder, runs: Sequence[RegisterRun]) -> None:
    """Move buffers to local memory, by descending number of starts, until at most `MOST_COPIES` combinations remain."""
    counts = {run: len(run.possible()) for run in runs if not isinstance(run.first, Const)}
    for run in sorted(counts, key=lambda run: -counts[run]):
        if prod(count for each, count in counts.items() if not b.is_addressed(each.buffer)) <= MOST_COPIES:
            return
        b.address(run.buffer)
