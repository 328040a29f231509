"""Bitwise operations, shifts, bit counts and bit reversal. Shifts that are undefined in LLVM give NumPy's results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..scalar import Code, Number, ScalarBuilder, called
from .record import Elementwise, Formula


def _bitwise(
    name: str, meaning: str, formula: Formula, write: Callable[..., Number], operands: tuple[str, ...] = ("x", "y")
) -> Elementwise:
    code = Code(write)
    return Elementwise(
        name=name, operands=operands, kind="bits", meaning=meaning, formula=formula, integers=code, bools=code
    )


BITWISE_NOT = _bitwise("bitwise_not", "~x; logical negation for bool_", np.invert, lambda b, x: ~x, ("x",))
BITWISE_AND = _bitwise("bitwise_and", "x & y", np.bitwise_and, lambda b, x, y: x & y)
BITWISE_OR = _bitwise("bitwise_or", "x | y", np.bitwise_or, lambda b, x, y: x | y)
BITWISE_XOR = _bitwise("bitwise_xor", "x ^ y", np.bitwise_xor, lambda b, x, y: x ^ y)


def _left_shift(b: ScalarBuilder, x: Number, y: Number) -> Number:
    """Return x·2^y modulo 2^bits, or 0 if y is negative or not less than the width, as in NumPy."""
    return b.select(b.compare("u<", y, y.bits), x << _masked(y), 0)


def _masked(y: Number) -> Number:
    """Return the shift count modulo the width: in LLVM, a shift by the width or more is poison."""
    return y & (y.bits - 1)


def _is_width(b: ScalarBuilder, x: Number, y: Number) -> bool:
    """True if the shift count `y` is proved, or a literal, less than the width of `x`."""
    count = b.literal(y)
    return b.proved or (count is not None and count < x.bits)


LEFT_SHIFT = Elementwise(
    name="left_shift", operands=("x", "y"), kind="shift", meaning="x << y; 0 if y is not in 0 .. bits-1",
    formula=np.left_shift,
    integers=called(_left_shift, shortcut=lambda b, x, y: x << y if _is_width(b, x, y) else None),
)


def _right_shift(b: ScalarBuilder, x: Number, y: Number) -> Number:
    """Return floor(x/2^y); if y is negative or not less than the width, -1 for negative x, else 0, as in NumPy."""
    if not x.is_signed:
        return b.select(b.compare("u<", y, y.bits), x >> _masked(y), 0)
    return b.select(b.compare("u<", y, y.bits), x >> _masked(y), x >> (x.bits - 1))


RIGHT_SHIFT = Elementwise(
    name="right_shift", operands=("x", "y"), kind="shift",
    meaning="x >> y; if y is not in 0 .. bits-1, -1 for negative x, else 0", formula=np.right_shift,
    integers=called(_right_shift, shortcut=lambda b, x, y: x >> y if _is_width(b, x, y) else None),
)


def _bits(x: np.ndarray) -> np.ndarray:
    """Return the bits of each element along a new last axis, highest first."""
    return np.unpackbits(x[..., None].view(np.uint8), axis=-1, bitorder="little")[..., ::-1]


def _popcount(x: np.ndarray) -> np.ndarray:
    return np.asarray(_bits(x).sum(axis=-1).astype(x.dtype))


def _clz(x: np.ndarray) -> np.ndarray:
    bits = _bits(x)
    return np.asarray(np.where(bits.any(axis=-1), bits.argmax(axis=-1), bits.shape[-1]).astype(x.dtype))


def _brev(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.packbits(_bits(x), axis=-1, bitorder="little").view(x.dtype)[..., 0])


def _count(name: str, meaning: str, formula: Formula, intrinsic: str) -> Elementwise:
    return Elementwise(
        name=name, operands=("x",), kind="count", meaning=meaning, formula=formula,
        integers=Code(lambda b, x: b.intrinsic(intrinsic, x)),
    )


POPCOUNT = _count("popcount", "the number of bits of x that are 1", _popcount, "ctpop")
CLZ = _count("clz", "the number of leading zeros of x; the width of x for 0", _clz, "ctlz")
BREV = _count("brev", "the bits of x in reverse order", _brev, "bitreverse")
