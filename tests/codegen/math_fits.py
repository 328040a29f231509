"""Fits the polynomials of `tilejit.codegen.mathlib` and prints `coefficients.py`.

`python tests/codegen/math_fits.py > tilejit/codegen/mathlib/coefficients.py` regenerates the committed file.

source: Remez, "Sur la détermination des polynômes d'approximation de degré donnée" (1934): the exchange
algorithm, here on a dense grid of Chebyshev points and in multiple precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

Real = mp.mpf
GRID = 1200


@dataclass(frozen=True, slots=True)
class Fit:
    """One function on one interval, with a degree for each format."""

    name: str
    meaning: str
    function: Callable[[Real], Real]
    weight: Callable[[Real], Real]
    interval: Callable[[str], tuple[Real, Real]]
    degrees: tuple[int, int]


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


def _one(_: Real) -> Real:
    return mp.mpf(1)


def _fixed(low: Real, high: Real) -> Callable[[str], tuple[Real, Real]]:
    return lambda _: (low, high)


def _mills_scaled(v: Real) -> Real:
    """exp(a²/2)·Phi(-a)·(a + 4) for v = 1 - 2a/(a + 4)."""
    a = 8 / (v + 1) - 4
    return mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2 * (a + 4)


TANH_SPLIT = mp.mpf(9) / 16


def fits() -> tuple[Fit, ...]:
    """Every polynomial that the library uses; call it at the working precision."""
    half_ln2 = mp.log(2) / 2 * mp.mpf("1.0001")
    low, high = mp.sqrt(2) / 2 - 1, mp.sqrt(2) - 1
    quarter = (mp.pi / 4) ** 2 * mp.mpf("1.01")
    atanh_limit = (mp.sqrt(2) - 1) ** 4
    tanh_limit = TANH_SPLIT**2
    return (
        Fit("EXP", "(exp(r) - 1 - r) / r² over r, |r| <= ln(2)/2",
            lambda r: (mp.expm1(r) - r) / r**2, lambda r: 1 / mp.exp(r), _fixed(-half_ln2, half_ln2), (4, 9)),
        Fit("EXP2", "(2^r - 1) / r over r, |r| <= 1/2",
            lambda r: mp.expm1(r * mp.log(2)) / r, _one, _fixed(mp.mpf("-.5001"), mp.mpf(".5001")), (5, 10)),
        Fit("LOG", "(log(1 + f) - f) / f² over f, sqrt(1/2) <= 1 + f <= sqrt(2)",
            lambda f: (mp.log1p(f) - f) / f**2, lambda f: abs(f), _fixed(low, high), (8, 19)),
        Fit("LOG2", "log2(1 + f) / f over f, sqrt(1/2) <= 1 + f <= sqrt(2)",
            lambda f: mp.log1p(f) / mp.log(2) / f, lambda f: f / mp.log1p(f), _fixed(low, high), (9, 20)),
        Fit("ATANH", "(log2((1 + u) / (1 - u)) - (2u + 2u³/3)/ln(2)) / u⁵ over u², |u| <= (sqrt(2) - 1)²",
            lambda s: 2 * (mp.atanh(mp.sqrt(s)) - mp.sqrt(s) - mp.sqrt(s) ** 3 / 3) / mp.log(2) / mp.sqrt(s) ** 5,
            _one, _fixed(mp.mpf(0), atanh_limit), (2, 8)),
        Fit("SIN", "(sin(r) - r) / r³ over r², |r| <= pi/4",
            lambda s: (mp.sin(mp.sqrt(s)) - mp.sqrt(s)) / mp.sqrt(s) ** 3, _one, _fixed(mp.mpf(0), quarter), (2, 5)),
        Fit("COS", "(cos(r) - 1 + r²/2) / r⁴ over r², |r| <= pi/4",
            lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2, _one, _fixed(mp.mpf(0), quarter), (2, 5)),
        Fit("TANH", "(tanh(x) - x) / x³ over x², |x| <= 9/16",
            lambda s: (mp.tanh(mp.sqrt(s)) - mp.sqrt(s)) / mp.sqrt(s) ** 3, _one, _fixed(mp.mpf(0), tanh_limit),
            (4, 10)),
        Fit("ERF", "erf(x) / x - 1 over x², |x| <= 1",
            lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1, _one, _fixed(mp.mpf(0), mp.mpf(1)), (5, 11)),
        Fit("ERFC",
            "log2(erfc(a)) over a - 7/4 (float32) or a - 2 (float64), a from 1 to erf_limit",
            lambda t: mp.log(mp.erfc(t + ERFC_CENTRE[mp.mp.dps])) / mp.log(2),
            lambda t: mp.erfc(t + ERFC_CENTRE[mp.mp.dps]), lambda d: ERFC_INTERVAL[d], (6, 17)),
        Fit("PHI", "(Phi(x) - 1/2) / x over x², |x| <= 1",
            lambda s: mp.erf(mp.sqrt(s / 2)) / 2 / mp.sqrt(s), _one, _fixed(mp.mpf(0), mp.mpf(1)), (4, 9)),
        Fit("GELU", "exp(a²/2)·Phi(-a)·(a + 4) over v = 1 - 2a/(a + 4), a >= 1",
            _mills_scaled, lambda v: 1 / _mills_scaled(v), lambda d: GELU_INTERVAL[d], (9, 19)),
    )


PRECISION = {"float32": 40, "float64": 70}
ERFC_CENTRE = {40: mp.mpf("1.75"), 70: mp.mpf(2)}
ERFC_INTERVAL = {"float32": (mp.mpf("-0.75"), mp.mpf("2.25")), "float64": (mp.mpf(-1), mp.mpf(4))}
GELU_INTERVAL = {"float32": (8 / mp.mpf(19) - 1, mp.mpf("0.6")), "float64": (8 / mp.mpf(44) - 1, mp.mpf("0.6"))}


def coefficients(fit: Fit, dtype: str, degree: int) -> tuple[tuple[float, ...], float]:
    """The fit's coefficients rounded to the format, and the largest weighted error before rounding."""
    points = grid(*fit.interval(dtype))
    values = [fit.function(x) for x in points]
    weights = [abs(fit.weight(x)) for x in points]
    exact, worst = remez(values, weights, points, degree)
    rounded = np.array([float(c) for c in exact], dtype)
    return tuple(float(c) for c in rounded), float(worst)


def parts(value: Real, dtype: str, count: int) -> tuple[float, ...]:
    """`value` as a sum of `count` numbers of the format, each the nearest to what is left."""
    out: list[float] = []
    for _ in range(count):
        out.append(float(np.array(float(value), dtype)))
        value -= mp.mpf(out[-1])
    return tuple(out)


def constants(dtype: str) -> dict[str, tuple[float, ...]]:
    """The irrational constants that the library uses, each split into parts of the format."""
    return {
        "LOG2E": parts(1 / mp.log(2), dtype, 1),
        "LN2": parts(mp.log(2), dtype, 2),
        "TWO_OVER_LN2": parts(2 / mp.log(2), dtype, 2),
        "TWO_OVER_3LN2": parts(2 / mp.log(2) / 3, dtype, 2),
        "TWO_OVER_PI": parts(2 / mp.pi, dtype, 1),
        "HALF_PI": parts(mp.pi / 2, dtype, 3),
        "SQRT_HALF": parts(mp.sqrt(mp.mpf("0.5")), dtype, 1),
    }


TWO_OVER_PI_BITS = 1280
HEADER = '''"""Coefficients and constants: made by `tests/codegen/math_fits.py`, never by hand."""

#: The first bits of 2/pi after the point.
TWO_OVER_PI_BITS = {bits}
TWO_OVER_PI_FRACTION = int(
    {digits}
)

#: Polynomials, lowest power first, and irrational constants, largest part first.
COEFFICIENTS: dict[str, dict[str, tuple[float, ...]]] = {{'''


def header() -> str:
    """The generated module's first lines."""
    with mp.workprec(TWO_OVER_PI_BITS + 64):
        digits = f"{int(mp.floor(2 / mp.pi * mp.mpf(2) ** TWO_OVER_PI_BITS)):x}"
    pieces = [f'"{digits[i : i + 80]}"' for i in range(0, len(digits), 80)]
    return HEADER.format(bits=TWO_OVER_PI_BITS, digits="\n    ".join(pieces) + ",\n    16,")


def main() -> None:
    """Print the generated module."""
    print(header())
    for index, dtype in enumerate(("float32", "float64")):
        with mp.workdps(PRECISION[dtype]):
            print(f'    "{dtype}": {{')
            for fit in fits():
                rounded, worst = coefficients(fit, dtype, fit.degrees[index])
                print(f"        # {fit.meaning}; error 2^{mp.nstr(mp.log(worst, 2), 4)}")
                _print_numbers(fit.name, rounded)
            for name, numbers in constants(dtype).items():
                _print_numbers(name, numbers)
            print("    },")
    print("}")


def _print_numbers(name: str, numbers: tuple[float, ...]) -> None:
    print(f'        "{name}": (')
    for number in numbers:
        print(f"            float.fromhex({number.hex()!r}),".replace("'", '"'))
    print("        ),")


if __name__ == "__main__":
    main()
