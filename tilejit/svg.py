"""Pictures as SVG text: boxes, lines of text and tables of cells.

Colors, including the background's, are fixed: a picture looks the same on all pages, and without style sheets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .dataclass import dataclass, field
from .files import write_whole

#: colors of the background, text, secondary text, borders of cells, and empty cells
PAGE, INK, QUIET, EDGE, ABSENT = "#ffffff", "#1b1f24", "#57606a", "#ffffff", "#eaeef2"

_FONT_SIZE = 10
#: assumed width of a character of a monospaced font, relative to the font size
_LETTER = 0.62
_LINE, _MARGIN = 15, 8
_ROW, _GAP, _STRIPE = 20, 14, 4
_LEAST_COLUMN, _LEAST_WIDTH = 22, 420

#: multiples of the golden angle separate the hues of consecutive numbers; lightness distinguishes hues that are close
_GOLDEN_ANGLE, _SATURATION, _LIGHTNESS = 137.508, 0.65, (0.82, 0.74, 0.88)


def colour_of(number: int) -> str:
    """Return a light color for a number; the colors of 0 to 255 are distinct.

        colour_of(0)     '#efb3b3'
    """
    hue = number * _GOLDEN_ANGLE % 360 / 30
    lightness = _LIGHTNESS[number // 32 % len(_LIGHTNESS)]
    reach = _SATURATION * min(lightness, 1 - lightness)
    # source: CSS Color 4, "Converting HSL Colors to sRGB"
    ramps = (k for k in ((shift + hue) % 12 for shift in (0, 8, 4)))
    levels = (lightness - reach * max(-1, min(k - 3, 9 - k, 1)) for k in ramps)
    return "#" + "".join(f"{round(255 * level):02x}" for level in levels)


def box(x: float, y: float, width: float, height: float, fill: str, edge: str = "") -> str:
    """Return the SVG element of a filled rectangle. edge: the color of its border, "" for no border."""
    stroke = f' stroke="{edge}"' if edge else ""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"{stroke}/>'


def text_line(x: float, y: float, text: str, fill: str = INK, anchor: str = "middle") -> str:
    """Return a line of text. y: its baseline. anchor: the part of the text at `x`, "start", "middle" or "end"."""
    return f'<text x="{x:g}" y="{y:g}" fill="{fill}" text-anchor="{anchor}">{_escaped(text)}</text>'


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that notebooks display and that can be saved as an SVG file.

    Example:
        picture = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)].draw((8, 8))
        assert picture.svg.startswith("<svg")
    """

    width: float
    height: float
    #: SVG elements in drawing order, without the background
    shapes: tuple[str, ...] = field(repr=False)

    @property
    def svg(self) -> str:
        """The text of an SVG file."""
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        font = f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{_FONT_SIZE}"'
        body = "".join((box(0, 0, self.width, self.height, PAGE), *self.shapes))
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>{body}</svg>'

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str) -> None:
        """Write the SVG text to a file. raises: OSError if the file can't be written."""
        write_whole(path, self.svg.encode())


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table. title: the tooltip. stripes: colors along the bottom. marked: draw a dark border."""

    label: str
    fill: str
    title: str
    stripes: tuple[str, ...] = ()
    marked: bool = False

    def drawn(self, x: float, y: float, width: float) -> str:
        boxes = [box(x, y, width, _ROW, self.fill, EDGE)]
        each = width / max(len(self.stripes), 1)
        foot = y + _ROW - _STRIPE
        boxes += [box(x + k * each, foot, each, _STRIPE, fill, EDGE) for k, fill in enumerate(self.stripes)]
        if self.marked:
            # four bars, because the next cells would cover parts of a border drawn by `stroke`
            ends = ((x, y, width, 2), (x, y + _ROW - 2, width, 2), (x, y, 2, _ROW), (x + width - 2, y, 2, _ROW))
            boxes += [box(left, top, wide, high, INK) for left, top, wide, high in ends]
        label = text_line(x + width / 2, y + 13, self.label)
        return f"<g><title>{_escaped(self.title)}</title>{''.join(boxes)}{label}</g>"


@dataclass(frozen=True, slots=True)
class CellTable:
    """A table of cells that may omit rows and columns, with "…" in their place."""

    #: the indices of the rows and columns shown
    rows: Sequence[int]
    columns: Sequence[int]
    #: the total numbers of rows and columns, including omitted ones
    of: tuple[int, int]
    row_names: Sequence[str]
    #: the cells shown, in row-major order
    cells: Sequence[Cell]
    heading: str = ""

    @property
    def side(self) -> float:
        return _width(max(map(len, (*self.row_names, "…")))) + 6

    @property
    def column(self) -> float:
        labels = (*(cell.label for cell in self.cells), *map(str, self.columns))
        return max(_LEAST_COLUMN, round(_width(max(map(len, labels)))) + 8)

    @property
    def left_out(self) -> str:
        """A note on the omitted rows and columns, "" if there are none."""
        shown = len(self.rows), len(self.columns)
        if shown == self.of:
            return ""
        what = f"{shown[0]} of {self.of[0]} rows, {shown[1]} of {self.of[1]} columns"
        return f"{self.heading}{': ' if self.heading else ''}{what}; … marks those left out"

    def width(self) -> float:
        return max(self.side + _places(self.columns, self.of[1], self.column)[2], _width(len(self.heading)))

    def height(self) -> float:
        return self.top + _places(self.rows, self.of[0], _ROW)[2]

    @property
    def top(self) -> float:
        return _LINE * (2 if self.heading else 1)

    def shapes(self, x: float, y: float) -> Iterator[str]:
        """Yield the shapes of the table, with its upper left corner at (x, y)."""
        left, top, column = x + self.side, y + self.top, self.column
        across, gaps_across, _ = _places(self.columns, self.of[1], column)
        down, gaps_down, _ = _places(self.rows, self.of[0], _ROW)
        if self.heading:
            yield text_line(x, y + 10, self.heading, INK, "start")
        for number, at in zip(self.columns, across, strict=True):
            yield text_line(left + at + column / 2, top - 4, str(number), QUIET)
        for at in gaps_across:
            yield text_line(left + at - _GAP / 2, top - 4, "…", QUIET)
        for name, at in zip(self.row_names, down, strict=True):
            yield text_line(left - 4, top + at + 13, name, QUIET, "end")
        for at in gaps_down:
            yield text_line(left - 4, top + at - _GAP / 2 + 2, "…", QUIET, "end")
        cells = iter(self.cells)
        for r in down:
            for c in across:
                yield next(cells).drawn(left + c, top + r, column)


def side_by_side(tables: Sequence[CellTable], captions: Iterable[str]) -> Picture:
    """Return a picture of tables side by side, with captions and notes on omissions below."""
    captions = (*captions, *(table.left_out for table in tables if table.left_out))
    shapes: list[str] = []
    x: float = _MARGIN
    for table in tables:
        shapes += table.shapes(x, _MARGIN)
        x += table.width() + 3 * _MARGIN
    width = max(x - 2 * _MARGIN, _LEAST_WIDTH)
    y = _MARGIN + max(table.height() for table in tables) + _LINE
    letters = int((width - 2 * _MARGIN) / _width(1))
    lines = [line for caption in captions for line in _wrapped(caption, letters)]
    shapes += [text_line(_MARGIN, y + k * _LINE, line, INK, "start") for k, line in enumerate(lines)]
    return Picture(width, y + (len(lines) - 1) * _LINE + _MARGIN, tuple(shapes))


def _width(letters: int) -> float:
    return letters * _LETTER * _FONT_SIZE


def _places(numbers: Sequence[int], total: int, size: float) -> tuple[list[float], list[float], float]:
    """Return the starts of rows or columns, the ends of the gaps for omitted ones, and the total size.

    numbers: the indices shown, of `total`. size: the height of a row or the width of a column.
    """
    places: list[float] = []
    gaps: list[float] = []
    at: float = 0
    for number, following in zip(numbers, (*numbers[1:], total), strict=True):
        places.append(at)
        at += size
        if following != number + 1:
            at += _GAP
            gaps.append(at)
    return places, gaps, at


def _wrapped(text: str, letters: int) -> list[str]:
    """Break text at spaces into lines of at most `letters` characters; a longer word is a line of its own."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > letters:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
