"""Invariants of combine functions: consistent types and no free variables."""

from __future__ import annotations

from collections.abc import Iterator

from .. import nodes as ir
from ..combine import Combine
from .operations import const_fault, dtype_of, op_fault


def combine_faults(combine: Combine) -> Iterator[str]:
    """Yield the faults of a combine function."""
    if tuple(var.dtype for var in combine.higher) != combine.takes:
        yield "combine: the types of the higher values differ from those of the lower ones"
    known: dict[str, ir.Var] = {}
    for var in (*combine.lower, *combine.higher):
        yield from _defined(var, known)
    for step in combine.steps:
        yield from _expression_faults(step.value, known)
        if step.value.dtype != step.var.dtype:
            yield f"combine: {step.var.name} must be {step.var.dtype}; got {step.value.dtype}"
        yield from _defined(step.var, known)
    for result in combine.results:
        yield from _expression_faults(result, known)


def _defined(var: ir.Var, known: dict[str, ir.Var]) -> Iterator[str]:
    if var.name in known:
        yield f"combine: {var.name} is defined twice"
    known[var.name] = var


def _expression_faults(expr: ir.Expr, known: dict[str, ir.Var]) -> Iterator[str]:
    match expr:
        case ir.Const():
            fault = const_fault(expr)
        case ir.Var():
            fault = None if known.get(expr.name) == expr else f"the function doesn't define {expr}"
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
