"""Random numbers, as functions of seeds and offsets: `tj.rand`, `tj.randn` and `tj.randint`, from `tj.random_bits`."""

from __future__ import annotations

import ast
import math

from ..dtypes import DType, float32, int32, int64, uint64
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import full_range
from ..ir.nodes import FALSE, TRUE, Assert
from ..ops.elementwise.random import RANDOM_BITS
from . import tiles
from .arguments import Arguments, Handler
from .context import Context
from .scalars import as_scalar
from .values import Constant, Items, Memory, Scalar, Value, describe

#: uniform numbers have 24 random bits, those of a float32's significand
_BITS = 24
_UNIT = 2.0**-_BITS


class _Calculation:
    """Arithmetic on the values of one call."""

    def __init__(self, ctx: Context, node: ast.Call) -> None:
        self.ctx, self.node = ctx, node

    def __call__(self, name: str, *values: Value | int | float) -> Value:
        given = [Constant(value) if isinstance(value, (int, float)) else value for value in values]
        return tiles.apply(self.ctx, self.node, name, given)

    def cast(self, value: Value, dtype: DType) -> Value:
        return tiles.converted(self.ctx, self.node, value, dtype)

    def bits(self, seed: Value, offset: Value) -> Value:
        """Return the 24 highest random bits at an offset."""
        return self("right_shift", self(RANDOM_BITS.name, seed, offset), 32 - _BITS)


def random_bits(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.random_bits(seed, offset)`."""
    return _Calculation(ctx, node)(RANDOM_BITS.name, *_seed_and_offset(ctx, arguments))


def rand(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.rand(seed, offset)`."""
    of = _Calculation(ctx, node)
    return of("mul", of.cast(of.bits(*_seed_and_offset(ctx, arguments)), float32), _UNIT)


def randn(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.randn(seed, offset)`, by Box and Muller's method.

    The cosine of a fraction v of the circle is the sine of v + 1/4. Fractions are integers, in units of 2**-24, and are
    reduced to at most a quarter exactly, so that the error of the angle is that of one multiplication.
    """
    of, (seed, offset) = _Calculation(ctx, node), _seed_and_offset(ctx, arguments)
    is_odd = of("bitwise_and", offset, 1)
    even = of("sub", offset, is_odd)
    first, second = of.bits(seed, even), of.bits(seed, of("add", even, 1))
    radius = of("sqrt", of("mul", of("log", of("mul", of.cast(of("add", first, 1), float32), _UNIT)), -2.0))
    whole, part = 1 << _BITS, of.cast(second, int32)
    part = of("where", of("equal", is_odd, 0), of("add", part, whole // 4), part)
    part = of("where", of("greater", part, whole // 4 * 3), of("sub", part, whole), part)
    part = of("where", of("greater", part, whole // 4), of("sub", whole // 2, part), part)
    angle = of("mul", of.cast(part, float32), 2 * math.pi * _UNIT)
    return of("mul", radius, of("sin", angle))


def randint(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.randint(seed, offset, low, high)`."""
    of, (seed, offset) = _Calculation(ctx, node), _seed_and_offset(ctx, arguments)
    low, high = (_limit(ctx, arguments[name], name) for name in ("low", "high"))
    is_less = build.less(low.expr, high.expr)
    if is_less == FALSE:
        raise ctx.type_error(node, "randint has no integer to draw: low must be less than high", "high is exclusive")
    if is_less != TRUE:
        ctx.emit(Assert(is_less, "randint: low must be less than high", span=ctx.span(node)))
    count = Scalar(build.cast(build.sub(high.expr, low.expr), uint64))
    product = of("mul", of.cast(of(RANDOM_BITS.name, seed, offset), uint64), count)
    drawn = of.cast(of("right_shift", product, 32), int32)
    return of("add", drawn, Scalar(build.cast(low.expr, int32)))


def _limit(ctx: Context, node: ast.expr, name: str) -> Scalar:
    """Return `low` or `high` as an int64; check that the results are of int32."""
    value = _typed(ctx, node, as_scalar(ctx, node, ctx.evaluate(node)))
    if isinstance(value, Scalar) and value.dtype.is_integer:
        least, most = (limit + (name == "high") for limit in full_range(int32))
        smallest, largest = full_range(value.dtype)
        fits = build.logical_and(
            build.less_equal(max(least, smallest), value.expr), build.less_equal(value.expr, min(most, largest))
        )
        if fits == FALSE:
            raise ctx.type_error(
                node, f"randint gives int32: {name} must be from {least} to {most}",
                "scale the result of tj.rand, or combine two words of tj.random_bits",
            )
        if fits != TRUE:
            ctx.emit(Assert(fits, f"randint: {name} must be from {least} to {most}", span=ctx.span(node)))
        return Scalar(build.cast(value.expr, int64))
    raise ctx.type_error(
        node, f"{name} must be an integer; this is {describe(value)}", "scale and shift the result of tj.rand"
    )


def _seed_and_offset(ctx: Context, arguments: Arguments) -> tuple[Value, Value]:
    seed, offset = (_integer(ctx, arguments[name], name) for name in ("seed", "offset"))
    return seed, offset


def _integer(ctx: Context, node: ast.expr, name: str) -> Value:
    """Return a seed or an offset: a scalar or a tile."""
    value = _typed(ctx, node, ctx.evaluate(node))
    if isinstance(value, (Scalar, Memory)) and value.dtype.is_integer:
        return value
    raise ctx.type_error(
        node, f"{name} must be of integers; this is {describe(value)}",
        "for a tile, give the number of each element: tj.cta.indices(shape, axis)" if isinstance(value, Items)
        else "convert it: x.astype(tj.int64)",
    )


def _typed(ctx: Context, node: ast.expr, value: Value) -> Value:
    """Return an integer literal as an int64, or a uint64 if it needs one, and any other value unchanged."""
    number = value.value if isinstance(value, Constant) else None
    if isinstance(number, int) and not isinstance(number, bool):
        return Scalar(ctx.literal(int(number), uint64 if number >= 1 << 63 else int64, node))
    return value


HANDLERS: dict[str, Handler] = {RANDOM_BITS.name: random_bits, "rand": rand, "randn": randn, "randint": randint}
