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


#: types of ml_dtypes, which aren't of NumPy's kind of floats
_NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and (value.dtype.kind == "f" or value.dtype.name in _NARROW)


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
            value, wanted = got.astype(np.float64), self.exact.astype(self.native.dtype).astype(np.float64)
            near = abs(value - self.exact) <= self.bound
            near |= _same_special(value, wanted) | _same_special(value, self.native.astype(np.float64))
            if signs:
                zero = (self.exact == 0) & (value == 0) & (np.signbit(self.exact) == np.signbit(self.native))
                near &= ~(zero & (np.signbit(value) != np.signbit(self.exact)))
        return np.asarray(~near)

    def is_near(self, got: Array) -> bool:
        """True if a comparison with loose tolerances would accept the result."""
        with np.errstate(all="ignore"):
            value = got.astype(np.float64)
            return bool(is_float(self.native) and np.allclose(value, self.exact, _LOOSE, _LOOSE, equal_nan=True))


def _same_special(value: Array, wanted: Array) -> Array:
    return np.asarray((np.isnan(value) & np.isnan(wanted)) | (np.isinf(wanted) & (value == wanted)))


def bounded(
    compute: Computes, exactly: Computes, values: Sequence[Any], slack: float, precision: str | None
) -> list[Bounded]:
    """Compute the reference's results and their bounds. compute, exactly: the reference as it is, and in float64.

    precision: the element type of the computation, by default float32, or float64 for a result of that type.
    """
    native = compute(values)
    exact = exactly(widened(values))
    random = np.random.default_rng(0)
    sensitive = {p: _sensitivity(exactly, values, exact, _unit(p), random) for p in _precisions(native, precision)}
    results = []
    for index, (near, far) in enumerate(zip(native, exact, strict=True)):
        if not is_float(near):
            results.append(Bounded(near, near, np.zeros(near.shape)))
            continue
        info = _finfo(near.dtype)
        used = _precision(near, precision)
        with np.errstate(all="ignore"):
            size = np.where(np.isfinite(far), abs(far), 0)
            bound = float(info.eps) * size + slack * (_unit(used) * size + sensitive[used][index])
            bound = bound + float(info.tiny)
            error = abs(near.astype(np.float64) - far)
            ratio = np.where(np.isfinite(error), error / bound, 0)
            # the reference rounds intermediate results, as the candidate may do
            typical = float(np.quantile(ratio, 0.99)) if ratio.size else 0.0
            bound = np.maximum(bound * max(1.0, 2 * typical), 2 * np.where(np.isfinite(error), error, 0))
        results.append(Bounded(far.astype(np.float64), near, bound))
    return results


def _precision(result: Array, precision: str | None) -> str:
    return precision or ("float64" if result.dtype == np.float64 else "float32")


def _precisions(results: Sequence[Array], precision: str | None) -> set[str]:
    return {_precision(x, precision) for x in results if is_float(x)}


def _unit(precision: str) -> float:
    # source: PTX ISA, "Alternate floating point data formats": tf32 has 10 bits of mantissa
    return 2.0**-11 if precision == "tfloat32" else float(_finfo(precision).eps) / 2


def _finfo(dtype: Any) -> Any:
    if str(dtype) not in _NARROW:
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def _sensitivity(
    exactly: Computes, values: Sequence[Any], exact: Sequence[Array], unit: float, random: np.random.Generator
) -> list[Array]:
    """Return the root mean square changes of the results if each float of the inputs changes by `unit`, relatively."""
    sums = [np.zeros(x.shape) for x in exact]
    with np.errstate(all="ignore"):
        for _ in range(_SAMPLES):
            signs = [random.choice((-1.0, 1.0), x.shape) if is_float(x) else x for x in values]
            moved = [
                x.astype(np.float64) * (1 + unit * s) if is_float(x) else x for x, s in zip(values, signs, strict=True)
            ]
            for total, changed, known in zip(sums, exactly(moved), exact, strict=True):
                if changed.dtype.kind == "f":
                    step = changed.astype(np.float64) - known
                    total += np.where(np.isfinite(step), step, 0) ** 2
    return [np.sqrt(total / _SAMPLES) for total in sums]
