"""Extents as kernels see them: `A.shape`, `A.size` and `len(A)` of regions, tiles and gathered rows."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from typing import TypeAlias

from ..ir.nodes import Expr
from .context import Context
from .scalars import fold, operate
from .values import Constant, Items, Scalar, Value

__all__ = ["length", "shape", "size"]

#: None for a dimension that an index dropped
Extents: TypeAlias = Sequence[int | Expr | None]


def shape(extents: Extents) -> Items:
    return Items(tuple([Constant(e) if isinstance(e, int) else Scalar(e) for e in extents if e is not None]))


def size(ctx: Context, node: ast.AST, extents: Extents) -> Value:
    product: Value = Constant(1)
    for extent in shape(extents).items:
        folded = fold(ctx, node, operator.mul, (product, extent))
        product = operate(ctx, node, "mul", (product, extent)) if folded is None else folded
    return product


def length(extents: Extents) -> Value | None:
    """Return the first extent; None for rank 0."""
    return next(iter(shape(extents).items), None)
