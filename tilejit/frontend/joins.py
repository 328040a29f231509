"""Constructs whose paths join: branches, loops, and blocks that can be left early, such as inlined functions.

Each path ends with moves into slots (see `slots`). An exit by `break`, `continue` or `return` is a placeholder until
the whole enclosure has been translated and all its exits are known. Then the placeholder is filled with the moves, an
assignment to a flag that the loops in between test, if there are any, and the `Break` or `Continue` itself.

The code of a run-time loop's body depends on the kinds of its names at the head, which are known only after the body
has been translated. So a body is translated speculatively, on the guess that no name changes its kind and no literal is
converted to another type. If the guess is wrong, the result is discarded, and the body is translated again with the
observed kinds. Inner loops then start with the final guess of their last translation.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..dataclass import dataclass, replace
from ..dtypes import bool_, int64
from ..ir import walk
from ..ir.arithmetic import build
from ..ir.nodes import FALSE, TRUE, Assign, Break, Cast, Declare, Expr, If, Let, Loop, Op, Stmt, Var
from ..source import Span
from .context import Context
from .flow import Carried, Construct, Draft, Enclosure, sealed
from .kinds import Heads, Kind, ScalarKind, agreed, exit_kinds, merge, merge_carried
from .slots import NameSlot, coerced, join
from .values import Binding, Scalar, Unset, Value

#: a body is translated at most `_TRIALS` times, plus `_TRIALS_PER_NAME` times per loop-carried name
_TRIALS = 12
_TRIALS_PER_NAME = 2


def branch(ctx: Context, cond: Expr, then: Callable[[], bool], orelse: Callable[[], bool], span: Span) -> bool:
    """Translate both sides of a run-time branch; return True if control reaches the end of either side."""
    before = dict(ctx.frame.env)
    with ctx.nested() as yes:
        reaches_yes = then()
    after_yes = ctx.frame.env
    ctx.frame.env = before
    with ctx.nested() as no:
        reaches_no = orelse()
    if reaches_yes and reaches_no:
        ctx.frame.env = _joined(ctx, (yes, after_yes, span), (no, ctx.frame.env, span))
    elif reaches_yes:
        ctx.frame.env = after_yes
        cond, yes, no = build.op("logical_not", cond), no, yes
    if reaches_yes == reaches_no:
        _emit_if(ctx, cond, yes, no, span)
    else:
        # the side that reaches its end isn't nested, so that the code after the branch follows it directly
        ctx.nest(lambda ends: If(cond, ends, (), span), yes)
        ctx.block.extend(no)
    return reaches_yes or reaches_no


def _emit_if(ctx: Context, cond: Expr, yes: Draft, no: Draft, span: Span) -> None:
    if yes or no:
        ctx.nest(lambda then, orelse: If(cond, then, orelse, span), yes, no)


def _joined(
    ctx: Context, yes: tuple[Draft, dict[str, Binding], Span], no: tuple[Draft, dict[str, Binding], Span]
) -> dict[str, Binding]:
    """Return the bindings after a branch. yes, no: the block, the final bindings and the location of each side."""
    (_, a, span), (_, b, _) = yes, no
    env, slots = {**a, **b}, dict[str, NameSlot]()
    for name in [name for name in env if a.get(name) is not b.get(name)]:
        given = [side[name] for side in (a, b) if name in side]
        if len(given) == 2:
            slots[name] = NameSlot.of(ctx, name, merge(ctx, name, given), span)
            env[name] = Binding(slots[name].value, given[0].span)
        else:
            problem = f"has a value on one path only: line {given[0].span.line} assigns it inside a branch"
            env[name] = Binding(Unset(name, problem, "assign it before the branch, or on both sides"), span)
    join(ctx, slots, (yes, no))
    return env


def chosen(
    ctx: Context, node: ast.AST, cond: Expr, then: tuple[Draft, Value], orelse: tuple[Draft, Value], name: str
) -> Value:
    """Return the value of one of two expressions, chosen by `cond`; raise KernelTypeError if the values conflict.

    then, orelse: the statements of an expression, which run only if it is chosen, and its value.
    """
    span = ctx.span(node)
    (yes, a), (no, b) = then, orelse
    kind = agreed(ctx, node, (a, b))
    if isinstance(kind, ScalarKind) and not yes and not no:
        return Scalar(build.op("where", cond, *[coerced(ctx, value, kind.dtype, span) for value in (a, b)]))
    slot = NameSlot.of(ctx, name, kind, span)
    join(ctx, {name: slot}, [(block, {name: Binding(value, span)}, span) for block, value in (then, orelse)])
    _emit_if(ctx, cond, yes, no, span)
    return slot.value


def close(
    ctx: Context, enclosure: Enclosure, block: Draft, make: Callable[[tuple[Stmt, ...]], Stmt], names: Sequence[str],
    before: Mapping[str, Binding], kinds: Mapping[str, Kind], kept: Mapping[str, NameSlot] | None = None,
) -> None:
    """Emit a translated enclosure as an IR loop, fill in its exits, and bind names for the code after it.

    names: the names that the enclosure assigns. before: the bindings at its head. kinds: the result of `exit_kinds`.
    kept: the slots of loop-carried names.
    """
    span = enclosure.span
    slots = dict(kept or {}) | {name: NameSlot.of(ctx, name, kind, span) for name, kind in kinds.items()}
    enclosure.is_loop = True
    needs_flag = any(inner.is_loop for exit_ in enclosure.exits for inner in exit_.between)
    flag = Var(ctx.unique("leaving"), bool_, span=enclosure.exits[0].span) if needs_flag else None
    join(ctx, slots, [(exit_.late, exit_.env, exit_.span) for exit_ in enclosure.exits])
    for exit_ in enclosure.exits:
        loops, ends = [e for e in exit_.between if e.is_loop], exit_.late
        if loops and flag is not None:
            ends.append(Assign(flag, TRUE, exit_.span))
        if exit_.jump is not None:
            ends.append(Break(exit_.span) if loops else exit_.jump(exit_.span))
        for loop in loops:
            onward = loop.passing[enclosure]
            if not onward and flag is not None:
                onward.append(If(flag, (Break(loop.span),), (), loop.span))
    if flag is not None:
        ctx.emit(Declare(flag, FALSE, span))
    ctx.nest(make, block)
    ctx.block.extend(enclosure.passing.values())
    env = dict(before)
    for name in names:
        if name in slots:
            place = before[name].span if name in before else span
            env[name] = Binding(slots[name].typed_value, place)
        elif name not in before:
            problem = f"may have no value here: only the loop on line {span.line} assigns it"
            env[name] = Binding(Unset(name, problem, "assign it before the loop"), span)
    ctx.frame.env = env


def run_block(
    ctx: Context, node: ast.AST, construct: Construct, step: ast.AST | int, names: Sequence[str],
    body: Callable[[], bool],
) -> bool:
    """Translate a block that runs once: to straight-line code, or to a loop if it may be left early at run time.

    step: see `Enclosure`. names: those that the block assigns. body: translates it; returns True if its end is reached.
    returns: True if control can reach the statement after the block.
    """
    span = ctx.span(node)
    before = dict(ctx.frame.env)
    enclosure = Enclosure(construct, step, span, ctx.depth)
    with ctx.inside(enclosure) as block:
        reached = body()
        if reached and enclosure.exits:
            ctx.leave(enclosure, span)
    if enclosure.is_straight:
        if enclosure.exits:
            # the only exit leads to the code that follows anyway
            last = block.pop()
            assert last is enclosure.exits[0].late
        ctx.block.extend(block)
        return reached or bool(enclosure.exits)
    kinds = exit_kinds(ctx, names, before, [e.env for e in enclosure.exits])
    close(ctx, enclosure, block, lambda statements: Loop(statements, span), names, before, kinds)
    return True


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
        literals, start, snapshot = ctx.converted_literals, len(ctx.block), ctx.snapshot()
        trial = _translate(ctx, node, entry, guess, body, only_breaks)
        shown = {name: trial.kind(ctx, name, changes) for name, changes in trial.changes.items()}
        exits = exit_kinds(ctx, [name for name in names if name not in entry], {}, trial.ends)
        if guess.agrees(shown, literals_matter=ctx.converted_literals != literals):
            close(ctx, trial.loop, trial.block, make, names, trial.before, exits, trial.slots)
            ctx.loop_kinds[path] = guess
            return bool(trial.ends)
        guess = guess.corrected(trial.through_copies(ctx, shown))
        ctx.restore(snapshot)
        del ctx.block[start:]
    raise ctx.type_error(node, "the types of this loop's variables don't converge", "give them types before the loop")


def _translate(
    ctx: Context, node: ast.AST, entry: Mapping[str, Binding], guess: Heads, body: Callable[[Enclosure], bool],
    only_breaks: bool,
) -> LoopTrial:
    span = ctx.span(node)
    slots = {name: NameSlot.of(ctx, name, kind, span, entry[name].value) for name, kind in guess.kinds.items()}
    for name, slot in slots.items():
        ctx.frame.env[name] = Binding(slot.value, entry[name].span)
    before = dict(ctx.frame.env)
    loop = Enclosure(Construct.LOOP, node, span, ctx.depth, is_loop=True)
    carried = {name: Carried(dtype) for name, dtype in guess.literal_types(entry).items()}
    outer = ctx.frame.carried
    ctx.frame.carried = {**outer, **carried}
    with ctx.inside(loop) as block:
        if body(loop):
            ctx.leave(loop, span, None)
    ctx.frame.carried = outer
    for name in outer.keys() & carried.keys():
        outer[name].assigned |= carried[name].assigned
    ends = [each.env for each in loop.exits if each.jump is Break]
    continues = [each.env for each in loop.exits if each.jump is not Break]
    ends += [] if only_breaks else [before]
    # count an Unset value at the head as a change, so that the name remains unset
    heads = {name: None if isinstance(slot.value, Unset) else slot.value for name, slot in slots.items()}
    changes = {name: [env[name] for env in (*continues, *ends) if env[name].value != heads[name]] for name in entry}
    return LoopTrial(loop, block, entry, slots, before, ends, changes, carried)


@dataclass(frozen=True, slots=True)
class LoopTrial:
    """A trial translation of a loop's body, and the bindings that it produced."""

    loop: Enclosure
    block: Draft
    #: the bindings of the loop-carried names before the loop
    entry: Mapping[str, Binding]
    slots: Mapping[str, NameSlot]
    #: the bindings at the head of the loop
    before: Mapping[str, Binding]
    #: the bindings on each path to the code after the loop
    ends: Sequence[Mapping[str, Binding]]
    #: loop-carried name -> its bindings at ends of iterations and at exits that differ in value from that at the head
    changes: Mapping[str, Sequence[Binding]]
    carried: Mapping[str, Carried]

    @property
    def heads(self) -> dict[str, Var]:
        """The variables of the loop-carried scalars, by name."""
        held = [(name, slot.value) for name, slot in self.slots.items() if isinstance(slot.kind, ScalarKind)]
        return {name: value.expr for name, value in held if isinstance(value, Scalar) and isinstance(value.expr, Var)}

    def kind(self, ctx: Context, name: str, changes: Sequence[Binding]) -> Kind:
        """Return the kind of a loop-carried name whose bindings in the loop are `changes`."""
        assigned = self.carried[name].assigned if name in self.carried else None
        kind = merge_carried(ctx, name, self.entry[name], changes, assigned)
        if isinstance(kind, ScalarKind) and kind.dtype is int64 and not kind.data and self._grows(name, changes):
            return replace(kind, data=True)
        return kind

    def _grows(self, name: str, changes: Sequence[Binding]) -> bool:
        """True if a name's value may grow exponentially: the `_degree` of a new value in the old one exceeds 1."""
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
        for stmt in walk.statements(sealed(self.block)):
            if isinstance(stmt, (Let, Assign, Declare)):
                yield from ((stmt.var, value) for value in walk.expressions(stmt) if isinstance(value, (Var, Op, Cast)))
        for name, head in self.heads.items():
            yield from ((head, b.value.expr) for b in self.changes[name] if isinstance(b.value, Scalar))

    def through_copies(self, ctx: Context, shown: Mapping[str, Kind]) -> dict[str, Kind]:
        """Return the observed kinds, propagated through copies, so that a chain of copies takes only one more trial."""
        heads: dict[Expr, str] = {head: name for name, head in self.heads.items()}
        copying = [name for name, changes in self.changes.items() if any(_copied(b, heads) for b in changes)]
        kinds, is_final = dict(shown), False
        while not is_final:
            is_final = True
            for name in copying:
                changes = [_as_shown(b, kinds.get(_copied(b, heads))) for b in self.changes[name]]
                kind = self.kind(ctx, name, changes)
                # a conflict is final: `_as_shown` ignores conflicts, so kinds could otherwise alternate forever
                if isinstance(kinds[name], ScalarKind) and kind != kinds[name]:
                    kinds[name], is_final = kind, False
        return kinds


def _copied(binding: Binding, heads: Mapping[Expr, str]) -> str:
    """Return the loop-carried name whose value at the head a binding copies; "" if there is none."""
    return heads.get(binding.value.expr, "") if isinstance(binding.value, Scalar) else ""


def _as_shown(binding: Binding, kind: Kind | None) -> Binding:
    """Return the binding, with the type and flags of `kind` if it is a `ScalarKind` and the value is a variable."""
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
