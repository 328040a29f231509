"""Pictures of the elements that a warp moves in one issue, for each input and for the destination."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..dataclass import dataclass
from ..errors import DispatchError
from ..ir.nodes import Region, TileOp
from ..layout.draw import BANK_BITS, BANKS, around
from ..layout.iters import digits
from ..svg import ABSENT, Cell, CellTable, Picture, colour_of, side_by_side
from ..target import TMEM_LANE, WARP
from ..wording import counted
from .plans import Array, Plan, launch_values
from .proof.places import key_of, keys

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
    *earlier, (step, inner) = plan.stages(op)
    number = issue
    for stage in earlier:
        count = stage[1].facts().rounds
        if number < count:
            step, inner = stage
            break
        number -= count
    moves = inner.moves()
    if moves is None:
        raise DispatchError(
            f"{variant} doesn't move the elements of {step.name} one by one, so there are no moves to draw",
            hint="draw the layouts of its tiles",
        )
    count = int(moves.issue.max(initial=-1)) + 1
    issues = plan.facts().rounds if earlier else count
    if not 0 <= number < max(count, 1):
        raise DispatchError(
            f"{variant} has {counted(issues, 'issue')}, numbered from 0; got issue {issue}", hint="choose one of these"
        )
    threads, places = moves.elements(number)
    here = threads[:, 0] // WARP == warp
    leader = min(threads[here, 0].tolist(), default=-1)
    dst, *inputs = step.tiles.values()
    values = launch_values((dst, *inputs))
    panels = [
        Panel.of(region, keys(region, step.scope, values), threads[here, k], places[here, k], leader)
        for k, region in ((*enumerate(inputs, 1), (0, dst)))
    ]
    instructions = ", ".join(name for name, _ in inner.instructions)
    labels = "; ".join(dict.fromkeys(panel.legend for panel in panels))
    borders = f"borders: all that thread {leader} moves" if leader >= 0 else "this warp moves nothing in this issue"
    return side_by_side([panel.table() for panel in panels], [
        f"{op.scope}.{op.name} by {variant}: {instructions}, issue {issue} of {issues}, warp {warp}",
        f"labels: {labels}; {borders}",
        *(f"{region.buffer.name}: {region.buffer.layout!r}" for region in (*inputs, dst)),
    ])


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
    def of(region: Region, held: Array, threads: Array, places: Array, leader: int) -> Panel:
        """Return the panel of a tile. held: the keys of its elements' places, of shape (replicas, elements)."""
        rows: dict[int, list[int]] = {}
        for row, key in enumerate(key_of(region, threads, places).tolist()):
            rows.setdefault(key, []).append(row)
        moves = list(zip(threads.tolist(), places.tolist(), strict=True))
        visits: dict[int, list[Visit]] = {}
        for element, copies in enumerate(held.T.tolist()):
            visited = sorted([row for key in dict.fromkeys(copies) for row in rows.get(key, ())])
            if visited:
                visits[element] = [moves[row] for row in visited]
        return Panel(region, visits, leader)

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
