"""The theorems of the layout algebra, on random layouts."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.profiles import times
from tilejit.errors import LayoutError
from tilejit.layout import (
    Axis,
    R,
    S,
    Swizzle,
    TCol,
    TileLayout,
    TLane,
    laneid,
    m,
    tid_in_wg,
    tx,
    warpid,
    wgid,
    wid_in_wg,
)
from tilejit.testing import dense_layouts, layouts, memory_layouts, regions_of, shapes_of, swizzles

IN_SCOPE = {
    "S": S, "R": R, "Swizzle": Swizzle, "Axis": Axis, "m": m, "laneid": laneid, "warpid": warpid, "wgid": wgid,
    "tid_in_wg": tid_in_wg, "wid_in_wg": wid_in_wg, "tx": tx, "TLane": TLane, "TCol": TCol,
}
# tx = 32 * warpid + laneid = 128 * wgid + tid_in_wg, and so on: the CTA's thread that each axis's step counts.
THREADS = {"laneid": 1, "tid_in_wg": 1, "tx": 1, "wid_in_wg": 32, "warpid": 32, "wgid": 128}

quick = settings(max_examples=times(2), deadline=None)


def placed(layout: TileLayout) -> list[frozenset[tuple[tuple[str, int], ...]]]:
    """For each flat index the set of (thread of the CTA, other coordinates), from `apply` alone."""
    result = []
    for x in range(layout.size()):
        found = layout.apply(x) if len(layout.shard) == 1 else layout.apply(*np.unravel_index(x, layout.shape))
        result.append(frozenset(flattened(p) for p in (found if isinstance(found, list) else [found])))
    return result


def flattened(place: dict[str, int]) -> tuple[tuple[str, int], ...]:
    total = {"thread": 0}
    for axis, value in place.items():
        if axis in THREADS:
            total["thread"] += THREADS[axis] * value
        elif value:
            total[axis] = int(value)
    return tuple(sorted(total.items()))


def table_over(layout: TileLayout, shape: Sequence[int], axis: str = "m") -> NDArray[np.int64]:
    """One axis's coordinates as an array of that shape."""
    whole = layout.map_all(shape)
    lead = whole_lead(layout)
    return whole.get(axis, np.zeros((*lead, math.prod(shape)), np.int64)).reshape(*lead, *shape)


def whole_lead(layout: TileLayout) -> tuple[int, ...]:
    return (math.prod(it.extent for it in layout.replica),) if layout.replica else ()


def axes_of(*several: TileLayout) -> list[str]:
    return sorted({a.name for layout in several for a in layout.axes()} | {"m"})


@quick
@given(layouts(), st.booleans())
def test_canonical_preserves_the_function(layout: TileLayout, fuse: bool) -> None:
    assert placed(layout.canonical(fuse)) == placed(layout)


@quick
@given(layouts())
def test_canonical_is_idempotent_and_leaves_nothing_to_merge(layout: TileLayout) -> None:
    canon = layout.canonical()
    assert canon.canonical() == canon
    if canon.size() > 1:
        assert all(it.extent > 1 for it in canon.shard)
    for left, right in zip(canon.shard, canon.shard[1:], strict=False):
        assert left.axis != right.axis or left.stride != right.extent * right.stride


@quick
@given(layouts())
def test_a_layout_is_equivalent_to_its_canonical_form_and_to_no_shifted_one(layout: TileLayout) -> None:
    assert layout.equivalent(layout.canonical())
    axis = layout.axes()[0]
    shifted = layout + (10_000 @ axis)
    assert not layout.equivalent(shifted)


@quick
@given(st.data(), layouts())
def test_group_preserves_the_function_and_multiplies_to_the_shape(data: st.DataObject, layout: TileLayout) -> None:
    shape = data.draw(shapes_of(layout))
    grouped, ends = layout.group(shape)
    assert placed(grouped) == placed(layout)
    assert len(ends) == len(shape) + 1 and ends[-1] == len(grouped.shard)
    for extent, start, end in zip(shape, ends, ends[1:], strict=False):
        assert end > start
        assert math.prod(it.extent for it in grouped.shard[start:end]) == extent


@quick
@given(st.data(), layouts())
def test_group_many_refines_for_every_shape_or_says_why_not(data: st.DataObject, layout: TileLayout) -> None:
    shapes = [data.draw(shapes_of(layout)), data.draw(shapes_of(layout))]
    try:
        grouped, separators = layout.group_many(shapes)
    except LayoutError as error:
        assert "doesn't divide" in str(error) or "divides the other" in str(error)
        return
    assert placed(grouped) == placed(layout)
    for shape, ends in zip(shapes, separators, strict=True):
        assert ends[0] == 0 and ends[-1] == len(grouped.shard)
        extents = [math.prod(it.extent for it in grouped.shard[a:b]) for a, b in zip(ends, ends[1:], strict=False)]
        assert tuple(extents) == shape


@quick
@given(st.data(), layouts())
def test_permuting_groups_permutes_the_dimensions(data: st.DataObject, layout: TileLayout) -> None:
    shape = data.draw(shapes_of(layout))
    perm = data.draw(st.permutations(range(len(shape))))
    grouped, ends = layout.group(shape)
    turned = grouped.permute_groups(ends, perm)
    lead = len(whole_lead(layout))
    order = [*range(lead), *(lead + k for k in perm)]
    for axis in axes_of(layout):
        before = table_over(layout, shape, axis).transpose(order)
        assert np.array_equal(table_over(turned, [shape[k] for k in perm], axis), before)


def assert_is_window(
    part: TileLayout, layout: TileLayout, shape: Sequence[int], region: Sequence[tuple[int, int]]
) -> None:
    extents = [n for _, n in region]
    cut = tuple(slice(b, b + n) for b, n in region)
    # A slice fuses thread axes, so that both are compared fused.
    fused = layout.canonical()
    for axis in axes_of(part, fused):
        whole = table_over(fused, shape, axis)
        assert np.array_equal(table_over(part, extents, axis), whole[(..., *cut)])


@settings(max_examples=times(7), deadline=None)
@given(st.data(), layouts())
def test_a_slice_is_the_layout_shifted_to_its_start(data: st.DataObject, layout: TileLayout) -> None:
    shape = data.draw(shapes_of(layout))
    region = data.draw(regions_of(shape))
    try:
        part = layout.slice(shape, region)
    except LayoutError as error:
        assume("has no layout" not in str(error))
        raise
    assert_is_window(part, layout, shape, region)


@settings(max_examples=times(3.3), deadline=None)
@given(st.data(), memory_layouts())
def test_a_window_of_whole_inner_digits_is_always_a_layout(
    data: st.DataObject, made: tuple[TileLayout, tuple[int, ...]]
) -> None:
    layout, shape = made
    grouped, ends = layout.group(shape)
    region = []
    for start, end in zip(ends, ends[1:], strict=False):
        extents = [it.extent for it in grouped.shard[start:end]]
        cut = data.draw(st.integers(0, len(extents) - 1))
        inner = math.prod(extents[cut + 1 :])
        first = data.draw(st.integers(0, extents[cut] - 1))
        count = data.draw(st.integers(1, extents[cut] - first))
        block = data.draw(st.integers(0, math.prod(extents[:cut]) - 1))
        region.append(((block * extents[cut] + first) * inner, count * inner))
    assert_is_window(layout.slice(shape, region), layout, shape, region)


@quick
@given(st.data(), memory_layouts(), st.none() | swizzles())
def test_a_window_moves_by_its_iterators_with_every_start(
    data: st.DataObject, made: tuple[TileLayout, tuple[int, ...]], swizzle: Swizzle | None
) -> None:
    layout, shape = made
    layout = layout.swizzled(swizzle)
    multiples = [data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0])) for n in shape]
    extents = [data.draw(st.sampled_from([k, n])) for k, n in zip(multiples, shape, strict=True)]
    try:
        zero, moves = layout.window(shape, extents, multiples)
    except LayoutError as error:
        assume("may move the window along several" not in str(error) and "has no layout" not in str(error))
        raise
    counts = [(n - e) // k + 1 for n, e, k in zip(shape, extents, multiples, strict=True)]
    for steps in product(*map(range, counts)):
        region = [(i * k, n) for i, k, n in zip(steps, multiples, extents, strict=True)]
        moved = zero
        for i, move in zip(steps, moves, strict=True):
            moved = moved + (i * move.stride) @ move.axis
        assert_is_window(moved, layout, shape, region)


@quick
@given(st.data(), memory_layouts(), memory_layouts(), st.none() | swizzles())
def test_a_tiling_is_the_inner_layout_plus_whole_spans(
    data: st.DataObject,
    small: tuple[TileLayout, tuple[int, ...]],
    large: tuple[TileLayout, tuple[int, ...]],
    swizzle: Swizzle | None,
) -> None:
    (inner, inner_shape), (outer, outer_shape) = small, large
    tiled = inner.swizzled(swizzle).tile(outer, outer_shape, inner_shape)
    shape = [o * i for o, i in zip(outer_shape, inner_shape, strict=True)]
    place = table_over(tiled, shape)
    a, b = table_over(outer, outer_shape), table_over(inner, inner_shape)
    rows, columns = np.indices(shape)
    i = b[rows % inner_shape[0], columns % inner_shape[1]]
    o = a[rows // inner_shape[0], columns // inner_shape[1]]
    expected = o * inner.span() + i
    assert np.array_equal(place, swizzle.apply(expected) if swizzle else expected)


@quick
@given(memory_layouts(), memory_layouts(), st.none() | swizzles())
def test_recognising_a_tiling_undoes_it(
    small: tuple[TileLayout, tuple[int, ...]], large: tuple[TileLayout, tuple[int, ...]], swizzle: Swizzle | None
) -> None:
    (inner, inner_shape), (outer, outer_shape) = small, large
    inner = inner.swizzled(swizzle)
    tiled = inner.tile(outer, outer_shape, inner_shape)
    shape = [o * i for o, i in zip(outer_shape, inner_shape, strict=True)]
    found = inner.is_tile_inner(tiled, shape, inner_shape)
    assert found is not None and found.equivalent(outer)
    under = outer.is_tile_outer(tiled, shape, outer_shape)
    assert under is not None
    assert under.tile(outer, outer_shape, inner_shape).canonical() == tiled.canonical()


@quick
@given(dense_layouts(), st.permutations((1, 2)))
def test_lanes_tile_over_warps_and_split_again(inner: TileLayout, strides: list[int]) -> None:
    outer = TileLayout.from_iters([(2, s, "warpid") for s in strides])
    shape = (inner.size(),)
    tiled = inner.tile(outer, (4,), shape)
    assert tiled.scope == ("thread", "cta")
    fused = tiled.canonical()
    assert {a.name for a in fused.axes() if a.is_thread} == {"tx"}
    found = inner.is_tile_inner(fused, (4 * inner.size(),), shape)
    assert found is not None and found.equivalent(outer)
    under = outer.is_tile_outer(fused, (4 * inner.size(),), (4,))
    assert under is not None and under.equivalent(inner)


@quick
@given(memory_layouts(), memory_layouts())
def test_a_direct_sum_adds_both_places(
    small: tuple[TileLayout, tuple[int, ...]], large: tuple[TileLayout, tuple[int, ...]]
) -> None:
    (right, right_shape), (left, left_shape) = small, large
    total = right.direct_sum(left, left_shape, right_shape)
    shape = [a * b for a, b in zip(left_shape, right_shape, strict=True)]
    rows, columns = np.indices(shape)
    a, b = table_over(left, left_shape), table_over(right, right_shape)
    expected = a[rows // right_shape[0], columns // right_shape[1]] + b[rows % right_shape[0], columns % right_shape[1]]
    assert np.array_equal(table_over(total, shape), expected)
    interleaved = [n for pair in zip(left_shape, right_shape, strict=True) for n in pair]
    found = left.is_direct_sum_left(total, interleaved, left_shape)
    assert found is not None and found.equivalent(right)


@quick
@given(layouts())
def test_map_all_agrees_with_apply(layout: TileLayout) -> None:
    table = layout.map_all()
    for x in range(layout.size()):
        found = layout.apply(*np.unravel_index(x, layout.shape)) if len(layout.shard) > 1 else layout.apply(x)
        if isinstance(found, list):
            assert [{a: t[r, x] for a, t in table.items()} for r in range(len(found))] == found
        else:
            assert {a: t[x] for a, t in table.items()} == found


@quick
@given(st.data(), layouts())
def test_coordinates_over_a_shape_flat_indices_and_digits_agree(data: st.DataObject, layout: TileLayout) -> None:
    shape = data.draw(shapes_of(layout))
    coord = [data.draw(st.integers(0, n - 1)) for n in shape]
    flat = int(np.ravel_multi_index(coord, shape))
    assert layout.apply(*coord, shape=shape) == layout.apply(flat, shape=(layout.size(),))
    assert layout.apply(*coord, shape=shape) == layout(*map(int, np.unravel_index(flat, layout.shape)))


@quick
@given(layouts())
def test_repr_evaluates_to_the_same_layout(layout: TileLayout) -> None:
    assert eval(repr(layout), dict(IN_SCOPE)) == layout
    assert hash(eval(repr(layout), dict(IN_SCOPE))) == hash(layout)


@quick
@given(layouts())
def test_a_layout_survives_pickle_and_its_own_constructor(layout: TileLayout) -> None:
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert TileLayout(layout) == layout
    triples = [(it.extent, it.stride, it.axis.name) for it in layout.shard]
    copies = [(it.extent, it.stride, it.axis.name) for it in layout.replica]
    offset = {a.name: v for a, v in layout.offset}
    assert TileLayout.from_iters(triples, copies, offset, layout.swizzle) == layout


SMALL_SWIZZLES = st.sampled_from([Swizzle(1, 0, 1), Swizzle(2, 1, 2), Swizzle(3, 0, 3)])


@settings(max_examples=times(1), deadline=None)
@given(dense_layouts(most_register_bits=2), st.none() | SMALL_SWIZZLES)
def test_owners_and_inverse_undo_each_other(layout: TileLayout, swizzle: Swizzle | None) -> None:
    layout = layout.swizzled(swizzle)
    registers = layout.size() // 32
    for x in np.ndindex(*layout.shape):
        ((thread, register),) = layout.owners(*x)
        assert 0 <= thread < 32
        assert layout.inverse(thread, register) == x
    if swizzle is None:
        assert layout.is_bijective() and layout.is_injective()
        assert layout.inverse(0, registers) is None


@quick
@given(layouts(max_size=64))
def test_bijective_and_injective_are_what_they_say(layout: TileLayout) -> None:
    places = placed(layout.canonical())
    assert layout.is_injective() == (sum(map(len, places)) == len(frozenset().union(*places)))
    canon = layout.canonical().map_all()
    box = math.prod(int(t.max() - t.min()) + 1 for t in canon.values())
    exact = not layout.canonical().replica and layout.is_injective() and layout.size() == box
    assert layout.is_bijective() == exact


@quick
@given(layouts(swizzled=False, replicated=False, max_size=64), st.sampled_from((2, 4, 8)))
def test_unpacking_puts_neighbours_side_by_side_and_packing_undoes_it(layout: TileLayout, count: int) -> None:
    fine = layout.unpack(count)
    axis = fine.shard[-1].axis.name
    coarse, narrow = layout.map_all(), fine.map_all()
    flat = np.arange(fine.size())
    for name, table in narrow.items():
        wide = coarse.get(name, np.zeros(layout.size(), np.int64))[flat // count]
        assert np.array_equal(table, wide * count + flat % count if name == axis else wide)
    assert fine.pack(count).canonical() == layout.canonical()


@quick
@given(layouts(), st.integers(1, 4), st.data())
def test_broadcasting_repeats_along_a_new_dimension(layout: TileLayout, extent: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(layout.shard)))
    wide = layout.broadcast(extent, position)
    lead = len(whole_lead(layout))
    for axis in axes_of(layout):
        narrow = np.expand_dims(table_over(layout, layout.shape, axis), lead + position)
        assert np.array_equal(table_over(wide, wide.shape, axis), np.repeat(narrow, extent, lead + position))


@quick
@given(layouts(swizzled=False))
def test_span_is_one_past_the_highest_coordinate(layout: TileLayout) -> None:
    table = layout.map_all()
    for axis in layout.axes():
        assert layout.span(axis) == layout.span(axis.name) == int(table[axis.name].max()) + 1


@quick
@given(layouts(replicated=False))
def test_a_footprint_holds_every_swizzled_address(layout: TileLayout) -> None:
    assume(all(it.stride >= 0 for it in layout.shard) and all(v >= 0 for _, v in layout.offset))
    memory = layout.map_all().get("m")
    assume(memory is not None)
    assert int(memory.max()) < layout.footprint()


@given(swizzles(), st.integers(0, 1 << 14))
def test_a_swizzle_is_its_own_inverse_and_keeps_chunks_and_periods(swizzle: Swizzle, address: int) -> None:
    moved = swizzle.apply(address)
    assert swizzle.apply(moved) == address
    assert moved % swizzle.chunk == address % swizzle.chunk
    assert moved // swizzle.period == address // swizzle.period
    assert swizzle.apply(address + swizzle.period) == moved + swizzle.period
    if swizzle.is_identity:
        assert moved == address


@given(swizzles(), st.lists(st.integers(0, 1 << 14), min_size=1, max_size=8))
def test_a_swizzle_maps_arrays_as_it_maps_numbers(swizzle: Swizzle, addresses: list[int]) -> None:
    assert swizzle.apply(np.array(addresses)).tolist() == [swizzle.apply(a) for a in addresses]


@settings(max_examples=times(10), deadline=None)
@given(swizzles(), st.integers(0, 1 << 13), st.integers(0, 1 << 13), st.integers(0, 1 << 13))
def test_addresses_that_share_no_bits_swizzle_apart(swizzle: Swizzle, bits: int, some: int, offset: int) -> None:
    base, apart = bits & some, offset & ~bits
    assert swizzle.xor_separable(bits, apart)
    assert swizzle.apply(base + apart) == swizzle.apply(base) ^ swizzle.apply(apart)
    assert swizzle.xor_separable(bits, offset) == (bits & offset == 0)


def test_a_shared_bit_is_why_an_address_is_not_separable() -> None:
    swizzle = Swizzle(3, 3, 3)
    assert not swizzle.xor_separable(64, 64)
    assert swizzle.apply(64 + 64) != swizzle.apply(64) ^ swizzle.apply(64)


@pytest.mark.parametrize("mode, bits", [("32B", 1), ("64B", 2), ("128B", 3)])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_dtype_swizzles_keep_16_bytes_together_and_repeat_every_8_rows(mode: str, bits: int, width: int) -> None:
    swizzle = Swizzle.for_dtype(width, mode)
    assert (swizzle.bits, swizzle.shift, swizzle.inner) == (bits, 3, True)
    assert swizzle.chunk * width == 128
    assert swizzle.period * width == 8 * 128 << bits
