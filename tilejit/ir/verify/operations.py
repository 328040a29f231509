"""Invariants of constants, operations (as in the tables of `tilejit.ops`) and combine functions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from functools import cache, lru_cache
from operator import attrgetter

import numpy as np

from ...dtypes import DType, barrier, bool_
from ...ops.elementwise import ELEMENTWISE, result_type
from ...ops.record import BARRIER, Fault, packed_fault
from ...ops.tile import TILE_OPERATIONS, TileOperation
from ...remember import LIMIT, remembered
from ...scopes import SCOPES
from .. import nodes as ir
from ..arithmetic.facts import full_range
from ..combine import Combine


def const_fault(const: ir.Const) -> str | None:
    """Return the fault of a constant, or None."""
    value, dtype = const.value, const.dtype
    if dtype == bool_:
        return None if value in (True, False) else f"{value!r} isn't a value of bool_"
    if dtype.is_float:
        return None if _is_of_float(float(value), dtype) else f"{value!r} isn't a value of {dtype}"
    low, high = full_range(dtype)
    is_one = not isinstance(value, float) and low <= value <= high
    return None if is_one else f"{value!r} isn't a value of {dtype}"


@lru_cache(LIMIT)
def _is_of_float(value: float, dtype: DType) -> bool:
    if math.isnan(value) or dtype.bits == 64:
        return True
    if math.isinf(value) and dtype.is_fp8:
        return dtype.name == "float8_e5m2"
    with np.errstate(all="ignore"):
        return float(np.asarray(value).astype(dtype.numpy)) == value


dtype_of = attrgetter("dtype")


@cache
def op_fault(name: str, dtypes: tuple[DType, ...], result: DType) -> str | None:
    """Return the fault of a scalar operation's name, argument types or result type, or None."""
    if name not in ELEMENTWISE:
        return f"unknown operation {name!r}"
    rule = result_type(name, dtypes)
    if isinstance(rule, str):
        return rule
    compute, _ = rule
    if any(d != compute for d in dtypes[ELEMENTWISE[name].conditions :]):
        return f"{name} of {', '.join(map(str, dtypes))} computes in {compute}; cast its arguments"
    expected = ELEMENTWISE[name].value_type(compute)
    return None if result == expected else f"{name} of {compute} gives {expected}; its type is {result}"


#: keys of operations without faults; without buffer names, so tiles of equal shapes, types and spaces share one
_sound: set[Hashable] = set()


@remembered
def _fault_key(op: ir.TileOp) -> Hashable:
    operands = [
        (o.shape, o.dtype, o.gathered, o.buffer.space) if isinstance(o, ir.Region) else o if o is None else o.dtype
        for o in op.operands
    ]
    # attributes as a string, to distinguish True from 1
    return TILE_OPERATIONS.get(op.name), op.scope, repr(op.attrs), tuple(operands)


def is_known_sound(op: ir.TileOp) -> bool:
    """True if an operation with the same `_fault_key` was verified without faults, and is still remembered."""
    return _fault_key(op) in _sound


def tile_op_faults(op: ir.TileOp) -> list[str]:
    """Return the faults of a tile operation's name, scope, operands, shapes, types and attributes."""
    key = _fault_key(op)
    if key in _sound:
        return []
    faults = list(_tile_op_faults(op))
    if not faults:
        if len(_sound) >= LIMIT:
            _sound.clear()
        _sound.add(key)
    return faults


def _tile_op_faults(op: ir.TileOp) -> Iterator[str]:
    record = TILE_OPERATIONS.get(op.name)
    if op.scope not in SCOPES:
        yield f"{op.name} on unknown scope {op.scope!r}"
    if record is None:
        yield f"unknown tile operation {op.name!r}"
        return
    if op.scope in SCOPES and SCOPES[op.scope] not in record.scopes:
        yield f"{op.name} on a {op.scope}; it can only be on a {' or '.join(map(str, record.scopes))}"
    yield from (fault for name, value in op.attrs if (fault := record.attribute_fault(name, value)) is not None)
    count_fault = record.count_fault(op.operands)
    if count_fault is not None:
        yield f"{op.name} {count_fault}"
        return
    wrong_kinds = [*_kind_faults(op, record), *_index_faults(op)]
    yield from wrong_kinds or [f"{op.name}: {fault.message}" for fault in shape_and_type_faults(op)]


def _kind_faults(op: ir.TileOp, record: TileOperation) -> Iterator[str]:
    for operand, rule in zip(op.operands, record.operands, strict=False):
        is_region = isinstance(operand, ir.Region)
        kind = rule.kind(is_region=is_region)
        if operand is not None and kind is None:
            yield f"{op.name}: {rule.name} can't be a {'region' if is_region else 'scalar'}"
        elif isinstance(operand, ir.Region) and (operand.dtype == barrier) != (kind is BARRIER):
            yield f"{op.name}: {rule.name} can't be {operand.buffer.name}, which is of {operand.dtype}"
        elif isinstance(operand, ir.Region) and kind is BARRIER and operand.shape != ():
            yield f"{op.name}: {rule.name} must be one barrier; got {operand.shape} of {operand.buffer.name}"


def _index_faults(op: ir.TileOp) -> Iterator[str]:
    gathered, index = [o for o in op.operands if isinstance(o, ir.Region) and o.gathered is not None], op.index
    if index is None:
        yield from (f"{op.name}: {region.buffer.name} is gathered, but no index is given" for region in gathered)
        return
    if len(gathered) != 1:
        yield f"{op.name}: an index is given, but {len(gathered)} regions are gathered"
    shape = index.shape if isinstance(index, ir.Region) else ()
    if isinstance(index, ir.Region) and index.buffer.space != "local":
        yield f"{op.name}: the index must be in local memory; got {index.buffer.space}"
    if not index.dtype.is_integer:
        yield f"{op.name}: the index must be an integer; got {index.dtype}"
    for region in gathered:
        if region.index_shape != shape:
            yield f"{op.name}: {region.buffer.name} is gathered by {region.index_shape}; the index has shape {shape}"


@remembered
def shape_and_type_faults(op: ir.TileOp) -> tuple[Fault, ...]:
    """Return the faults of an operation's shapes and of its types.

    The operation's record must exist and match the number and kinds of the operands.
    """
    attrs = dict(op.attrs)
    packed = packed_fault(op.name, op.dtypes.values())
    types = packed or op.record.type_fault(op.dtypes, attrs)
    return tuple([fault for fault in (op.record.shape_fault(op.shapes, attrs), types) if fault is not None])


def combine_faults(combine: Combine) -> Iterator[str]:
    """Yield the faults of a combine function."""
    if tuple(var.dtype for var in combine.higher) != combine.takes:
        yield "combine: the types of the higher values differ from those of the lower ones"
    known: dict[str, ir.Var] = {}
    for var in (*combine.lower, *combine.higher):
        yield from _definition_faults(var, known)
    for step in combine.steps:
        yield from _expression_faults(step.value, known)
        if step.value.dtype != step.var.dtype:
            yield f"combine: {step.var.name} must be {step.var.dtype}; got {step.value.dtype}"
        yield from _definition_faults(step.var, known)
    for result in combine.results:
        yield from _expression_faults(result, known)


def _definition_faults(var: ir.Var, known: dict[str, ir.Var]) -> Iterator[str]:
    if var.name in known:
        yield f"combine: {var.name} is defined twice"
    known[var.name] = var


def _expression_faults(expr: ir.Expr, known: dict[str, ir.Var]) -> Iterator[str]:
    match expr:
        case ir.Const():
            fault = const_fault(expr)
        case ir.Var():
            fault = None if known.get(expr.name) == expr else f"the function doesn't define {expr.name}"
        case ir.Op():
            fault = op_fault(expr.name, tuple(map(dtype_of, expr.args)), expr.dtype)
            for arg in expr.args:
                yield from _expression_faults(arg, known)
        case ir.Cast():
            fault = None
            yield from _expression_faults(expr.x, known)
        case _:
            fault = f"the function contains a {type(expr).__name__}"
    if fault is not None:
        yield f"combine: {fault}"
