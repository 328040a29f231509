"""The story of an order: its events in two columns, with their source lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dataclass import dataclass
from .events import Event, Use, is_memory

if TYPE_CHECKING:
    from .ordered_machine import OrderedMachine

#: the maximum number of rows of a story
MOST_ROWS = 12
#: the width of the first column
WIDTH = 60


@dataclass(slots=True)
class Row:
    """Events of one agent at one instruction, one after another. what: what they do, and what the last one does."""

    who: str
    pc: int
    what: str
    times: int = 1


def story(machine: OrderedMachine) -> tuple[str, ...]:
    """Return the last events of a run: what each agent does, and the source line, in two columns."""
    rows: list[Row] = []
    for event in machine.events:
        who, what = named(machine, event), what_happens(machine, event)
        if rows and (rows[-1].who, rows[-1].pc) == (who, event.pc):
            rows[-1].what, rows[-1].times = what, rows[-1].times + 1
        elif what:
            rows.append(Row(who, event.pc, what))
    left = max(0, len(rows) - MOST_ROWS + 1) if len(rows) > MOST_ROWS else 0
    lines = [f"({left} earlier steps)"] if left else []
    for row in rows[left:]:
        times = f" ({row.times} times)" if row.times > 1 else ""
        where = machine.places.describe(row.pc).split("\n")[-1].strip().removeprefix("from ")
        lines.append(f"{f'{row.who} {row.what}{times}':<{WIDTH}}  {where}".rstrip())
    return tuple(lines)


def named(machine: OrderedMachine, event: Event) -> str:
    lanes = machine.lanes
    warp = int(event.agent.partition(".")[0])
    cta, number = divmod(warp, lanes.warps_per_cta)
    parts = ["a copy of"] * ("." in event.agent)
    parts += [f"warp {number}"] if lanes.warps_per_cta > 1 or lanes.ctas == 1 else []
    if lanes.ctas > 1:
        parts += ["of"] * (lanes.warps_per_cta > 1) + [f"CTA {lanes.cta_coordinates(lanes.first + cta)}"]
    return " ".join(parts)


def what_happens(machine: OrderedMachine, event: Event) -> str:
    """Describe what an event does."""
    texts = dict.fromkeys(describe(machine, use) for use in event.uses)
    return "; ".join([*filter(None, texts)][:3])


def describe(machine: OrderedMachine, use: Use) -> str:
    if is_memory(use.place):
        space, base, word = use.place
        regions = (x for x in machine.access.memory.regions if x.space == space and x.base == base)
        region = next(regions, None)
        part = region.part_at(4 * word) if region is not None else None
        name = f"{part.name}+{4 * word - part.start}" if part is not None else f"{space} memory"
        if use.kind == "read":
            return f"reads {use.after} at {name}"
        if use.kind == "write":
            return f"sets {name} to {use.after}"
        return f"{use.kind} {name}: {use.before} → {use.after}"
    end = ": complete" if use.completes else ""
    name = {"barrier": f"barrier {use.place[-1]}", "cluster": "the cluster barrier"}.get(use.place[0], "")
    if not name:
        name = machine.mbarriers.at[use.place[1]].name
    if use.kind == "wait":
        return f"passes {name}: phase {use.phase - 1} is over"
    if use.kind == "arrive":
        return f"arrives at {name}, phase {use.phase}{end}"
    return f"looks at {name}: phase {use.phase}"
