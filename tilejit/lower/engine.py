"""The rule engine: which variant carries out a tile operation, and why the others don't."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ..errors import DispatchError
from ..ir.nodes import TileOp
from ..scopes import SCOPES
from ..source import Span
from ..target import Target
from .builder import Builder
from .plan import Facts, Plan

__all__ = ["Condition", "DispatchContext", "Decline", "Variant", "Verdict", "dispatch"]

P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, slots=True)
class DispatchContext:
    """What an operation is dispatched for. threads: of the CTA."""

    target: Target
    threads: int

    def count(self, scope: str) -> int:
        """Threads of one scope that carry out an operation together."""
        return SCOPES[scope].threads(self.threads)


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """One thing that a variant needs, or several do. test: the reason why an operation doesn't meet it, or None."""

    name: str
    test: Callable[[TileOp, DispatchContext], str | None]


@dataclass(frozen=True, slots=True)
class Decline:
    """Why a variant can't carry out an operation. hint: what to change."""

    reasons: tuple[str, ...]
    hint: str | None = None


# without slots: `Variant[SomePlan](...)` sets an attribute, which slotted dataclasses refuse with a TypeError
@dataclass(frozen=True)
class Variant(Generic[P]):
    """One way to carry out some tile operations.

    operations: names of the tile operations. priority: a multiple of ten, the highest that accepts wins;
    None for a variant that is chosen by name only.
    operands: conditions on the operands' kinds, number and spaces. when: conditions that are tested where those hold
    and may assume them. Of either all are tested, so that every reason is reported.
    plan: layout arithmetic, run when all hold. emit: writes lane IR; it can't decline.
    """

    name: str
    operations: tuple[str, ...]
    priority: int | None
    operands: tuple[Condition, ...]
    when: tuple[Condition, ...]
    plan: Callable[[TileOp, DispatchContext], P | Decline]
    emit: Callable[[P, TileOp, Builder], None]

    def reasons(self, op: TileOp, context: DispatchContext, tested: dict[Condition, str | None]) -> tuple[str, ...]:
        """Why `op` doesn't meet the conditions: all reasons of the first tier in which there are any.

        tested: what the conditions say that other variants of the operation have, too; each is tested once.
        """
        for tier in (self.operands, self.when):
            for condition in tier:
                if condition not in tested:
                    tested[condition] = condition.test(op, context)
            failed = tuple([reason for c in tier if (reason := tested[c]) is not None])
            if failed:
                return failed
        return ()

    def planned(self, op: TileOp, context: DispatchContext) -> Verdict[P] | Decline:
        """How `op`, which meets all conditions, is carried out."""
        plan = self.plan(op, context)
        if isinstance(plan, Decline):
            return plan
        return _too_narrow(plan.facts(), op) or Verdict(op, self, plan, {})


@dataclass(frozen=True)
class Verdict(Generic[P]):
    """How an operation is carried out. declines: variant -> reasons, for every other one."""

    op: TileOp
    chosen: Variant[P]
    plan: P
    declines: dict[str, tuple[str, ...]]

    @property
    def variant(self) -> str:
        """The chosen variant's name."""
        return self.chosen.name

    @property
    def span(self) -> Span | None:
        return self.op.span

    def emit(self, b: Builder) -> None:
        """Writes the operation's lane IR."""
        self.chosen.emit(self.plan, self.op, b)


def dispatch(op: TileOp, context: DispatchContext, variants: Sequence[Variant[Any]]) -> Verdict[Any]:
    """The variant of the highest priority that accepts `op`.

    raises: DispatchError where none does, with each variant's reasons, or where two tie.
    """
    candidates = _candidates(op, variants)
    declines: dict[str, tuple[str, ...]] = {}
    hints: list[str] = []
    accepted: list[Verdict[Any]] = []
    tested: dict[Condition, str | None] = {}
    for variant in sorted(candidates, key=lambda v: (-(v.priority or 0), v.name)):
        failed = variant.reasons(op, context, tested)
        if failed:
            declines[variant.name] = failed
            continue
        if accepted and (variant.priority or 0) < (accepted[0].chosen.priority or 0):
            first = accepted[0].chosen
            declines[variant.name] = (f"{first.name} comes first: its priority is {first.priority}",)
            continue
        answer = variant.planned(op, context)
        if isinstance(answer, Verdict):
            accepted.append(answer)
            continue
        declines[variant.name] = answer.reasons
        hints.extend([answer.hint] if answer.hint else [])
    if not accepted:
        raise _refusal(op, declines, hints)
    if len(accepted) > 1:
        names = " and ".join(v.variant for v in accepted)
        raise DispatchError(
            f"variants {names} of {op.name} both accept this operation at priority {accepted[0].chosen.priority}",
            span=op.span,
            hint="give them different priorities, or conditions that exclude each other",
        )
    return replace(accepted[0], declines=declines)


def _candidates(op: TileOp, variants: Sequence[Variant[Any]]) -> list[Variant[Any]]:
    of_operation = [v for v in variants if op.name in v.operations]
    name = op.attr("variant")
    if name is None:
        return [v for v in of_operation if v.priority is not None]
    named = [v for v in of_operation if v.name == name]
    if not named:
        listed = ", ".join(v.name for v in of_operation)
        raise DispatchError(f"{op.name} has no variant {name!r}", span=op.span, hint=f"one of: {listed or 'none'}")
    return named


def _too_narrow(facts: Facts, op: TileOp) -> Decline | None:
    """Why a plan moves fewer bits at a time than the call requires, or None."""
    required = op.attr("require_bits")
    bits = facts.vector_bits
    if not isinstance(required, int) or bits is None or bits >= required:
        return None
    why = f": {facts.limit}" if facts.limit else ""
    return Decline(
        (f"moves {bits} bits at a time; require_bits={required}{why}",),
        "change what the reason names, or require fewer bits",
    )


def _refusal(op: TileOp, declines: dict[str, tuple[str, ...]], hints: list[str]) -> DispatchError:
    rows = [f"  {name}: {'; '.join(reasons)}" for name, reasons in declines.items()]
    forced = op.attr("variant")
    which = "no variant accepts" if forced is None else f"variant {forced} doesn't accept"
    message = "\n".join([f"{which} this {op.scope}.{op.name}", *rows])
    hint = hints[0] if hints else None
    return DispatchError(message, span=op.span, hint=hint, declines=declines)
