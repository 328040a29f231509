"""The rule engine: which variant carries out a tile operation, and why the others don't."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import DispatchError
from ..ir.nodes import TileOp
from ..source import Span
from ..target import WARP, WARPGROUP, Target
from .builder import Builder

__all__ = ["Condition", "Context", "Decline", "Plan", "Variant", "Verdict", "dispatch"]


@dataclass(frozen=True, slots=True)
class Context:
    """What an operation is dispatched for. threads: of the CTA."""

    target: Target
    threads: int

    def count(self, scope: str) -> int:
        """Threads of one scope that carry out an operation together."""
        return {"thread": 1, "warp": WARP, "warpgroup": WARPGROUP, "cta": self.threads}[scope]


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """One thing that a variant needs, or several do. test: the reason why an operation doesn't meet it, or None."""

    name: str
    test: Callable[[TileOp, Context], str | None]


@dataclass(frozen=True, slots=True)
class Decline:
    """Why a variant can't carry out an operation. hint: what to change."""

    reasons: tuple[str, ...]
    hint: str | None = None


class Plan(Protocol):
    """What every variant's plan says of itself.

    instructions: (PTX mnemonic, trips a thread) pairs.
    """

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]: ...


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to carry out some tile operations.

    operations: names of the tile operations. priority: a multiple of ten, the highest that accepts wins;
    None for a variant that is chosen by name only.
    when: all are tested, so that every reason is reported. plan: layout arithmetic, run when all hold.
    emit: writes lane IR; it can't decline.
    """

    name: str
    operations: tuple[str, ...]
    priority: int | None
    when: tuple[Condition, ...]
    plan: Callable[[TileOp, Context], Any]
    emit: Callable[[Any, TileOp, Builder], None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an operation is carried out. declines: variant -> reasons, for every other one."""

    op: TileOp
    variant: str
    plan: Any
    declines: dict[str, tuple[str, ...]]

    @property
    def span(self) -> Span | None:
        return self.op.span


def dispatch(op: TileOp, context: Context, variants: Sequence[Variant]) -> Verdict:
    """The variant of the highest priority that accepts `op`.

    raises: DispatchError where none does, with each variant's reasons, or where two tie.
    """
    candidates = _candidates(op, variants)
    forced = op.attr("variant") is not None
    declines: dict[str, tuple[str, ...]] = {}
    hints: list[str] = []
    accepted: list[tuple[Variant, Any]] = []
    reasons = {c: c.test(op, context) for c in {c for v in candidates for c in v.when}}
    for variant in sorted(candidates, key=lambda v: (-(v.priority or 0), v.name)):
        failed = tuple(reason for c in variant.when if (reason := reasons[c]) is not None)
        if failed:
            declines[variant.name] = failed
            continue
        if accepted and (variant.priority or 0) < (accepted[0][0].priority or 0):
            first = accepted[0][0]
            declines[variant.name] = (f"{first.name} comes first: its priority is {first.priority}",)
            continue
        plan = variant.plan(op, context)
        plan = plan if isinstance(plan, Decline) else _wide_enough(plan, op)
        if isinstance(plan, Decline):
            declines[variant.name] = plan.reasons
            hints.extend([plan.hint] if plan.hint else [])
            continue
        accepted.append((variant, plan))
    if len(accepted) > 1:
        names = " and ".join(v.name for v, _ in accepted)
        raise DispatchError(
            f"variants {names} of {op.name} both accept this operation at priority {accepted[0][0].priority}",
            span=op.span,
            hint="give them different priorities, or conditions that exclude each other",
        )
    if not accepted:
        raise _refusal(op, declines, hints, forced)
    return Verdict(op, accepted[0][0].name, accepted[0][1], declines)


def _candidates(op: TileOp, variants: Sequence[Variant]) -> list[Variant]:
    own = [v for v in variants if op.name in v.operations]
    name = op.attr("variant")
    if name is None:
        return [v for v in own if v.priority is not None]
    named = [v for v in own if v.name == name]
    if not named:
        known = ", ".join(v.name for v in own)
        raise DispatchError(f"{op.name} has no variant {name!r}", span=op.span, hint=f"one of: {known or 'none'}")
    return named


def _wide_enough(plan: Any, op: TileOp) -> Any:
    """The plan, or a Decline where it moves fewer bits at a time than the call requires."""
    required = op.attr("require_bits")
    bits = getattr(plan, "vector_bits", None)
    if required is None or bits is None or bits >= required:
        return plan
    why = f": {plan.limit}" if plan.limit else ""
    return Decline(
        (f"moves {bits} bits at a time; require_bits={required}{why}",),
        "change what the reason names, or require fewer bits",
    )


def _refusal(op: TileOp, declines: dict[str, tuple[str, ...]], hints: list[str], forced: bool) -> DispatchError:
    rows = [f"  {name}: {'; '.join(reasons)}" for name, reasons in declines.items()]
    which = f"variant {op.attr('variant')}" if forced else "no variant"
    verb = "doesn't accept" if forced else "accepts"
    message = "\n".join([f"{which} {verb} this {op.scope}.{op.name}", *rows])
    hint = hints[0] if hints else None
    return DispatchError(message, span=op.span, hint=hint, declines=declines)
