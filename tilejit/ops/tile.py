"""The tables of tile operations and of calls on scopes."""

from __future__ import annotations

from ..dataclass import dataclass
from ..scopes import SCOPES, Scope
from .atomic import ATOMIC
from .copies import CAST, COPY, COPY_ASYNC, FILL, INDICES, RESHAPE
from .each_element import ELEMENTWISE_OPERATIONS
from .fold import CUMULATIVE, REDUCE, SCAN
from .gemm import GEMM, GEMM_ASYNC
from .inline import PTX
from .record import Attribute, Fault, TileOperand, TileOperation
from .reduce import REDUCTION_OPERATIONS
from .sort import SORT

__all__ = ["CALLS", "TILE_OPERATIONS", "Attribute", "Fault", "TileOperand", "Shorthand", "TileOperation"]


TILE_OPERATIONS: dict[str, TileOperation] = {
    op.name: op
    for op in (
        COPY, COPY_ASYNC, FILL, CAST, RESHAPE, INDICES, *ELEMENTWISE_OPERATIONS,
        *REDUCTION_OPERATIONS, REDUCE, SCAN, SORT, GEMM, GEMM_ASYNC, ATOMIC, PTX,
    )
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Shorthand:
    """A call on a scope that abbreviates a tile operation, or that arrives at a barrier, perhaps one of a ring."""

    name: str
    parameters: tuple[str, ...]
    #: number of leading parameters that are required
    required: int
    #: the tile operation that the call becomes; None for an arrival
    operation: TileOperation | None
    meaning: str
    #: two lines of a kernel, as for a `TileOperation`
    example: str
    #: True if the call returns a local tile
    makes_tile: bool = True

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return tuple(SCOPES.values()) if self.operation is None else self.operation.scopes


_SHORTHANDS = (
    Shorthand(
        name="load", parameters=("place", "layout", "mask", "fill", "cache"), required=1, operation=COPY,
        meaning="a local tile with the contents of a place",
        example="y = tj.cta.load(A[0:32, 0:8], fill=1)\nx = tj.cta.load(A[0:32, 0:8], mask=y > 0)",
    ),
    Shorthand(
        name="store", parameters=("place", "tile", "mask", "cache", "variant"), required=2, operation=COPY,
        meaning="write a local tile to a place",
        example="x = tj.cta.load(A[0:32, 0:8])\ntj.cta.store(A[0:32, 0:8], x * 2)", makes_tile=False,
    ),
    Shorthand(
        name="zeros", parameters=("shape", "dtype", "layout"), required=2, operation=FILL,
        meaning="a local tile of zeros",
        example="y = tj.cta.load(A[0:32, 0:8])\nx = tj.cta.zeros((32, 8), tj.float32) + y",
    ),
    Shorthand(
        name="full", parameters=("shape", "value", "dtype", "layout"), required=3, operation=FILL,
        meaning="a local tile of one value",
        example="y = tj.cta.load(A[0:32, 0:8])\nx = tj.cta.full((32, 8), 0.5, tj.float32) * y",
    ),
    Shorthand(
        name="indices", parameters=("shape", "axis", "layout"), required=2, operation=INDICES,
        meaning=INDICES.meaning, example="y = tj.cta.load(A[0:32, 0:8])\nx = tj.cta.indices((32, 8), 0) * y",
    ),
    Shorthand(
        name="arrive", parameters=("barrier",), required=1, operation=None,
        meaning="arrive once per instance of the scope; accesses before it are ordered before those after the wait",
        example="b = tj.alloc_barrier()\ntj.cta.arrive(b)", makes_tile=False,
    ),
    Shorthand(
        name="commit", parameters=("step",), required=1, operation=None,
        meaning="report that each instance of the scope, a producer of the ring, has filled its part of the step",
        example="ring = tj.alloc_ring(2)\ntj.cta.commit(ring[0])", makes_tile=False,
    ),
    Shorthand(
        name="release", parameters=("step",), required=1, operation=None,
        meaning="report that each instance of the scope, a consumer of the ring, is done with the step",
        example="ring = tj.alloc_ring(2)\ntj.cta.release(ring[0])", makes_tile=False,
    ),
)

_SCANS = (
    Shorthand(
        name="scan", parameters=("dst", "src", "axis", "combine", "reverse", "exclusive", "initial"), required=4,
        operation=SCAN, meaning=SCAN.meaning, example=SCAN.example, makes_tile=False,
    ),
    *[
        Shorthand(
            name=name, parameters=("dst", "src", "axis", "reverse", "exclusive"), required=3, operation=SCAN,
            meaning=f"dst = for each prefix along an axis of src: {reduction.meaning}",
            example=f"x = tj.cta.load(A[0:32, 0:8])\ntj.cta.{name}(A[0:32, 0:8], x, axis=-1)", makes_tile=False,
        )
        for name, reduction in CUMULATIVE.items()
    ],
)

#: name -> the operation or shorthand that `tj.<scope>.<name>` calls
CALLS: dict[str, TileOperation | Shorthand] = {
    **{name: op for name, op in TILE_OPERATIONS.items() if op.is_called},
    **{s.name: s for s in (*_SHORTHANDS, *_SCANS)},
}
