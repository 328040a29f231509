"""A user's combine function as expressions: the value of the attribute `combine` of `reduce`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..dataclass import dataclass
from ..dtypes import DType
from ..ops.record import CombineFunction
from .arithmetic.evaluate import evaluate
from .arithmetic.intern import with_operands
from .nodes import Expr, Let, Var

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Combine(CombineFunction):
    """A function of two tuples of values that returns a tuple, as expressions of its parameters `lower` and `higher`.

    steps: intermediate values; each may use the preceding ones.
    """

    lower: tuple[Var, ...]
    higher: tuple[Var, ...]
    steps: tuple[Let, ...]
    results: tuple[Expr, ...]

    @property
    def takes(self) -> tuple[DType, ...]:
        return tuple([var.dtype for var in self.lower])

    @property
    def gives(self) -> tuple[DType, ...]:
        return tuple([result.dtype for result in self.results])

    def __call__(self, lower: Sequence[Array], higher: Sequence[Array]) -> tuple[Array, ...]:
        values: dict[str, Array | int] = {
            var.name: value for var, value in zip((*self.lower, *self.higher), (*lower, *higher), strict=True)
        }
        with np.errstate(all="ignore"):
            for step in self.steps:
                values[step.var.name] = evaluate(step.value, values)
            return tuple(np.broadcast_to(evaluate(result, values), np.shape(lower[0])) for result in self.results)

    def applied(
        self, lower: Sequence[Expr], higher: Sequence[Expr], named: Callable[[str, Expr], Expr]
    ) -> tuple[Expr, ...]:
        """Return the combination of two tuples of expressions. named: binds a value to a name, like `Builder.let`."""
        values = {var.name: value for var, value in zip((*self.lower, *self.higher), (*lower, *higher), strict=True)}
        for step in self.steps:
            values[step.var.name] = named(step.var.name, _with(step.value, values))
        return tuple(named("combined", _with(result, values)) for result in self.results)


def _with(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    return values[expr.name] if isinstance(expr, Var) else with_operands(expr, lambda part: _with(part, values))
