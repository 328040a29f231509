"""Layouts draw themselves: each element where the layout's algebra has it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.pictures import cells, lines, read
from tilejit.dtypes import DTYPES, DType
from tilejit.errors import LayoutError
from tilejit.layout import Axis, R, S, Swizzle, TCol, TileLayout, TLane, datapath, laneid, tx, warpid
from tilejit.layout.draw import around, kept, parts
from tilejit.svg import colour_of
from tilejit.testing import layouts


def labels(svg: str) -> list[str]:
    return [cell.label for cell in cells(svg)]


def test_a_register_tile_shows_lane_and_register_coloured_by_lane() -> None:
    drawn = cells(S[(4, 2) : (1 @ laneid, 1)]._repr_svg_())
    assert [cell.label for cell in drawn] == ["0:0", "0:1", "1:0", "1:1", "2:0", "2:1", "3:0", "3:1"]
    assert len({cell.fill for cell in drawn}) == 4
    assert (drawn[5].index, drawn[5].place, drawn[5].fill) == ((2, 1), "laneid 2, register 1", drawn[4].fill)


def test_warps_and_lanes_show_as_threads_of_the_cta() -> None:
    assert labels(S[(2, 3) : (1 @ warpid, 1 @ laneid)]._repr_svg_()) == ["0:0", "1:0", "2:0", "32:0", "33:0", "34:0"]


def test_a_memory_tile_shows_banks_for_its_element_type() -> None:
    rows = S[(2, 32) : (32, 1)]
    assert labels(rows.draw(dtype=tj.float32).svg)[30:34] == ["30", "31", "0", "1"]
    assert labels(rows.draw(dtype="float16").svg)[:4] == ["0", "0", "1", "1"]
    assert labels(rows.draw(dtype=tj.float64).svg)[15:18] == ["30", "0", "2"]
    assert labels(rows.draw(dtype=tj.int8).svg)[3:6] == ["0", "1", "1"]


def test_a_swizzled_column_shows_distinct_banks() -> None:
    swizzled = S[(8, 64) : (64, 1)].swizzled(Swizzle(3, 3, 3))
    column = [cell for cell in cells(swizzled.draw(dtype=tj.float16).svg) if cell.index[1] == 0]
    assert [cell.label for cell in column] == ["0", "4", "8", "12", "16", "20", "24", "28"]


@pytest.mark.parametrize(
    ("layout", "bits"),
    [
        (S[(8, 8)], "32 bits; use draw(dtype=...) for others"),
        (S[(8, 8)].swizzled(Swizzle(0, 3, 3)), "32 bits; use draw"),
        (S[(8, 64)].swizzled(Swizzle.for_dtype(tj.float16, "128B")), "16 bits; use draw"),
        (S[(8, 64)].swizzled(Swizzle.for_dtype(tj.int8, "32B")), "8 bits; use draw"),
        (S[(8, 64)].swizzled(Swizzle(3, 3, 4)), "32 bits; use draw"),
    ],
)
def test_elements_without_a_type_are_those_of_the_swizzles_mode_and_the_picture_says_so(
    layout: TileLayout, bits: str
) -> None:
    assert f"for elements of {bits}" in " ".join(lines(layout._repr_svg_()))
    assert lines(layout.draw(dtype=tj.float64).svg)[-2:] != lines(layout._repr_svg_())[-2:]


def test_a_swizzle_without_a_tile_is_drawn_in_its_own_rows_or_over_a_shape() -> None:
    bare = S[256].swizzled(Swizzle(3, 2, 3))
    assert labels(bare.draw().svg) == labels(bare.draw((8, 32)).svg)
    assert labels(bare.draw((4, 16)).svg) == labels(TileLayout.row_major((4, 16), Swizzle(3, 2, 3)).draw((4, 16)).svg)


def test_a_replicated_element_lists_its_owners_and_has_a_stripe_for_each_further_one() -> None:
    drawn = cells((S[2 : 1 @ laneid] + R[2 : 16 @ laneid])._repr_svg_())
    assert [cell.label for cell in drawn] == ["0:0+", "1:0+"]
    assert drawn[1].place == "laneid 1, register 0; laneid 17, register 0"
    assert drawn[1].stripes == (colour_of(17),)


def test_of_many_owners_some_are_listed_and_the_others_counted() -> None:
    (drawn,) = cells((S[1] + R[32 : 1 @ laneid])._repr_svg_())
    assert drawn.place.endswith("laneid 3, register 0; 28 more")
    assert "each element has 32 places" in " ".join(lines((S[1] + R[32 : 1 @ laneid])._repr_svg_()))


def test_tensor_memory_shows_lane_and_column() -> None:
    drawn = cells(datapath("F", 64, 2, 1).draw((64, 2)).svg)
    by_index = {cell.index: cell.label for cell in drawn}
    assert [by_index[index] for index in ((0, 0), (0, 1), (1, 0), (15, 1))] == ["16,0", "16,1", "17,0", "31,1"]
    assert by_index[(63, 1)] == "127,1"
    assert cells(S[(2, 2) : (1 @ TLane, 1 @ TCol)].draw().svg)[3].place == "TMEM lane 1, column 1"


def test_axes_of_ones_own_are_drawn_by_their_coordinates() -> None:
    drawn = cells(S[(2, 2) : (1 @ Axis("plane"), 3)].draw().svg)
    assert [cell.label for cell in drawn] == ["0:0", "0:3", "1:0", "1:3"]
    assert drawn[3].place == "plane 1, m 3"
    drawn = cells(S[(2, 2) : (3, 1 @ Axis("plane"))].draw().svg)
    assert [cell.place for cell in drawn][1:3] == ["plane 1, m 0", "plane 0, m 3"]


def test_ctas_of_a_cluster_show_beside_their_threads() -> None:
    drawn = cells(S[(2, 2) : (1 @ Axis("cbx"), 5 @ tx)].draw().svg)
    assert [cell.label for cell in drawn] == ["0.0:0", "0.5:0", "1.0:0", "1.5:0"]
    assert len({cell.fill for cell in drawn}) == 4


def expected(layout: TileLayout, index: Sequence[int], shape: tuple[int, ...], bits: int) -> list[tuple[str, int]]:
    """(label, owner) of each place of an element, each once, as the layout's algebra says it."""
    fused = layout.canonical()
    flat = sum(x * math.prod(shape[k + 1 :]) for k, x in enumerate(index))
    here = fused.apply(flat)
    places = here if isinstance(here, list) else [here]
    threads = [axis.name for axis in fused.axes() if axis.is_thread]
    if len(threads) == 1:
        assert layout.owners(*index, shape=shape) == [(p[threads[0]], p.get("m", 0)) for p in places]
    apart = {tuple(place.items()): place for place in places}
    return [_expected(place, threads, bits) for place in apart.values()]


def _expected(place: dict[str, int], threads: list[str], bits: int) -> tuple[str, int]:
    if threads:
        owner = 0
        for name in threads:
            owner = 32 * owner + place[name]
        return f"{'.'.join(str(place[name]) for name in threads)}:{place.get('m', 0)}", owner
    if place.keys() & {"TLane", "TCol"}:
        return f"{place.get('TLane', 0)},{place.get('TCol', 0)}", place.get("TLane", 0)
    bank = place.get("m", 0) * bits // 32 % 32
    return f"{bank}", bank


@st.composite
def shapes_of_size(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    """A shape of one to four dimensions."""
    shape: list[int] = []
    for _ in range(draw(st.integers(0, 3))):
        shape.append(draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0])))
        size //= shape[-1]
    return (*shape, size)


def check_drawn(layout: TileLayout, shape: tuple[int, ...], dtype: DType) -> None:
    """Each element that is shown has the label and the colours of its places; what isn't shown is counted."""
    picture = layout.draw(shape, dtype)
    drawn = cells(picture.svg)
    indices = [cell.index for cell in drawn]
    assert len(set(indices)) == len(indices)
    for cell in drawn:
        places = expected(layout, cell.index, shape, dtype.bits)
        assert cell.label == places[0][0] + "+" * (len(places) > 1)
        assert (cell.fill, *cell.stripes) == tuple(colour_of(owner) for _, owner in places[:5])
    rows, columns = (len(set(part)) for part in ([index[:-1] for index in indices], [index[-1] for index in indices]))
    assert len(drawn) == rows * columns
    of = math.prod(shape[:-1]), shape[-1]
    said = [line for line in lines(picture.svg) if "marks those left out" in line]
    if (rows, columns) == of:
        assert not said
    else:
        assert said == [f"{rows} of {of[0]} rows, {columns} of {of[1]} columns; … marks those left out"]


@given(st.data(), layouts(), st.sampled_from(sorted(DTYPES.values(), key=str)))
def test_any_layout_shows_each_element_in_its_places(data: st.DataObject, layout: TileLayout, dtype: DType) -> None:
    check_drawn(layout, data.draw(shapes_of_size(layout.size())), dtype)


@given(
    st.sampled_from([(4, 1), (1, 4), (3, 5)]),
    st.sampled_from([None, Swizzle(3, 3, 3), Swizzle(2, 2, 3), Swizzle(1, 0, 1)]),
    st.integers(0, 70),
    st.lists(st.integers(2, 10), min_size=1, max_size=3),
)
def test_a_large_layout_shows_each_element_that_is_left_in_its_places(
    more: tuple[int, int], swizzle: Swizzle | None, offset: int, extents: list[int]
) -> None:
    shape = (more[0] * 16, more[1] * 16)
    memory = (TileLayout.row_major(shape) + offset).swizzled(swizzle)
    check_drawn(memory, shape, tj.float16)
    shard = [(n, 3 * n, "tx") for n in extents] + [(40, 1, "m")]
    owned = TileLayout.from_iters(shard, [(2, 64, "tx")], {"tx": offset})
    check_drawn(owned, (math.prod(extents), 40), tj.float32)


def test_a_large_tile_is_abridged_and_says_what_it_leaves_out() -> None:
    svg = S[(128, 100) : (1 @ tx, 1)]._repr_svg_()
    assert "32 of 128 rows, 16 of 100 columns; … marks those left out" in lines(svg)
    headings = lines(svg)[: 17 + 33]
    assert headings[:17] == [*map(str, range(15)), "99", "…"]
    assert headings[17:] == [*map(str, range(31)), "127", "…"]


def test_a_layout_far_larger_than_a_table_is_drawn() -> None:
    assert len(cells(S[(1 << 20, 1 << 12)].draw(dtype=tj.float32).svg)) == 32 * 16


def test_an_abridged_fragment_shows_whole_inner_digits_and_the_ends_of_outer_ones() -> None:
    fragment = S[(4, 2, 8, 4, 2) : (1 @ warpid, 2, 4 @ laneid, 1 @ laneid, 1)]
    drawn = cells(fragment.draw((64, 8)).svg)
    assert {cell.index[1] for cell in drawn} == set(range(8))
    # both halves of each warp's rows; the first warps and the last
    assert sorted({cell.index[0] for cell in drawn}) == [*range(16), *range(48, 64)]


def test_an_abridged_swizzle_shows_every_row_of_its_period_and_whole_chunks() -> None:
    swizzled = S[(256, 128) : (128, 1)].swizzled(Swizzle(3, 3, 4))
    assert parts(swizzled, (256, 128)) == [(32, 8), (16, 8)]
    rows = sorted({cell.index[0] for cell in cells(swizzled.draw(dtype=tj.float16).svg)})
    columns = sorted({cell.index[1] for cell in cells(swizzled.draw(dtype=tj.float16).svg)})
    assert rows == [*range(24), *range(248, 256)]
    assert columns == [*range(24), *range(120, 128)]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=7), st.integers(8, 40))
@example([2] * 7, 8)
def test_the_numbers_kept_are_in_order_with_the_first_and_the_last(extents: list[int], most: int) -> None:
    count = math.prod(extents)
    numbers = kept(extents, most)
    assert numbers == sorted(set(numbers)) and len(numbers) <= most
    assert numbers[0] == 0 and numbers[-1] == count - 1
    if count <= most:
        assert numbers == list(range(count))
    else:
        assert len(numbers) > most // 2 or extents[-1] > 1
        assert 2 * len(numbers) > min(most, 8)


@given(st.sets(st.integers(0, 49), max_size=50), st.integers(1, 40))
def test_what_is_wanted_comes_before_what_is_around_it(wanted: set[int], most: int) -> None:
    numbers = around(sorted(wanted), 50, most)
    assert numbers == sorted(set(numbers)) and len(numbers) == min(most, 50)
    assert set(sorted(wanted)[:most]) <= set(numbers) and set(numbers) <= set(range(50))


def test_a_given_shape_decides_rows_and_their_headings() -> None:
    fragment = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]
    assert lines(fragment.draw((8, 8)).svg)[:16] == [*map(str, range(8)), *map(str, range(8))]
    headings = lines(fragment.draw((2, 4, 8)).svg)[8:16]
    assert headings == ["0,0", "0,1", "0,2", "0,3", "1,0", "1,1", "1,2", "1,3"]


def test_the_layout_is_below_with_the_meaning_of_labels_and_colours() -> None:
    layout = S[(4, 2) : (1 @ laneid, 1)] + 3 @ laneid
    assert lines(layout.draw().svg)[-2:] == [repr(layout), "lane:register, colored by lane"]
    assert lines(S[(2, 2) : (1 @ TLane, 1 @ TCol)].draw().svg)[-1] == "lane,column, colored by lane"
    assert lines(S[(2, 2) : (1 @ tx, 1)].draw().svg)[-1] == "thread:register, colored by thread"


def test_a_picture_is_shown_by_notebooks_and_has_a_short_repr() -> None:
    layout = S[(4, 2) : (1 @ laneid, 1)]
    assert layout._repr_svg_() == layout.draw()._repr_svg_() == layout.draw().svg
    assert str(layout.draw()) == repr(layout.draw()) and len(repr(layout.draw())) < 60
    assert read(layout.draw().svg).attrib["viewBox"].startswith("0 0 ")


def test_one_element_away_from_its_thread_axis_is_drawn() -> None:
    alone = TileLayout.from_iters([(1, 0, "laneid")], offset={"warpid": 1})
    assert alone.canonical() == TileLayout.from_iters([(1, 1, "warpid")], offset={"warpid": 1})
    assert len(cells(alone._repr_svg_())) == 1


@pytest.mark.parametrize("stride", [0, 1])
def test_one_element_with_replicas_along_another_thread_axis_is_drawn(stride: int) -> None:
    alone = TileLayout.from_iters([(1, 0, "laneid")], [(2, stride, "warpid")])
    assert alone.canonical() == TileLayout.from_iters([(1, 1, "warpid")], [(2, stride, "warpid")])
    assert len(cells(alone._repr_svg_())) == 1
    assert alone.owners(0) == [(0, 0), (stride, 0)]


def test_a_shape_of_another_size_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"has 8 elements; shape \(3, 3\) has 9"):
        S[(4, 2)].draw((3, 3))


def test_what_is_no_element_type_is_refused() -> None:
    with pytest.raises(LayoutError, match="is not an element type"):
        S[(4, 2)].draw(dtype="float17")
