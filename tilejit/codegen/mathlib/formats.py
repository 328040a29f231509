"""The two floating-point formats that the library computes in."""

from __future__ import annotations

from dataclasses import dataclass

from .coefficients import COEFFICIENTS

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE 754 binary format, and where in it the functions stop changing.

    precision_bits: stored bits of the significand. exp_limit, exp2_limit: beyond ±this exp and exp2 are 0 or
    infinite. silu_limit, gelu_limit: below minus this they are -0. tanh_limit, erf_limit: beyond ±this they
    are ±1. erf_centre: where erf's polynomial for large arguments is expanded.
    """

    dtype: str
    llvm: str
    integer: str
    suffix: str
    bits: int
    precision_bits: int
    exp_limit: float
    exp2_limit: float
    silu_limit: float
    gelu_limit: float
    erf_limit: float
    erf_centre: float
    tanh_limit: float

    @property
    def bias(self) -> int:
        """The exponent field of 1."""
        return (1 << (self.bits - self.precision_bits - 2)) - 1

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def round_shift(self) -> float:
        """Adding this rounds a small number to an integer, which is then in the sum's low bits."""
        return 1.5 * 2.0**self.precision_bits

    def table(self, name: str) -> tuple[float, ...]:
        """A polynomial's coefficients or a constant's parts."""
        return COEFFICIENTS[self.dtype][name]


FORMATS = {
    "float32": Format(
        "float32", "float", "i32", "f32", 32, 23,
        exp_limit=104.0, exp2_limit=152.0, silu_limit=110.0, gelu_limit=15.0, tanh_limit=10.0,
        erf_limit=4.0, erf_centre=1.75,
    ),
    "float64": Format(
        "float64", "double", "i64", "f64", 64, 52,
        exp_limit=746.0, exp2_limit=1077.0, silu_limit=760.0, gelu_limit=40.0, tanh_limit=20.0,
        erf_limit=6.0, erf_centre=2.0,
    ),
}  # fmt: skip
