"""Which of a buffer's barriers a place names, as far as variables still are what they were.

A stage is a variable, `int32(uint32(i) % 4)`, and `i` changes. So whoever compares two stages says which variables are
*current*: nothing that they follow from has been defined again since.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..dataclass import dataclass
from ..ir import walk
from ..ir.arithmetic import build
from ..ir.names import names_in
from ..ir.nodes import (
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

__all__ = ["CHANGING", "Stages", "stage_of"]

#: the classes of statements and loops that give a variable a value
CHANGING: frozenset[type[Assign | Let | Declare | For | Atomic | Instruction | WaitPhase]] = frozenset({
    Assign, *walk.VARIABLES,
})


@dataclass(frozen=True, slots=True)
class Stages:
    """values: the definitions of variables that stages follow from.

    changes: of statements and loops, by identity: the variables of stages that aren't what they were, where one of
    these defines a variable that a stage names or follows from.
    """

    values: Mapping[str, Expr]
    changes: Mapping[int, frozenset[str]]

    @staticmethod
    def of(kernel: Kernel) -> Stages:
        """The stages in a kernel at lane level."""
        lets = {stmt.var.name: stmt.value for stmt in walk.each(kernel.body, Let)}
        values: dict[str, Expr] = {}
        waiting = [stage_of(stmt) for stmt in walk.each(kernel.body, Arrive)]
        waiting += [stage_of(stmt) for stmt in walk.each(kernel.body, WaitPhase)]
        effects: dict[str, set[str]] = {}
        while waiting:
            for name in names_in(waiting.pop()) - effects.keys():
                effects[name] = {name}
                # what is loaded may be another value the next time
                if name in lets and not walk.loads(lets[name]):
                    values[name] = lets[name]
                    waiting.append(lets[name])
        causes: dict[str, frozenset[str]] = {}
        # in the order of the text, which defines a variable before those that follow from it
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
        """The variables of stages that aren't what they were, where a statement, or a loop's next turn, defines one."""
        return self.changes.get(id(stmt), frozenset())

    def current(self, stmt: Stmt, before: frozenset[str]) -> frozenset[str]:
        """The current ones behind a statement."""
        after = before - self.changed(stmt)
        return after | {stmt.var.name} if isinstance(stmt, Let) and stmt.var.name in self.values else after

    def same(self, first: Expr, second: Expr, current: frozenset[str]) -> bool:
        """Whether two stages are certainly one."""
        return self._defined(first, current) == self._defined(second, current)

    def differ(self, first: Expr, second: Expr, current: frozenset[str]) -> bool:
        """Whether two stages are certainly two: those of steps that aren't a multiple of all stages apart."""
        x, y = self._defined(first, current), self._defined(second, current)
        match x, y:
            case Const(a), Const(b):
                return a != b
            case Op("mod", (a, Const(stages))), Op("mod", (b, Const(others))) if stages == others:
                apart = build.difference(a, b)
                return apart is not None and apart % stages != 0
        return False

    def _defined(self, stage: Expr, current: frozenset[str]) -> Expr:
        """What a stage is defined as; it is small enough for any integer type."""
        while True:
            match stage:
                case Var(name) if name in current:
                    stage = self.values[name]
                case Cast(x=x):
                    stage = x
                case _:
                    return stage


def stage_of(stmt: Arrive | WaitPhase) -> Expr:
    """Which of its buffer's barriers a statement names."""
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    return stmt.place.offset
