"""Which registers of a warp's lanes are tiles of a product: the digits that acc, a and b share along m, n and k.

Lane 4g + t holds row g of A and of the accumulator, column g of B, and the t-th registers along k and n. Rows, columns
and steps of k may come in any order, as long as the operands that share a dimension agree on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ...errors import LayoutError
from ...ir.nodes import Region
from ...isa.mma import MMA_M, MMA_N, Mma
from ...target import WARP
from .placement import Side, Step, Stride, Thread, side
from .schedule import Atom, refine, split

__all__ = ["ACC", "A", "B", "Fragments", "need_lanes", "nearest", "share"]

#: the operands' columns in digits
ACC, A, B = range(3)

_NAMES = ("acc", "a", "b")

#: (distance of lanes, number of lanes) of dimensions 0 and 1 of each operand: rows or columns g, and registers t
_G, _T = (4, 8), (1, 4)
_LANES = ((_G, _T), (_G, _T), (_T, _G))


@dataclass(frozen=True, slots=True)
class Fragments:
    """How far steps lead in the registers of (acc, a, b), in elements.

    m, n, k: the digits of tiles, slowest first. row: to the tile's lower 8 rows. pair: to the accumulator's next
    column. half: to the instruction's upper half of k; 0 where it has one.
    """

    m: tuple[Atom, ...]
    n: tuple[Atom, ...]
    k: tuple[Atom, ...]
    row: tuple[int, int, int]
    pair: int
    half: tuple[int, int, int]


# ---- one operand ----------------------------------------------------------------------------------------------


def need_lanes(given: Side, column: int) -> None:
    """Raise LayoutError where a dimension of operand `column` isn't spread over the lanes that a fragment has."""
    for dim, (distance, count) in enumerate(_LANES[column]):
        steps = [s for s in given.dims[dim] if isinstance(s.stride, Thread)]
        wanted = {distance << bit for bit in range(count.bit_length() - 1)}
        found: set[int] = set()
        for step in steps:
            bits = _lane_bits(step)
            if bits is None or not bits <= wanted:
                raise LayoutError(_in_the_way(given, column, dim, _shown(step), f"{count}:{distance}@laneid"))
            found |= bits
        if found != wanted:
            shown = ", ".join(map(_shown, steps)) or "no lanes"
            raise LayoutError(_in_the_way(given, column, dim, shown, f"{count}:{distance}@laneid"))


def _in_the_way(given: Side, column: int, dim: int, shown: str, wanted: str) -> str:
    name = given.buffer.name
    which = name if name == _NAMES[column] else f"{_NAMES[column]} ({name})"
    return f"{which} is no fragment: dimension {dim} goes along {shown}; needs lanes {wanted}"


def _lane_bits(step: Step) -> set[int] | None:
    """The distances among lanes that a step's binary digits lead, None where they aren't powers of two."""
    assert isinstance(step.stride, Thread)
    first, extent = step.stride.stride, step.extent
    if first >= WARP:
        return set()
    if first & (first - 1) or extent & (extent - 1):
        return None
    return {first << bit for bit in range(extent.bit_length() - 1) if first << bit < WARP}


def _shown(step: Step) -> str:
    if not isinstance(step.stride, Thread):
        return f"{step.extent}:{step.stride}"
    stride = step.stride.stride
    return f"{step.extent}:{stride}@laneid" if stride < WARP else f"{step.extent}:{stride // WARP}@warpid"


# ---- the operands together ------------------------------------------------------------------------------------


def share(sides: tuple[Side, Side, Side], form: Mma) -> Fragments:
    """The digits of all three.

    accepts: sides that `need_lanes` accepts, owned by whole warps.
    raises: LayoutError where two of them disagree on a dimension, or elements don't lie together in registers.
    """
    rows = _along("m", sides, (ACC, 0), (A, 0))
    columns = _along("n", sides, (ACC, 1), (B, 1))
    depth = _without_packs(_along("k", sides, (A, 1), (B, 0)), sides, form)
    pair, columns = _without_pair(columns, sides[ACC], form)
    _need_words(sides, (*rows, *columns, *depth), form)
    row, rows = _halved(rows, "8 more rows in registers")
    half, depth = _halved(depth, f"{form.k} steps of k in registers") if form.halves == 2 else ((0, 0, 0), depth)
    return Fragments(tuple(rows), tuple(columns), tuple(depth), row, pair, half)


def _along(name: str, sides: Sequence[Side], first: tuple[int, int], second: tuple[int, int]) -> list[Atom]:
    """The digits of a dimension that aren't of threads in both operands, their strides in all three columns.

    first, second: (column, dimension) of the operands that have it.
    """
    places = (first, second)
    x, y = (sides[column] for column, _ in places)
    views = [
        replace(s, shape=(s.shape[dim],), places=(s.places[dim],), dims=(s.dims[dim],))
        for s, (_, dim) in zip((x, y), places, strict=True)
    ]
    found: list[Atom] = []
    for atom in refine(views):
        if atom.is_folded:
            raise LayoutError(f"{x.buffer.name} and {y.buffer.name} split {name} so that no tile is common")
        p, q = atom.strides
        if _is_threads(name, p, q):
            continue
        if isinstance(p, Thread) or (isinstance(q, Thread) and not _is_pair(name, atom)):
            raise LayoutError(_disagree(name, x, y, atom))
        strides: list[Stride] = [0, 0, 0]
        strides[first[0]], strides[second[0]] = p, q
        found.append(replace(atom, strides=tuple(strides)))
    return found


def _is_threads(name: str, p: Stride, q: Stride) -> bool:
    """Whether a digit is one of threads, on which both operands agree.

    Along n, columns 2t and 2t + 1 are with lane t in the accumulator, and with lanes 8t and 8t + 4 in B.
    """
    if not isinstance(p, Thread) or not isinstance(q, Thread):
        return False
    if name == "k":
        return p == q and p.stride < WARP
    return q.stride == (8 if name == "n" and p.stride < WARP else 1) * p.stride


def _is_pair(name: str, atom: Atom) -> bool:
    """Whether a digit along n tells columns 2t and 2t + 1 apart."""
    return name == "n" and atom.extent == 2 and atom.strides[1] == Thread(4)


def _disagree(name: str, x: Side, y: Side, atom: Atom) -> str:
    p, q = (_shown(Step(atom.extent, s)) for s in atom.strides)
    where = atom.strides[0]
    if name == "k" and isinstance(where, Thread) and where.stride >= WARP:
        return f"k goes along {p} in {x.buffer.name}: each warp has a part of every sum"
    return f"{x.buffer.name} and {y.buffer.name} don't agree on {name}: it goes along {p} in one, {q} in the other"


def _without_pair(atoms: list[Atom], acc: Side, form: Mma) -> tuple[int, list[Atom]]:
    """How far a lane's two columns lie apart in the accumulator, and the digits of n without this one."""
    (pair,) = (a for a in atoms if isinstance(a.strides[B], Thread))
    step = pair.strides[ACC]
    assert isinstance(step, int)
    if form.acc_pack == 2 and step != 1:
        raise LayoutError(
            f"a lane's columns 2t and 2t + 1 of {acc.buffer.name} lie {step} registers apart; needs 1, a 32-bit pair"
        )
    return step, [a for a in atoms if a is not pair]


def _without_packs(atoms: list[Atom], sides: Sequence[Side], form: Mma) -> list[Atom]:
    """The digits of k without those of the elements in a 32-bit register."""
    rest, packed = list(atoms), 1
    while packed < form.pack:
        at = next((i for i, a in enumerate(rest) if a.strides[A] == packed == a.strides[B]), None)
        taken = 0 if at is None else min(rest[at].extent, form.pack // packed)
        if at is None or rest[at].extent % taken or form.pack % (packed * taken):
            names = " and ".join(s.buffer.name for s in sides[A:])
            raise LayoutError(
                f"a 32-bit register holds {form.pack} elements that follow each other along k; in {names} {packed} do"
            )
        outer, _ = split(rest.pop(at), taken)
        rest[at:at] = [outer] if outer.extent > 1 else []
        packed *= taken
    return rest


def _need_words(sides: Sequence[Side], atoms: Sequence[Atom], form: Mma) -> None:
    """Raise LayoutError where a tile's registers don't begin at whole 32-bit registers."""
    for column, pack in ((ACC, form.acc_pack), (A, form.pack), (B, form.pack)):
        for atom in atoms:
            stride = atom.strides[column]
            if isinstance(stride, int) and stride % pack:
                raise LayoutError(
                    f"tiles of {sides[column].buffer.name} begin every {stride} elements of a lane "
                    f"({atom.extent}:{stride}); needs a multiple of {pack}, whole 32-bit registers"
                )


def _halved(atoms: list[Atom], what: str) -> tuple[tuple[int, int, int], list[Atom]]:
    """The step between an instruction's two halves of a dimension, and the digits without it."""
    even = [a for a in atoms if a.extent % 2 == 0]
    if not even:
        raise LayoutError(f"no tile has {what}")
    chosen = min(even, key=lambda a: a.weight)
    outer, half = split(chosen, 2)
    acc, a, b = half.strides
    assert isinstance(acc, int) and isinstance(a, int) and isinstance(b, int)
    left = [outer if x is chosen else x for x in atoms]
    return (acc, a, b), [x for x in left if x.extent > 1]


# ---- what would fit -------------------------------------------------------------------------------------------


def nearest(regions: tuple[Region, Region, Region], columns: Sequence[int], scope: str, threads: int) -> str:
    """The calls that make the layouts of operands `columns` that fit, with the warps as the accumulator has them."""
    (rows, columns_n), (_, depth) = regions[ACC].shape, regions[A].shape
    warps = _grid(regions[ACC], scope, threads // WARP)
    if warps is None:
        return f"{threads // WARP} warps can't share {rows} rows and {columns_n} columns in tiles of 16 by 8"
    shapes = ((rows, columns_n), (rows, depth), (depth, columns_n))
    among = "" if warps == (1, 1) else f", warps={warps}"
    among += ', scope="warpgroup"' if among and scope == "warpgroup" else ""
    calls = (f"tj.mma.layout_{'cab'[c]}({shapes[c]}, tj.{regions[c].dtype}{among})" for c in columns)
    return "what fits: " + ", ".join(f"{_NAMES[c]} layout={call}" for c, call in zip(columns, calls, strict=True))


def _grid(acc: Region, scope: str, warps: int) -> tuple[int, int] | None:
    """(warps along m, warps along n): as the accumulator has them, else those with the squarest tiles."""
    rows, columns = acc.shape
    possible = [
        (wm, warps // wm)
        for wm in range(1, warps + 1)
        if warps % wm == 0 and rows % (MMA_M * wm) == 0 and columns % (MMA_N * (warps // wm)) == 0
    ]
    own = _own_grid(acc, scope)
    if own in possible:
        return own
    return min(possible, key=lambda g: abs(rows // g[0] - columns // g[1]), default=None)


def _own_grid(acc: Region, scope: str) -> tuple[int, int] | None:
    try:
        dims = side(acc, scope).dims
    except LayoutError:
        return None
    counts = [prod(s.extent for s in dim if isinstance(s.stride, Thread) and s.stride.stride >= WARP) for dim in dims]
    return (counts[0], counts[1]) if len(counts) == 2 else None
