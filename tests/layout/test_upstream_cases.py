"""What Apache TVM's layout algebra was seen to compute, case by case (tests/data/README.md)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.upstream import Case, load
from tilejit.dtypes import DTYPES, float32
from tilejit.errors import LayoutError
from tilejit.layout import (
    TCGEN05_SHAPES,
    S,
    Swizzle,
    TileLayout,
    atom_layout,
    datapath,
    m,
    swizzled_atom_layout,
)

CASES: list[Case] = load("layout")
BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "float4_e2m1fn": 4, "uint8": 8}
MODES = {"SWIZZLE_NONE": "none", "SWIZZLE_64B_ATOM": "64B", "SWIZZLE_128B_ATOM": "128B"}


def of_op(*ops: str) -> list[Any]:
    return [pytest.param(c, id=f"{c['id']}@{k}") for k, c in enumerate(CASES) if c.get("op") in ops]


def layout_of(data: Case) -> TileLayout:
    swizzle = None
    if "swizzle" in data:
        s = data["swizzle"]
        swizzle = Swizzle(s["swizzle_len"], s["per_element"], s["atom_len"], s["inner"])
    offset = {name: value for name, value in data.get("offset", {}).items() if not isinstance(value, dict)}
    return TileLayout.from_iters(data["shard"], data.get("replica", ()), offset, swizzle)


def same(mine: TileLayout | None, expected: Case | None) -> bool:
    """Equal but for iterators of extent 1, for split iterators, and for names of fused thread axes."""
    if mine is None or expected is None:
        return mine is expected
    return mine.canonical() == layout_of(expected).canonical()


@pytest.mark.parametrize("case", of_op("canonicalize"))
def test_canonical_agrees_with_upstream(case: Case) -> None:
    fuse = case.get("cuda_fusion_active", False)
    assert layout_of(case["layout"]).canonical(fuse) == layout_of(case["expect"]["result"])


@pytest.mark.parametrize("case", of_op("get_scope"))
def test_scope_agrees_with_upstream(case: Case) -> None:
    assert layout_of(case["layout"]).scope == tuple(case["expect"]["result"])


@pytest.mark.parametrize("case", of_op("verify_well_formed"))
def test_well_formed_layouts_are_accepted(case: Case) -> None:
    layout_of(case["layout"]).verify_well_formed()


@pytest.mark.parametrize("case", of_op("size", "span"))
def test_size_and_span_agree_with_upstream(case: Case) -> None:
    measure = getattr(layout_of(case["layout"]), case["op"])
    assert measure(case["axis"]) == case["expect"]["result"]


@pytest.mark.parametrize("case", of_op("apply"))
def test_apply_agrees_with_upstream_at_every_sampled_point(case: Case) -> None:
    layout, shape = layout_of(case["layout"]), case["shape"]
    for coord, place in case["points"]:
        found = layout.apply(*coord, shape=shape)
        assert isinstance(found, dict)
        assert {a: v for a, v in found.items() if v} == {a: v for a, v in place.items() if v}, coord


@pytest.mark.parametrize("case", of_op("apply_with_replica"))
def test_apply_lists_every_replica(case: Case) -> None:
    layout = layout_of(case["layout"])
    for coord, place in case["points"]:
        found = layout.apply(*coord, shape=case["shape"])
        assert isinstance(found, list)
        assert [p["warpid"] for p in found] == place["replica_warpids"]
        assert all((p["laneid"], p["m"]) == (place["laneid"], place["m"]) for p in found)


@pytest.mark.parametrize("case", of_op("tile"))
def test_tile_agrees_with_upstream(case: Case) -> None:
    tiled = layout_of(case["layout"]).tile(layout_of(case["outer"]), case["outer_shape"], case["inner_shape"])
    assert same(tiled, case["expect"]["result"])


@pytest.mark.parametrize("case", of_op("is_tile_inner"))
def test_is_tile_inner_agrees_with_upstream(case: Case) -> None:
    inner, tiled = layout_of(case["layout"]), layout_of(case["tiled"])
    assert same(inner.is_tile_inner(tiled, case["tiled_shape"], case["inner_shape"]), case["expect"]["result"])


@pytest.mark.parametrize("case", of_op("is_tile_outer"))
def test_is_tile_outer_agrees_with_upstream(case: Case) -> None:
    outer, tiled = layout_of(case["layout"]), layout_of(case["tiled"])
    assert same(outer.is_tile_outer(tiled, case["tiled_shape"], case["outer_shape"]), case["expect"]["result"])


@pytest.mark.parametrize("case", of_op("direct_sum"))
def test_direct_sum_agrees_with_upstream(case: Case) -> None:
    total = layout_of(case["layout"]).direct_sum(layout_of(case["left"]), case["left_shape"], case["right_shape"])
    assert same(total, case["expect"]["result"])


@pytest.mark.parametrize("case", of_op("is_direct_sum_left"))
def test_is_direct_sum_left_agrees_with_upstream(case: Case) -> None:
    left, total = layout_of(case["layout"]), layout_of(case["sum"])
    right = left.is_direct_sum_left(total, case["interleaved_shape"], case["left_shape"])
    assert right is not None
    assert same(right, case["expect"]["result"])


@pytest.mark.parametrize("case", of_op("group_many"))
def test_group_many_agrees_with_upstream(case: Case) -> None:
    grouped, separators = layout_of(case["layout"]).group_many(case["shapes"])
    layout, expected = case["expect"]["result"]
    assert grouped == layout_of(layout)
    assert [list(s) for s in separators] == expected


@pytest.mark.parametrize("case", of_op("permute_dims", "permute_by_groups"))
def test_permuting_iterators_and_groups_agrees_with_upstream(case: Case) -> None:
    layout = layout_of(case["layout"])
    separators = case.get("seps", range(len(layout.shard) + 1))
    assert layout.permute_groups(separators, case["perm"]) == layout_of(case["expect"]["result"])


@pytest.mark.parametrize("case", of_op("storage"))
def test_storage_agrees_with_upstream(case: Case) -> None:
    assert layout_of(case["layout"]).storage() == layout_of(case["expect"]["result"])


@pytest.mark.parametrize("case", of_op("pack", "unpack"))
def test_pack_and_unpack_agree_with_upstream(case: Case) -> None:
    repacked = getattr(layout_of(case["layout"]), case["op"])(case["num"])
    assert repacked == layout_of(case["expect"]["result"])


def runtime_start(case: Case) -> bool:
    """Whether a start or an offset is a symbol."""
    starts = [start for start, _ in case["region"]]
    return any(isinstance(v, dict) for v in (*starts, *case["layout"].get("offset", {}).values()))


STATIC_SLICES = [p for p in of_op("slice", "slice_then_canonicalize") if not runtime_start(p.values[0])]


@pytest.mark.parametrize("case", STATIC_SLICES)
def test_slice_agrees_with_upstream(case: Case) -> None:
    part = layout_of(case["layout"]).slice(case["shape"], case["region"])
    assert same(part, case["expect"]["result"])
    if "thread_axis" in case["expect"]:
        assert part.size(case["expect"]["thread_axis"]) == case["expect"]["thread_total"]


def test_a_stage_known_at_run_time_moves_the_window_by_whole_stages() -> None:
    # layout/slice/symbolic_begin_single_iter: offset 16384 * stage.
    layout = S[(3, 128, 128) : (16384, 128, 1)]
    window, moves = layout.window((3, 128, 128), (1, 128, 128), (1, 128, 128))
    assert window.equivalent(S[16384:1])
    assert (moves[0].stride, moves[0].axis.name) == (16384, "m")


def test_a_slice_adds_to_the_offset_that_is_there() -> None:
    # layout/slice/offset_accumulates: 64 * w + 128, here with w = 3.
    part = (S[(4, 64) : (64, 1)] + 64 * 3).slice((4, 64), [(2, 2), (0, 64)])
    assert part == S[(2, 64) : (64, 1)] + (64 * 3 + 128)


# fallback_symbolic_stride has a run-time stride; layouts hold integers.
STRUCTURED = [p for p in of_op("structured_apply") if "symbolic_stride" not in p.values[0]["id"]]


@pytest.mark.parametrize("case", STRUCTURED)
def test_swizzled_addresses_agree_with_upstreams_structured_form(case: Case) -> None:
    data = case["layout"]
    layout = layout_of(data)
    symbols = isinstance(data.get("offset", {}).get("m"), dict)
    for at, address in case["expect"].get("points", []):
        coord, offsets = at, [0]
        if "constant_offsets" in case:
            offsets = case["constant_offsets"]
        if symbols:
            x, y, h, lane = at
            coord, offsets = [x, y], [64 * h + lane % 8 + 16]
        shape = case.get("logical_shape")
        found = [(layout + k).apply(*coord, shape=shape) for k in offsets]
        assert [f["m"] for f in found if isinstance(f, dict)] == (address if len(offsets) > 1 else [address])


def rounds_of(case: Case) -> NDArray[np.int64]:
    """The offset of every round."""
    iters = zip(case["iter_extents"], case["iter_strides"], strict=True)
    return TileLayout.from_iters([(extent, stride, "m") for extent, stride in iters]).map_all()["m"]


@pytest.mark.parametrize("case", of_op("swizzled_round_addresses"))
def test_one_xor_a_round_gives_upstreams_addresses(case: Case) -> None:
    s = case["swizzle"]
    swizzle = Swizzle(s["swizzle_len"], s["per_element"], s["atom_len"], s["inner"])
    table = rounds_of(case)
    bases = 0
    for tid, _, _ in case["expect"]["points"]:
        bases |= tid * case["base_per_tid"]
    for tid, k, address in case["expect"]["points"]:
        base, offset = tid * case["base_per_tid"], int(table[k])
        assert swizzle.xor_separable(bases, offset)
        assert swizzle.apply(base) ^ swizzle.apply(offset) == address


@pytest.mark.parametrize("case", of_op("legacy_swizzle_recognizer"))
def test_rounds_of_the_signed_stride_form_are_one_xor_where_no_bits_are_shared(case: Case) -> None:
    s = case["swizzle"]
    swizzle = Swizzle(s["swizzle_len"], s["per_element"], s["atom_len"], s["inner"])
    factor = {"tid*64": 64, "tid*8": 8}.get(case["base"]["sym"], 1) if isinstance(case["base"], dict) else 0
    bases = 0
    for tid in range(32):
        bases |= tid * factor
    offsets = rounds_of(case)
    # Steps inside a chunk (case 3) are no register adds upstream, but they are a xor.
    expected = case["expect"]["recognized"] is not None or case["id"].endswith("/3")
    assert all(swizzle.xor_separable(bases, int(k)) for k in offsets) == expected


@pytest.mark.parametrize("case", of_op("wg_local_layout"))
def test_rows_of_threads_agree_with_upstream(case: Case) -> None:
    (columns,), rows = case["args"], case["kwargs"].get("rows", 128)
    whole = atom_layout("32x32b", columns, float32)
    assert whole.slice((128, columns), [(0, rows), (0, columns)]) == layout_of(case["expect"]["result"])


@pytest.mark.parametrize("case", of_op("mma_shared_layout"))
def test_swizzled_atom_layouts_agree_with_upstream(case: Case) -> None:
    dtype, mode, shape = case["args"]
    layout = swizzled_atom_layout(shape, BITS[dtype], MODES[mode])
    assert same(layout, case["expect"]["result"])
    assert layout.size() == math.prod(shape)


@pytest.mark.parametrize("case", of_op("tmem_datapath_layout"))
def test_tensor_memory_data_paths_agree_with_upstream(case: Case) -> None:
    half = case["kwargs"].get("sub_slab", 0)
    if case["expect"].get("error"):
        with pytest.raises(LayoutError, match=f"data path {case['args'][0]}"):
            datapath(*case["args"], half)
        return
    assert datapath(*case["args"], half) == layout_of(case["expect"]["result"])


@pytest.mark.parametrize("case", of_op("tcgen05_atom_layout"))
def test_tcgen05_fragments_agree_with_upstream(case: Case) -> None:
    shape, (rows, columns), name = case["args"]
    expect, dtype, is_folded = case["expect"], DTYPES[name], (shape, rows) == ("32x32b", 64)
    form = TCGEN05_SHAPES.get(shape)
    if form is None:
        with pytest.raises(LayoutError, match="no tcgen05 shape"):
            atom_layout(shape, 1, dtype, rows)
        return
    step = form.columns * (2 if is_folded else 1) * 32 // dtype.bits
    num = columns // step
    if dtype.bits == 8 or is_folded and dtype.bits != 32:
        # upstream has no such elements; ours are the parts of its words
        assert expect.get("error")
        words = atom_layout(shape, max(num, 1), float32, rows)
        assert atom_layout(shape, max(num, 1), dtype, rows).equivalent(words.unpack(32 // dtype.bits))
        return
    if expect.get("error"):
        with pytest.raises(LayoutError):
            atom_layout(shape, num if num * step == columns else columns / step, dtype, rows)
        return
    layout = atom_layout(shape, num, dtype, rows)
    assert same(layout, expect["result"]) and layout.size() == rows * columns
    if "issue_num" in expect:
        assert (num, layout.span(m) * dtype.bits // 32) == (expect["issue_num"], expect["regs32_per_thread"])


def test_offsets_that_fuse_onto_one_axis_add_up() -> None:
    # defect/layout/offset_fusion_collision: upstream keeps 64, the last one.
    layout = TileLayout.from_iters([(8, 4, "laneid"), (4, 1, "m")], offset={"laneid": 3, "warpid": 2})
    assert {a.name: v for a, v in layout.canonical().offset} == {"tx": 67}


def test_warpgroup_and_warp_axes_fuse_to_warps_of_the_cta() -> None:
    # defect/layout/wgid_warp_cta_name: upstream multiplies by 4 and keeps the name wgid.
    layout = TileLayout.from_iters([(2, 1, "wgid"), (4, 1, "wid_in_wg")])
    assert layout.canonical() == TileLayout.from_iters([(8, 1, "warpid")])


def test_the_scope_of_a_grid_axis_next_to_tx_is_found() -> None:
    # defect/layout/bx_scope_hang: upstream never returns.
    assert TileLayout.from_iters([(4, 1, "bx"), (32, 1, "tx")]).scope == ("thread", "grid")


def test_every_case_is_either_run_here_or_belongs_to_a_dispatch_variant() -> None:
    here = {
        "canonicalize", "get_scope", "verify_well_formed", "size", "span", "apply", "apply_with_replica", "tile",
        "is_tile_inner", "is_tile_outer", "direct_sum", "is_direct_sum_left", "group_many", "permute_dims",
        "permute_by_groups", "storage", "pack", "unpack", "slice", "slice_then_canonicalize", "structured_apply",
        "swizzled_round_addresses", "legacy_swizzle_recognizer", "wg_local_layout", "mma_shared_layout",
        "tmem_datapath_layout", "tcgen05_atom_layout", None,
    }
    elsewhere = {"gmem_smem_partition", "thread_local_partition", "permute_choose_k", "tmem_mma_operand_layout"}
    assert {c.get("op") for c in CASES} == here | elsewhere
