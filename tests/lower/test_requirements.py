"""Requirements beyond Apache TVM's: its known defects, causes of refusals, forced variants, edges, tails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.lower.test_emitted_copies import outcome
from tests.support.proving import prove_verdict
from tests.support.upstream import layout_of, load
from tilejit.dtypes import DTYPES, DType, bfloat16, float8_e4m3fn, float16, float32, float64, int8, uint8
from tilejit.errors import DispatchError
from tilejit.ir.nodes import Const, Region, TileOp, Var
from tilejit.layout import S, Swizzle, TCol, TileLayout
from tilejit.layout.build import swizzled_atom_layout
from tilejit.lower import VARIANTS
from tilejit.lower.ask import OperandSpec, dispatch, operand, sym
from tilejit.lower.engine import Verdict
from tilejit.lower.engine import dispatch as choose
from tilejit.lower.variant import DispatchContext
from tilejit.ops.tile import TILE_OPERATIONS
from tilejit.target import target

DEFECTS = {c["id"]: c["setup"] for n in ("copy_gmem_smem", "copy_reg") for c in load(n) if "setup" in c}


def copy(scope: str, dst: OperandSpec, src: OperandSpec, threads: int, **options: object) -> Verdict:
    found = dispatch("copy", scope, dst, src, threads=threads, **options)  # type: ignore[arg-type]
    prove_verdict(found)
    return found


def defect_sides(name: str, near: str, far: str, space: str) -> tuple[OperandSpec, OperandSpec]:
    setup = DEFECTS[name]
    region = setup["region"]
    shape = setup.get("shape", [e for _, e in region])
    dtype = DTYPES[setup["dtype"]]
    return (
        operand(space, shape, dtype, layout_of(setup[near]), region=region),
        operand("global", shape, dtype, layout_of(setup[far]), region=region),
    )


def test_layouts_without_common_digits_pair_up_in_logical_order() -> None:
    shared, outside = defect_sides("defect/gs/incompatible_refinement", "s", "g", "shared")
    found = copy("thread", shared, outside, 1)
    assert found.variant == "gmem_smem"
    assert found.plan.schedule()[:5, 2:].tolist() == [[0, 0], [6, 1], [12, 2], [18, 3], [3, 8]]
    outcome(found.op, 1)


def test_a_partial_last_warp_takes_its_share() -> None:
    shared, outside = defect_sides("defect/gs/partial_last_warp", "s", "g", "shared")
    found = copy("cta", shared, outside, 48)
    assert (found.plan.threads, found.plan.rounds) == (48, 6)
    outcome(found.op, 48)


@pytest.mark.parametrize("name", ["partial_thread_stride2", "gapped_thread_chain"])
def test_threads_with_a_gap_are_refused_and_left_to_the_owners(name: str) -> None:
    registers, outside = defect_sides(f"defect/reg/{name}", "reg", "mem", "local")
    with pytest.raises(DispatchError) as refused:
        copy("warp", registers, outside, 32, variant="reg")
    (reason,) = refused.value.declines["reg"]
    assert "leave a gap or overlap" in reason
    found = copy("warp", registers, outside, 32)
    assert found.variant == "fallback"
    outcome(found.op, 32)
    outcome(copy("warp", outside, registers, 32).op, 32)


@pytest.mark.parametrize(
    ("name", "width", "rounds", "registers"),
    [
        ("memory_pitch_misaligned", 4, 2, [0, 4]),
        # wider than upstream's one element: registers that lie apart change names on the way
        ("register_stride_2", 4, 2, [0, 8]),
        ("register_gap", 4, 2, [0, 16]),
    ],
)
def test_the_vector_width_minds_pitch_and_registers(name: str, width: int, rounds: int, registers: list[int]) -> None:
    tile, outside = defect_sides(f"defect/reg/{name}", "reg", "mem", "local")
    found = copy("warp", tile, outside, 32)
    assert (found.plan.vector_width, found.plan.rounds) == (width, rounds)
    rows = found.plan.schedule()
    assert rows[rows[:, 1] == 0][:, 3].tolist() == registers
    outcome(found.op, 32)


def test_a_cast_of_pairs_at_an_odd_register_is_scalar() -> None:
    dst, src = (operand("local", (9,), t, region=[(1, 8)]) for t in (float16, float32))
    assert dispatch("cast", "thread", dst, src, threads=1).plan.vector_width == 1


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_arithmetic_rounds_to_nearest_without_flushing_on_every_target(name: str, arch: str) -> None:
    tile = operand("local", (8,), float32)
    inputs = [tile, tile, 0.5][: 3 if name == "fma" else 2]
    plan = dispatch(name, "thread", tile, *inputs, threads=1, target=arch).plan
    assert plan.packed == (f"{name}.rn.f32x2" if arch == "sm_100a" else None)


@pytest.mark.parametrize(("dtype", "width", "rounds"), [(float32, 4, 8), (float16, 8, 4), (uint8, 16, 2)])
def test_a_32x32_tile_moves_16_bytes_at_a_time(dtype: DType, width: int, rounds: int) -> None:
    sides = operand("shared", (32, 32), dtype), operand("global", (32, 32), dtype)
    plan = copy("warp", *sides, 32).plan
    assert (plan.vector_width, plan.rounds) == (width, rounds)
    assert plan.instructions == (("ld.global.v4.b32", rounds), ("st.shared.v4.b32", rounds))
    rows = plan.schedule()
    assert (rows[:, 2] == 32 * width * rows[:, 0] + width * rows[:, 1]).all()


def test_a_swizzle_made_for_wider_elements_limits_the_vector_to_its_chunk() -> None:
    layout = TileLayout.row_major((128, 128), Swizzle(3, 3, 3))
    plan = copy("warp", operand("shared", (128, 128), int8, layout), operand("global", (128, 128), int8), 32).plan
    assert plan.vector_width == 8
    assert "keeps 8 elements together" in plan.limit


def test_the_128_byte_swizzle_lands_where_worked_out() -> None:
    layout = TileLayout.row_major((128, 64), Swizzle(3, 3, 3))
    sides = operand("shared", (128, 64), float16, layout), operand("global", (128, 64), float16)
    rows = copy("warpgroup", *sides, 128).plan.schedule()
    (row,) = rows[(rows[:, 0] == 1) & (rows[:, 1] == 9)]
    assert row.tolist() == [1, 9, 1096, 1088]


def test_a_k_tiled_destination_is_written_tile_by_tile() -> None:
    layout = TileLayout.from_iters([(128, 8, "m"), (8, 1024, "m"), (8, 1, "m")])
    sides = operand("shared", (128, 64), float16, layout), operand("global", (128, 64), float16)
    plan = copy("cta", *sides, 128).plan
    rows = plan.schedule()
    assert plan.vector_width == 8
    assert rows[[1, 8], 3].tolist() == [1024, 8]


@pytest.mark.parametrize(("c", "width"), [(1, 1), (2, 2), (4, 4), (8, 4)])
def test_a_run_time_start_aligns_as_far_as_is_known_of_it(c: int, width: int) -> None:
    src = operand("global", (4096,), float32, region=[(sym("c", multiple_of=c), 4)])
    plan = dispatch("copy", "thread", operand("local", (4,), float32), src, threads=1).plan
    assert plan.vector_width == width
    assert plan.limit == "" if width == 4 else f"start 0 of src is a multiple of {4 * c} bytes" in plan.limit


@pytest.mark.parametrize(("align", "width"), [(16, 8), (8, 4), (4, 2), (2, 1)])
def test_run_time_strides_align_as_the_signature_promises(align: int, width: int) -> None:
    src = operand("global", (32, 64), float16, strides="runtime", align=align)
    plan = copy("warp", operand("shared", (32, 64), float16), src, 32).plan
    assert plan.vector_width == width


def test_padded_rows_narrow_the_vector_and_say_so() -> None:
    src = operand("global", (2, 16), float16, TileLayout.from_iters([(2, 20, "m"), (16, 1, "m")]))
    plan = copy("warp", operand("shared", (2, 16), float16), src, 32).plan
    assert plan.vector_width == 4
    assert plan.limit == "rows of src start every 40 bytes; needs a multiple of 16"


@pytest.mark.parametrize("dtype", [float64, bfloat16, float8_e4m3fn, DTYPES["bool_"], DTYPES["int64"]])
def test_every_type_moves_16_bytes_at_a_time(dtype: DType) -> None:
    found = copy("warp", operand("shared", (32, 32), dtype), operand("global", (32, 32), dtype), 32)
    assert found.plan.vector_bits == 128
    outcome(found.op, 32)


@pytest.mark.parametrize(("threads", "rounds"), [(32, 8), (96, 3), (128, 2), (256, 1), (1000, 1)])
def test_an_indivisible_region_is_shared_out_with_a_masked_tail(threads: int, rounds: int) -> None:
    found = copy("cta", operand("shared", (1000,), float32), operand("global", (1000,), float32), threads)
    assert (found.plan.vector_width, found.plan.rounds) == (4, rounds)
    outcome(found.op, threads)


def test_a_ragged_row_ends_with_narrower_vectors() -> None:
    sides = [operand(s, (6, 16), float16, region=[(0, 6), (0, 15)]) for s in ("shared", "global")]
    found = copy("warp", *sides, 32)
    assert (found.plan.vector_width, found.plan.tail) == (8, 7)
    outcome(found.op, 32)


@pytest.mark.parametrize("start", [-3, 0, 5])
@pytest.mark.parametrize("space", ["shared", "local"])
def test_what_lies_past_an_edge_reads_as_the_fill_and_is_not_written(start: int, space: str) -> None:
    layout = TileLayout.from_iters([(32, 1, "laneid"), (8, 1, "m")]) if space == "local" else None
    tile = operand(space, (32, 8), float32, layout)
    outside = operand("global", (30, 10), float32, region=[(start, 32), (start, 8)], strides="runtime", align=16)
    outcome(TileOp("copy", "warp", (tile.named("dst"), outside.named("src"))), 32)
    outcome(TileOp("copy", "warp", (outside.named("dst"), tile.named("src"))), 32)


def test_a_region_known_to_be_inside_has_no_predicate() -> None:
    outside = operand("global", (30, 10), float32, region=[(sym("i"), 8), (0, 8)], strides="runtime").named("src")
    trusted = Region(outside.buffer, outside.starts, outside.extents, in_bounds=True)
    dst = operand("shared", (8, 8), float32).named("dst")
    for src, dims in ((outside, (0,)), (trusted, ())):
        plan = choose(TileOp("copy", "warp", (dst, src)), DispatchContext(target("sm_90a"), 32), VARIANTS).plan
        assert plan.edges("src").dims == dims


def test_all_owners_of_a_replicated_tile_load_it_and_the_lowest_stores_it() -> None:
    layout = TileLayout.from_iters([(8, 4, "laneid"), (8, 1, "m")], [(4, 1, "laneid")])
    tile, outside = operand("local", (8, 8), float32, layout), operand("global", (8, 8), float32)
    loads, stores = copy("warp", tile, outside, 32), copy("warp", outside, tile, 32)
    assert sorted({int(t) for t in loads.plan.schedule()[:, 1]}) == list(range(32))
    assert sorted({int(t) for t in stores.plan.schedule()[:, 1]}) == list(range(0, 32, 4))
    outcome(loads.op, 32)
    outcome(stores.op, 32)


def test_a_register_start_known_at_run_time_has_one_branch_for_each() -> None:
    i = sym("i", multiple_of=4)
    dst = operand("local", (16,), float32, region=[(i, 4)])
    found = dispatch("copy", "thread", dst, operand("shared", (4,), float32), threads=1)
    assert (found.variant, found.plan.vector_width, found.plan.rounds) == ("reg", 4, 1)


def test_every_reason_of_a_variant_that_takes_such_operands_is_reported() -> None:
    with pytest.raises(DispatchError) as refused:
        dispatch("copy", "warpgroup", operand("shared", (8,), float32), operand("global", (4,), float16), threads=32)
    declines = refused.value.declines
    assert declines["gmem_smem"] == declines["fallback"] == (
        "a warpgroup has 128 threads; the CTA has 32",
        "needs one dtype on both sides; got float32 and float16 (cast converts)",
        "needs equal shapes; got (8,) and (4,)",
    )
    assert set(declines) == {v.name for v in VARIANTS if "copy" in v.operations}


def test_of_a_variant_for_other_operands_only_these_are_the_reason() -> None:
    with pytest.raises(DispatchError) as refused:
        columns = [operand("tmem", (n,), t, S[(n,) : (1 @ TCol,)]) for n, t in ((8, float32), (4, float16))]
        dispatch("copy", "warpgroup", *columns, threads=32)
    assert refused.value.declines == {
        "ldstmatrix": ("moves local <-> shared; got tmem -> tmem",),
        "gmem_smem": ("moves global <-> shared; got tmem -> tmem",),
        "reg": ("moves local <-> shared or global; got tmem -> tmem",),
        "rename": ("moves local -> local; got tmem -> tmem",),
        "shuffle": ("moves local -> local; got tmem -> tmem",),
        "through_shared": ("moves local -> local; got tmem -> tmem",),
        "fallback": ("moves among global, shared and local; got tmem -> tmem",),
    }


@pytest.mark.parametrize(
    ("name", "operands", "reason"),
    [
        ("copy", (operand("shared", (8,), float32), 1.0), "needs src in memory or registers; got a scalar"),
        ("sqrt", (1.0, operand("local", (8,), float32)), "needs dst in memory or registers; got a scalar"),
        ("gemm", (*[operand("local", (8, 8), float32)] * 2, 1.0), "needs b in memory or registers; got a scalar"),
        ("fill", [operand("shared", (8,), float32)] * 2, "needs a scalar as value; got value, in shared memory"),
    ],
)
def test_operands_of_the_wrong_kind_are_a_reason_of_every_variant(
    name: str, operands: Sequence[OperandSpec | float], reason: str
) -> None:
    with pytest.raises(DispatchError) as refused:
        dispatch(name, "warp", *operands, threads=32)
    assert all(reason in reasons for reasons in refused.value.declines.values())


def test_the_declines_say_why_the_other_variants_were_not_chosen() -> None:
    found = copy("warp", operand("shared", (32, 32), float16), operand("global", (32, 32), float16), 32)
    assert found.declines["reg"] == ("moves local <-> shared or global; got global -> shared",)
    assert found.declines["fallback"] == ("gmem_smem comes first: its priority is 10",)


def test_a_variant_can_be_forced_by_name() -> None:
    sides = operand("shared", (32, 32), float16), operand("global", (32, 32), float16)
    found = copy("warp", *sides, 32, variant="fallback")
    assert (found.variant, found.plan.vector_width, found.plan.rounds) == ("fallback", 1, 32)
    with pytest.raises(DispatchError, match="variant reg doesn't accept"):
        copy("warp", *sides, 32, variant="reg")
    with pytest.raises(DispatchError, match="no variant 'gmem'") as unknown:
        copy("warp", *sides, 32, variant="gmem")
    assert "gmem_smem" in str(unknown.value)


def test_a_transfer_narrower_than_required_is_an_error_with_the_cause() -> None:
    src = operand("global", (2, 16), float16, TileLayout.from_iters([(2, 18, "m"), (16, 1, "m")]))
    with pytest.raises(DispatchError) as refused:
        copy("warp", operand("shared", (2, 16), float16), src, 32, require_bits=128)
    (reason,) = refused.value.declines["gmem_smem"]
    assert reason.startswith("moves 32 bits at a time; require_bits=128: rows of src start every 36 bytes")


def test_two_variants_that_tie_are_an_error_that_names_both() -> None:
    (first,) = (v for v in VARIANTS if v.name == "gmem_smem")
    second = replace(first, name="twin")
    dst, src = operand("shared", (32,), float32).named("dst"), operand("global", (32,), float32).named("src")
    with pytest.raises(DispatchError, match="gmem_smem and twin"):
        choose(TileOp("copy", "warp", (dst, src)), DispatchContext(target("sm_90a"), 32), (*VARIANTS, second))


def test_a_tile_of_a_wider_scope_is_refused_by_name() -> None:
    tile = operand("local", (128, 8), float32, TileLayout.from_iters([(128, 1, "tx"), (8, 1, "m")]))
    with pytest.raises(DispatchError) as refused:
        copy("warp", tile, operand("shared", (128, 8), float32), 128)
    (reason,) = refused.value.declines["reg"]
    assert reason == "tx counts threads within a cta; the operation is called on one warp"


def test_local_tiles_in_different_lanes_go_by_shuffles() -> None:
    across = TileLayout.from_iters([(8, 1, "m"), (32, 1, "laneid")])
    along = TileLayout.from_iters([(8, 4, "laneid"), (4, 1, "laneid"), (8, 1, "m")])
    sides = (operand("local", (8, 32), float32, layout) for layout in (across, along))
    found = copy("warp", *sides, 32)
    assert found.variant == "shuffle"
    assert "248 of 256 values aren't held by the threads" in found.declines["rename"][0]
    prove_verdict(found)


def test_local_tiles_in_different_warps_go_through_shared_memory() -> None:
    across = TileLayout.from_iters([(8, 1, "m"), (64, 1, "tx")])
    along = TileLayout.from_iters([(8, 8, "tx"), (8, 1, "tx"), (8, 1, "m")])
    sides = (operand("local", (8, 64), float32, layout) for layout in (across, along))
    found = copy("cta", *sides, 64)
    assert found.variant == "through_shared"
    assert found.declines["shuffle"] == ("256 of 512 values aren't held by the warps that need them",)
    outcome(found.op, 64)


def test_shuffles_that_cost_more_than_shared_memory_are_declined_with_both_costs() -> None:
    rows = TileLayout.from_iters([(32, 1, "laneid"), (64, 1, "m")])
    columns = TileLayout.from_iters([(32, 2, "m"), (2, 1, "m"), (32, 1, "laneid")])
    sides = (operand("local", (32, 64), float32, layout) for layout in (columns, rows))
    found = copy("warp", *sides, 32)
    assert found.variant == "through_shared"
    (reason,) = found.declines["shuffle"]
    assert reason.startswith("62 shuffles and 640 selects cost 950 quarter cycles per warp; shared memory costs ")
    outcome(found.op, 32)


ROWS_OF_96 = TileLayout.from_iters([(32, 1, "laneid"), (96, 1, "m")])


@pytest.mark.parametrize(
    ("start", "shown"),
    [(32, "32 on aren't"), (0, "0 on aren't"), (sym("i", multiple_of=32), "a run-time start on may not be")],
)
def test_a_region_that_cuts_through_swizzle_atoms_is_named_with_its_numbers(start: int | Var, shown: str) -> None:
    atoms = swizzled_atom_layout((32, 256), 16, "128B")
    region = ((0, 32), (start, 96))
    tile, place = (
        operand("local", (32, 96), float16, ROWS_OF_96),
        operand("shared", (32, 256), float16, atoms, region),
    )
    found = copy("warp", tile, place, 32)
    reason = f"dimension 1 of src is split as 4·64; 96 elements from {shown} whole parts"
    assert (found.variant, found.declines["reg"]) == ("fallback", (reason,))
    assert found.declines["ldstmatrix"][0].startswith(reason + " (take whole parts")
    if isinstance(start, int):
        outcome(found.op, 32)


def test_tiles_whose_threads_split_a_dimension_without_common_digits_are_named_with_both() -> None:
    dst, a = (
        operand(
            "local",
            (32 * 36,),
            float32,
            TileLayout.from_iters([(n, 36 // n, "m"), (32, 1, "laneid"), (36 // n, 1, "m")]),
        )
        for n in (4, 6)
    )
    with pytest.raises(DispatchError) as refused:
        dispatch("sqrt", "warp", dst, a, threads=32)
    reason = "operands split a dimension over threads in incompatible ways: dst as 4·32·9 and src as 6·32·6"
    assert refused.value.declines["reg"] == (reason,)
    assert refused.value.hint == "choose layouts and regions whose extents divide each other"


def test_a_schedule_is_a_numpy_array_of_integers() -> None:
    rows = copy("warp", operand("shared", (32,), float32), operand("global", (32,), float32), 32).plan.schedule()
    assert isinstance(rows, np.ndarray) and rows.dtype == np.int64 and rows.shape[1] == 4


def test_a_scalar_operand_takes_the_tiles_type() -> None:
    tile = operand("local", (8,), float16)
    (scalar,) = (o for o in dispatch("add", "thread", tile, tile, 2, threads=1).op.operands if isinstance(o, Const))
    assert scalar == Const(2.0, float16)


@pytest.mark.parametrize(
    ("name", "attrs", "message"),
    [
        ("copy", {"precision": "tf32"}, "copy has no attribute 'precision'"),
        ("fill", {"require_bits": 32}, "fill has no attribute 'require_bits'"),
        ("copy", {"require_bits": "32"}, "copy: require_bits= takes int; got '32'"),
        ("cast", {"saturate": 1}, "cast: saturate= takes bool; got 1"),
    ],
)
def test_attributes_are_those_of_the_record(name: str, attrs: dict[str, Any], message: str) -> None:
    tile = operand("local", (4,), float32)
    with pytest.raises(DispatchError, match=f"^{re.escape(message)}") as refused:
        dispatch(name, "thread", tile, 1 if name == "fill" else tile, threads=1, **attrs)
    assert refused.value.hint == f"its attributes are {', '.join(a.name for a in TILE_OPERATIONS[name].attrs)}"


@pytest.mark.parametrize("saturate", [True, False, None])
def test_every_attribute_can_be_asked_with(saturate: bool | None) -> None:
    tile = operand("local", (4,), float32)
    op = dispatch("cast", "thread", tile, tile, threads=1, variant="reg", saturate=saturate, precision=None).op
    assert op.attr("saturate") is not (saturate is False)
    assert op.attrs == (("variant", "reg"), *([] if saturate is None else [("saturate", saturate)]))
