"""Whether a CTA has as many registers as its warpgroups ask for.

A CTA starts with as many for each thread; what one warpgroup gives back another may take. One that asks for more than
are left waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...dataclass import dataclass
from ...errors import KernelTypeError, ResourceError
from ...isa.registers import SET_REGISTERS
from ...target import MAX_REGISTERS, WARPGROUP, entry_registers, most_registers
from .. import walk
from ..nodes import Cast, Const, Expr, If, Instruction, Kernel, Op, Var
from .thread_values import instances

__all__ = ["SETTINGS", "Gate", "Gates", "Setting", "check_pool", "most_of_a_thread", "sets_registers", "settings_of"]

SETTINGS = frozenset(row.name for row in SET_REGISTERS.values())


class Gate(NamedTuple):
    """What has to be so at run time for threads to come to a statement.

    branch: an `if`, by identity, or a loop that has turns. truth: what the condition is; None behind a branch inside
    which some threads may have left, whatever it was.
    """

    branch: int
    truth: bool | None


#: all of them have to be so
Gates = frozenset[Gate]


@dataclass(frozen=True, slots=True)
class Setting:
    """A statement that sets registers, and the threads that come there, thread i as bit i.

    is_certain: all of them do, or none. gates: what decides at run time whether they do.
    """

    stmt: Instruction
    threads: int
    is_certain: bool
    gates: Gates

    @property
    def registers(self) -> int:
        return _count(self.stmt)


def _count(stmt: Instruction) -> int:
    """How many registers a statement that sets them asks for."""
    (count,) = stmt.inputs
    assert isinstance(count, Const)
    return int(count.value)


def settings_of(kernel: Kernel) -> Iterator[Instruction]:
    """The statements that set registers."""
    return (s for s in walk.each(kernel.body, Instruction) if s.name in SETTINGS)


def sets_registers(kernel: Kernel) -> bool:
    """Whether warpgroups set how many registers their threads have."""
    return next(settings_of(kernel), None) is not None


def most_of_a_thread(kernel: Kernel) -> int:
    """How many registers a thread may have: of warpgroups that set theirs, one that has most."""
    entry = most_registers(kernel.threads, kernel.max_registers)
    return min(MAX_REGISTERS, max([entry, *(_count(stmt) for stmt in settings_of(kernel))]))


def check_pool(kernel: Kernel, settings: Sequence[Setting]) -> None:
    """Raise ResourceError where warpgroups ask for more than there are.

    raises: KernelTypeError, too, where it isn't known who asks.
    """
    if not settings:
        return
    entry, groups = entry_registers(kernel.threads, kernel.max_registers), -(-kernel.threads // WARPGROUP)
    conditions = _Conditions(kernel)
    asked = _asked(kernel, settings, conditions)
    set_them = _most_at_once(asked, conditions, entry)
    counts = [set_them[group].registers if group in set_them else entry for group in range(groups)]
    if sum(counts) <= entry * groups:
        return
    greatest = max(set_them.values(), key=lambda setting: setting.registers)
    absent = [str(group) for group in asked if group not in set_them]
    where = f" where the branch of warpgroup{'s' * (len(absent) > 1)} {', '.join(absent)} isn't taken" if absent else ""
    hint = "let warpgroups that only copy have 24, or ask for fewer; one that sets none keeps what it started with"
    if absent:
        hint = "branch on tj.warpgroup_id() alone where registers are given back, and on what run time tells inside it"
    raise ResourceError(
        f"{' + '.join(map(str, counts))} registers are {sum(counts)}{where}; a CTA of {kernel.threads} threads starts "
        f"with {groups} \N{MULTIPLICATION SIGN} {entry} = {entry * groups}",
        span=greatest.stmt.span,
        hint=hint,
    )


def _asked(kernel: Kernel, settings: Sequence[Setting], conditions: _Conditions) -> dict[int, list[Setting]]:
    """The settings that each warpgroup may come to, of which it comes to one at most, by the warpgroup's number.

    raises: KernelTypeError where one may come to two, or where run time says which come.
    """
    asked: dict[int, list[Setting]] = {}
    for setting in settings:
        if not setting.is_certain:
            raise KernelTypeError(
                "which warpgroups set their registers here is known only at run time", span=setting.stmt.span,
                hint="branch on tj.warpgroup_id() and constants alone",
            )
        for first in instances(setting.threads, WARPGROUP, kernel.threads):
            group = first // WARPGROUP
            if not all(conditions.exclude(setting, other) for other in asked.get(group, ())):
                raise KernelTypeError(
                    f"warpgroup {group} sets its registers twice", span=setting.stmt.span,
                    hint="let each warpgroup set them once, where its branch begins",
                )
            asked.setdefault(group, []).append(setting)
    return asked


#: a condition, or the identity of a branch whose condition may change, and what it is; the gate behind a branch, None
_Facts = frozenset[tuple["Expr | Gate | int", "bool | None"]]


class _Conditions:
    """The conditions of branches. Those that are the same expression of what never changes are the same at run time."""

    def __init__(self, kernel: Kernel) -> None:
        self.changing = walk.assigned(kernel.body)
        self.of_branches = {id(stmt): stmt.cond for stmt in walk.each(kernel.body, If)}

    def facts(self, gates: Gates) -> _Facts:
        return frozenset((gate if gate.truth is None else self._condition(gate.branch), gate.truth) for gate in gates)

    def exclude(self, one: Setting, other: Setting) -> bool:
        """True if at most one of two settings is executed: one branch decides between them, in no loop."""
        if any(gate.truth is not None and gate.branch not in self.of_branches for gate in one.gates | other.gates):
            return False
        facts = dict(self.facts(one.gates))
        return any(facts.get(condition, truth) is not truth for condition, truth in self.facts(other.gates))

    def _condition(self, branch: int) -> Expr | int:
        cond = self.of_branches.get(branch)
        if cond is None:
            return branch
        parts = list(walk.subexpressions(cond))
        is_fixed = all(isinstance(part, (Const, Op, Cast, Var)) for part in parts)
        names = {part.name for part in parts if isinstance(part, Var)}
        return cond if is_fixed and not names & self.changing else branch


def _most_at_once(asked: Mapping[int, Sequence[Setting]], conditions: _Conditions, entry: int) -> dict[int, Setting]:
    """By warpgroup, the settings that together ask for the most, of all ways in which run time may decide."""
    facts = {id(each): conditions.facts(each.gates) for settings in asked.values() for each in settings}
    most: dict[int, Setting] = {}
    for decided in _ways(list(dict.fromkeys(facts.values())), frozenset()):
        executed = {
            group: each for group, settings in asked.items() for each in settings if facts[id(each)] <= decided
        }
        most = max(most, executed, key=lambda one: sum(setting.registers - entry for setting in one.values()))
    return most


def _ways(several: Sequence[_Facts], decided: _Facts) -> Iterator[_Facts]:
    """Yield what run time decides, for every way in which it may let each of several sets of facts hold or not."""
    if not several:
        yield decided
        return
    first, others = several[0] - decided, several[1:]
    if not first or not {condition for condition, _ in first}.isdisjoint([condition for condition, _ in decided]):
        # they hold, or one of them doesn't
        yield from _ways(others, decided)
        return
    for condition, truth in first:
        yield from _ways(others, decided | {(condition, not truth)})
    yield from _ways(others, decided | first)
