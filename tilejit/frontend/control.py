"""Branches, loops and blocks: what runs under which condition, what leaves what, and how names come out of it.

Inside a body every name stands for a value that doesn't change; names that differ between paths are kept in slots
(see `joins`), which are written where a path ends: at the end of a branch, at the end of a loop's body, and before
`break` and `continue`. Which kinds of slots a loop needs is known only once its body has been read, so it is read
until the kinds no longer change; what an attempt emitted is dropped.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..dtypes import bool_
from ..ir import build
from ..ir.nodes import Assign, Break, Continue, Declare, Expr, If, Loop, Stmt, Var
from ..source import Span
from .context import Context
from .joins import Kind, Same, ScalarKind, Slot, agrees, kind_of, merge, move, outlived, place, settled, value_of
from .values import Binding, Scalar, Unset, Value

__all__ = ["Target", "branch", "choose", "chosen", "leave", "run_block", "run_loop", "run_straight"]

_ATTEMPTS = 12


class NeedsBlock(Exception):
    """Something that was read straight through is left from inside a run-time branch: read it again as a block."""

    def __init__(self, target: Target) -> None:
        self.target = target


@dataclass(slots=True, eq=False)
class Target:
    """What `break`, `continue` or `return` leaves.

    kind: "loop" (run-time), "static" (unrolled), "iteration" (of an unrolled loop) or "function".
    depth: the context's depth in which it is read. straight: it has no loop in the IR: it can be left only
    where nothing decides at run time. slots: where names are kept once it is left. ends: what names stood for
    at each exit; heads: the same at each `continue` and at the end of the body. flag: set where it is left
    through other loops.
    """

    kind: str
    node: ast.AST
    depth: int = 0
    straight: bool = False
    slots: dict[str, Slot] = field(default_factory=dict)
    ends: list[dict[str, Binding]] = field(default_factory=list)
    heads: list[dict[str, Binding]] = field(default_factory=list)
    flag: Var | None = None
    left: str = ""


@dataclass(slots=True, eq=False)
class OpenLoop:
    """A loop of the IR that is being read. through: targets that are left from inside it, beyond it."""

    target: Target
    through: list[Target] = field(default_factory=list)

    def mark(self) -> tuple[int, int, int, Var | None]:
        """Who leaves so far."""
        return len(self.target.ends), len(self.target.heads), len(self.through), self.target.flag

    def back(self, mark: tuple[int, int, int, Var | None]) -> None:
        """Forget who left since `mark`."""
        ends, heads, through, self.target.flag = mark
        del self.target.ends[ends:]
        del self.target.heads[heads:]
        del self.through[through:]


# ---- leaving ------------------------------------------------------------------------------------------------


def leave(ctx: Context, target: Target, how: str, span: Span) -> None:
    """End this path: go to the end ("break") or to the next round ("continue") of `target`."""
    if target.straight:
        if ctx.depth > target.depth:
            raise NeedsBlock(target)
        target.left = how
        return
    record = target.heads if how == "continue" else target.ends
    record.append(dict(ctx.frame.env))
    finish(ctx, target, span)
    inner = _inside(ctx, target)
    if inner:
        if target.flag is None:
            target.flag = Var(ctx.unique("leaving"), bool_, span=span)
        ctx.emit(Assign(target.flag, build.TRUE, span))
        for loop in inner:
            if target not in loop.through:
                loop.through.append(target)
    ctx.emit(Continue(span) if how == "continue" and not inner else Break(span))


def finish(ctx: Context, target: Target, span: Span) -> None:
    """Put what names stand for now into the slots of `target`."""
    env = ctx.frame.env
    move(ctx, [(slot, env[name].value) for name, slot in target.slots.items() if name in env], span)


def _inside(ctx: Context, target: Target) -> list[OpenLoop]:
    """The IR loops inside the one of `target`, at the current place."""
    levels = [k for k, loop in enumerate(ctx.loops) if loop.target is target]
    return list(ctx.loops[levels[-1] + 1 :])


@contextmanager
def _open(ctx: Context, target: Target) -> Iterator[OpenLoop]:
    """Inside the IR loop of a target, which `break` and `continue` in this function may leave."""
    loop = OpenLoop(target)
    ctx.loops.append(loop)
    ctx.frame.targets.append(target)
    frame = ctx.frame
    try:
        yield loop
    finally:
        ctx.loops.pop()
        frame.targets.pop()


def _close(ctx: Context, loop: OpenLoop, statement: Stmt, span: Span) -> None:
    """Emit a finished loop, and behind it the further way of whatever left more than it."""
    if loop.target.flag is not None:
        ctx.emit(Declare(loop.target.flag, build.FALSE, span))
    ctx.emit(statement)
    for target in loop.through:
        assert target.flag is not None
        ctx.emit(If(target.flag, (Break(span),), (), span))


# ---- branches -----------------------------------------------------------------------------------------------


def branch(
    ctx: Context, cond: Expr, then: Callable[[], bool], orelse: Callable[[], bool], span: Span
) -> bool:
    """Read both sides of a run-time condition; returns whether control reaches the end of either."""
    before = dict(ctx.frame.env)
    with ctx.nested() as yes:
        reaches_yes = then()
    after_yes, ctx.frame.env = ctx.frame.env, dict(before)
    with ctx.nested() as no:
        reaches_no = orelse()
    after_no = ctx.frame.env
    if not reaches_yes and reaches_no:
        _one_side(ctx, cond, yes, no, span)
        return True
    if reaches_yes and not reaches_no:
        ctx.frame.env = after_yes
        _one_side(ctx, build.op("logical_not", cond), no, yes, span)
        return True
    if reaches_yes:
        ctx.frame.env = _joined(ctx, yes, after_yes, no, after_no, span)
    if yes or no:
        ctx.emit(If(cond, tuple(yes), tuple(no), span))
    return reaches_yes


def _one_side(ctx: Context, cond: Expr, ends: list[Stmt], goes_on: list[Stmt], span: Span) -> None:
    """A branch that ends its path: what the other side does follows it, so that its names are in sight."""
    ctx.emit(If(cond, tuple(ends), (), span))
    ctx.block.extend(goes_on)


def _joined(
    ctx: Context, yes: list[Stmt], a: dict[str, Binding], no: list[Stmt], b: dict[str, Binding], span: Span
) -> dict[str, Binding]:
    env: dict[str, Binding] = {}
    slots: list[tuple[Slot, Value, Value]] = []
    for name in (*a, *(n for n in b if n not in a)):
        if name not in a or name not in b:
            env[name] = Binding(_one_sided(name, (a.get(name) or b[name]).span), span)
            continue
        if a[name] is b[name]:
            env[name] = a[name]
            continue
        slot = place(ctx, name, settled(merge(name, (a[name], b[name]))), None, span)
        slots.append((slot, a[name].value, b[name].value))
        env[name] = Binding(value_of(slot), a[name].span)
    for block, side in ((yes, 1), (no, 2)):
        _move_in(ctx, block, [(s[0], s[side]) for s in slots], span)  # type: ignore[misc]
    return env


def _move_in(ctx: Context, block: list[Stmt], pairs: Sequence[tuple[Slot, Value]], span: Span) -> None:
    """Put values into slots at the end of a block that has been read."""
    outer, ctx.block = ctx.block, block
    move(ctx, pairs, span)
    ctx.block = outer


def _one_sided(name: str, span: Span) -> Unset:
    return Unset(
        f"{name} has a value on one path only: it is assigned at line {span.line}, inside a branch",
        "give it a value before the branch, or on both sides",
    )


def choose(
    ctx: Context, node: ast.AST, cond: Expr, then: Callable[[], Value], orelse: Callable[[], Value], name: str
) -> Value:
    """The value of one of two expressions, of which only the chosen one is evaluated."""
    with ctx.nested() as yes:
        a = then()
    with ctx.nested() as no:
        b = orelse()
    return chosen(ctx, node, cond, (yes, a), (no, b), name)


def chosen(
    ctx: Context, node: ast.AST, cond: Expr, then: tuple[list[Stmt], Value], orelse: tuple[list[Stmt], Value], name: str
) -> Value:
    """As `choose`, of expressions that have been read: each with what its evaluation emitted."""
    span = ctx.span(node)
    (yes, a), (no, b) = then, orelse
    kind = settled(merge("the value", (Binding(a, span), Binding(b, span))))
    if isinstance(kind, Same) and isinstance(kind.value, Unset):
        raise ctx.type_error(node, kind.value.reason.split(":")[0], kind.value.hint.split(", or")[0])
    if isinstance(kind, ScalarKind) and not yes and not no:
        sides = [build.cast(ctx.scalar(v, node, kind.dtype), kind.dtype) for v in (a, b)]
        return Scalar(build.op("where", cond, *sides))
    slot = place(ctx, name, kind, None, span)
    _move_in(ctx, yes, [(slot, a)], span)
    _move_in(ctx, no, [(slot, b)], span)
    if yes or no:
        ctx.emit(If(cond, tuple(yes), tuple(no), span))
    return value_of(slot)


# ---- loops --------------------------------------------------------------------------------------------------


def run_loop(
    ctx: Context,
    node: ast.AST,
    names: Sequence[str],
    body: Callable[[Target], bool],
    make: Callable[[tuple[Stmt, ...]], Stmt],
    *,
    only_breaks: bool = False,
) -> bool:
    """Read a run-time loop.

    names: those that the body assigns. body: reads it; returns whether control reaches its end.
    make: the statement, given its body. only_breaks: it ends by `break` alone.
    returns: whether control can reach what follows.
    """
    span = ctx.span(node)
    entry = {name: ctx.frame.env[name] for name in names if name in ctx.frame.env}
    kinds = {name: kind_of(binding.value) for name, binding in entry.items()}
    exits: dict[str, Kind] = {}
    for _ in range(_ATTEMPTS):
        mark = ctx.mark()
        with ctx.nested(0) as prelude:
            heads = {n: place(ctx, n, kind, entry[n].value, span) for n, kind in kinds.items()}
            slots = heads | {n: place(ctx, n, kind, None, span) for n, kind in exits.items()}
        for name, slot in heads.items():
            ctx.frame.env[name] = Binding(value_of(slot), entry[name].span)
        before = dict(ctx.frame.env)
        target = Target("loop", node, ctx.depth, slots=slots)
        with _open(ctx, target) as loop, ctx.nested() as block:
            if body(target):
                target.heads.append(dict(ctx.frame.env))
                finish(ctx, target, span)
        if not only_breaks:
            target.ends.append(before)
        found = _kinds_of_loop(kinds, entry, heads, target)
        found_exits = _kinds_of_exits([n for n in names if n not in entry], {}, target)
        if found_exits == exits and all(agrees(kinds[n], found[n]) for n in kinds):
            ctx.frame.env = _after(names, before, slots, span)
            ctx.block.extend(prelude)
            _close(ctx, loop, make(tuple(block)), span)
            return bool(target.ends)
        ctx.back(mark)
        kinds = {n: settled(found[n]) if found[n] == kinds[n] else found[n] for n in kinds}
        exits = found_exits
    raise ctx.type_error(node, "the types of this loop's variables don't settle", "give them types before the loop")


def _kinds_of_loop(
    kinds: dict[str, Kind], entry: dict[str, Binding], heads: dict[str, Slot], target: Target
) -> dict[str, Kind]:
    """What each name holds at the head and behind the loop, by its value before it and wherever a round ends."""
    found: dict[str, Kind] = {}
    for name in kinds:
        head = value_of(heads[name])
        # a value that is as at the head is the one before the loop, but what has no value there stays without
        kept = None if isinstance(head, Unset) else head
        given = [env[name] for env in (*target.heads, *target.ends) if env[name].value != kept]
        found[name] = merge(name, [entry[name], *given])
    return found


def _kinds_of_exits(names: Sequence[str], before: dict[str, Binding], target: Target) -> dict[str, Kind]:
    """The slots for names that have another value than before wherever the target is left."""
    found: dict[str, Kind] = {}
    for name in names:
        if not target.ends or not all(name in env for env in target.ends):
            continue
        kind = merge(name, [env[name] for env in target.ends])
        if name not in before or kind != Same(before[name].value):
            found[name] = settled(outlived(name, kind))
    return found


def _after(
    names: Sequence[str], before: dict[str, Binding], slots: dict[str, Slot], span: Span
) -> dict[str, Binding]:
    env = dict(before)
    for name in names:
        if name in slots:
            env[name] = Binding(value_of(slots[name]), before[name].span if name in before else span)
        elif name not in before:
            unset = Unset(
                f"{name} may have no value here: it is assigned only inside the loop of line {span.line}",
                "give it a value before the loop",
            )
            env[name] = Binding(unset, span)
    return env


# ---- blocks: read once, left early --------------------------------------------------------------------------


def run_straight(ctx: Context, node: ast.AST, kind: str, body: Callable[[Target], bool]) -> bool | None:
    """Read statements that run once straight through.

    returns: what `body` does; None where a run-time branch leaves them early, and what was read is forgotten.
    """
    target = Target(kind, node, ctx.depth, straight=True)
    mark, emitted = ctx.mark(), len(ctx.block)
    block, depth, targets = ctx.block, ctx.depth, ctx.frame.targets
    around = len(targets)
    targets.append(target)
    try:
        return body(target)
    except NeedsBlock as needs:
        if needs.target is not target:
            raise
        del block[emitted:]
        ctx.block, ctx.depth = block, depth
        ctx.back(mark)
        return None
    finally:
        del targets[around:]


def run_block(
    ctx: Context, node: ast.AST, kind: str, names: Sequence[str], body: Callable[[Target], bool]
) -> bool:
    """Read statements that run once and may be left early: a loop that ends in `break`.

    returns: whether control can reach what follows.
    """
    span = ctx.span(node)
    kinds: dict[str, Kind] = {}
    for _ in range(_ATTEMPTS):
        mark = ctx.mark()
        before = dict(ctx.frame.env)
        with ctx.nested(0) as prelude:
            slots = {name: place(ctx, name, found, None, span) for name, found in kinds.items()}
        target = Target(kind, node, ctx.depth, slots=slots)
        with _open(ctx, target) as loop, ctx.nested() as block:
            if body(target):
                leave(ctx, target, "break", span)
        found_kinds = _kinds_of_exits(names, before, target)
        if found_kinds == kinds:
            ctx.frame.env = _after(names, before, slots, span)
            ctx.block.extend(prelude)
            _close(ctx, loop, Loop(tuple(block), span), span)
            return bool(target.ends)
        ctx.back(mark)
        kinds = found_kinds
    raise ctx.type_error(node, "the types that meet here don't settle", "convert them, for example with .astype(...)")
