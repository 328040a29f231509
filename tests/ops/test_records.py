"""One record is an operation: everything else that knows operations collects the records."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, statements, tile_ir
from tilejit import dtypes
from tilejit.__main__ import operations
from tilejit.dtypes import DTYPES, DType
from tilejit.ir import nodes
from tilejit.ir.arithmetic import build
from tilejit.layout import S, laneid
from tilejit.ops.elementwise import ELEMENTWISE, RULES, Elementwise, reference, result_type
from tilejit.ops.tile import TILE_OPERATIONS

ROWS = S[(32, 8) : (1 @ laneid, 1)]
EVERY = pytest.mark.parametrize("name", ELEMENTWISE)


def operand_types(op: Elementwise, dtype: DType) -> tuple[DType, ...]:
    """bool_ for its conditions, else one type."""
    return (dtypes.bool_,) * op.conditions + (dtype,) * (op.arity - op.conditions)


def some_type(op: Elementwise) -> DType:
    """A type that the operation takes: float32 if it can."""
    return dtypes.float32 if op.takes_floats else dtypes.int32


@EVERY
def test_a_record_says_what_its_kind_needs(name: str) -> None:
    op = ELEMENTWISE[name]
    assert op.name == name and op.kind in RULES
    assert op.meaning and "\n" not in op.meaning
    for dtype in DTYPES.values():
        rule = result_type(name, operand_types(op, dtype))
        if isinstance(rule, str):
            continue
        halves = rule[0].is_float and rule[0].bits < 32
        assert op.code(rule[0]) or (halves and op.floats), f"{name} computes in {rule[0]} and has no code for it"


@EVERY
def test_the_frontend_has_it_on_scalars_on_tiles_and_on_every_scope(name: str) -> None:
    op = ELEMENTWISE[name]
    types, names = operand_types(op, some_type(op)), "xyz"[: op.arity]
    assert getattr(tj, name).meaning == op.meaning and name in dir(tj)
    named = ", ".join(f"{operand}={n}" for operand, n in zip(op.operands, names, strict=True))
    scalars = tile_ir(f"def k(A, {', '.join(names)}):\n    A[0] = tj.{name}({named})\n", array(), *types)
    assert name in _operations_of(scalars)
    tiles = "".join(
        f"    {n} = tj.alloc_local((32, 8), tj.{t}, layout=ROWS)\n    tj.warp.fill({n}, 1)\n"
        for n, t in zip(names, types, strict=True)
    )
    rule = result_type(name, types)
    assert not isinstance(rule, str)
    result = f"    r = tj.alloc_local((32, 8), tj.{rule[1]}, layout=ROWS)\n"
    calls = f"{result}    tj.warp.{name}(r, {', '.join(names)})\n    s = tj.{name}({', '.join(names)})\n"
    kernel = tile_ir(f"def k(A):\n{tiles}{calls}", array(), ROWS=ROWS)
    made = [s for s in statements(kernel.body, nodes.TileOp) if s.name == name]
    assert len(made) == 2 and made[0].operands[0].dtype == rule[1]
    for scope in ("thread", "warp", "warpgroup", "cta"):
        assert name in dir(getattr(tj, scope)) and op.meaning in getattr(getattr(tj, scope), name).meaning


def _operations_of(kernel: nodes.Kernel) -> set[str]:
    """The operations in stored values."""
    names: set[str] = set()
    waiting = [s.value for s in statements(kernel.body, nodes.Store)]
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, nodes.Op):
            names.add(expr.name)
            waiting += expr.args
        elif isinstance(expr, nodes.Cast):
            waiting.append(expr.x)
    return names


@EVERY
def test_constants_fold_where_every_machine_gives_numpys_bits_and_nowhere_else(name: str) -> None:
    op = ELEMENTWISE[name]
    numbers = [0.75, 2.5, 1.25]
    for dtype in DTYPES.values():
        rule = result_type(name, operand_types(op, dtype))
        if isinstance(rule, str):
            continue
        args = [build.const(v, t) for v, t in zip(numbers, operand_types(op, dtype), strict=False)]
        made = build.op(name, *args)
        if not op.folds(rule[0]):
            assert not isinstance(made, nodes.Const), f"{name} of {dtype}"
            continue
        wanted = reference(name, *(np.asarray(a.value).astype(a.dtype.numpy) for a in args))
        assert isinstance(made, nodes.Const) and made.dtype == rule[1]
        assert made.value == wanted.item(), f"{name} of {dtype}"


@EVERY
def test_it_is_a_tile_operation_and_has_a_line_in_the_list_of_operations(name: str) -> None:
    op = ELEMENTWISE[name]
    assert op.meaning in TILE_OPERATIONS[name].meaning
    (line,) = [line for line in operations() if line.startswith(f"{name}(")]
    assert op.meaning in line
    if op.accuracy is not None:
        assert f"within {op.accuracy.ulp[0]:g} ulp" in line
