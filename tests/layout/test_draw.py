"""Layouts draw themselves."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from tilejit.errors import LayoutError
from tilejit.layout import R, S, Swizzle, TCol, TileLayout, TLane, laneid, svg, tmem_datapath_layout, tx, warpid
from tilejit.testing import layouts

NS = "{http://www.w3.org/2000/svg}"


def drawn(text: str) -> list[tuple[str, str, str]]:
    """(label, colour, title) of every cell in order; ElementTree refuses what isn't well-formed."""
    root = ElementTree.fromstring(text)
    assert root.tag == f"{NS}svg"
    result = []
    for group in root.iter(f"{NS}g"):
        rect, label, title = (group.find(f"{NS}{tag}") for tag in ("rect", "text", "title"))
        assert rect is not None and label is not None and title is not None
        result.append((label.text or "", rect.attrib["fill"], title.text or ""))
    return result


def test_a_register_tile_shows_lane_and_register_coloured_by_lane() -> None:
    cells = drawn(S[(4, 2) : (1 @ laneid, 1)]._repr_svg_())
    assert [label for label, _, _ in cells] == ["0:0", "0:1", "1:0", "1:1", "2:0", "2:1", "3:0", "3:1"]
    assert len({colour for _, colour, _ in cells}) == 4
    assert cells[5] == ("2:1", cells[4][1], "(2, 1): laneid 2, register 1")


def test_warps_and_lanes_show_as_threads_of_the_cta() -> None:
    cells = drawn(S[(2, 3) : (1 @ warpid, 1 @ laneid)]._repr_svg_())
    assert [label for label, _, _ in cells] == ["0:0", "1:0", "2:0", "32:0", "33:0", "34:0"]


def test_a_memory_tile_shows_banks_for_its_element_width() -> None:
    rows = S[(2, 64) : (64, 1)]
    assert [label for label, _, _ in drawn(svg(rows, bits=32))][30:34] == ["30", "31", "0", "1"]
    assert [label for label, _, _ in drawn(svg(rows, bits=16))][:4] == ["0", "0", "1", "1"]


def test_a_swizzled_column_shows_distinct_banks() -> None:
    column = drawn(svg(S[(8, 64) : (64, 1)].swizzled(Swizzle(3, 3, 3)), bits=16))[::64]
    assert [label for label, _, _ in column] == ["0", "4", "8", "12", "16", "20", "24", "28"]


def test_a_replicated_element_lists_all_its_owners() -> None:
    cells = drawn((S[2 : 1 @ laneid] + R[2 : 16 @ laneid])._repr_svg_())
    assert [label for label, _, _ in cells] == ["0:0+", "1:0+"]
    assert cells[1][2] == "(0, 1): laneid 1, register 0; laneid 17, register 0"


def test_tensor_memory_shows_lane_and_column() -> None:
    cells = drawn(svg(tmem_datapath_layout("F", 64, 2, 1)))
    assert [cells[k][0] for k in (0, 1, 2, 32)] == ["16:0", "16:1", "17:0", "48:0"]
    assert drawn(svg(S[(2, 2) : (1 @ TLane, 1 @ TCol)]))[3][2] == "(1, 1): TMEM lane 1, column 1"


def test_a_large_tile_is_cut_and_says_so() -> None:
    text = S[(128, 100) : (1 @ tx, 1)]._repr_svg_()
    assert len(drawn(text)) == 64 * 64
    assert "64 of 128 rows, 64 of 100 columns" in text


def test_a_given_shape_decides_the_rows() -> None:
    fragment = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]
    texts = ElementTree.fromstring(svg(fragment, shape=(8, 8))).iter(f"{NS}text")
    heads = [t.text for t in texts if t.get("class") == "heading"]
    assert heads == [*map(str, range(8)), *map(str, range(8))]


@settings(max_examples=30, deadline=None)
@given(layouts(max_size=32))
def test_any_layout_draws_as_many_cells_as_it_has_elements(layout: TileLayout) -> None:
    assert len(drawn(layout._repr_svg_())) == layout.size()


def test_one_element_away_from_its_thread_axis_is_drawn() -> None:
    alone = TileLayout.from_iters([(1, 0, "laneid")], offset={"warpid": 1})
    assert alone.canonical() == TileLayout.from_iters([(1, 1, "warpid")], offset={"warpid": 1})
    assert len(drawn(alone._repr_svg_())) == 1


@pytest.mark.parametrize("stride", [0, 1])
def test_one_element_with_replicas_along_another_thread_axis_is_drawn(stride: int) -> None:
    alone = TileLayout.from_iters([(1, 0, "laneid")], [(2, stride, "warpid")])
    assert alone.canonical() == TileLayout.from_iters([(1, 1, "warpid")], [(2, stride, "warpid")])
    assert len(drawn(alone._repr_svg_())) == 1
    assert alone.owners(0) == [(0, 0), (stride, 0)]


def test_a_shape_of_another_size_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"has 8 elements; shape \(3, 3\) has 9"):
        svg(S[(4, 2)], shape=(3, 3))
