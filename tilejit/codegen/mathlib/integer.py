"""Integer division, power and shifts with NumPy's values where the hardware's or LLVM's are undefined."""

from __future__ import annotations

from .emitter import Block, Emitter, Value

__all__ = ["floordiv", "left_shift", "mod", "power", "right_shift"]


def _safe_divisor(e: Emitter, y: Value, signed: bool) -> Value:
    """y, or 1 where the division is undefined: y = 0, and y = -1, which overflows for the smallest x."""
    undefined = y.equals(0)
    if signed:
        undefined = undefined | y.equals(-1)
    return e.select(undefined, 1, y)


def floordiv(e: Emitter, x: Value, y: Value, signed: bool) -> Value:
    """floor(x/y); 0 where y is 0, and the smallest integer divided by -1 is itself, as in NumPy."""
    divisor = _safe_divisor(e, y, signed)
    if not signed:
        return e.select(y.equals(0), 0, e.binary("udiv", x, divisor))
    quotient = e.binary("sdiv", x, divisor)
    remainder = x - quotient * divisor
    is_inexact_negative = remainder.differs(0) & ((remainder ^ divisor) < 0)
    floored = e.select(is_inexact_negative, quotient - 1, quotient)
    return e.select(y.equals(0), 0, e.select(y.equals(-1), -x, floored))


def mod(e: Emitter, x: Value, y: Value, signed: bool) -> Value:
    """x - floor(x/y)·y; 0 where y is 0, as in NumPy."""
    divisor = _safe_divisor(e, y, signed)
    if not signed:
        return e.binary("urem", x, divisor)
    remainder = e.binary("srem", x, divisor)
    crosses = remainder.differs(0) & ((remainder ^ divisor) < 0)
    return e.select(crosses, remainder + divisor, remainder)


def power(e: Emitter, x: Value, y: Value, signed: bool) -> Value:
    """x^y modulo 2^bits by repeated squaring.

    A negative exponent gives the exact value rounded towards zero: ±1 for x = ±1, else 0
    (NumPy raises there, which a kernel can't).
    """
    before, loop, done = e.block, Block("loop"), Block("done")
    one = e.constant(x.type, 1)
    is_negative = y < 0 if signed else e.constant("i1", 0)
    base = e.select(is_negative & (x + 1).logical_shift_right(1).differs(0), 0, x) if signed else x
    if signed:
        base = e.select(is_negative & x.equals(1), 1, base)
    e.branch(y.equals(0), done, loop)

    e.start(loop)
    result = e.phi((one, before))
    square = e.phi((base, before))
    rest = e.phi((y, before))
    next_result = e.select((rest & 1).equals(0), result, result * square)
    next_square = square * square
    next_rest = rest.logical_shift_right(1)
    e.add_incoming(result, next_result, loop)
    e.add_incoming(square, next_square, loop)
    e.add_incoming(rest, next_rest, loop)
    e.branch(next_rest.equals(0), done, loop)

    e.start(done)
    return e.phi((one, before), (next_result, loop))


def left_shift(e: Emitter, x: Value, y: Value, signed: bool) -> Value:
    """x·2^y modulo 2^bits; 0 where y is negative or not below the width, as in NumPy."""
    return e.select(_in_width(e, y), x << _masked(y), 0)


def right_shift(e: Emitter, x: Value, y: Value, signed: bool) -> Value:
    """floor(x/2^y); 0 or -1 by x's sign where y is negative or not below the width, as in NumPy."""
    if not signed:
        return e.select(_in_width(e, y), x.logical_shift_right(_masked(y)), 0)
    return e.select(_in_width(e, y), x >> _masked(y), x >> (_width(x) - 1))


def _width(x: Value) -> int:
    return int(x.type[1:])


def _in_width(e: Emitter, y: Value) -> Value:
    return e.compare("ult", y, _width(y))


def _masked(y: Value) -> Value:
    """A count that LLVM defines: a larger one is poison, which a select would not remove everywhere."""
    return y & (_width(y) - 1)
