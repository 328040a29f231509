"""Which tile operations there are, and what can be called on a scope besides them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..dtypes import DType
from ..scopes import Scope
from .broadcast import broadcast_fault
from .copies import CAST, COPY, COPY_ASYNC, DST, FILL, INDICES, RESHAPE, VARIANT_NAME, into
from .elementwise import ELEMENTWISE, Elementwise, reference, result_type
from .gemm import GEMM
from .record import SCALAR, TILE, Attribute, AttributeValue, Fault, TileOperand, TileOperation

__all__ = ["CALLS", "TILE_OPERATIONS", "Attribute", "Fault", "TileOperand", "Shorthand", "TileOperation"]


def _elementwise_types(
    name: str, dtypes: Mapping[str, DType], attrs: Mapping[str, AttributeValue]
) -> Fault | None:
    _, *inputs = dtypes.values()
    rule = result_type(name, tuple(inputs))
    return Fault(rule, "convert the operands first: x.astype(...)") if isinstance(rule, str) else None


def _elementwise_reference(name: str, dst: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    return into(dst, reference(name, *inputs))


def _input_names(op: Elementwise) -> tuple[str, ...]:
    """What calls with a destination name the inputs: src; a, b, c; a condition before them cond."""
    values = op.arity - op.conditions
    return (*("cond",) * op.conditions, *(("src",) if op.arity == 1 else ("a", "b", "c")[:values]))


def _elementwise(op: Elementwise) -> TileOperation:
    dtype = "int32" if op.kind in ("bits", "shift") else "float32"
    inputs = ("True",) * op.conditions + ("A[0:32, 0:8]",) * (op.arity - op.conditions)
    return TileOperation(
        name=op.name,
        operands=(DST, *(TileOperand(name, kinds=(TILE, SCALAR)) for name in _input_names(op))),
        attrs=(VARIANT_NAME,),
        meaning=f"dst = {op.name}(...): {op.meaning}",
        example=f"x = tj.alloc_shared((32, 8), tj.{dtype})\ntj.cta.{op.name}({', '.join(('x', *inputs))})",
        reference=partial(_elementwise_reference, op.name),
        shape_fault=broadcast_fault,
        type_fault=partial(_elementwise_types, op.name),
        elementwise=op,
    )


#: name -> operation
TILE_OPERATIONS: dict[str, TileOperation] = {
    op.name: op for op in (COPY, COPY_ASYNC, FILL, CAST, RESHAPE, INDICES, *map(_elementwise, ELEMENTWISE.values()), GEMM)
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Shorthand:
    """A call on a scope that stands for a tile operation.

    parameters: in order, of which the first `required` must be given. operation: what it becomes.
    """

    name: str
    parameters: tuple[str, ...]
    required: int
    operation: TileOperation
    meaning: str

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return self.operation.scopes


_SHORTHANDS = (
    Shorthand(
        name="load",
        parameters=("place", "layout", "mask", "fill", "cache"),
        required=1,
        operation=COPY,
        meaning="a local tile with what the place holds",
    ),
    Shorthand(
        name="store",
        parameters=("place", "tile", "mask", "cache", "variant"),
        required=2,
        operation=COPY,
        meaning="writes a local tile to a place",
    ),
    Shorthand(
        name="zeros",
        parameters=("shape", "dtype", "layout"),
        required=2,
        operation=FILL,
        meaning="a local tile of zeros",
    ),
    Shorthand(
        name="full",
        parameters=("shape", "value", "dtype", "layout"),
        required=3,
        operation=FILL,
        meaning="a local tile of one value",
    ),
    Shorthand(
        name="indices",
        parameters=("shape", "axis", "layout"),
        required=2,
        operation=INDICES,
        meaning="a local tile of int32: each element's index along an axis",
    ),
)

#: name -> what `tj.<scope>.<name>` is, on each of its scopes
CALLS: dict[str, TileOperation | Shorthand] = {**TILE_OPERATIONS, **{s.name: s for s in _SHORTHANDS}}
