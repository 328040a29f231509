"""Error bounds of results, from the data: rounding of the result, and of the inputs as it affects the reference.

A bound is a multiple of the first-order effect of rounding, not a tolerance: random relative changes of all inputs by
the unit roundoff of the computation show how much each element of the result may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dataclass import dataclass

Array = np.ndarray[Any, Any]
#: computes results from inputs
Computes = Callable[[Sequence[Any]], list[Array]]

#: random changes of the inputs
_SAMPLES = 6
#: tolerances with which results are often compared
_LOOSE = 1e-2
#: type of floats -> the bits of its mantissa, and the exponent of its least normal number
# source: PTX ISA, "Alternate floating point data formats"
FLOATS = {
    "float64": (52, -1022), "float32": (23, -126), "tfloat32": (10, -126), "float16": (10, -14), "bfloat16": (7, -126),
    "float8_e4m3fn": (3, -6), "float8_e5m2": (2, -14),
}


def is_float(value: Any) -> bool:
    """True for an array of floats."""
    return isinstance(value, np.ndarray) and value.dtype.name in FLOATS


def widened(values: Sequence[Any]) -> list[Any]:
    """Return the values with floats as float64."""
    return [x.astype(np.float64) if is_float(x) else x for x in values]


@dataclass(frozen=True, slots=True)
class Bounded:
    """A result of the reference. exact: computed in float64. native: in the element type. bound: the largest error."""

    exact: Array
    native: Array
    bound: Array

    def wrong(self, got: Array, signs: bool = False) -> Array:
        """Return a mask of the wrong elements. signs: compare signs of zeros, too."""
        if not is_float(self.native):
            return np.asarray(got != self.native)
        with np.errstate(all="ignore"):
            value, native = got.astype(np.float64), self.native.astype(np.float64)
            near = abs(value - self.exact) <= self.bound
            for wanted in (native, self.exact.astype(self.native.dtype).astype(np.float64)):
                near |= np.isnan(value) & np.isnan(wanted) | np.isinf(wanted) & (value == wanted)
            if signs:
                zero = (self.exact == 0) & (value == 0) & (np.signbit(self.exact) == np.signbit(native))
                near &= ~(zero & (np.signbit(value) != np.signbit(self.exact)))
        return np.asarray(~near)

    def is_near(self, got: Array) -> bool:
        """True if a comparison with loose tolerances would accept the result."""
        with np.errstate(all="ignore"):
            value = got.astype(np.float64)
            return bool(is_float(self.native) and np.allclose(value, self.exact, _LOOSE, _LOOSE, equal_nan=True))


def bounded(
    native: Sequence[Array], exactly: Computes, values: Sequence[Any], slack: float, precision: str | None
) -> list[Bounded]:
    """Return the reference's results for `values` with their bounds.

    native: the results in their own types. exactly: computes them in float64, from values in float64.
    precision: the element type of the computation, by default float32, or float64 for a result of that type.
    """
    random = np.random.default_rng(0)
    unit = _epsilon(precision or "float32") / 2
    wide = widened(values)
    exact = exactly(wide)
    with np.errstate(all="ignore"):
        moved = [
            exactly([x * (1 + unit * random.choice((-1.0, 1.0), x.shape)) if is_float(x) else x for x in wide])
            for _ in range(_SAMPLES)
        ]
    results = []
    for index, (near, far) in enumerate(zip(native, exact, strict=True)):
        if not is_float(near):
            results.append(Bounded(near, near, np.zeros(near.shape)))
            continue
        name = near.dtype.name
        with np.errstate(all="ignore"):
            squares = sum(_finite(x[index] - far) ** 2 for x in moved)
            effect = unit * abs(_finite(far)) + np.sqrt(squares / _SAMPLES)
            if name == "float64" and precision is None:
                effect *= _epsilon(name) / (2 * unit)
            bound = _epsilon(name) * abs(_finite(far)) + slack * effect + 2.0 ** FLOATS[name][1]
            # the reference rounds intermediate results, as the candidate may do
            error = _finite(abs(near.astype(np.float64) - far))
            typical = float(np.quantile(error / bound, 0.99)) if error.size else 0.0
            bound = np.maximum(bound * max(1.0, 2 * typical), 2 * error)
        results.append(Bounded(far, near, bound))
    return results


def _epsilon(name: str) -> float:
    """Return the difference of 1 and the next number of a type."""
    return float(2.0 ** -FLOATS[name][0])


def _finite(array: Array) -> Array:
    return np.where(np.isfinite(array), array, 0)
