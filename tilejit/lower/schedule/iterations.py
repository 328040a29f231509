"""Evaluation of a plan's expressions at compile time, for all threads and iterations at once, with NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dataclass import dataclass
from ...dtypes import int32
from ...ir.arithmetic.evaluate import evaluate
from ...ir.nodes import Expr, Region, Strided, Var

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Iterations:
    """All pairs of an iteration and a thread of a scope, as rows ordered by iteration."""

    rounds: int
    threads: int
    #: regions whose run-time strides get placeholder values, those of `launch_values`
    regions: Sequence[Region] = ()

    @property
    def round(self) -> Var:
        return Var("iterations.round", int32, bounds=(0, max(self.rounds - 1, 0)))

    @property
    def thread(self) -> Var:
        return Var("iterations.thread", int32, bounds=(0, self.threads - 1))

    @property
    def variables(self) -> tuple[Var, Var]:
        return self.thread, self.round

    @property
    def rounds_of(self) -> Array:
        return np.arange(self.rounds * self.threads, dtype=np.int64) // self.threads

    @property
    def threads_of(self) -> Array:
        return np.arange(self.rounds * self.threads, dtype=np.int64) % self.threads

    def values(self, *exprs: Expr) -> Array:
        """Evaluate expressions of `thread` and `round` in each row; the result has shape (rows, expressions)."""
        names: dict[str, Array | int] = {**launch_values(self.regions)}
        names |= {"iterations.round": self.rounds_of, "iterations.thread": self.threads_of}
        shape = (self.rounds * self.threads,)
        return np.stack([np.broadcast_to(evaluate(expr, names), shape) for expr in exprs], axis=1)

    def holding(self, cond: Expr) -> Array:
        """Return the indices of the rows for which `cond` holds."""
        return np.flatnonzero(self.values(cond)[:, 0])


def launch_values(regions: Sequence[Region]) -> dict[str, int]:
    """Return placeholder values of run-time strides by name, so that plans can be evaluated at compile time.

    The values are those of contiguous tensors padded to the strides' known multiples, with extents of the regions in
    place of run-time extents.
    """
    values: dict[str, int] = {}
    for region in regions:
        layout = region.buffer.layout
        if isinstance(layout, Strided):
            values.update(_strides(region, layout))
    return values


def _strides(region: Region, layout: Strided) -> dict[str, int]:
    values: dict[str, int] = {}
    size = 1
    order = sorted(range(len(layout.strides)), key=lambda d: (d == layout.unit_dim, d))
    for d in reversed(order):
        stride, extent = layout.strides[d], region.buffer.shape[d]
        reach = extent if isinstance(extent, int) else region.counts[d]
        if isinstance(stride, Var):
            multiple = max(stride.multiple_of, 1)
            size = -(-size // multiple) * multiple
            values[stride.name] = size
        size = max(size, (size if isinstance(stride, Var) else stride) * reach)
    return values
