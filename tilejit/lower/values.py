"""The value of one element of an elementwise operation, for operands in any memory."""

from __future__ import annotations

from collections.abc import Sequence

from ..dtypes import DType
from ..ir.arithmetic import build
from ..ir.nodes import Expr, TileOp
from ..ops.elementwise import ELEMENTWISE, result_type


def value_of(op: TileOp, values: Sequence[Expr], dtype: DType) -> Expr:
    """Return an element of `op` for input elements `values`, computed in the operation's type, then cast to `dtype`."""
    if op.name not in ELEMENTWISE:
        return build.cast(values[0], dtype, op.attr("saturate") is not False)
    rule = result_type(op.name, tuple([v.dtype for v in values]))
    assert not isinstance(rule, str)
    conditions = ELEMENTWISE[op.name].conditions
    converted = [build.cast(v, rule[0]) for v in values[conditions:]]
    return build.cast(build.apply(op.name, (*values[:conditions], *converted)), dtype)
