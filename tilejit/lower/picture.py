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
from ..svg import ABSENT, Cell, CellTable, Picture, beside, colour_of
from ..target import TMEM_LANE, WARP
from .proof.places import Contents, each_element
from .schedule.launch import launch_values
from .variant import Array, Moves, Passes, Plan, Staged

__all__ = ["draw_issue"]

_MOST_ROWS, _MOST_COLUMNS = 32, 16
#: of an element that several threads move, so many more are shown
_MOST_COPIES = 4

#: (thread, place) of one element
Visit = tuple[int, int]


def draw_issue(op: TileOp, variant: str, plan: Plan, issue: int, warp: int) -> Picture:
    """The elements that a warp moves in one issue, in each of the operation's tiles, coloured by thread."""
    step, inner, number = _step(op, plan, issue)
    moved = MovedElements.of(step, inner, variant)
    if not 0 <= number < moved.issues:
        count = _issues(plan, moved)
        raise DispatchError(f"no issue {issue}: {variant} has {count}", hint=f"give a number from 0 to {count - 1}")
    (dst, *inputs), here = moved.sides, (moved.issue == number) & (moved.threads[:, 0] // WARP == warp)
    leader = int(moved.threads[here, 0].min()) if here.any() else -1
    values = launch_values(tuple(step.tiles.values()))
    tables = [
        _table(Contents.of(region, step.scope, values), moved.threads[here, k], moved.places[here, k], leader)
        for k, region in ((*enumerate(inputs, 1), (0, dst)))
    ]
    instructions = ", ".join(name for name, _ in inner.instructions)
    return beside(tables, [
        f"{op.scope}.{op.name} by {variant}: {instructions}, issue {issue} of {_issues(plan, moved)}, warp {warp}",
        *([] if here.any() else ["this warp moves nothing in it"]),
        "labels: thread, and thread:register of a local tile; thread,lane,column of tensor memory; "
        f"borders: all that thread {leader} moves",
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


def _table(side: Contents, threads: Array, places: Array, leader: int) -> CellTable:
    """One tile, with what is moved to or from it."""
    region = side.region
    shape = region.shape or (1,)
    visits: dict[int, list[Visit]] = {}
    held = side.held(side.keys(threads, places))
    for element, thread, place in zip(held.tolist(), threads.tolist(), places.tolist(), strict=True):
        # -1 is padding
        if element >= 0 and (thread, place) not in visits.setdefault(element, []):
            visits[element].append((thread, place))
    elements = sorted(visits)
    rows = around(sorted({e // shape[-1] for e in elements}), prod(shape[:-1]), _MOST_ROWS)
    columns = around(sorted({e % shape[-1] for e in elements}), shape[-1], _MOST_COLUMNS)
    names = [",".join(map(str, digits(row, shape[:-1]))) or "0" for row in rows]
    cells = [
        _cell(region, digits(row * shape[-1] + c, shape), visits.get(row * shape[-1] + c, ()), leader)
        for row in rows
        for c in columns
    ]
    heading = f"{region.buffer.name}: {region.buffer.space} {region.dtype}{list(region.shape)}"
    return CellTable(rows, columns, (prod(shape[:-1]), shape[-1]), names, cells, heading)


def _cell(region: Region, index: tuple[int, ...], visits: Sequence[Visit], leader: int) -> Cell:
    if not visits:
        return Cell("", ABSENT, f"{index}")
    (thread, place), *others = visits
    label = f"{thread}{_behind(region, place)}" + "+" * bool(others)
    title = "; ".join(f"thread {t}, {_place(region, p)}" for t, p in visits[:_MOST_COPIES])
    stripes = tuple(colour_of(t) for t, _ in others[:_MOST_COPIES])
    is_marked = any(t == leader for t, _ in visits)
    return Cell(label, colour_of(thread), f"{index}: {title}", stripes, is_marked)


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
