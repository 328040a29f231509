"""What holds for every variant, whatever it does: functions of (variant, an operation, all variants)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.lower.running import Run
from tests.support import goldens
from tilejit import lower
from tilejit.errors import DispatchError
from tilejit.ir.text.parser import from_text
from tilejit.lower import Decline, DispatchContext, Plan, Variant
from tilejit.lower.engine import dispatch
from tilejit.lower.proof import prove
from tilejit.target import target
from tilejit.testing import Operation

Variants = Sequence[Variant[Any]]


def plan_of(variant: Variant[Any], operation: Operation) -> Plan | None:
    """The variant's plan, or None where it declines."""
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
            assert plan.schedule().ndim == 2
            return
        reasons = plan.reasons
    assert reasons and all(isinstance(reason, str) and reason for reason in reasons), "declines without a reason"


def ties_with_none(variant: Variant[Any], operation: Operation, variants: Variants) -> None:
    """No other variant accepts the operation at the same priority."""
    try:
        dispatch(operation.op, DispatchContext(operation.target, operation.threads), variants)
    except DispatchError as refused:
        assert refused.declines, refused.message


def is_proved(variant: Variant[Any], operation: Operation, variants: Variants) -> None:
    """What the plan says that it moves is what the operation says."""
    plan = plan_of(variant, operation)
    if plan is not None:
        prove(plan, operation.op)


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
        assert _is_plain(name, operation) or name in made.ptx, f"the plan names {name}, which isn't in the PTX"


def _is_plain(name: str, operation: Operation) -> bool:
    """Whether it is a load, a store or arithmetic, for which LLVM chooses the instruction."""
    return name.startswith(("ld.", "st.", f"{operation.op.name}."))


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
