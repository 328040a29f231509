"""What elementwise operations share wherever their operands live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..dtypes import DType
from ..ir import build
from ..ir.nodes import Expr, TileOp
from ..ops.elementwise import ELEMENTWISE, result_type
from .conditions import SCOPE, tiles
from .engine import Condition, Context
from .schedule.placement import Side, Step

__all__ = ["ELEMENTWISE_CONDITIONS", "OPERATIONS", "arity", "broadcast", "value_of"]

#: tile operations that compute each element by itself
OPERATIONS = ("fill", "cast", *ELEMENTWISE)


def arity(operation: str) -> int:
    """How many values go into one of the results."""
    return ELEMENTWISE[operation].arity if operation in ELEMENTWISE else 1


def _types(op: TileOp, context: Context) -> str | None:
    if op.name not in ELEMENTWISE:
        return None
    rule = result_type(op.name, tuple(o.dtype for o in op.operands[1:]))
    return rule if isinstance(rule, str) else None


def _broadcasts(op: TileOp, context: Context) -> str | None:
    dst, *inputs = tiles(op)
    for given in inputs:
        fits = len(given.shape) <= len(dst.shape) and all(
            e in (1, n) for e, n in zip(reversed(given.shape), reversed(dst.shape), strict=False)
        )
        if not fits:
            return f"shape {given.shape} of {given.buffer.name} doesn't broadcast to {dst.shape}"
    return None


#: what every elementwise operation needs
ELEMENTWISE_CONDITIONS = (SCOPE, Condition("types", _types), Condition("broadcast", _broadcasts))


def broadcast(given: Side, dst: Side) -> Side:
    """`given` over the destination's dimensions: a dimension that it lacks, or has once, doesn't move it."""
    shape, own = dst.region.shape, given.region.shape
    behind = len(shape) - len(own)
    dims: list[tuple[Step, ...]] = []
    places: list[int] = []
    next_dim = 0
    for k, extent in enumerate(shape):
        if k >= behind and own[k - behind] != 1:
            dims.append(given.dims[next_dim])
            places.append(given.places[next_dim])
            next_dim += 1
        elif extent != 1:
            dims.append((Step(extent, 0),))
            places.append(-1)
    return replace(given, shape=dst.shape, dims=tuple(dims), places=tuple(places))


def value_of(op: TileOp, values: Sequence[Expr], dtype: DType) -> Expr:
    """The operation in the type in which it computes, rounded once: to the destination's type."""
    if op.name not in ELEMENTWISE:
        return build.cast(values[0], dtype, op.attr("saturate") is not False)
    rule = result_type(op.name, tuple(v.dtype for v in values))
    assert not isinstance(rule, str)
    conditions = ELEMENTWISE[op.name].conditions
    converted = [*values[:conditions], *(build.cast(v, rule[0]) for v in values[conditions:])]
    return build.cast(build.op(op.name, *converted), dtype)
