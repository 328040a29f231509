"""Pictures are self-contained: well-formed, in hex colours, with text that contrasts with its background."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import tilejit as tj
from tests.support.pictures import NS, lines, read
from tests.support.rendering import libraries, rendered
from tilejit.layout import Axis, R, S, Swizzle, datapath, laneid, tx
from tilejit.svg import ABSENT, INK, PAGE, QUIET, Cell, CellTable, Picture, colour_of, side_by_side, text_line


def verdict(issue: int = 0) -> Picture:
    dst = tj.operand("local", (32, 8), tj.float32, S[(32, 8) : (1 @ laneid, 1)])
    return tj.dispatch("copy", "warp", dst, tj.operand("shared", (32, 8), tj.float32), threads=32).draw(issue)


PICTURES = {
    "lanes": S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)].draw((8, 8)),
    "threads": S[(128, 64) : (1 @ tx, 1)].draw(),
    "replicas": (S[(4, 4) : (1 @ laneid, 1)] + R[8 : 4 @ laneid]).draw(),
    "banks": S[(64, 64) : (64, 1)].swizzled(Swizzle(3, 3, 3)).draw(dtype=tj.float16),
    "tensor memory": datapath("F", 64, 64, 1).draw(),
    "axes": S[(4, 4) : (1 @ Axis("a"), 1 @ Axis("b"))].draw(),
    "moves": verdict(),
    "marks": side_by_side(
        [CellTable([0], [0], (1, 1), ["<&>"], [Cell("<&>", ABSENT, "a < b & c", (), True)])], ["a > b"]
    ),
}
each_picture = pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)

HEX = re.compile(r"#[0-9a-f]{6}")
DRAWN = {f"{NS}{name}" for name in ("rect", "text")}


def elements(picture: Picture) -> Iterator[ElementTree.Element]:
    yield from read(picture.svg).iter()


@each_picture
def test_every_shape_has_colours_of_its_own_in_hex(picture: Picture) -> None:
    for element in elements(picture):
        if element.tag in DRAWN:
            assert HEX.fullmatch(element.attrib["fill"])
        if "stroke" in element.attrib:
            assert HEX.fullmatch(element.attrib["stroke"])


@each_picture
def test_nothing_is_asked_of_the_page(picture: Picture) -> None:
    assert {element.tag.removeprefix(NS) for element in elements(picture)} <= {"svg", "rect", "text", "g", "title"}
    for element in elements(picture):
        assert not {"style", "class", "id"} & element.attrib.keys()
        assert not any(re.search(r"var\(|url\(|currentColor|hsl|rgb", value) for value in element.attrib.values())


@each_picture
def test_the_background_covers_the_picture_and_comes_first(picture: Picture) -> None:
    root = read(picture.svg)
    size = {name: root.attrib[name] for name in ("width", "height")}
    assert root[0].attrib == {"x": "0", "y": "0", "fill": PAGE, **size}
    assert root.attrib["viewBox"] == f"0 0 {size['width']} {size['height']}"


@each_picture
def test_all_shapes_lie_within_the_picture(picture: Picture) -> None:
    for element in elements(picture):
        if element.tag in DRAWN:
            x, y = float(element.attrib["x"]), float(element.attrib["y"])
            right, foot = (float(element.attrib.get(name, 0)) for name in ("width", "height"))
            assert 0 <= x <= x + right <= picture.width and 0 <= y <= y + foot <= picture.height
        if element.tag == f"{NS}text":
            # 0.62 of the size is what a letter takes
            width = len(element.text or "") * 6.2
            left = x - {"start": 0, "middle": width / 2, "end": width}[element.attrib["text-anchor"]]
            assert left >= 0 and left + width <= picture.width + 1, element.text


def luminance(colour: str) -> float:
    """source: WCAG 2.2, "relative luminance"."""
    levels = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in levels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


LIGHT, DARK = (1.0, 1.0, 1.0), (0.07, 0.07, 0.07)


@each_picture
def test_librsvg_draws_it_the_same_on_a_light_and_on_a_dark_page(picture: Picture) -> None:
    """With the page's colour in its corners, every colour of its cells, and ink where there are words."""
    if libraries() is None:
        pytest.skip("no librsvg here")
    light, dark = (rendered(picture, page) for page in (LIGHT, DARK))
    assert np.array_equal(light, dark)
    seen = {"#" + bytes(pixel).hex() for pixel in np.unique(light.reshape(-1, 3), axis=0)}
    fills = {rect.attrib["fill"] for rect in read(picture.svg).iter(f"{NS}rect")}
    assert fills <= seen
    corners = {"#" + bytes(light[y, x]).hex() for y in (0, -1) for x in (0, -1)}
    assert corners == {PAGE}
    assert len(seen) > len(fills) + 10, "no letters: they have edges of many colours"


def test_the_contrast_is_computed_as_the_guidelines_have_it() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@each_picture
def test_every_word_contrasts_with_its_background(picture: Picture) -> None:
    backgrounds: list[tuple[float, float, float, float, str]] = []
    for element in elements(picture):
        if element.tag == f"{NS}rect":
            x, y, width, height = (float(element.attrib[name]) for name in ("x", "y", "width", "height"))
            backgrounds.append((x, y, x + width, y + height, element.attrib["fill"]))
        elif element.tag == f"{NS}text":
            # the middle of the letters, above their foot
            x, y = float(element.attrib["x"]), float(element.attrib["y"]) - 3
            *_, fill = (fill for x0, y0, x1, y1, fill in backgrounds if x0 <= x <= x1 and y0 <= y <= y1)
            assert contrast(element.attrib["fill"], fill) >= 4.5, (element.text, element.attrib["fill"], fill)


def test_words_contrast_with_every_colour_and_with_the_page() -> None:
    assert min(contrast(INK, colour_of(number)) for number in range(-64, 2048)) >= 4.5
    assert min(contrast(INK, PAGE), contrast(INK, ABSENT), contrast(QUIET, PAGE)) >= 4.5


def test_owners_of_a_cta_have_different_colours() -> None:
    assert len({colour_of(number) for number in range(256)}) == 256
    assert colour_of(0) == "#efb3b3"
    assert not {PAGE, ABSENT} & {colour_of(number) for number in range(1024)}


def test_what_xml_has_other_uses_for_is_escaped() -> None:
    svg = PICTURES["marks"].svg
    assert "&lt;&amp;&gt;" in svg and "a &lt; b &amp; c" in svg
    assert lines(svg) == ["0", "<&>", "a > b"]


def test_a_long_line_is_broken_at_blanks() -> None:
    long = "word " * 60 + "end"
    drawn = lines(side_by_side([CellTable([0], [0], (1, 1), ["0"], [Cell("1", ABSENT, "(0, 0)")])], [long]).svg)
    assert len(drawn) > 4 and " ".join(drawn[2:]) == long


def test_every_table_says_what_it_leaves_out_and_shows_the_gaps() -> None:
    cell = Cell("1", ABSENT, "(0, 0)")
    table = CellTable([0, 1, 9], [0, 4], (10, 5), ["0", "1", "9"], [cell] * 6, "A: tile")
    drawn = lines(side_by_side([table], []).svg)
    assert " ".join(drawn).endswith("A: tile: 3 of 10 rows, 2 of 5 columns; … marks those left out")
    assert drawn.count("…") == 2
    whole, cut = (side_by_side([CellTable([0, 1], [0], (n, n - 1), ["0", "1"], [cell] * 2)], []) for n in (2, 3))
    assert lines(whole.svg).count("…") == 0 and lines(cut.svg).count("…") == 2 and cut.height > whole.height


def test_a_picture_is_saved_as_a_file(tmp_path: Path) -> None:
    picture = Picture(10, 10, (text_line(1, 9, "µ…"),))
    picture.save(str(tmp_path / "picture.svg"))
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8") == picture.svg == picture._repr_svg_()
