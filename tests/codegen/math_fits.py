"""Fits the polynomials and splits the constants that the records of operations hold.

`python -m tests.codegen.math_fits exponential.EXP_FIT [DEGREE32 DEGREE64]` prints the numbers of one, as its module in
`tilejit.ops.elementwise` has them; without degrees of the present ones.

source: Remez, "Sur la détermination des polynômes d'approximation de degré donnée" (1934): the exchange
algorithm, here on a dense grid of Chebyshev points and in multiple precision.
"""

from __future__ import annotations

import sys
from typing import Any

import mpmath as mp
import numpy as np

from tilejit.ops.elementwise import FAMILIES
from tilejit.ops.fitted import Polynomial, RealConstant, RealRatio

Real = mp.mpf
GRID = 1200

#: decimal digits in which the numbers for a format are computed
PRECISION = {"float32": 40, "float64": 70}


def polynomials() -> dict[str, Polynomial]:
    """Every polynomial of the records' modules, as `exponential.EXP_FIT`."""
    return {name: value for name, value in _held().items() if isinstance(value, Polynomial)}


def constants() -> dict[str, RealConstant]:
    """Every constant of the records' modules, as `exponential.LN2`."""
    return {name: value for name, value in _held().items() if isinstance(value, RealConstant)}


def ratios() -> dict[str, RealRatio]:
    """Every quotient of the records' modules, as `exponential.TWICE_LN2`."""
    return {name: value for name, value in _held().items() if isinstance(value, RealRatio)}


def _held() -> dict[str, Any]:
    return {
        f"{family.__name__.rpartition('.')[2]}.{name}": value
        for family in FAMILIES
        for name, value in vars(family).items()
        if isinstance(value, (Polynomial, RealConstant, RealRatio))
    }


def remez(
    values: list[Real], weights: list[Real], points: list[Real], degree: int, rounds: int = 30
) -> tuple[list[Real], Real]:
    """The polynomial of least weighted maximum error on `points`, lowest coefficient first, and that error."""
    count = degree + 2
    chosen = [round(i * (len(points) - 1) / (count - 1)) for i in range(count)]
    coefficients: list[Real] = []
    worst = mp.mpf(0)
    for _ in range(rounds):
        system = mp.matrix(count, count)
        right = mp.matrix(count, 1)
        for row, index in enumerate(chosen):
            for power in range(degree + 1):
                system[row, power] = points[index] ** power
            system[row, degree + 1] = (-1) ** row / weights[index]
            right[row] = values[index]
        solution = mp.lu_solve(system, right)
        coefficients = [solution[i] for i in range(degree + 1)]
        errors = [(_polynomial(coefficients, x) - v) * w for x, v, w in zip(points, values, weights, strict=True)]
        worst = max(abs(error) for error in errors)
        if worst <= abs(solution[degree + 1]) * mp.mpf("1.01"):
            break
        chosen = _exchange(errors, count)
    return coefficients, worst


def _polynomial(coefficients: list[Real], x: Real) -> Real:
    result = mp.mpf(0)
    for c in reversed(coefficients):
        result = result * x + c
    return result


def _exchange(errors: list[Real], count: int) -> list[int]:
    """The largest error of every run of one sign, reduced to `count` consecutive runs that hold the largest of all."""
    runs: list[int] = []
    for index, error in enumerate(errors):
        if runs and (error > 0) == (errors[runs[-1]] > 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = index
        else:
            runs.append(index)
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    return runs


def grid(low: Real, high: Real) -> list[Real]:
    """Chebyshev points of [low, high] in rising order."""
    return [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * GRID)) for i in range(GRID)]


def coefficients(fit: Polynomial, dtype: str, degree: int | None = None) -> tuple[tuple[float, ...], float]:
    """The fit's coefficients rounded to the format, and the largest weighted error before rounding.

    degree: of the polynomial; else that of the present one.
    """
    if degree is None:
        degree = len(fit.coefficients(dtype)) - 1
    with mp.workdps(PRECISION[dtype]):
        names: dict[str, Any] = {"mp": mp, "dtype": dtype}
        points = grid(eval(fit.low, names), eval(fit.high, names))
        values = [eval(fit.function, names | {"x": x}) for x in points]
        weights = [abs(eval(fit.weight, names | {"x": x, "f": f})) for x, f in zip(points, values, strict=True)]
        exact, worst = remez(values, weights, points, degree)
        rounded = [float(np.array(float(c), dtype)) for c in exact]
        for power, floats in fit.nudges:
            rounded[power] = _nudged(rounded[power], floats)
        return tuple(rounded), float(worst)


def _nudged(coefficient: float, floats: int) -> float:
    """The float32 that is `floats` steps above a positive one."""
    return float((np.array(coefficient, np.float32).view(np.int32) + np.int32(floats)).view(np.float32))


def parts(constant: RealConstant, dtype: str) -> tuple[float, ...]:
    """The constant as a sum of as many numbers of the format as it has now, each the nearest to what is left."""
    out: list[float] = []
    with mp.workdps(PRECISION[dtype]):
        value = eval(constant.value, {"mp": mp})
        for _ in constant.parts(dtype):
            out.append(float(np.array(float(value), dtype)))
            value -= mp.mpf(out[-1])
    return tuple(out)


def shown(numbers: tuple[float, ...]) -> str:
    """Numbers as records hold them."""
    return " ".join(_hexadecimal(n) for n in numbers)


def _hexadecimal(number: float) -> str:
    significand, exponent = number.hex().split("p")
    return f"{significand.rstrip('0').rstrip('.')}p{exponent}" if "." in significand else f"{significand}p{exponent}"


def main(name: str, *degrees: str) -> None:
    """Print one polynomial's or constant's numbers for both formats."""
    held = _held()[name]
    for number, dtype in enumerate(PRECISION):
        if isinstance(held, RealRatio):
            sys.exit(f"{name} is a quotient: {held.dividend} / {held.divisor}")
        if isinstance(held, RealConstant):
            print(f"{dtype}: {shown(parts(held, dtype))}")
            continue
        if not held.coefficients(dtype):
            continue
        made, worst = coefficients(held, dtype, int(degrees[number]) if degrees else None)
        print(f"{dtype}, error 2^{np.log2(worst):.2f}: {shown(made)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
