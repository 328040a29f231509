"""A layout as an SVG grid: who holds each element, or in which bank it lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ..dataclass import dataclass
from . import places
from .arguments import extents, integer

if TYPE_CHECKING:
    from .tile_layout import TileLayout

__all__ = ["Cell", "cells", "svg"]

_BANKS = 32
_BANK_BITS = 32
_WIDTH, _HEIGHT, _MARGIN = 44, 20, 28
_MOST_ROWS, _MOST_COLUMNS = 64, 64


@dataclass(frozen=True, slots=True)
class Cell:
    """One element as drawn. owner: what decides its colour. title: shown under the pointer."""

    label: str
    owner: int
    title: str


def svg(layout: TileLayout, shape: Sequence[int] | None = None, bits: int = 32) -> str:
    """The tile as a grid of at most 64 rows by 64 columns, coloured by owner.

    shape: the tile's; dimensions before the last are folded into rows. bits: of an element, for banks.
    """
    bits = integer(bits, "an element's bits", "such as 32", least=1)
    rows, columns = _grid(layout, shape)
    drawn = cells(layout, bits)
    shown = (min(rows, _MOST_ROWS), min(columns, _MOST_COLUMNS))
    body = [_heading(f"{c}", _MARGIN + (c + 0.5) * _WIDTH, _MARGIN - 8) for c in range(shown[1])]
    for r in range(shown[0]):
        body.append(_heading(f"{r}", _MARGIN / 2, _MARGIN + (r + 0.7) * _HEIGHT))
        body += [_box(drawn[r * columns + c], r, c) for c in range(shown[1])]
    width, height = _MARGIN + shown[1] * _WIDTH + 4, _MARGIN + shown[0] * _HEIGHT + 24
    caption = repr(layout)
    if shown != (rows, columns):
        caption += f": {shown[0]} of {rows} rows, {shown[1]} of {columns} columns"
    body.append(f'<text class="caption" x="4" y="{height - 8}" text-anchor="start">{escape(caption)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="monospace" font-size="10" text-anchor="middle">' + "".join(body) + "</svg>"
    )


def cells(layout: TileLayout, bits: int = 32) -> list[Cell]:
    """Every element in flat order.

    A label is `thread:register` where threads own the tile, `lane:column` in tensor memory, else the
    shared-memory bank of the element's first byte. A replicated element shows its first owner and a +.
    """
    fused = layout.canonical()
    axis = places.thread_axis(fused)
    table = fused.map_all()
    rows = {name: t if fused.replica else t[None, :] for name, t in table.items()}
    if axis is None and "TLane" in rows:
        first, second, form = "TLane", "TCol", "TMEM lane {}, column {}"
    else:
        first, second, form = (axis.name if axis else ""), "m", f"{axis}" + " {}, register {}"
    result = []
    for x in range(layout.size()):
        owners = [
            tuple(int(rows[name][k, x]) if name in rows else 0 for name in (first, second))
            for k in range(len(next(iter(rows.values()))))
        ]
        result.append(_bank(owners[0][1], bits) if not first else _owned(owners, form))
    return result


def _owned(owners: Sequence[tuple[int, ...]], form: str) -> Cell:
    a, b = owners[0]
    return Cell(f"{a}:{b}" + "+" * (len(owners) > 1), a, "; ".join(form.format(*o) for o in owners))


def _bank(address: int, bits: int) -> Cell:
    bank = address * bits // _BANK_BITS % _BANKS
    return Cell(str(bank), bank, f"element {address}, bank {bank}")


def _grid(layout: TileLayout, shape: Sequence[int] | None) -> tuple[int, int]:
    """Rows and columns; with no shape given, the split of the shard's extents nearest to a square."""
    if shape is not None:
        shape = extents(shape)
        layout.map_all(shape)
        return (math.prod(shape[:-1]), shape[-1]) if shape else (1, 1)
    radices = layout.shape
    if len(radices) < 2:
        return 1, layout.size()
    splits = [(math.prod(radices[:k]), math.prod(radices[k:])) for k in range(1, len(radices))]
    return min(splits, key=lambda s: abs(math.log(s[0] / s[1])))


def _heading(text: str, x: float, y: float) -> str:
    return f'<text class="heading" x="{x:g}" y="{y:g}" fill="#777">{text}</text>'


def _box(cell: Cell, row: int, column: int) -> str:
    x, y = _MARGIN + column * _WIDTH, _MARGIN + row * _HEIGHT
    # The golden angle keeps neighbouring owners' hues far apart.
    hue = cell.owner * 137.508 % 360
    return (
        f'<g class="cell"><title>({row}, {column}): {escape(cell.title)}</title>'
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" fill="hsl({hue:.0f},65%,82%)" stroke="#fff"/>'
        f'<text x="{x + _WIDTH / 2:g}" y="{y + _HEIGHT * 0.7:g}">{escape(cell.label)}</text></g>'
    )
