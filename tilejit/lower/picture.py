"""Pictures of the elements that a warp moves in one issue, for each input and for the destination."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..dataclass import dataclass
from ..errors import DispatchError
from ..ir.nodes import Region, TileOp
from ..layout.draw import BANK_BITS, BANKS, around
from ..layout.iters import digits
from ..svg import ABSENT, Cell, CellTable, Picture, colour_of, side_by_side
from ..target import TMEM_LANE, WARP
from ..wording import counted
from .plans import Array, Moves, Passes, Plan, Staged
from .proof.places import Contents
from .schedule.iterations import launch_values

_MOST_ROWS, _MOST_COLUMNS = 32, 24
#: a table wider than `_WIDE` pixels, so that two don't fit on a screen, is limited to `_FEWER_COLUMNS` columns
_WIDE, _FEWER_COLUMNS = 620, 16
#: number of rows or columns without moved elements that a table also shows, and its minimum number of rows or columns
_CONTEXT, _LEAST = 2, 8
#: maximum number of moves listed in a tooltip, and of stripes shown for an element that is moved several times
_MOST_COPIES = 4

#: (thread, place) of one move of an element
Visit = tuple[int, int]


def draw_issue(op: TileOp, variant: str, plan: Plan, issue: int, warp: int) -> Picture:
    """Draw the elements that a warp moves in one issue, in each tile of the operation or its step, colored by thread.

    raises: DispatchError if the plan has no such issue, or doesn't move elements one by one.
    """
    step, inner, number = _step(op, plan, issue)
    moved = MovedElements.of(step, inner, variant)
    if not 0 <= number < max(moved.issues, 1):
        issues = counted(_issues(plan, moved), "issue")
        raise DispatchError(f"{variant} has {issues}, numbered from 0; got issue {issue}", hint="choose one of these")
    (dst, *inputs), here = moved.sides, (moved.issue == number) & (moved.threads[:, 0] // WARP == warp)
    leader = min(moved.threads[here, 0].tolist(), default=-1)
    values = launch_values(tuple(step.tiles.values()))
    panels = [
        Panel.of(Contents.of(region, step.scope, values), moved.threads[here, k], moved.places[here, k], leader)
        for k, region in ((*enumerate(inputs, 1), (0, dst)))
    ]
    instructions = ", ".join(name for name, _ in inner.instructions)
    labels = "; ".join(dict.fromkeys(panel.legend for panel in panels))
    borders = f"borders: all that thread {leader} moves" if leader >= 0 else "this warp moves nothing in this issue"
    return side_by_side([panel.table() for panel in panels], [
        f"{op.scope}.{op.name} by {variant}: {instructions}, issue {issue} of {_issues(plan, moved)}, warp {warp}",
        f"labels: {labels}; {borders}",
        *(f"{region.buffer.name}: {region.buffer.layout!r}" for region in (*inputs, dst)),
    ])


def _step(op: TileOp, plan: Plan, issue: int) -> tuple[TileOp, Plan, int]:
    """Return the operation and the plan of the step to which `issue` belongs, and the issue's index in the step.

    A plan that isn't staged is a single step.
    """
    moves = plan.moves()
    if not isinstance(moves, Staged):
        return op, plan, issue
    for step, inner in moves.steps[:-1]:
        count = inner.facts().rounds
        if issue < count:
            return step, inner, issue
        issue -= count
    return (*moves.steps[-1], issue)


def _issues(plan: Plan, moved: MovedElements) -> int:
    return plan.facts().rounds if isinstance(plan.moves(), Staged) else moved.issues


@dataclass(frozen=True, slots=True)
class MovedElements:
    """The moved elements, one per row: the issue, and the thread and the place on each side, destination first."""

    sides: tuple[Region, ...]
    issue: Array
    threads: Array
    places: Array

    @staticmethod
    def of(op: TileOp, plan: Plan, variant: str) -> MovedElements:
        """Return the elements that a plan moves. raises: DispatchError if it doesn't move them one by one."""
        sides = tuple(op.tiles.values())
        match plan.moves():
            case Moves() as moves:
                issue, thread, places = _each_element(moves)
                return MovedElements(sides, issue, np.repeat(thread[:, None], len(sides), axis=1), places)
            case Passes() as passes:
                return MovedElements(sides, *_passed(passes))
        raise DispatchError(
            f"{variant} doesn't move the elements of {op.name} one by one, so there are no moves to draw",
            hint="draw the layouts of its tiles",
        )

    @property
    def issues(self) -> int:
        return int(self.issue.max(initial=-1)) + 1


def _each_element(moves: Moves) -> tuple[Array, Array, Array]:
    """Return (issue, thread, place on each side) of each element that is moved, one row per element."""
    every = np.repeat(np.arange(len(moves.width)), moves.width)
    step = np.arange(len(every)) - np.repeat(np.cumsum(moves.width) - moves.width, moves.width)
    return moves.issue[every], moves.thread[every], moves.places[every] + step[:, None] * np.array(moves.steps)


def _passed(passes: Passes) -> tuple[Array, Array, Array]:
    """Return (issue, [receiver, sender], [receiver's register, sender's register]), one row per passed element."""
    issue, thread, step = np.indices((*passes.sent.shape, passes.width)).reshape(3, -1)
    sender = passes.sender[issue, thread]
    places = np.stack([passes.kept[issue, thread] + step, passes.sent[issue, sender] + step], axis=1)
    return issue, np.stack([thread, sender], axis=1), places


@dataclass(frozen=True, slots=True)
class Panel:
    """One tile and the elements moved to or from it.

    visits: element -> (thread, place) of each move. Elements that share a place have the same visits.
    leader: the thread whose elements have borders.
    """

    region: Region
    visits: dict[int, list[Visit]]
    leader: int

    @staticmethod
    def of(side: Contents, threads: Array, places: Array, leader: int) -> Panel:
        visits: dict[int, list[Visit]] = {}
        held = side.held(side.keys(threads, places))
        for element, *visit in zip(held.tolist(), threads.tolist(), places.tolist(), strict=True):
            visits.setdefault(element, []).append((visit[0], visit[1]))
        # `visits[-1]` holds the visits to padding; no element has this index
        named = enumerate(side.canonical().tolist())
        return Panel(side.region, {e: visits[first] for e, first in named if first in visits}, leader)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.region.shape or (1,)

    @property
    def legend(self) -> str:
        space = self.region.buffer.space
        suffix = {"local": ":register", "tmem": ",lane,column"}.get(space, "")
        return f"thread{suffix} in {space} memory"

    def table(self) -> CellTable:
        table = self._of_columns(_MOST_COLUMNS)
        return table if table.width() <= _WIDE else self._of_columns(_FEWER_COLUMNS)

    def _of_columns(self, most: int) -> CellTable:
        region, (*outer, width) = self.region, self.shape
        rows = _shown([element // width for element in self.visits], prod(outer), _MOST_ROWS)
        columns = _shown([element % width for element in self.visits], width, most)
        names = [",".join(map(str, digits(row, outer))) or "0" for row in rows]
        cells = [self._cell(row * width + column) for row in rows for column in columns]
        heading = f"{region.buffer.name}: {region.buffer.space} {region.dtype}{list(region.shape)}"
        return CellTable(rows, columns, (prod(outer), width), names, cells, heading)

    def _cell(self, element: int) -> Cell:
        index = digits(element, self.shape)
        if element not in self.visits:
            return Cell("", ABSENT, f"{index}")
        visits = list(dict.fromkeys(self.visits[element]))
        (thread, place), *others = visits
        label = f"{thread}{_place_suffix(self.region, place)}" + "+" * bool(others)
        title = "; ".join(f"thread {t}, {_place(self.region, p)}" for t, p in visits[:_MOST_COPIES])
        stripes = tuple(colour_of(t) for t, _ in others[:_MOST_COPIES])
        return Cell(label, colour_of(thread), f"{index}: {title}", stripes, self.leader in [t for t, _ in visits])


def _shown(moved: Sequence[int], extent: int, most: int) -> list[int]:
    """Return the indices of at most `most` rows or columns to show: those in `moved`, and the smallest others."""
    wanted = sorted(set(moved))
    return around(wanted, extent, min(most, max(_LEAST, len(wanted) + _CONTEXT)))


def _place_suffix(region: Region, place: int) -> str:
    if region.buffer.space == "local":
        return f":{place}"
    return f",{place // TMEM_LANE},{place % TMEM_LANE}" if region.buffer.space == "tmem" else ""


def _place(region: Region, place: int) -> str:
    match region.buffer.space:
        case "local":
            return f"register {place}"
        case "tmem":
            return f"lane {place // TMEM_LANE}, column {place % TMEM_LANE}"
        case "shared":
            return f"element {place}, bank {place * region.dtype.bits // BANK_BITS % BANKS}"
    return f"element {place}"
