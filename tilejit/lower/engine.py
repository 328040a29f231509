"""The rule engine: it chooses the variant of each tile operation and reports why the others decline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from ..dataclass import dataclass, field
from ..errors import DispatchError
from ..ir.nodes import TileOp
from ..isa.row import ANOTHER_TARGET
from ..remember import lasting
from ..source import Span
from ..svg import Picture
from .builder import Builder
from .plans import Plan
from .variant import Condition, Decline, DispatchContext, Variant

P = TypeVar("P", bound=Plan)


@dataclass(frozen=True)
class Verdict(Generic[P]):
    """The variant chosen for an operation, and its plan."""

    op: TileOp
    chosen: Variant[P]
    plan: P
    list_declines: Callable[[], dict[str, tuple[str, ...]]] = field(default=dict, compare=False, repr=False)
    list_elsewhere: Callable[[], tuple[str, ...]] = field(default=tuple, compare=False, repr=False)

    @property
    def declines(self) -> dict[str, tuple[str, ...]]:
        """The reasons why the other variants weren't chosen, by name; empty if the operation names its variant."""
        return self.list_declines()

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The names of the declining variants that are for operands in other memory spaces."""
        return self.list_elsewhere()

    @property
    def variant(self) -> str:
        """The name of the chosen variant."""
        return self.chosen.name

    @property
    def span(self) -> Span | None:
        """The operation's place in the source, if it has one."""
        return self.op.span

    def __repr__(self) -> str:
        return f"<verdict: {self.op.scope}.{self.op.name} by {self.variant}>"

    def draw(self, issue: int = 0, warp: int = 0) -> Picture:
        """Draw the elements that a warp moves in one issue, for each input and for the destination.

        issue: the index of an iteration or an instruction of the plan. warp: the warp's index in the scope.

            tj.dispatch("copy", "warp", registers, shared, threads=32).draw(issue=1)

        raises: DispatchError if the plan doesn't move elements one by one, or has no such issue.
        """
        # imported lazily, since few programs draw
        from .picture import draw_issue

        return draw_issue(self.op, self.variant, self.plan, issue, warp)

    def emit(self, b: Builder) -> None:
        """Emit the operation's lane IR."""
        self.chosen.emit(self.plan, self.op, b)


def dispatch(op: TileOp, context: DispatchContext, variants: tuple[Variant[Any], ...]) -> Verdict[Any]:
    """Return the verdict on `op`: the accepting variant of the highest priority, and its plan.

    raises: DispatchError if the call names an unknown variant, no variant accepts (with the reasons of each), or two
    accept at the same priority.
    """
    ordered = _candidates(op, variants)
    declined: dict[str, Decline] = {}
    accepted: list[tuple[Variant[Any], Plan]] = []
    tested: dict[Condition, str | None] = {}
    for variant in ordered:
        if accepted and (variant.priority or 0) < (accepted[0][0].priority or 0):
            break
        if variant.reasons(op, context, tested):
            continue
        answer = variant.planned(op, context)
        if isinstance(answer, Decline):
            declined[variant.name] = answer
        else:
            accepted.append((variant, answer))
    if not accepted:
        raise _refusal(op, context, ordered, declined)
    first, plan = accepted[0]
    if len(accepted) > 1:
        names = " and ".join(variant.name for variant, _ in accepted)
        raise DispatchError(
            f"variants {names} of {op.name} accept this operation at the same priority, {first.priority}",
            span=op.span,
            hint="give them different priorities, or conditions that exclude each other",
        )

    def list_declines() -> dict[str, tuple[str, ...]]:
        outranked = (f"{first.name} comes first: its priority is {first.priority}",)
        return {
            v.name: (declined[v.name].reason,) if v.name in declined else v.reasons(op, context, tested) or outranked
            for v in ordered if v is not first
        }

    def list_elsewhere() -> tuple[str, ...]:
        return tuple(v.name for v in ordered if v.is_elsewhere(op, context))

    return Verdict(op, first, plan, list_declines, list_elsewhere)


def _candidates(op: TileOp, variants: tuple[Variant[Any], ...]) -> Sequence[Variant[Any]]:
    """Return the variant that the call names, else all with a priority; raise DispatchError for an unknown name."""
    name, of_operation = op.attr("variant"), _by_operation(variants).get(op.name, ())
    if name is None:
        return [v for v in of_operation if v.priority is not None]
    named = [v for v in of_operation if v.name == name]
    if not named:
        listed = ", ".join(v.name for v in of_operation)
        raise DispatchError(f"{op.name} has no variant {name!r}", span=op.span, hint=f"use one of: {listed or 'none'}")
    return named


@lasting
def _by_operation(variants: tuple[Variant[Any], ...]) -> dict[str, list[Variant[Any]]]:
    table: dict[str, list[Variant[Any]]] = {}
    for variant in sorted(variants, key=lambda v: (-(v.priority or 0), v.name)):
        for operation in variant.operations:
            table.setdefault(operation, []).append(variant)
    return table


def _refusal(
    op: TileOp, context: DispatchContext, ordered: Sequence[Variant[Any]], declined: Mapping[str, Decline]
) -> DispatchError:
    """Return the error that lists each variant's reasons. declined: variant name -> the decline from its `planned`."""
    declines: dict[str, tuple[str, ...]] = {}
    hints: list[str] = []
    tested: dict[Condition, str | None] = {}
    for variant in ordered:
        answer = declined.get(variant.name)
        if answer is None:
            declines[variant.name] = variant.reasons(op, context, tested)
            hints.extend(c.hint for c in (*variant.operands, *variant.when) if c.hint and tested.get(c))
        else:
            declines[variant.name] = (answer.reason,)
            hints.extend([answer.hint] if answer.hint else [])
    rows = [f"  {name}: {'; '.join(reasons)}" for name, reasons in declines.items()]
    forced = op.attr("variant")
    which = "no variant accepts" if forced is None else f"variant {forced} doesn't accept"
    message = "\n".join([f"{which} this {op.scope}.{op.name}", *rows])
    # prefer a hint that helps without changing the target
    hint = next((each for each in hints if each != ANOTHER_TARGET), hints[0] if hints else None)
    return DispatchError(message, span=op.span, hint=hint, declines=declines)
