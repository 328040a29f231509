"""Invariants of operations: what the tables of `tilejit.ops` say of operands and types."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np

from ...dtypes import DType, bool_
from ...ops.elementwise import ELEMENTWISE, result_type, value_type
from ...ops.gemm import shape_fault, type_fault
from ...ops.tile import TILE_OPERATIONS, TileOperation
from .. import nodes as ir
from ..arithmetic.facts import full_range

__all__ = ["broadcasts", "const_fault", "op_fault", "tile_op_faults"]


def const_fault(const: ir.Const) -> str | None:
    """What is wrong with a constant, or None."""
    value, dtype = const.value, const.dtype
    if dtype == bool_:
        return None if value in (True, False) else f"{value!r} is no value of bool_"
    if dtype.is_float:
        return None if _is_of_float(float(value), dtype) else f"{value!r} is no value of {dtype}"
    low, high = full_range(dtype)
    is_one = not isinstance(value, float) and low <= value <= high
    return None if is_one else f"{value!r} is no value of {dtype}"


def _is_of_float(value: float, dtype: DType) -> bool:
    if math.isnan(value) or dtype.bits == 64:
        return True
    if math.isinf(value) and dtype.is_fp8:
        return dtype.name == "float8_e5m2"
    with np.errstate(all="ignore"):
        return float(np.asarray(value).astype(dtype.numpy)) == value


def op_fault(op: ir.Op) -> str | None:
    """What is wrong with a scalar operation's name, arguments or type, or None."""
    return _op_fault(op.name, tuple([a.dtype for a in op.args]), op.dtype)


@cache
def _op_fault(name: str, dtypes: tuple[DType, ...], result: DType) -> str | None:
    if name not in ELEMENTWISE:
        return f"no operation is called {name!r}"
    rule = result_type(name, dtypes)
    if isinstance(rule, str):
        return rule
    compute, _ = rule
    if any(d != compute for d in dtypes[ELEMENTWISE[name].conditions :]):
        return f"{name} of {', '.join(map(str, dtypes))} computes in {compute}; cast its arguments"
    given = value_type(name, compute)
    return None if result == given else f"{name} of {compute} gives {given}; it says {result}"


def tile_op_faults(op: ir.TileOp) -> Iterator[str]:
    """What is wrong with a tile operation's operands, shapes, types, attributes and scope."""
    if op.scope not in ir.SCOPES:
        yield f"{op.name} on unknown scope {op.scope!r}"
    table = TILE_OPERATIONS.get(op.name)
    if table is None:
        yield f"no tile operation is called {op.name!r}"
        return
    unknown = [name for name, _ in op.attrs if name not in table.attrs]
    if unknown:
        yield f"{op.name} has no attribute {unknown[0]!r}"
    least, most = table.arity
    if not least <= len(op.operands) <= most:
        yield f"{op.name} takes {least if least == most else f'{least} or {most}'} operands; got {len(op.operands)}"
        return
    found = list(_kind_faults(op, table))
    yield from found or _shape_and_type_faults(op)


def _kind_faults(op: ir.TileOp, table: TileOperation) -> Iterator[str]:
    for operand, rule in zip(op.operands, table.operands, strict=False):
        is_region = isinstance(operand, ir.Region)
        if not (rule.region if is_region else rule.value):
            yield f"{op.name}: {rule.name} can't be a {'region' if is_region else 'scalar'}"


def _shape_and_type_faults(op: ir.TileOp) -> Iterator[str]:
    dst, inputs = op.operands[0], op.operands[1:]
    assert isinstance(dst, ir.Region)
    regions = [i for i in inputs if isinstance(i, ir.Region)]
    if op.name in ("copy", "copy_async"):
        yield from _copy_faults(op, dst, regions[0])
        return
    if op.name == "gemm":
        a, b = regions
        shapes = shape_fault(dst.shape, a.shape, b.shape)
        types = type_fault(dst.dtype, a.dtype, b.dtype, op.attr("precision"))
        yield from (f"gemm: {fault}" for fault in (shapes, types) if fault is not None)
        return
    for region in regions:
        if not broadcasts(region.shape, dst.shape):
            yield f"{op.name}: shape {region.shape} of {region.buffer.name} doesn't broadcast to {dst.shape}"
    if op.name in ELEMENTWISE:
        rule = result_type(op.name, tuple(i.dtype for i in inputs))
        if isinstance(rule, str):
            yield rule


def _copy_faults(op: ir.TileOp, dst: ir.Region, src: ir.Region) -> Iterator[str]:
    if dst.dtype != src.dtype:
        yield f"{op.name} from {src.dtype} to {dst.dtype}; only a cast converts"
    if _without_units(dst.shape) != _without_units(src.shape):
        yield f"{op.name} from shape {src.shape} to shape {dst.shape}"
    fill = op.operands[2] if len(op.operands) == 3 else None
    if fill is not None and fill.dtype != dst.dtype:
        yield f"{op.name} of {dst.dtype} with a fill of {fill.dtype}"


def _without_units(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether `shape` broadcasts to `to` as in NumPy."""
    if len(shape) > len(to):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))
