"""Writing layouts, reading their parts, and what they refuse; with the numbers of worked examples."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilejit import dtypes
from tilejit.dtypes import DType, float16, float32, uint8
from tilejit.errors import LayoutError
from tilejit.layout import (
    TCGEN05_SHAPES,
    Axis,
    Iter,
    R,
    S,
    Swizzle,
    TCol,
    TileLayout,
    TLane,
    atom_layout,
    common_refinement,
    datapath,
    laneid,
    m,
    swizzled_atom_layout,
    tid_in_wg,
    tx,
    warpid,
    wgid,
    wid_in_wg,
)


def refuses(text: str, help: str = "") -> Any:
    """The message holds `text`, and after it the hint holds `help`."""
    return pytest.raises(LayoutError, match=f"(?s){re.escape(text)}.*{re.escape(help)}")


def test_extents_alone_are_row_major_in_memory() -> None:
    assert S[(2, 3, 4)] == S[(2, 3, 4) : (12, 4, 1)] == TileLayout.row_major((2, 3, 4))
    assert S[8] == S[8:1] == S[(8,)] == S[(8,) : (1,)] == TileLayout((Iter(8, 1, m),))


def test_strides_are_numbers_terms_axes_names_or_pairs() -> None:
    expected = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]
    assert S[(8, 4, 2) : ((4, "laneid"), "laneid", 1)] == expected
    assert S[(8, 4, 2) : (4 @ laneid, laneid, 1 @ m)] == expected
    assert S[32:"laneid"] == S[32:laneid] == S[32 : (1, "laneid")] == S[32 : 1 @ laneid]
    assert S[np.int64(8) : np.int32(2) @ laneid] == S[8 : 2 @ laneid]


def test_offsets_add_up_per_axis_and_a_number_goes_to_memory() -> None:
    layout = S[8] + 3 @ laneid + 5 + 2 @ laneid + 7
    assert layout.offset == ((laneid, 5), (m, 12))
    assert layout + -12 @ m == S[8] + 5 @ laneid
    assert S[8] + laneid == S[8] + 1 @ laneid


def test_replicas_are_added_with_r() -> None:
    layout = S[(8, 2)] + R[2 : 4 @ warpid] + R[(2, 3) : (1 @ warpid, 2 @ laneid)]
    assert layout.replica == (Iter(2, 4, warpid), Iter(2, 1, warpid), Iter(3, 2, laneid))
    assert repr(R[2 : 4 @ warpid]) == "R[2 : 4 @ warpid]"


def test_repr_is_what_users_write() -> None:
    assert repr(S[(32, 8) : (1 @ laneid, 1)]) == "S[(32, 8) : (1 @ laneid, 1)]"
    full = (S[(32, 8) : (1 @ laneid, 1)] + R[2 : 1 @ warpid] + 5).swizzled(Swizzle(3, 3, 3, inner=False))
    assert repr(full) == (
        "(S[(32, 8) : (1 @ laneid, 1)] + R[2 : 1 @ warpid] + 5 @ m).swizzled(Swizzle(3, 3, 3, inner=False))"
    )
    assert repr(S[4:"P"] + -1 @ Axis("bx")) == "S[4 : 1 @ Axis('P')] + -1 @ Axis('bx')"


def test_axes_know_what_they_count_and_print_as_their_name() -> None:
    assert [(a.unit, a.within) for a in (laneid, tid_in_wg, tx)] == [
        ("thread", "warp"),
        ("thread", "warpgroup"),
        ("thread", "cta"),
    ]
    assert [(a.unit, a.within) for a in (wid_in_wg, warpid, wgid)] == [
        ("warp", "warpgroup"),
        ("warp", "cta"),
        ("warpgroup", "cta"),
    ]
    assert [a.limit for a in (laneid, wid_in_wg, tid_in_wg, tx, m)] == [32, 4, 128, None, None]
    assert not any(a.is_thread for a in (m, TLane, TCol, Axis("anything")))
    assert Axis("laneid") == laneid and repr(laneid) == "laneid"


def test_layouts_are_frozen_values() -> None:
    layout = S[(32, 8) : (1 @ laneid, 1)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        layout.shard = ()  # type: ignore[misc]
    assert len({layout, S[(32, 8) : (1 @ laneid, 1)], layout + 0}) == 1
    assert layout != layout + 1 and layout != layout.swizzled(Swizzle(3, 3, 3))


def test_an_empty_shard_needs_a_replica() -> None:
    assert (S[1] + R[32 : 1 @ laneid]).size() == 1
    alone = TileLayout((), (Iter(32, 1, laneid),))
    assert alone.canonical() == alone
    assert len(alone.owners()) == 32
    with refuses("a layout needs at least one iterator", help="S[1]"):
        TileLayout(())


@pytest.mark.parametrize(
    "write, text",
    [
        (lambda: S[(4, 0) : (1, 1)], "an extent is at least 1; got 0 with stride 1 on m"),
        (lambda: S[(4, 4) : (1,)], "a layout has 2 extents (4, 4) but 1 stride"),
        (lambda: S[(4, "x")], "extents are integers"),
        (lambda: S[(4, 4) : (1, 2.5)], "a stride is an integer or integer @ axis; got 2.5"),
        (lambda: S[1:2:3], "a layout is S[extents : strides]"),
        (lambda: R[1:2:3], "a replica is R[extents : strides]"),
        (lambda: S[4] + "laneid", "can't add 'laneid' to a layout"),
        (lambda: S[4] + S[4], "can't add S[4 : 1] to a layout"),
        (lambda: 1.5 @ laneid, "a multiple of axis laneid must be an integer; got 1.5"),
        (lambda: Axis("not a name"), "an axis name is an identifier; got 'not a name'"),
        (lambda: TileLayout.from_iters([(4, "1", "m")]), "extent and stride are integers; got (4, '1', 'm')"),
        (lambda: TileLayout([(4, 1, "m")]), "shard and replica must consist of iterators; got ((4, 1, 'm'),)"),  # type: ignore[list-item]
        (lambda: Swizzle(3, 3, 2), "shift must be at least bits; 2 is less than 3"),
        (lambda: Swizzle(1, -1, 3), "bits and base must not be negative"),
        (lambda: Swizzle.for_dtype(16, "256B"), "swizzle mode '256B' is not one of 'none', '32B', '64B', '128B'"),
        (lambda: Swizzle.for_dtype(24, "32B"), "no swizzle for elements of 24 bits"),
    ],
)
def test_what_isnt_a_layout_is_refused_with_what_was_wrong(write: Callable[[], object], text: str) -> None:
    with refuses(text):
        write()


def test_a_flat_index_is_split_by_the_last_iterator_first() -> None:
    assert S[(8, 8) : (10, 1)](13) == {"m": 15}
    assert S[(2, 3, 4, 2, 2) : (1, 2, 12, 6, 48)].apply(4, 13, shape=(6, 16)) == {"m": 87}
    fragment = S[(8, 1, 4, 2) : (4 @ laneid, 2, 1 @ laneid, 1)]
    for i in range(8):
        for j in range(8):
            assert fragment.apply(i, j, shape=(8, 8)) == {"laneid": 4 * i + j // 2, "m": j % 2}


def test_the_first_digit_is_not_reduced() -> None:
    assert S[(2, 8) : (8, 1)](100) == {"m": 100}
    assert S[(2, 8) : (8, 1)](5, 3) == {"m": 43}


def test_span_counts_up_to_the_highest_element() -> None:
    assert S[(8, 6) : (8, 1)].span() == 62
    assert (S[(8, 6) : (8, 1)] + 10).span() == 72
    assert S[(8, 4) : (4 @ laneid, 2)].span() == 7
    assert S[(8, 4) : (4 @ laneid, 2)].span(laneid) == 29
    assert S[(8, 4) : (4 @ laneid, 2)].size("m") == 4


def test_neighbours_merge_where_strides_chain() -> None:
    assert S[(8, 2, 4, 2, 3, 6) : (2, 1, 4, 24, 6, 1)].canonical() == S[(16, 4, 2, 18) : (1, 4, 24, 1)]
    warps = S[(2, 2, 8, 4) : (2 @ warpid, 1 @ warpid, 4 @ laneid, 1 @ laneid)]
    assert warps.canonical() == S[128 : 1 @ tx]
    assert warps.canonical(fuse=False) == S[(4, 32) : (1 @ warpid, 1 @ laneid)]
    assert warps.equivalent(S[128 : 1 @ tx])


def test_thread_axes_fuse_by_the_hardwares_identities() -> None:
    assert S[(4, 128) : (1 @ wgid, 1 @ tid_in_wg)].canonical() == S[512 : 1 @ tx]
    assert S[(4, 32) : (1 @ wid_in_wg, 1 @ laneid)].canonical() == S[128 : 1 @ tid_in_wg]
    assert S[(2, 4) : (1 @ wgid, 1 @ wid_in_wg)].canonical() == S[8 : 1 @ warpid]
    assert S[(2, 4, 32) : (1 @ wgid, 1 @ wid_in_wg, 1 @ laneid)].canonical() == S[256 : 1 @ tx]


def test_scopes_chain_from_the_finest_unit_to_the_widest_level() -> None:
    assert S[32 : 1 @ laneid].scope == ("thread", "warp")
    assert S[(4, 32) : (1 @ warpid, 1 @ laneid)].scope == ("thread", "cta")
    assert S[(4, 32) : (1 @ wid_in_wg, 1 @ laneid)].scope == ("thread", "warpgroup")
    assert S[8].scope is None
    # What every lane holds, such as a reduction's result, belongs to the warp.
    assert (S[8] + R[32 : 1 @ laneid]).scope == ("thread", "warp")


def test_thread_axes_that_dont_nest_are_refused() -> None:
    with refuses("axes laneid, wgid leave a gap: from a thread they reach a warp", help="add the missing axis"):
        _ = S[(2, 32) : (1 @ wgid, 1 @ laneid)].scope
    with refuses("axes tx and laneid both count threads, one within a cta, the other within a warp"):
        S[(2, 32) : (1 @ tx, 1 @ laneid)].canonical()
    with refuses("reaches laneid 39; a warp has 32 threads", help="use an axis of a wider scope, such as tx"):
        S[40 : 1 @ laneid].verify_well_formed()
    with refuses("reaches laneid -3"):
        (S[4 : -1 @ laneid]).verify_well_formed()


def test_grouping_splits_iterators_at_the_shapes_boundaries() -> None:
    assert S[30].group((6, 5)) == (S[(6, 5) : (5, 1)], (0, 1, 2))
    assert S[30].group((2, 15)) == (S[(2, 15) : (15, 1)], (0, 1, 2))
    grouped, separators = S[30].group_many([(6, 5), (2, 15)])
    assert grouped == S[(2, 3, 5) : (15, 5, 1)]
    assert separators == ((0, 2, 3), (0, 1, 3))
    assert S[(4, 4)].group((4, 1, 4))[1] == (0, 1, 2, 3)


def test_shapes_without_a_common_refinement_are_refused() -> None:
    with refuses("shapes (3, 4) and (2, 6) have no common refinement: 4 doesn't divide 6"):
        S[12].group_many([(3, 4), (2, 6)])
    with refuses("shapes to refine must have the same size; (3, 4) has 12, (2, 5) has 10"):
        common_refinement([(3, 4), (2, 5)])


def test_a_shape_that_doesnt_group_names_the_iterator_and_the_numbers() -> None:
    with refuses("iterator 6:4@m doesn't fit dimension 0 of shape (4, 6): a factor of 4 of extent 4 remains"):
        S[(6, 4)].group((4, 6))
    with refuses("S[(6, 4) : (4, 1)] has 24 elements; shape (5, 5) has 25"):
        S[(6, 4)].group((5, 5))


def test_slices_of_the_worked_examples() -> None:
    k_tiled = S[(128, 2, 64) : (64, 8192, 1)]
    assert k_tiled.slice((128, 128), [(0, 128), (32, 64)]) == S[(128, 2, 32) : (64, 8160, 1)] + 32
    blocked = S[(4, 4, 4, 4) : (64, 4, 16, 1)]
    assert blocked.slice((16, 16), [(2, 1), (6, 4)]) == S[(1, 2, 2) : (4, 14, 1)] + 26


def test_a_wrap_may_cross_several_digits_on_one_axis() -> None:
    # [3, 5) of three binary digits: 011 -> 100 changes all of them, by 100 - 10 - 1.
    layout = S[(2, 2, 2) : (100, 10, 1)]
    part = layout.slice((8,), [(3, 2)])
    assert [p["m"] for p in map(part.apply, range(2)) if isinstance(p, dict)] == [11, 100]


def test_a_window_that_is_no_layout_is_refused_with_the_iterator_it_crosses() -> None:
    with refuses("dimension 0 of S[(4, 4) : (16, 1)]: window [1, 6) has no layout: it crosses the end of iterator 4"):
        S[(4, 4) : (16, 1)].slice((16,), [(1, 5)])
    with refuses("window [3, 5) has no layout: it crosses the end of iterator 4:1@m after 1 of 2 steps"):
        S[(4, 4) : (1 @ laneid, 1)].slice((16,), [(3, 2)])


def test_a_window_outside_the_shape_is_refused() -> None:
    for region, text in (((120, 16), "[120, 136)"), ((-1, 4), "[-1, 3)"), ((0, 0), "[0, 0)")):
        with refuses(f"{text} is empty or out of bounds for dimension 0 of extent 128"):
            S[(128, 8)].slice((128, 8), [region, (0, 8)])
    with refuses("a region of 1 dimension can't slice shape (128, 8)"):
        S[(128, 8)].slice((128, 8), [(0, 8)])


def test_a_run_time_start_that_moves_two_iterators_is_refused() -> None:
    with refuses("a start known only to be a multiple of 4", help="make the start a multiple of 64"):
        S[(128, 2, 64) : (64, 8192, 1)].window((128, 128), (128, 4), (128, 4))
    _, moves = S[(128, 2, 64) : (64, 8192, 1)].window((128, 128), (128, 64), (128, 64))
    assert moves[1] == Iter(2, 8192, m)


def test_coordinates_that_dont_fit_are_refused() -> None:
    with refuses("takes a flat index or 3 coordinates; got (1, 2)", help="pass the logical shape"):
        S[(2, 3, 4)](1, 2)
    with refuses("coordinate 4 is out of bounds for dimension 2 of extent 4"):
        S[(2, 3, 4)](1, 2, 4)
    with refuses("coordinate -1 is out of bounds for dimension 0 of extent 24"):
        S[(2, 3, 4)](-1)
    with refuses("1 coordinate (3,) can't index shape (4, 6)"):
        S[(2, 3, 4)].apply(3, shape=(4, 6))


def test_tilings_of_the_worked_examples() -> None:
    assert S[(2, 4) : (1, 2)].tile(S[(8, 8) : (8, 1)], (8, 8), (2, 4)) == S[(8, 2, 32) : (64, 1, 2)]
    left, right = S[(2, 2) : (8, 2)], S[(2, 2) : (4, 1)]
    assert right.direct_sum(left, (2, 2), (2, 2)) == S[16]


def test_a_tile_with_a_negative_stride_takes_the_room_of_a_positive_one() -> None:
    tiled = S[4:-1].tile(S[2:1], (2,), (4,))
    assert [tiled(k)["m"] for k in range(8)] == [0, -1, -2, -3, 4, 3, 2, 1]


def test_replicas_and_offsets_survive_tiling_and_come_back() -> None:
    outer = S[2 : 2 @ warpid] + R[2 : 1 @ warpid] + 4 @ warpid
    inner = S[32 : 1 @ laneid] + 3
    tiled = inner.tile(outer, (2,), (32,))
    assert tiled.replica == (Iter(2, 1, warpid),) and tiled.offset == ((m, 3), (warpid, 4))
    found = inner.is_tile_inner(tiled, (64,), (32,))
    assert found is not None and found.equivalent(outer)
    under = outer.is_tile_outer(tiled, (64,), (2,))
    assert under is not None and under.equivalent(inner)


def test_tiling_refuses_a_swizzled_outer_layout_and_ranks_that_differ() -> None:
    with refuses("is swizzled; only the inner or right layout may be"):
        S[8].tile(S[8].swizzled(Swizzle(1, 0, 1)), (8,), (8,))
    with refuses("shapes (2, 4) and (8,) differ in rank"):
        S[8].tile(S[8], (2, 4), (8,))


def test_a_permutation_must_name_each_group_once() -> None:
    with refuses("(0, 0) is not a permutation of 2 groups", help="name each group from 0 to 1 once"):
        S[(8, 8)].permute_groups((0, 1, 2), (0, 0))


def test_packing_needs_neighbours() -> None:
    with refuses("can't pack 2 elements into one: the innermost iterator of S[(8, 3) : (3, 1)] is 3:1@m"):
        S[(8, 3)].pack(2)
    with refuses("not all outer strides and offsets on m of S[(8, 4) : (5, 1)] are multiples"):
        S[(8, 4) : (5, 1)].pack(2)
    with refuses("pack and unpack take a power of two; got 3"):
        S[(8, 3)].pack(3)
    with refuses("moves chunks of 1 element; can't pack 2 into one"):
        S[64].swizzled(Swizzle(1, 0, 1)).pack(2)


def test_broadcast_refuses_a_position_outside() -> None:
    with refuses("position 3 is not between 0 and 2"):
        S[(8, 3)].broadcast(4, 3)


def test_a_warpgroups_copy_into_a_128_byte_swizzle_goes_where_worked_out() -> None:
    # fp16 128x64, 8 elements a thread: address 64 r + 8 (c xor (r and 7)) at r = 16 f + t // 8, c = t % 8.
    shared = S[128 * 64].swizzled(Swizzle.for_dtype(dtypes.float16, "128B"))
    for f in range(8):
        for t in range(128):
            r, c = 16 * f + t // 8, t % 8
            assert shared.apply(r, 8 * c, shape=(128, 64)) == {"m": 64 * r + 8 * (c ^ (r & 7))}
    assert shared(1024 + 8 * 9) == {"m": 1088}


def test_a_bare_swizzle_adapts_to_the_shape() -> None:
    swizzle = Swizzle(3, 3, 3)
    bare = S[512].swizzled(swizzle)
    assert bare.is_bare
    assert bare.adapted((64, 64)) == S[(64, 64)].swizzled(swizzle)
    assert bare.slice((64, 64), [(8, 8), (0, 64)]) == (S[(8, 64)] + 512).swizzled(swizzle)
    assert np.array_equal(bare.map_all((64, 64))["m"], S[4096].swizzled(swizzle).map_all()["m"])
    assert not S[(8, 64)].swizzled(swizzle).is_bare and S[(8, 64)].adapted((512,)) == S[(8, 64)]


def test_outer_swizzles_xor_the_low_bits_into_the_high_ones() -> None:
    swizzle = Swizzle(2, 0, 3, inner=False)
    assert [swizzle.apply(k) for k in range(5)] == [0, 9, 18, 27, 4]


def test_a_footprint_is_whole_swizzle_periods() -> None:
    assert S[600].swizzled(Swizzle(3, 3, 3)).footprint() == 1024
    assert S[600].swizzled(Swizzle(0, 3, 3)).footprint() == S[600].footprint() == 600


def test_a_swizzled_tile_must_divide_into_atoms() -> None:
    assert swizzled_atom_layout((64, 64), 16, "128B").equivalent(S[(64, 64)].swizzled(Swizzle(3, 3, 3)))
    with refuses("shape (64, 96) doesn't divide into atoms of 8 rows by 64 columns (swizzle mode '128B', 16-bit "):
        swizzled_atom_layout((64, 96), 16, "128B")
    with refuses("shape (60, 64) doesn't divide", help="pad rows to a multiple of 8"):
        swizzled_atom_layout((60, 64), 16, "128B")
    with refuses("a swizzled tile has rows and columns; got shape (64,)"):
        swizzled_atom_layout((64,), 16, "128B")


def test_ldmatrix_rows_of_a_swizzled_tile_lie_in_distinct_banks() -> None:
    for bits, mode in ((16, "128B"), (32, "128B"), (8, "128B")):
        columns = 128 * 8 // bits
        layout = swizzled_atom_layout((8, columns), bits, mode)
        for chunk in range(8):
            starts = [layout.apply(r, chunk * 128 // bits, shape=(8, columns)) for r in range(8)]
            sixteenths = {s["m"] * bits // 128 % 8 for s in starts if isinstance(s, dict)}
            assert len(sixteenths) == 8


def test_owners_name_thread_and_register_with_every_replica() -> None:
    rows = S[(32, 8) : (1 @ laneid, 1)]
    assert rows.owners(3, 5) == [(3, 5)] == rows.owners(29)
    assert rows.inverse(3, 5) == (3, 5) and rows.inverse(3, 5, shape=(64, 4)) == (7, 1)
    assert rows.inverse(3, 8) is None and rows.inverse(32, 0) is None
    assert (S[(4, 32) : (1 @ warpid, 1 @ laneid)] + R[2 : 4 @ warpid]).owners(1, 2) == [(34, 0), (162, 0)]
    assert S[(4, 4)].owners(2, 3) == [(0, 11)]


def test_a_shared_place_has_no_inverse() -> None:
    with refuses("thread 0, register 0 of S[(2, 4) : (0, 1)] holds 2 elements"):
        S[(2, 4) : (0, 1)].inverse(0, 0)


def test_owners_refuse_several_ctas_and_indices_outside() -> None:
    with refuses("spans bx, tx; owners are threads of one CTA"):
        TileLayout.from_iters([(4, 1, "bx"), (32, 1, "tx")]).owners(0)
    with refuses("index 256 is outside S[(32, 8) : (1 @ laneid, 1)], which has 256 elements"):
        S[(32, 8) : (1 @ laneid, 1)].owners(256)


def test_bijective_means_no_replica_no_collision_no_gap() -> None:
    assert S[(32, 8) : (1 @ laneid, 1)].is_bijective()
    assert not S[(8, 8) : (10, 1)].is_bijective() and S[(8, 8) : (10, 1)].is_injective()
    assert not S[(2, 4) : (0, 1)].is_injective()
    replicated = S[8] + R[2 : 1 @ laneid]
    assert replicated.is_injective() and not replicated.is_bijective()


def test_layouts_with_different_places_are_not_equivalent() -> None:
    assert not S[8].equivalent(S[8:2])
    assert not S[8].equivalent(S[4])
    assert not S[32 : 1 @ laneid].equivalent(S[32 : 1 @ tx])
    assert (S[8] + R[(2, 2) : (1 @ laneid, 2 @ laneid)]).equivalent(S[8] + R[4 : 1 @ laneid])


@pytest.mark.parametrize("lane, register", [(lane, r) for lane in range(32) for r in range(8)])
def test_16x256b_fragments_follow_the_instructions_map(lane: int, register: int) -> None:
    # PTX ISA: row l/4 + 8 (r/2 mod 2), column r mod 2 + 2 (l mod 4) + 8 (r/4).
    fragment = atom_layout("16x256b", 2, float32, 64)
    row, column = lane // 4 + 8 * (register // 2 % 2), register % 2 + 2 * (lane % 4) + 8 * (register // 4)
    for warp in range(4):
        assert fragment.owners(16 * warp + row, column, shape=(64, 16)) == [(32 * warp + lane, register)]


@pytest.mark.parametrize("lane, register", [(lane, r) for lane in range(32) for r in range(4)])
def test_16x128b_and_16x64b_fragments_follow_the_instructions_map(lane: int, register: int) -> None:
    fragment = atom_layout("16x128b", 2, float32, 64)
    row, column = lane // 4 + 8 * (register % 2), lane % 4 + 4 * (register // 2)
    assert fragment.owners(row, column, shape=(64, 8)) == [(lane, register)]
    fragment = atom_layout("16x64b", 4, float32, 64)
    row, column = lane // 4 + 8 * (lane % 2), lane // 2 % 2 + 2 * register
    assert fragment.owners(row, column, shape=(64, 8)) == [(lane, register)]


@pytest.mark.parametrize("shape", ["16x64b", "16x128b", "16x256b", "32x32b"])
@pytest.mark.parametrize("dtype", [uint8, float16, float32])
@pytest.mark.parametrize("rows", [64, 128])
def test_fragments_fill_every_register_once(shape: str, dtype: DType, rows: int) -> None:
    fragment, form = atom_layout(shape, 2, dtype, rows), TCGEN05_SHAPES[shape]
    slabs = rows // 64 if form.lanes == 16 else 1
    assert fragment.is_bijective()
    assert fragment.scope == ("thread", "warpgroup")
    assert fragment.size() == 128 * 2 * form.registers * slabs * 32 // dtype.bits


def test_illegal_fragments_say_what_is_legal() -> None:
    with refuses("16x256b.x3 doesn't exist: num must be a power of two up to 32"):
        atom_layout("16x256b", 3, float32, 64)
    with refuses("no tcgen05 shape 'foo'"):
        atom_layout("foo", 8, float32, 64)
    with refuses("a warpgroup moves 64 or 128 rows; got 96"):
        atom_layout("16x64b", 4, float32, 96)


def test_data_paths_put_rows_on_distinct_lanes() -> None:
    for path, rows in (("A", 128), ("B", 64), ("C", 64), ("D", 128), ("E", 64), ("F", 64), ("G", 32)):
        layout = datapath(path, rows, 32)
        assert layout.is_injective() and layout.span(TLane) <= 128
    with refuses("data path F has no half 2"):
        datapath("F", 64, 8, 2)
    with refuses("data path D has 128 rows; got 64"):
        datapath("D", 64, 8)
    with refuses("no data path 'X'"):
        datapath("X", 64, 8)
    with refuses("data path B splits its columns into 2 parts; 7 isn't a multiple of 2"):
        datapath("B", 64, 7)


def test_32x32b_gives_a_thread_its_row() -> None:
    assert atom_layout("32x32b", 16, float32).owners(77, 5) == [(77, 5)]


@pytest.mark.parametrize("extent", [2**30, 2**70])
def test_a_table_of_too_many_places_is_refused_before_it_is_made(extent: int) -> None:
    with pytest.raises(LayoutError, match="the limit is 67,108,864"):
        S[extent].is_bijective()


def test_a_single_element_groups_to_no_dimensions() -> None:
    assert S[1:1].group(()) == (S[1:1], (0,))
