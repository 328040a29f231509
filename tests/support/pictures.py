"""What a picture's SVG says, read back from its text."""

from __future__ import annotations

import ast
from xml.etree import ElementTree

from tilejit.dataclass import dataclass

NS = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True, slots=True)
class DrawnCell:
    """One cell. index: the element's. place: the rest of its title. stripes: colours of further places."""

    label: str
    fill: str
    index: tuple[int, ...]
    place: str
    stripes: tuple[str, ...]


def read(svg: str) -> ElementTree.Element:
    """The picture as XML; ElementTree refuses what isn't well-formed."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{NS}svg"
    return root


def cells(svg: str) -> list[DrawnCell]:
    """All cells, those of the first table first, row by row."""
    return [_cell(group) for group in read(svg).iter(f"{NS}g")]


def _cell(group: ElementTree.Element) -> DrawnCell:
    title, text = group.find(f"{NS}title"), group.find(f"{NS}text")
    assert title is not None and title.text and text is not None
    first, *others = (rect.attrib["fill"] for rect in group.iter(f"{NS}rect"))
    index, _, place = title.text.partition(": ")
    return DrawnCell(text.text or "", first, ast.literal_eval(index), place, tuple(others))


def lines(svg: str) -> list[str]:
    """All text outside of cells: headings, then the lines below."""
    return [text.text or "" for text in read(svg).findall(f"{NS}text")]
