"""Whether a CTA has as many registers as its warpgroups ask for.

A CTA starts with as many for each thread; what one warpgroup gives back another may take. One that asks for more than
are left waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...dataclass import dataclass
from ...errors import KernelTypeError, ResourceError
from ...isa.registers import SET_REGISTERS
from ...target import MAX_REGISTERS, WARPGROUP, entry_registers, most_registers
from .. import walk
from ..nodes import Const, Instruction, Kernel

__all__ = ["SETTINGS", "Gates", "Setting", "check_pool", "most_of_a_thread", "settings_of"]

SETTINGS = frozenset(row.name for row in SET_REGISTERS.values())

#: branches whose condition is known only at run time, by identity, and what it is there
Gates = frozenset[tuple[int, bool]]


@dataclass(frozen=True, slots=True)
class Setting:
    """A statement that sets registers, and the threads that come there, thread i as bit i.

    is_certain: all of them do, or none. gates: what decides at run time whether they do; settings of equal gates are
    executed together.
    """

    stmt: Instruction
    comers: int
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
    return (s for s in walk.statements(kernel.body) if isinstance(s, Instruction) and s.name in SETTINGS)


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
    asked: dict[int, Setting] = {}
    for setting in settings:
        if not setting.is_certain:
            raise KernelTypeError(
                "which warpgroups set their registers here is known only at run time", span=setting.stmt.span,
                hint="branch on tj.warpgroup_id() and constants alone",
            )
        for group in range(groups):
            if not setting.comers >> group * WARPGROUP & (1 << WARPGROUP) - 1:
                continue
            if group in asked:
                raise KernelTypeError(
                    f"warpgroup {group} sets its registers twice", span=setting.stmt.span,
                    hint="let each warpgroup set them once, where its branch begins",
                )
            asked[group] = setting
    set_them = _most_at_once(asked, entry)
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


def _most_at_once(asked: Mapping[int, Setting], entry: int) -> dict[int, Setting]:
    """By warpgroup, the settings that together ask for the most: of those that run time decides on, what takes more."""
    more: dict[Gates, int] = {}
    for setting in asked.values():
        more[setting.gates] = more.get(setting.gates, 0) + setting.registers - entry
    return {group: setting for group, setting in asked.items() if not setting.gates or more[setting.gates] > 0}
