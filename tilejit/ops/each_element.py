"""The tile operation of each elementwise operation."""

from __future__ import annotations

from functools import partial

import numpy as np

from . import axes
from .broadcast import broadcast_fault
from .copies import DST, VARIANT_NAME, into
from .elementwise import ELEMENTWISE, Elementwise, reference, result_type
from .record import SCALAR, TILE, Attributes, DTypes, Fault, TileOperand, TileOperation


def _elementwise_types(name: str, dtypes: DTypes, attrs: Attributes) -> Fault | None:
    _, *inputs = dtypes.values()
    rule = result_type(name, tuple(inputs))
    return Fault(rule, ELEMENTWISE[name].remedy(inputs)) if isinstance(rule, str) else None


def _elementwise_reference(name: str, dst: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    return into(dst, reference(name, *inputs))


def _input_names(op: Elementwise) -> tuple[str, ...]:
    """Return the input parameters of calls such as `tj.cta.add`: src if there is one, else any cond, then a, b, c."""
    values = op.arity - op.conditions
    return (*("cond",) * op.conditions, *(("src",) if op.arity == 1 else ("a", "b", "c")[:values]))


def _operation(op: Elementwise) -> TileOperation:
    dtype = "float32" if op.takes_floats else "int32"
    inputs = ("True",) * op.conditions + ("A[0:32, 0:8]",) * (op.arity - op.conditions)
    return TileOperation(
        name=op.name, operands=(DST, *(TileOperand(name, kinds=(TILE, SCALAR)) for name in _input_names(op))),
        attrs=(VARIANT_NAME,), meaning=f"dst = {op.name}(...): {op.meaning}",
        example=f"x = tj.alloc_shared((32, 8), tj.{dtype})\ntj.cta.{op.name}({', '.join(('x', *inputs))})",
        reference=partial(_elementwise_reference, op.name), relation=axes.ELEMENTWISE, shape_fault=broadcast_fault,
        type_fault=partial(_elementwise_types, op.name), elementwise=op,
    )


#: the tile operations, in the order of `ELEMENTWISE`
ELEMENTWISE_OPERATIONS = tuple(map(_operation, ELEMENTWISE.values()))
