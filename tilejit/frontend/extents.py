"""What a kernel sees of extents: `A.shape`, `A.size`, `len(A)`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence

from ..ir.nodes import Expr
from .context import Context
from .scalars import fold, operate
from .values import Constant, Items, Memory, Scalar, Value

__all__ = ["length", "shape", "size"]


def shape(extents: Sequence[int | Expr | None]) -> Items:
    """The extents that there are."""
    return Items(tuple(Constant(e) if isinstance(e, int) else Scalar(e) for e in extents if e is not None))


def size(ctx: Context, node: ast.AST, memory: Memory) -> Value:
    """Their product."""
    product: Value = Constant(1)
    for extent in shape(memory.extents).items:
        folded = fold(ctx, node, operator.mul, (product, extent))
        product = operate(ctx, node, "mul", (product, extent)) if folded is None else folded
    return product


def length(memory: Memory) -> Value | None:
    """The first of them; None where there is none."""
    return next(iter(shape(memory.extents).items), None)
