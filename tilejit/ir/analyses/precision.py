"""Detection of float32 scalar arguments that are widened to float64, and of float64 arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from ...dtypes import float32, float64
from ...ops.copies import CAST, COPY, COPY_ASYNC
from .. import nodes as ir
from .. import walk
from ..walk import Block

#: operations that move or convert float64 elements, without arithmetic
_MOVES = (CAST.name, COPY.name, COPY_ASYNC.name, "fill", "reshape")


def widened_scalars(kernel: ir.Kernel) -> tuple[str, ...]:
    """Return the names of the float32 scalar arguments that are converted to float64, alone or in an expression.

    Values computed from loaded floats don't count.
    """
    # a scalar's variable has the name of its argument
    scalars = [var for p in kernel.params if isinstance(var := p.defines, ir.Var) and var.dtype.is_float]
    if all(var.dtype is not float32 for var in scalars):
        return ()
    every = walk.statements(kernel.body)
    widened = [
        part.x for stmt in every for expr in walk.expressions(stmt) if not isinstance(expr, walk.LEAVES)
        for part in walk.subexpressions(expr)
        if isinstance(part, ir.Cast) and part.dtype is float64 and part.x.dtype is float32
    ]
    if not widened:
        return ()
    origins = _origins(every, {var.name: frozenset([var.name]) for var in scalars})
    names = {name for expr in widened for name in _origin(expr, origins) or ()}
    return tuple([var.name for var in scalars if var.name in names and var.dtype is float32])


#: a float variable's name -> the scalar arguments that it is computed from; None if other run-time floats contribute
Origins = dict[str, frozenset[str] | None]


def _origins(every: Block, origins: dict[str, frozenset[str]]) -> Origins:
    """Return the origins of float variables. origins: the origins of the parameters."""
    defined: list[tuple[str, ir.Expr]] = []
    for stmt in every:
        match stmt:
            case ir.Let(var, value) | ir.Assign(var, value) if var.dtype.is_float:
                defined.append((var.name, value))
            case ir.Declare(var, ir.Const() | ir.Var() | ir.Op() | ir.Cast() as init) if var.dtype.is_float:
                defined.append((var.name, init))
    known: Origins = {**{name: frozenset[str]() for name, _ in defined}, **origins}
    is_changing = True
    while is_changing:
        is_changing = False
        for name, value in defined:
            before, more = known[name], _origin(value, known)
            after = None if before is None or more is None else before | more
            if after != before:
                known[name], is_changing = after, True
    return known


def _origin(expr: ir.Expr, origins: Origins) -> frozenset[str] | None:
    names, waiting = frozenset[str](), [expr]
    while waiting:
        part = waiting.pop()
        if not part.dtype.is_float:
            # floats that conditions or integers depend on don't contribute
            continue
        if not isinstance(part, (ir.Var, ir.Load)):
            waiting.extend(walk.operands(part))
            continue
        more = origins.get(part.name) if isinstance(part, ir.Var) else None
        if more is None:
            return None
        names |= more
    return names


def float64_arithmetic(kernel: ir.Kernel) -> Iterator[tuple[ir.Stmt, str]]:
    """Yield operations on float64 except `_MOVES`, as (statement, name); none if an argument is a float64 array."""
    if any(isinstance(p.defines, ir.Buffer) and p.defines.dtype is float64 for p in kernel.params):
        return
    for stmt in walk.statements(kernel.body):
        if isinstance(stmt, ir.TileOp) and stmt.name not in _MOVES:
            given = [x.dtype for x in stmt.operands if x is not None]
            if float64 in given:
                yield stmt, stmt.name
        for expr in walk.expressions(stmt):
            for part in walk.subexpressions(expr):
                if isinstance(part, ir.Op) and float64 in (part.dtype, *(arg.dtype for arg in part.args)):
                    yield stmt, part.name
