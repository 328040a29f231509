"""Every round of every thread at once, in NumPy: what a plan's expressions come to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dataclass import dataclass
from ...dtypes import int32
from ...ir.arithmetic.evaluate import evaluate
from ...ir.nodes import Expr, Region, Var
from .launch_values import launch_values

__all__ = ["Iterations"]

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Iterations:
    """Rounds of the threads of a scope, the threads of a round one after the other.

    regions: those whose run-time strides have the values of `launch_values`; run-time starts are as near to 0 as they
    may be.
    """

    rounds: int
    threads: int
    regions: Sequence[Region] = ()

    @property
    def round(self) -> Var:
        """The variable that is the round's number."""
        return Var("iterations.round", int32, bounds=(0, max(self.rounds - 1, 0)))

    @property
    def thread(self) -> Var:
        """The variable that is the thread's number."""
        return Var("iterations.thread", int32, bounds=(0, self.threads - 1))

    @property
    def variables(self) -> tuple[Var, Var]:
        """Thread and round."""
        return self.thread, self.round

    @property
    def rounds_of(self) -> Array:
        """The round of each turn."""
        return np.arange(self.rounds * self.threads, dtype=np.int64) // self.threads

    @property
    def threads_of(self) -> Array:
        """The thread of each turn."""
        return np.arange(self.rounds * self.threads, dtype=np.int64) % self.threads

    def values(self, *exprs: Expr) -> Array:
        """What expressions of the two variables are, of shape (iterations, expressions)."""
        names: dict[str, Array | int] = {**launch_values(self.regions)}
        names |= {"iterations.round": self.rounds_of, "iterations.thread": self.threads_of}
        shape = (self.rounds * self.threads,)
        return np.stack([np.broadcast_to(evaluate(expr, names), shape) for expr in exprs], axis=1)

    def holding(self, cond: Expr) -> Array:
        """The numbers of the iterations in which a condition holds."""
        return np.flatnonzero(self.values(cond)[:, 0])
