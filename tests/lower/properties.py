"""What holds for every variant, whatever it does: functions of (variant, an operation, all variants)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.lower.running import Run
from tests.support import goldens
from tests.support.drafts import Operation
from tests.support.proving import prove_emitted
from tilejit import lower
from tilejit.dtypes import bool_, int64
from tilejit.errors import DispatchError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import TRUE, Buffer, Const, Region, TileOp, Var
from tilejit.ir.text.parser import from_text
from tilejit.isa.convert import SPLIT_TF32
from tilejit.layout import TileLayout
from tilejit.lower import Decline, DispatchContext, Plan, Variant
from tilejit.lower.builder import Builder
from tilejit.lower.engine import dispatch
from tilejit.lower.schedule.placement import inside
from tilejit.ops.record import CONDITION, TILE
from tilejit.scopes import SCOPES
from tilejit.target import target

Variants = Sequence[Variant[Any]]


def plan_of(variant: Variant[Any], operation: Operation) -> Plan | None:
    """The variant's plan, or None if it declines."""
    context = DispatchContext(operation.target, operation.threads)
    if variant.reasons(operation.op, context, {}):
        return None
    plan = variant.planned(operation.op, context)
    return None if isinstance(plan, Decline) else plan


def answers(variant: Variant[Any], operation: Operation, variants: Variants) -> None:
    """A plan that says what it is, twice the same, or reasons; an exception is neither."""
    context = DispatchContext(operation.target, operation.threads)
    reasons = variant.reasons(operation.op, context, {})
    if not reasons:
        plan, again = (variant.planned(operation.op, context) for _ in range(2))
        assert plan == again, "the same question has two answers"
        if isinstance(plan, Plan):
            assert hash(plan) is not None and repr(plan) and str(plan.facts()) and plan.instructions
            assert len(plan.instructions) == 1 or all(times for _, times in plan.instructions), plan.instructions
            assert plan.schedule().ndim == 2
            return
        reasons = (plan.reason,)
    assert reasons and all(isinstance(reason, str) and reason for reason in reasons), "declines without a reason"


def ties_with_none(variant: Variant[Any], operation: Operation, variants: Variants) -> None:
    """No other variant accepts the operation at the same priority."""
    try:
        dispatch(operation.op, DispatchContext(operation.target, operation.threads), variants)
    except DispatchError as refused:
        assert refused.declines, refused.message


def is_proved(variant: Variant[Any], operation: Operation, variants: Variants) -> None:
    """What the emitted lane IR moves is what the operation says."""
    plan = plan_of(variant, operation)
    if plan is not None:
        prove_emitted(variant, plan, operation.op, operation.threads)


def runs(variant: Variant[Any], operation: Operation, variants: Variants) -> None:
    """Its PTX, run on the simulator with all checks, leaves what NumPy says, and has what the plan names."""
    plan = plan_of(variant, operation)
    if plan is None:
        return
    with patch.object(lower, "VARIANTS", tuple(variants)):
        made = Run(operation.forced(variant.name)).check()
    (verdict,) = (v for v in made.verdicts if v.op.attr("variant") == variant.name)
    assert verdict.chosen is variant and verdict.plan == plan
    for name, _ in plan.instructions:
        emitted = _is_plain(name, operation) or _EMITTED.get(name, name) in made.ptx
        assert emitted, f"the plan names {name}, which isn't in the PTX"


#: an instruction by which a row of several instructions is recognized
_EMITTED = {SPLIT_TF32.name: "fma.rz.f32"}


def _is_plain(name: str, operation: Operation) -> bool:
    """Whether it is a load, a store, a move, a choice or arithmetic, for which LLVM chooses the instruction."""
    return name.startswith(("ld.", "st.", "copy.", "where.", f"{operation.op.name}."))


def _may_read_outside(op: TileOp) -> bool:
    src = op.region("src")
    is_edged = src.buffer.space == "global" and not src.in_bounds
    return is_edged and any(inside(src, d) != TRUE for d in range(len(src.starts)))


def _may_write(op: TileOp) -> bool:
    """Whether what is written, the first operand, isn't known to lie before its tensor, where nothing is stored."""
    dst = op.operands[0]
    assert isinstance(dst, Region)
    ends = [(start.value, extent or 1) for start, extent in zip(dst.starts, dst.extents, strict=True)
            if isinstance(start, Const)]
    return all(start + extent > 0 for start, extent in ends)


#: the optional operands that mean nothing to some operations -> whether they do to this one
MATTERS: dict[str, Callable[[TileOp], bool]] = {
    "fill": _may_read_outside,
    "mask": _may_write,
    "index": lambda op: op.gathered is not None,
    "desired": lambda op: op.attr("operation") == "cas",
}


def drops_none(variant: Variant[Any], operation: Operation, name: str) -> None:
    """An optional operand occurs in the emitted code, or the variant declines it by its name."""
    op = _with_option(operation.op, name, operation.threads)
    context = DispatchContext(operation.target, operation.threads)
    reasons = variant.reasons(op, context, {})
    if name not in variant.honours:
        assert f"takes no {name}; one is given" in reasons, f"{variant.name} says nothing of {name}"
        return
    plan = None if reasons else variant.planned(op, context)
    if plan is None or isinstance(plan, Decline) or not MATTERS.get(name, bool)(op):
        return
    builder = Builder()
    variant.emit(plan, op, builder)
    statements = (*builder.head, *builder.take())
    assert "optional.operand" in repr(statements), f"{variant.name} drops {name}\n{operation}"


def _with_option(op: TileOp, name: str, threads: int) -> TileOp:
    """The operation with an operand `optional.operand` as its optional operand of this name."""
    position, called = op.record.position(name), "optional.operand"
    rule = op.record.operands[position]
    kind = rule.kind(is_region=True)
    operand: Region | Var = Var(called, bool_ if CONDITION in rule.kinds else next(iter(op.tiles.values())).dtype)
    if kind is not None:
        buffer = Buffer(called, "shared", int64, (1,), TileLayout.row_major((1,)), 8)
        if kind is TILE:
            axis = SCOPES[op.scope].axis
            replicas = [] if axis is None else [(SCOPES[op.scope].threads(threads), 1, axis)]
            buffer = Buffer(called, "local", bool_, (1,), TileLayout.from_iters([(1, 1, "m")], replicas), 1)
        operand = Region(buffer, (build.const(0, int64),), (1,))
    padded = [*op.operands, *[None] * (position + 1 - len(op.operands))]
    return replace(op, operands=(*padded[:position], operand, *padded[position + 1 :]))


Property = Callable[[Variant[Any], Operation, Variants], None]

#: what is asked about every operation
QUICK: tuple[Property, ...] = (answers, ties_with_none, is_proved)


def check(variant: Variant[Any], operations: Sequence[Operation], variants: Variants) -> None:
    """Raise AssertionError that names the variant and the property that doesn't hold.

    All operations are asked about; the first that the variant accepts is run, too.
    """
    for operation in operations:
        for holds in QUICK:
            _need(holds, variant, operation, variants)
    accepted = (o for o in operations if plan_of(variant, o) is not None)
    for operation in islice(accepted, 1):
        _need(runs, variant, operation, variants)


def _need(holds: Property, variant: Variant[Any], operation: Operation, variants: Variants) -> None:
    try:
        holds(variant, operation, variants)
    except Exception as error:
        message = f"{variant.name}, {holds.__name__}: {type(error).__name__}: {error}\n{operation}"
        raise AssertionError(message) from error


def has_a_golden(variant: Variant[Any], variants: Variants, root: Path = goldens.ROOT) -> None:
    """Some golden file chooses the variant."""
    chosen = _chosen(root, tuple(variants))
    assert any(v is variant for v in chosen), f"{variant.name}, has_a_golden: no file under {root} chooses it"


@cache
def _chosen(root: Path, variants: tuple[Variant[Any], ...]) -> tuple[Variant[Any], ...]:
    """The variants that golden files choose."""
    found: dict[int, Variant[Any]] = {}
    with patch.object(lower, "VARIANTS", variants):
        for file in sorted(root.rglob("*.tile")):
            arch, tile, _ = goldens.read(file)
            made = lower.lower(from_text(tile), target(arch))
            found |= {id(v.chosen): v.chosen for v in made.verdicts}
    return tuple(found.values())
