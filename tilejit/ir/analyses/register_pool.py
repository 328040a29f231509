"""Checks that a CTA has enough registers for the requests of its warpgroups.

All threads of a CTA start with the same number of registers. A warpgroup can take registers that another has released.
A warpgroup that requests more than remain waits for others to release enough, perhaps forever. Measured: a kernel whose
3 warpgroups start with 168 registers per thread and request 32, 240 and 240 hangs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...errors import KernelTypeError, ResourceError
from ...isa.miscellaneous import SET_REGISTERS
from ...target import MAX_REGISTERS, WARPGROUP, entry_registers, most_registers
from .. import walk
from ..nodes import Cast, Const, Expr, If, Instruction, Kernel, Op, Stmt, Var
from .thread_states import Gate, Gates, Visit
from .thread_values import instances

SETTINGS = frozenset(row.name for row in SET_REGISTERS.values())


def _count(stmt: Stmt) -> int:
    assert isinstance(stmt, Instruction)
    (count,) = stmt.inputs
    assert isinstance(count, Const)
    return int(count.value)


def settings_of(kernel: Kernel) -> Iterator[Instruction]:
    """Yield the statements that set the number of registers."""
    return (s for s in walk.each(kernel.body, Instruction) if s.name in SETTINGS)


def sets_registers(kernel: Kernel) -> bool:
    """True if warpgroups set the number of their registers."""
    return next(settings_of(kernel), None) is not None


def most_of_a_thread(kernel: Kernel) -> int:
    """Return the maximum number of registers of a thread, over all warpgroups and settings."""
    entry = most_registers(kernel.threads, kernel.max_registers)
    return min(MAX_REGISTERS, max([entry, *(_count(stmt) for stmt in settings_of(kernel))]))


def check_pool(kernel: Kernel, settings: Sequence[Visit]) -> None:
    """Raise ResourceError if warpgroups may need more registers than the CTA has. settings: visits of `settings_of`.

    raises: KernelTypeError if a warpgroup may request twice, or if run-time values decide which warpgroups request.
    """
    if not settings:
        return
    entry, groups = entry_registers(kernel.threads, kernel.max_registers), -(-kernel.threads // WARPGROUP)
    conditions = _Conditions(kernel)
    asked = _asked(kernel, settings, conditions)
    set_them = _most_at_once(asked, conditions, entry)
    counts = [_count(set_them[group].stmt) if group in set_them else entry for group in range(groups)]
    if sum(counts) <= entry * groups:
        return
    greatest = max(set_them.values(), key=lambda setting: _count(setting.stmt))
    absent = [str(group) for group in asked if group not in set_them]
    where = f" if the branch of warpgroup{'s' * (len(absent) > 1)} {', '.join(absent)} isn't taken" if absent else ""
    hint = "request 24 in warpgroups that only copy, or fewer in others; without a request, the initial number is kept"
    if absent:
        hint = "release registers in a branch on tj.warpgroup_id() alone, and branch on run-time values inside it"
    raise ResourceError(
        f"warpgroups need {' + '.join(map(str, counts))} = {sum(counts)} registers per thread{where}; "
        f"a CTA of {kernel.threads} threads starts "
        f"with {groups} \N{MULTIPLICATION SIGN} {entry} = {entry * groups}",
        span=greatest.stmt.span,
        hint=hint,
    )


def _asked(kernel: Kernel, settings: Sequence[Visit], conditions: _Conditions) -> dict[int, list[Visit]]:
    """Return the settings that each warpgroup may reach, at most one per execution, by the warpgroup's number.

    raises: KernelTypeError if a warpgroup may reach two, or if run-time values decide which warpgroups reach one.
    """
    asked: dict[int, list[Visit]] = {}
    for setting in settings:
        if not setting.is_certain:
            raise KernelTypeError(
                "which warpgroups set their registers here is known only at run time", span=setting.stmt.span,
                hint="branch only on tj.warpgroup_id() and constants",
            )
        for first in instances(setting.threads, WARPGROUP, kernel.threads):
            group = first // WARPGROUP
            if not all(conditions.exclude(setting, other) for other in asked.get(group, ())):
                raise KernelTypeError(
                    f"warpgroup {group} may set its registers twice", span=setting.stmt.span,
                    hint="set them once per warpgroup, at the start of its branch",
                )
            asked.setdefault(group, []).append(setting)
    return asked


#: pairs (condition, its value). A loop is represented by its id instead of a condition, as is a branch whose condition
#: depends on more than constants and unassigned variables; a gate without a `truth` by (gate, None)
_Facts = frozenset[tuple["Expr | Gate | int", "bool | None"]]


class _Conditions:
    """The conditions of branches. Equal conditions that depend only on unassigned variables have equal values."""

    def __init__(self, kernel: Kernel) -> None:
        self.changing = walk.assigned(kernel.body)
        self.of_branches = {id(stmt): stmt.cond for stmt in walk.each(kernel.body, If)}

    def facts(self, gates: Gates) -> _Facts:
        return frozenset((gate if gate.truth is None else self._condition(gate.branch), gate.truth) for gate in gates)

    def exclude(self, one: Visit, other: Visit) -> bool:
        """True if two settings outside `For`s require opposite values of a condition, so at most one is executed."""
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


def _most_at_once(asked: Mapping[int, Sequence[Visit]], conditions: _Conditions, entry: int) -> dict[int, Visit]:
    """Return, by warpgroup, the settings of the possible combination that adds most registers; {} if none adds any."""
    facts = {id(each): conditions.facts(each.gates) for settings in asked.values() for each in settings}
    most: dict[int, Visit] = {}
    for decided in _ways(list(dict.fromkeys(facts.values())), frozenset()):
        executed = {
            group: each for group, settings in asked.items() for each in settings if facts[id(each)] <= decided
        }
        most = max(most, executed, key=lambda one: sum(_count(setting.stmt) - entry for setting in one.values()))
    return most


def _ways(several: Sequence[_Facts], decided: _Facts) -> Iterator[_Facts]:
    """Yield extensions of `decided` in which each of `several` holds or is contradicted, covering all combinations."""
    if not several:
        yield decided
        return
    first, others = several[0] - decided, several[1:]
    if not first or not {condition for condition, _ in first}.isdisjoint([condition for condition, _ in decided]):
        # already decided
        yield from _ways(others, decided)
        return
    for condition, truth in first:
        yield from _ways(others, decided | {(condition, not truth)})
    yield from _ways(others, decided | first)
