"""Run-time loops, and the kinds of their loop-carried names.

The code of a body depends on the kinds of its names at the head, which are known only after the body has been
translated. So a body is translated speculatively, on the guess that no name changes its kind and no literal is
converted to another type. If the guess is wrong, the result is discarded, and the body is translated again with the
observed kinds. Inner loops then start from the final kinds of their last translation.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ..dataclass import dataclass, replace
from ..dtypes import bool_, int64
from ..ir.nodes import Assign, Break, Cast, Declare, Expr, Let, Op, Stmt, Var
from .context import Context
from .flow import Carried, Construct, Draft, Enclosure, drafted
from .joins import close
from .kinds import Heads, Kind, ScalarKind, exit_kinds, is_literal, merge_carried
from .slots import NameSlot, make_slot
from .values import Binding, Scalar, Unset

#: a body is translated at most `_TRIALS` times, and `_TRIALS_PER_NAME` times more for each loop-carried name
_TRIALS = 12
_TRIALS_PER_NAME = 2


def run_loop(
    ctx: Context, node: ast.AST, names: Sequence[str], body: Callable[[Enclosure], bool],
    make: Callable[[tuple[Stmt, ...]], Stmt], *, only_breaks: bool = False,
) -> bool:
    """Translate a run-time loop; return True if control can reach the statement after it.

    names: the names that the body assigns. body: translates the body; returns True if control reaches its end.
    make: builds the loop statement from its body. only_breaks: True if the loop ends only at exits with a `Break`.
    raises: KernelTypeError if the kinds of the names don't converge.
    """
    entry = {name: ctx.frame.env[name] for name in names if name in ctx.frame.env}
    path = (*(enclosure.step for enclosure in ctx.enclosures), node)
    guess = Heads.expected({name: b.value for name, b in entry.items()}, ctx.loop_kinds.get(path))
    for _ in range(_TRIALS + _TRIALS_PER_NAME * len(entry)):
        literals = ctx.converted_literals
        with ctx.trial() as tentative:
            trial = _translate(ctx, node, entry, guess, body, only_breaks)
            shown = {name: trial.kind(ctx, name, changes) for name, changes in trial.changes.items()}
            exits = exit_kinds(ctx, [name for name in names if name not in entry], {}, trial.ends)
            if guess.agrees(shown, literals_matter=ctx.converted_literals != literals):
                close(ctx, trial.loop, trial.block, make, names, trial.before, exits, trial.slots)
                ctx.loop_kinds[path] = guess
                tentative.kept = True
                return bool(trial.ends)
            shown = trial.through_copies(ctx, shown)
        guess = guess.corrected(shown)
    raise ctx.type_error(node, "the types of this loop's variables don't converge", "give them types before the loop")


def _translate(
    ctx: Context, node: ast.AST, entry: Mapping[str, Binding], guess: Heads, body: Callable[[Enclosure], bool],
    only_breaks: bool,
) -> LoopTrial:
    span = ctx.span(node)
    slots = {name: make_slot(ctx, name, kind, span, entry[name].value) for name, kind in guess.kinds.items()}
    for name, slot in slots.items():
        ctx.bind(name, Binding(slot.value, entry[name].span))
    before = dict(ctx.frame.env)
    loop = Enclosure(Construct.LOOP, node, span, ctx.depth, is_loop=True)
    carried = {
        name: Carried(None if kind.weak else kind.dtype)
        for name, kind in guess.kinds.items()
        if isinstance(kind, ScalarKind) and is_literal(entry[name].value)
    }
    with _carrying(ctx, carried), ctx.inside(loop) as block:
        if body(loop):
            ctx.leave(loop, span, None)
    ends = [each.env for each in loop.exits if each.jump is Break]
    continues = [each.env for each in loop.exits if each.jump is not Break]
    ends += [] if only_breaks else [before]
    # an Unset value at the head counts as a change: the name remains unset
    heads = {name: None if isinstance(slot.value, Unset) else slot.value for name, slot in slots.items()}
    changes = {name: [env[name] for env in (*continues, *ends) if env[name].value != heads[name]] for name in entry}
    return LoopTrial(loop, block, entry, slots, before, ends, changes, carried)


@contextmanager
def _carrying(ctx: Context, carried: dict[str, Carried]) -> Iterator[None]:
    frame, outer = ctx.frame, ctx.frame.carried
    frame.carried = {**outer, **carried}
    try:
        yield
    finally:
        frame.carried = outer
    for name, inner in carried.items():
        if name in outer:
            outer[name].assigned |= inner.assigned


@dataclass(frozen=True, slots=True)
class LoopTrial:
    """One trial translation of a loop body: above all, the kinds of the loop-carried names."""

    loop: Enclosure
    block: Draft
    #: the bindings of the loop-carried names before the loop
    entry: Mapping[str, Binding]
    slots: Mapping[str, NameSlot]
    #: the bindings at the head of the loop
    before: Mapping[str, Binding]
    #: the bindings on each path to the code after the loop
    ends: Sequence[Mapping[str, Binding]]
    #: loop-carried name -> its bindings, at ends of iterations and exits, whose values differ from that at the head
    changes: Mapping[str, Sequence[Binding]]
    carried: Mapping[str, Carried]

    @property
    def heads(self) -> dict[str, Var]:
        """The variables of the loop-carried scalars, by name."""
        held = [(name, slot.value) for name, slot in self.slots.items() if isinstance(slot.kind, ScalarKind)]
        return {name: value.expr for name, value in held if isinstance(value, Scalar) and isinstance(value.expr, Var)}

    def kind(self, ctx: Context, name: str, changes: Sequence[Binding]) -> Kind:
        """Return the kind of a loop-carried name with these `changes`."""
        assigned = self.carried[name].assigned if name in self.carried else None
        kind = merge_carried(ctx, name, self.entry[name], changes, assigned)
        if isinstance(kind, ScalarKind) and kind.dtype is int64 and not kind.data and self._grows(name, changes):
            return replace(kind, data=True)
        return kind

    def _grows(self, name: str, changes: Sequence[Binding]) -> bool:
        """True if a name may grow exponentially, because the `_degree` of its new value in its old one exceeds 1."""
        head = self.heads.get(name)
        if head is None:
            return False
        degrees, defined = {head.name: 1}, list(self._definitions())
        before: dict[str, int] = {}
        while before != degrees:
            before = dict(degrees)
            for var, value in defined:
                degrees[var.name] = max(degrees.get(var.name, 0), _degree(value, degrees))
        return any(isinstance(b.value, Scalar) and _degree(b.value.expr, degrees) > 1 for b in changes)

    def _definitions(self) -> Iterator[tuple[Var, Expr]]:
        for stmt in drafted(self.block):
            if isinstance(stmt, (Let, Assign)) or isinstance(stmt, Declare) and stmt.init is not None:
                value = stmt.init if isinstance(stmt, Declare) else stmt.value
                if isinstance(value, (Var, Op, Cast)):
                    yield stmt.var, value
        for name, head in self.heads.items():
            yield from ((head, b.value.expr) for b in self.changes[name] if isinstance(b.value, Scalar))

    def through_copies(self, ctx: Context, shown: Mapping[str, Kind]) -> dict[str, Kind]:
        """Return the observed kinds, propagated through copies, so that a chain of copies takes only one more trial."""
        names: dict[Expr, str] = {head: name for name, head in self.heads.items()}
        sources = {
            name: [names.get(b.value.expr) if isinstance(b.value, Scalar) else None for b in changes]
            for name, changes in self.changes.items()
        }
        takers: dict[str, list[str]] = {}
        for name, copied in sources.items():
            for source in filter(None, copied):
                takers.setdefault(source, []).append(name)
        kinds = dict(shown)
        pending = list(takers)
        while pending:
            for name in takers.get(pending.pop(), ()):
                changes = [
                    _as_shown(binding, kinds[source] if source else None)
                    for binding, source in zip(self.changes[name], sources[name], strict=True)
                ]
                kind = self.kind(ctx, name, changes)
                # a conflict is final, so the loop terminates
                if isinstance(kinds[name], ScalarKind) and kind != kinds[name]:
                    kinds[name] = kind
                    pending.append(name)
        return kinds


def _as_shown(binding: Binding, kind: Kind | None) -> Binding:
    """Return the binding, with the type of `kind` if its value is a variable and `kind` is a `ScalarKind`."""
    value = binding.value
    if not isinstance(kind, ScalarKind) or not isinstance(value, Scalar) or not isinstance(value.expr, Var):
        return binding
    if kind.dtype == value.dtype and kind.data == value.expr.data:
        return binding
    return Binding(Scalar(Var(value.expr.name, kind.dtype, data=kind.data), kind.weak), binding.span)


#: operations whose result needs no more bits than their widest operand
_SHRINKING = ("floordiv", "mod", "right_shift", "minimum", "maximum", "where", "bitwise_and")


def _degree(expr: Expr, degrees: Mapping[str, int]) -> int:
    """Estimate the degree of a value in the loop-carried variable, capped at 2.

    The degree of a sum or difference is the sum of its operands' degrees; of a `_SHRINKING` operation, their maximum;
    of any other operation, twice the maximum. Bools have degree 0.
    """
    if isinstance(expr, Var):
        return degrees.get(expr.name, 0)
    if isinstance(expr, Cast):
        return _degree(expr.x, degrees)
    if not isinstance(expr, Op) or expr.dtype is bool_:
        return 0
    of_operands = [_degree(x, degrees) for x in expr.args]
    if expr.name in _SHRINKING:
        return max(of_operands)
    return min(2, sum(of_operands) if expr.name in ("add", "sub") else 2 * max(of_operands))
