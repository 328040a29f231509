"""What one instruction moves, as a picture: the inputs' elements beside those of the destination."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..dataclass import dataclass
from ..errors import DispatchError
from ..ir.nodes import Region, TileOp
from ..layout.abridged import around
from ..layout.draw import BANK_BITS, BANKS
from ..layout.iters import digits
from ..svg import ABSENT, Cell, CellTable, Picture, colour_of, side_by_side
from ..target import TMEM_LANE, WARP
from .plans import Array, Moves, Passes, Plan, Staged
from .proof.places import Contents, each_element
from .schedule.launch_values import launch_values

__all__ = ["draw_issue"]

_MOST_ROWS, _MOST_COLUMNS = 32, 24
#: of which fewer columns are shown, so that a screen has room for two
_WIDE, _FEWER_COLUMNS = 620, 16
#: rows or columns in which nothing is moved, beside those in which something is, and how many there are at least
_BESIDE, _LEAST = 2, 8
#: of an element that several threads move, so many are said, and as many others shown
_MOST_COPIES = 4

#: (thread, place) of one element
Visit = tuple[int, int]


def draw_issue(op: TileOp, variant: str, plan: Plan, issue: int, warp: int) -> Picture:
    """The elements that a warp moves in one issue, in each of the operation's tiles, coloured by thread."""
    step, inner, number = _step(op, plan, issue)
    moved = MovedElements.of(step, inner, variant)
    if not 0 <= number < max(moved.issues, 1):
        count = _issues(plan, moved)
        raise DispatchError(f"no issue {issue}: {variant} has {count}", hint=f"give a number from 0 to {count - 1}")
    (dst, *inputs), here = moved.sides, (moved.issue == number) & (moved.threads[:, 0] // WARP == warp)
    leader = min(moved.threads[here, 0].tolist(), default=-1)
    values = launch_values(tuple(step.tiles.values()))
    panels = [
        Panel.of(Contents.of(region, step.scope, values), moved.threads[here, k], moved.places[here, k], leader)
        for k, region in ((*enumerate(inputs, 1), (0, dst)))
    ]
    instructions = ", ".join(name for name, _ in inner.instructions)
    labels = "; ".join(dict.fromkeys(panel.legend for panel in panels))
    borders = f"borders: all that thread {leader} moves" if leader >= 0 else "this warp moves nothing in it"
    return side_by_side([panel.table() for panel in panels], [
        f"{op.scope}.{op.name} by {variant}: {instructions}, issue {issue} of {_issues(plan, moved)}, warp {warp}",
        f"labels: {labels}; {borders}",
        *(f"{region.buffer.name}: {region.buffer.layout!r}" for region in (*inputs, dst)),
    ])


def _step(op: TileOp, plan: Plan, issue: int) -> tuple[TileOp, Plan, int]:
    """The operation whose issue it is, of those that follow each other, and its number there."""
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
    """Each element that is moved, a row each, and its thread and place on each side, the destination first."""

    sides: tuple[Region, ...]
    issue: Array
    threads: Array
    places: Array

    @staticmethod
    def of(op: TileOp, plan: Plan, variant: str) -> MovedElements:
        """raises: DispatchError where the plan doesn't move elements one by one."""
        sides = tuple(op.tiles.values())
        match plan.moves():
            case Moves() as moves:
                issue, thread, places = each_element(moves)
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


def _passed(passes: Passes) -> tuple[Array, Array, Array]:
    """(issue, receiver and sender, the registers of both), one row an element."""
    issue, thread, step = np.indices((*passes.sent.shape, passes.width)).reshape(3, -1)
    sender = passes.sender[issue, thread]
    places = np.stack([passes.kept[issue, thread] + step, passes.sent[issue, sender] + step], axis=1)
    return issue, np.stack([thread, sender], axis=1), places


@dataclass(frozen=True, slots=True)
class Panel:
    """One tile with what is moved to or from it.

    visits: element -> who moves it; one that shares its place with others is moved as they are.
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
        # what is held in padding, -1, is no element
        named = enumerate(side.canonical().tolist())
        return Panel(side.region, {e: visits[first] for e, first in named if first in visits}, leader)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.region.shape or (1,)

    @property
    def legend(self) -> str:
        """What labels say."""
        space = self.region.buffer.space
        behind = {"local": ":register", "tmem": ",lane,column"}.get(space, "")
        return f"thread{behind} in {space} memory"

    def table(self) -> CellTable:
        table = self._of_columns(_MOST_COLUMNS)
        return table if table.width() <= _WIDE else self._of_columns(_FEWER_COLUMNS)

    def _of_columns(self, most: int) -> CellTable:
        """With at most so many columns."""
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
        label = f"{thread}{_behind(self.region, place)}" + "+" * bool(others)
        title = "; ".join(f"thread {t}, {_place(self.region, p)}" for t, p in visits[:_MOST_COPIES])
        stripes = tuple(colour_of(t) for t, _ in others[:_MOST_COPIES])
        return Cell(label, colour_of(thread), f"{index}: {title}", stripes, self.leader in [t for t, _ in visits])


def _shown(moved: Sequence[int], extent: int, most: int) -> list[int]:
    """The rows or columns with what is moved, and some others."""
    wanted = sorted(set(moved))
    return around(wanted, extent, min(most, max(_LEAST, len(wanted) + _BESIDE)))


def _behind(region: Region, place: int) -> str:
    """What a label says behind the thread."""
    if region.buffer.space == "local":
        return f":{place}"
    return f",{place // TMEM_LANE},{place % TMEM_LANE}" if region.buffer.space == "tmem" else ""


def _place(region: Region, place: int) -> str:
    """A place in words."""
    match region.buffer.space:
        case "local":
            return f"register {place}"
        case "tmem":
            return f"lane {place // TMEM_LANE}, column {place % TMEM_LANE}"
        case "shared":
            return f"element {place}, bank {place * region.dtype.bits // BANK_BITS % BANKS}"
    return f"element {place}"
