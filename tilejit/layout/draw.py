"""Pictures of layouts: the place or the shared memory bank of each element.

A picture of a large tile shows only some rows and columns. Their indices are decomposed into the layout's digits. The
first values and the last value of each digit are shown, and all values of the innermost digits if there is room. With
digits (16, 8) and at most 32 rows, these rows are shown:

    0 1 2 3 4 5 6 7 | 8 ... 15 | 16 ... 23 | … | 120 ... 127
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from ..dataclass import dataclass
from ..dtypes import as_dtype
from ..errors import LayoutError
from ..svg import Cell, CellTable, Picture, colour_of, side_by_side
from ..wording import shown
from .arguments import extents
from .axes import Axis, m
from .iters import Iter, digits, merged, refined, weights
from .places import map_at

if TYPE_CHECKING:
    from .tile_layout import TileLayout

BANKS = 32
BANK_BITS = 32
_MOST_ROWS, _MOST_COLUMNS = 32, 32
#: maximum number of digits that are abridged; if there are more, the outermost ones are merged
_MOST_DIGITS = 3
#: width of a table, in pixels, above which at most half of `_MOST_COLUMNS` are shown, to fit a screen
_WIDE = 1000
#: maximum number of stripes in a replicated element's cell, and of places in its title
_MOST_COPIES = 4
#: assumed element width in bits if no swizzle implies one
_PLAIN_BITS = 32

Coordinates = tuple[int, ...]


def draw(layout: TileLayout, shape: Sequence[int] | None = None, dtype: object = None) -> Picture:
    """Draw a tile as a table of at most 32 rows by 32 columns (16 if labels are long), colored by owner or bank.

    shape: the shape of the tile, by default two-dimensional; all dimensions but the last are folded into rows.
    dtype: the element type, which determines banks.

        S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)].draw((8, 8))
        S[(64, 64) : (64, 1)].swizzled(Swizzle(3, 3, 3)).draw(dtype=tj.float16)
    """
    labels = Labels.of(layout, _bits(layout, dtype))
    dims = _shape(layout, shape)
    fused = layout.adapted(dims).canonical()
    if fused.size() != math.prod(dims):
        layout.group(dims)  # raises a detailed error
    table = _table(fused, dims, labels, _MOST_COLUMNS)
    if table.width() > _WIDE:
        table = _table(fused, dims, labels, _MOST_COLUMNS // 2)
    return side_by_side((table,), [repr(layout), *labels.legend(layout)])


def _table(fused: TileLayout, dims: tuple[int, ...], labels: Labels, most_columns: int) -> CellTable:
    *outer, last = parts(fused, dims)
    rows, columns = kept([e for extent in outer for e in extent], _MOST_ROWS), kept(last, most_columns)
    flat = (np.array(rows)[:, None] * dims[-1] + np.array(columns)).ravel()
    names = [digits(row, dims[:-1]) for row in rows]
    indices = ((*name, column) for name in names for column in columns)
    cells = [labels.cell(*pair) for pair in zip(indices, labels.places(fused, flat), strict=True)]
    headings = [",".join(map(str, name)) or "0" for name in names]
    return CellTable(rows, columns, (math.prod(dims[:-1]), dims[-1]), headings, cells)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels and colors of places.

    owners: the axes that a label lists first, and that determine the color; empty if the bank determines both.
    memory: the axes that a label lists second. bits: the width of an element, and True if the caller stated it.
    """

    owners: tuple[Axis, ...]
    memory: tuple[Axis, ...]
    bits: tuple[int, bool]

    @staticmethod
    def of(layout: TileLayout, bits: tuple[int, bool]) -> Labels:
        axes = layout.canonical().axes()
        threads = tuple(axis for axis in axes if axis.is_thread)
        memory = tuple(axis for axis in axes if not axis.is_thread and axis.name != "m")
        if threads:
            return Labels(threads, memory or (m,), bits)
        if {axis.name for axis in axes} & {"TLane", "TCol"}:
            others = tuple(axis for axis in axes if axis.name not in ("TLane", "TCol"))
            return Labels((Axis("TLane"),), (Axis("TCol"), *others), bits)
        return Labels(memory[:1], tuple(axis for axis in axes if axis not in memory[:1]) if memory else (), bits)

    @property
    def is_banks(self) -> bool:
        return not self.owners

    def places(self, layout: TileLayout, flat: np.ndarray) -> list[list[Coordinates]]:
        """Return each flat index's distinct places: coordinates on `owners` and `memory`, or on m if both are empty."""
        table = map_at(layout, flat)
        shape = (math.prod(it.extent for it in layout.replica), flat.size)
        none = np.zeros(shape, np.int64)
        axes = (*self.owners, *self.memory) or (m,)
        columns = np.stack([table.get(axis.name, none) for axis in axes], axis=-1)
        return [list(dict.fromkeys(map(tuple, columns[:, k].tolist()))) for k in range(flat.size)]

    def cell(self, index: Coordinates, places: Sequence[Coordinates]) -> Cell:
        first, *others = places
        more = f"; {len(others) - _MOST_COPIES + 1} more" if len(others) >= _MOST_COPIES else ""
        title = "; ".join(map(self.describe, places[:_MOST_COPIES])) + more
        stripes = tuple(self.colour(place) for place in others[:_MOST_COPIES])
        return Cell(self.label(first) + "+" * bool(others), self.colour(first), f"{index}: {title}", stripes)

    def bank(self, address: int) -> int:
        return address * self.bits[0] // BANK_BITS % BANKS

    def label(self, place: Coordinates) -> str:
        if self.is_banks:
            return str(self.bank(place[0]))
        first, second = self._split(place)
        return f"{first},{second}" if self.owners[0].name == "TLane" else f"{first}:{second}"

    def _split(self, place: Coordinates) -> tuple[str, str]:
        texts = tuple(map(str, place))
        return ".".join(texts[: len(self.owners)]), ".".join(texts[len(self.owners) :])

    def colour(self, place: Coordinates) -> str:
        if self.is_banks:
            return colour_of(self.bank(place[0]))
        number = 0
        for coordinate in place[: len(self.owners)]:
            number = number * BANKS + coordinate
        return colour_of(number)

    def describe(self, place: Coordinates) -> str:
        if not self.is_banks:
            axes = (*self.owners, *self.memory)
            return ", ".join(f"{_word(axis, self)} {x}" for axis, x in zip(axes, place, strict=True))
        (address,), bits = place, self.bits[0]
        return f"element {address}, byte {address * bits // 8}, bank {self.bank(address)}"

    def legend(self, layout: TileLayout) -> list[str]:
        copies = math.prod(it.extent for it in layout.replica)
        replicas = [f"+ each element has {copies} places; the label shows the first, stripes others"] * (copies > 1)
        if not self.is_banks:
            names = [[_unit(axis) for axis in axes] for axes in (self.owners, self.memory)]
            joint = "," if self.owners[0].name == "TLane" else ":"
            return [f"{joint.join(map('.'.join, names))}, colored by {'.'.join(names[0])}", *replicas]
        bits, is_stated = self.bits
        ask = "" if is_stated else "; use draw(dtype=...) for others"
        return [f"shared memory bank, out of {BANKS}, for elements of {bits} bits{ask}", *replicas]


def _word(axis: Axis, labels: Labels) -> str:
    if axis.name == "m":
        return "register" if labels.owners[0].is_thread else "m"
    return {"TLane": "TMEM lane", "TCol": "column"}.get(axis.name, axis.name)


def _unit(axis: Axis) -> str:
    return {"laneid": "lane", "m": "register", "TLane": "lane", "TCol": "column"}.get(axis.name, axis.unit or axis.name)


def _bits(layout: TileLayout, dtype: object) -> tuple[int, bool]:
    """Return the width of an element in bits, and True if `dtype` states it.

    By default, it is 32 or, for a swizzle other than the identity with shift 3 and chunks of at most 16 elements, the
    width for which a chunk has 16 bytes.
    """
    if dtype is not None:
        element = as_dtype(dtype)
        if element is None:
            raise LayoutError(f"{shown(dtype)} is not an element type", hint="give tj.float16 or another type")
        return element.bits, True
    swizzle = layout.swizzle
    if swizzle is None or swizzle.is_identity or swizzle.shift != 3 or not 0 <= swizzle.base <= 4:
        return _PLAIN_BITS, False
    return 128 >> swizzle.base, False


def _shape(layout: TileLayout, shape: Sequence[int] | None) -> tuple[int, ...]:
    """Return `shape` if given, else two dimensions.

    Several extents of the layout are split into rows and columns as nearly square as possible; a single one is one row
    or, if it is a multiple of a swizzle's row, one or more such rows.
    """
    if shape is not None:
        return extents(shape) or (1,)
    radices, swizzle = layout.shape, layout.swizzle
    if len(radices) < 2:
        row = 1 << (swizzle.base + swizzle.shift) if swizzle is not None else layout.size()
        return (layout.size() // row, row) if layout.size() % row == 0 else (1, layout.size())
    splits = [(math.prod(radices[:k]), math.prod(radices[k:])) for k in range(1, len(radices))]
    return min(splits, key=lambda s: abs(math.log(s[0] / s[1])))


def parts(layout: TileLayout, shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the extents of the layout's digits in each dimension, split at a swizzle's chunks, rows and periods."""
    try:
        groups = refined(layout.shard, shape)
    except LayoutError:
        # some digits cross the boundaries of dimensions and would show no pattern
        return [(extent,) for extent in shape]
    return [tuple(e for it in merged(group) for e in _cut(it, layout)) or (1,) for group in groups]


def _cut(it: Iter, layout: TileLayout) -> tuple[int, ...]:
    """Split an iterator's extent where the swizzle's chunks, rows and periods end."""
    swizzle, stride = layout.swizzle, abs(it.stride)
    if swizzle is None or it.axis != m or not stride:
        return (it.extent,)
    bits = (swizzle.base, swizzle.base + swizzle.shift, swizzle.base + swizzle.shift + swizzle.bits)
    cut: list[int] = []
    outer = it.extent
    for steps in sorted({(1 << bit) // stride for bit in bits}, reverse=True):
        if 1 < steps < outer and outer % steps == 0:
            cut.append(outer // steps)
            outer = steps
    return (*cut, outer)


def kept(radices: Sequence[int], most: int) -> list[int]:
    """Return at most `most` values of an index whose digits have these radices.

        kept((16, 2), 8)     [0, 1, 2, 3, 4, 5, 30, 31]
    """
    count = math.prod(radices)
    if count <= most:
        return list(range(count))
    fewer = [radix for radix in radices if radix > 1]
    outer = len(fewer) - _MOST_DIGITS + 1
    if outer > 1:
        fewer = [math.prod(fewer[:outer]), *fewer[outer:]]
    counts = [2] * len(fewer)
    for k in reversed(range(len(fewer))):
        others = math.prod(counts) // counts[k]
        counts[k] = min(fewer[k], most // others)
    values = [_ends(extent, n) for extent, n in zip(fewer, counts, strict=True)]
    worth = weights(fewer)
    return [sum(x * w for x, w in zip(number, worth, strict=True)) for number in product(*values)]


def _ends(extent: int, count: int) -> list[int]:
    return list(range(extent)) if count == extent else [*range(count - 1), extent - 1]


def around(wanted: Sequence[int], extent: int, most: int) -> list[int]:
    """Return at most `most` indices below `extent`, sorted: those in `wanted` have priority, then the smallest."""
    first = list(wanted)[:most]
    others = (number for number in range(extent) if number not in set(first))
    return sorted([*first, *(number for number, _ in zip(others, range(most - len(first)), strict=False))])
