"""Stages (indices of barriers in their buffers), and comparisons of stages for analyses.

A stage such as `int32(uint32(i) % 4)` changes with `i`. So a comparison is given the *current* variables: those whose
definitions still hold, because nothing that they depend on has been redefined since.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...dataclass import dataclass
from ...ir import walk
from ...ir.arithmetic import build
from ...ir.names import names_in
from ...ir.nodes import (
    Arrive,
    Assign,
    Atomic,
    Cast,
    Const,
    Declare,
    Expr,
    For,
    Instruction,
    Kernel,
    Let,
    Op,
    Stmt,
    Var,
    Vector,
    WaitPhase,
)

#: classes of statements, including loops, that define or assign a variable
CHANGING: frozenset[type[Assign | Let | Declare | For | Atomic | Instruction | WaitPhase]] = frozenset({
    Assign, *walk.VARIABLES,
})


@dataclass(frozen=True, slots=True)
class Stages:
    """The variables that stages in a kernel depend on.

    values: name of a variable -> its definition, if that has no load. changes: id of a statement or loop that redefines
    a variable -> the variables whose definitions no longer hold afterwards.
    """

    values: Mapping[str, Expr]
    changes: Mapping[int, frozenset[str]]

    @staticmethod
    def of(kernel: Kernel) -> Stages:
        """Return the variables that the stages of `kernel`, which is at lane level, depend on."""
        lets = {stmt.var.name: stmt.value for stmt in walk.each(kernel.body, Let)}
        values: dict[str, Expr] = {}
        waiting = [stage_of(stmt) for stmt in walk.each(kernel.body, Arrive)]
        waiting += [stage_of(stmt) for stmt in walk.each(kernel.body, WaitPhase)]
        effects: dict[str, set[str]] = {}
        while waiting:
            for name in names_in(waiting.pop()) - effects.keys():
                effects[name] = {name}
                # another evaluation of a load may return another value
                if name in lets and not walk.loads(lets[name]):
                    values[name] = lets[name]
                    waiting.append(lets[name])
        causes: dict[str, frozenset[str]] = {}
        # in program order: a definition precedes those that depend on it
        for name in (name for name in lets if name in values):
            direct = names_in(values[name])
            causes[name] = direct.union(*(causes.get(cause, frozenset()) for cause in direct))
            for cause in causes[name]:
                effects[cause].add(name)
        changes: dict[int, frozenset[str]] = {}
        for kind in CHANGING:
            for stmt in walk.each(kernel.body, kind):
                if stmt.var is not None and stmt.var.name in effects:
                    changes[id(stmt)] = frozenset(effects[stmt.var.name])
        return Stages(values, changes)

    def changed(self, stmt: Stmt) -> frozenset[str]:
        """Return the variables whose definitions a statement, or the next iteration of a loop, invalidates."""
        return self.changes.get(id(stmt), frozenset())

    def current(self, stmt: Stmt, before: frozenset[str]) -> frozenset[str]:
        """Return the variables that are current after a statement."""
        after = before - self.changed(stmt)
        return after | {stmt.var.name} if isinstance(stmt, Let) and stmt.var.name in self.values else after

    def same(self, first: Expr, second: Expr, current: frozenset[str]) -> bool:
        return self._defined(first, current) == self._defined(second, current)

    def differ(self, first: Expr, second: Expr, current: frozenset[str]) -> bool:
        """True if two stages provably differ, as `i % 4` and `(i + 1) % 4` do."""
        x, y = self._defined(first, current), self._defined(second, current)
        match x, y:
            case Const(a), Const(b):
                return a != b
            case Op("mod", (a, Const(stages))), Op("mod", (b, Const(others))) if stages == others:
                apart = build.difference(a, b)
                return apart is not None and apart % stages != 0
        return False

    def _defined(self, stage: Expr, current: frozenset[str]) -> Expr:
        """Return a stage with current variables replaced by their values. Casts are dropped: stages fit in any type."""
        while True:
            match stage:
                case Var(name) if name in current:
                    stage = self.values[name]
                case Cast(x=x):
                    stage = x
                case _:
                    return stage


def stage_of(stmt: Arrive | WaitPhase) -> Expr:
    """Return the index, in its buffer, of the barrier of an arrival or a wait."""
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    return stmt.place.offset
