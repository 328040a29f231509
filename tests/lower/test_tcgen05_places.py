"""Copies between tensor memory and registers move each element from its place to its place, by a longhand oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.test_golden import kernel
from tests.support.goldens import Golden, joined
from tilejit.dtypes import DType, bfloat16, float16, float32, float64, int8, int32, int64, uint8
from tilejit.errors import DispatchError, LayoutError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Expr, Instruction, Sync, TileOp, Var
from tilejit.ir.text.printer import to_text
from tilejit.layout import TCGEN05_SHAPES, R, S, TileLayout, atom_layout, datapath, laneid, tid_in_wg, tx
from tilejit.lower import lower
from tilejit.lower.ask import OperandSpec, dispatch, operand, sym
from tilejit.lower.passes import pending
from tilejit.target import target

#: PTX ISA, the figures of each shape for .x1: (row, 32-bit column) of register r of lane l, as the lists of rows and
#: columns of lanes 0 to 3; four lanes further is one row further
LANES_0_TO_3: dict[str, list[list[tuple[int, int]]]] = {
    "16x64b": [[(0, 0), (8, 0), (0, 1), (8, 1)]],
    "16x128b": [[(0, 0), (0, 1), (0, 2), (0, 3)], [(8, 0), (8, 1), (8, 2), (8, 3)]],
    "16x256b": [
        [(0, 0), (0, 2), (0, 4), (0, 6)], [(0, 1), (0, 3), (0, 5), (0, 7)],
        [(8, 0), (8, 2), (8, 4), (8, 6)], [(8, 1), (8, 3), (8, 5), (8, 7)],
    ],
}


def hardware_place(shape: str, lane: int, register: int) -> tuple[int, int]:
    """(row, column) that one instruction of any number moves to or from a lane's register."""
    if shape == "32x32b":
        return lane, register
    form = LANES_0_TO_3[shape]
    row, column = form[register % len(form)][lane % 4]
    return row + lane // 4, column + TCGEN05_SHAPES[shape].columns * (register // len(form))


def moved(plan: Any) -> dict[tuple[int, int], tuple[int, int]]:
    """(thread, 32-bit register) -> (TMEM lane, 32-bit column), as the hardware carries the plan out."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for _, row, column, first, count in plan.schedule().tolist():
        for thread in range(128):
            for k in range(count):
                down, along = hardware_place(plan.shape, thread % 32, k)
                assert (thread, first + k) not in found, "a register is moved twice"
                found[thread, first + k] = (thread // 32 * 32 + row + down, column + along)
    return found


THREADS = {"laneid": 1, "wid_in_wg": 32, "tid_in_wg": 1}


def expected(local: OperandSpec, tmem: OperandSpec) -> dict[tuple[int, int], tuple[int, int]]:
    """As `moved`, element by element from the layouts."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    packed = 32 // local.dtype.bits
    (r0, rows), (c0, columns) = local.region or tuple((0, n) for n in local.shape)
    (t0, _), (u0, _) = tmem.region or tuple((0, n) for n in tmem.shape)
    for i in range(rows):
        for j in range(columns):
            held = local.layout.apply(r0 + i, c0 + j, shape=local.shape)
            there = tmem.layout.apply(t0 + i, u0 + j, shape=tmem.shape)
            thread = sum(THREADS[a] * v for a, v in held.items() if a in THREADS)
            register, column = held.get("m", 0), there.get("TCol", 0)
            assert register % packed == column % packed
            found.setdefault((thread, register // packed), (there.get("TLane", 0), column // packed))
            assert found[thread, register // packed] == (there.get("TLane", 0), column // packed)
    return found


def check(local: OperandSpec, tmem: OperandSpec, store: bool) -> Any:
    pair = (tmem, local) if store else (local, tmem)
    plan = dispatch("copy_async", "warpgroup", *pair, target="sm_100a").plan
    assert moved(plan) == expected(local, tmem)
    verb = "st" if store else "ld"
    assert sum(trips for _, trips in plan.instructions) == plan.issues
    assert all(name.startswith(f"tcgen05.{verb}.sync.aligned.{plan.shape}.x") for name, _ in plan.instructions)
    return plan


@st.composite
def atoms(draw: st.DrawFn) -> tuple[OperandSpec, OperandSpec, str, int, int]:
    """A whole register tile of some instruction, and columns of a larger allocation on a data path that fits it."""
    shape = draw(st.sampled_from(sorted(TCGEN05_SHAPES)))
    num = 1 << draw(st.integers(0, 4))
    dtype = draw(st.sampled_from((uint8, int8, float16, bfloat16, float32, int32)))
    rows = draw(st.sampled_from((64, 128)))
    halves = 2 if (shape, rows) == ("32x32b", 64) else 1
    packed = 32 // dtype.bits
    width = num * TCGEN05_SHAPES[shape].columns * packed * halves
    layout = atom_layout(shape, num, dtype, rows)
    if halves == 2:
        tmem = operand("tmem", (64, width), dtype, datapath("B", 64, width))
        return operand("local", (64, width), dtype, layout), tmem, shape, num, 1
    start = packed * draw(st.integers(0, 9))
    size = (rows, start + width + packed * draw(st.integers(0, 9)))
    path = datapath("D", *size) if rows == 128 else datapath("F", *size, half=draw(st.integers(0, 1)))
    place = operand("tmem", size, dtype, path, region=((0, rows), (start, width)))
    return operand("local", (rows, width), dtype, layout), place, shape, num, 1 if shape == "32x32b" else rows // 64


@given(atoms(), st.booleans())
def test_a_whole_atom_is_one_instruction_of_its_own_shape_for_each_slab(
    case: tuple[OperandSpec, OperandSpec, str, int, int], store: bool
) -> None:
    local, tmem, shape, num, slabs = case
    plan = check(local, tmem, store)
    assert (plan.shape, plan.num, plan.slabs, plan.issues) == (shape, num, slabs, slabs)


@given(st.data(), st.booleans())
def test_column_regions_of_a_register_tile_are_moved_in_as_few_powers_of_two_as_there_are(
    data: st.DataObject, store: bool
) -> None:
    shape = data.draw(st.sampled_from(sorted(TCGEN05_SHAPES)))
    dtype = data.draw(st.sampled_from((uint8, float16, float32)))
    step = TCGEN05_SHAPES[shape].columns * 32 // dtype.bits
    first = data.draw(st.integers(0, 7))
    units = data.draw(st.integers(1, 8 - first))
    local = operand(
        "local", (128, 8 * step), dtype, atom_layout(shape, 8, dtype), ((0, 128), (first * step, units * step))
    )
    columns = 40 * step
    at = data.draw(st.integers(0, (columns - units * step) * dtype.bits // 32)) * 32 // dtype.bits
    tmem = operand("tmem", (128, columns), dtype, datapath("D", 128, columns), ((0, 128), (at, units * step)))
    plan = check(local, tmem, store)
    assert plan.shape == shape
    assert plan.issues == units.bit_count() * (1 if shape == "32x32b" else 2)


@given(st.data(), st.booleans())
def test_whatever_layout_is_accepted_is_moved_right(data: st.DataObject, store: bool) -> None:
    """Registers in any order: each is refused, or moved as the layouts say."""
    shape = data.draw(st.sampled_from(sorted(TCGEN05_SHAPES)))
    base = atom_layout(shape, 4, float32)
    memory = [it.stride for it in base.shard if it.axis.name == "m"]
    shuffled = iter(data.draw(st.permutations(memory)))
    iters = [(it.extent, next(shuffled) if it.axis.name == "m" else it.stride, it.axis.name) for it in base.shard]
    layout = TileLayout.from_iters(iters)
    if not layout.is_injective():
        return
    columns = 4 * TCGEN05_SHAPES[shape].columns
    local = operand("local", (128, columns), float32, layout)
    tmem = operand("tmem", (128, columns), float32, datapath("D", 128, columns))
    try:
        check(local, tmem, store)
    except DispatchError as refused:
        assert "match none of the shapes" in str(refused)


@pytest.mark.parametrize(("shape", "num"), [(s.name, 1 << k) for s in TCGEN05_SHAPES.values() for k in range(8)])
@pytest.mark.parametrize("dtype", [uint8, float16, float32])
def test_atom_layouts_say_what_the_instruction_moves(shape: str, num: int, dtype: DType) -> None:
    form = TCGEN05_SHAPES[shape]
    if num > form.max_num:
        with pytest.raises(LayoutError, match="a power of two up to"):
            atom_layout(shape, num, dtype)
        return
    layout = atom_layout(shape, num, dtype)
    packed = 32 // dtype.bits
    registers = num * form.registers * packed * (1 if shape == "32x32b" else 2)
    assert layout.is_bijective() and layout.storage().span() == registers
    assert layout.size() == 128 * num * form.columns * packed
    lane, register = 13, num * form.registers - 1
    row, column = hardware_place(shape, lane, register)
    slab = 0 if shape == "32x32b" else 16
    at = layout.apply(96 + row, column * packed, shape=(128, num * form.columns * packed))
    below = layout.apply(96 + row + slab, column * packed, shape=(128, num * form.columns * packed))
    assert at["m"] == register * packed
    assert below["m"] == (register + (num * form.registers if slab else 0)) * packed


def test_128_rows_of_tensor_memory_lie_on_data_path_d_where_nothing_else_is_said() -> None:
    local = operand("local", (128, 8), float16, S[(128, 8) : (1 @ tid_in_wg, 1)])
    plan = dispatch("copy_async", "warpgroup", operand("tmem", (128, 8), float16), local, target="sm_100a").plan
    assert (plan.shape, plan.num, plan.slabs, plan.issues) == ("32x32b", 4, 1, 1)


def test_columns_may_start_at_a_run_time_multiple_of_a_word() -> None:
    local = operand("local", (128, 8), float16, S[(128, 8) : (1 @ tid_in_wg, 1)])
    place = operand("tmem", (128, 64), float16, datapath("D", 128, 64), ((0, 128), (sym("c", multiple_of=2), 8)))
    plan = dispatch("copy_async", "warpgroup", place, local, target="sm_100a").plan
    assert plan.schedule().tolist() == [[0, 0, 0, 0, 4]]
    odd = operand("tmem", (128, 64), float16, datapath("D", 128, 64), ((0, 128), (sym("c"), 8)))
    with pytest.raises(DispatchError, match="isn't known to be a multiple of 2") as caught:
        dispatch("copy_async", "warpgroup", odd, local, target="sm_100a")
    assert "multiple_of=" in (caught.value.hint or "")


@given(
    st.sampled_from([float32, float16, int8]), st.booleans(), st.integers(0, 3), st.integers(0, 5), st.integers(0, 24),
    st.integers(0, 24),
)
def test_run_time_starts_may_have_constant_parts(
    dtype: DType, loads: bool, i: int, j: int, column: int, register: int
) -> None:
    """`z + 8` isn't 0 where z is; lowering proves each plan against the layouts."""
    packed = 32 // dtype.bits
    z = sym("z", multiple_of=packed)

    def start(past: int) -> Expr:
        return build.add(build.add(build.mul(z, i), build.mul(sym("y"), j * packed)), past * packed)

    layout = S[(128, 32 * packed) : (1 @ tid_in_wg, 1)]
    local = operand("local", (128, 32 * packed), dtype, layout).named("r")
    tmem = operand("tmem", (128, 32 * packed), dtype).named("t")
    zero = build.const(0, int64)
    local = replace(local, starts=(zero, start(register)), extents=(128, 8 * packed))
    tmem = replace(tmem, starts=(zero, start(column)), extents=(128, 8 * packed))
    copy = TileOp("copy_async", "warpgroup", (local, tmem) if loads else (tmem, local))
    lower(kernel("moving", 128, [local, tmem], copy, target="sm_100a"), target("sm_100a"))


def test_rows_start_at_constants() -> None:
    local = operand("local", (64, 8), float32, atom_layout("16x256b", 1, float32, rows=64))
    layout = datapath("D", 128, 8)
    place = operand("tmem", (128, 8), float32, layout, ((sym("r", multiple_of=64), 64), (0, 8)))
    with pytest.raises(DispatchError, match="start 0 of dst is known only at run time, and selects a lane"):
        dispatch("copy_async", "warpgroup", place, local, target="sm_100a")


def test_a_run_time_register_is_one_copy_for_each_start() -> None:
    rows = S[(128, 32) : (1 @ tid_in_wg, 1)]
    start: Var = sym("c", multiple_of=8)
    local = operand("local", (128, 32), float32, rows, ((0, 128), (start, 8))).named("r")
    tmem = operand("tmem", (128, 8), float32, datapath("D", 128, 8)).named("t")
    made = kernel("moving", 128, [local, tmem], TileOp("copy_async", "warpgroup", (local, tmem)), target="sm_100a")
    text = to_text(lower(made, target("sm_100a")).kernel)
    assert [f"r[{n} +: 8] <- t[0 +: 1]" in text for n in (0, 8, 16, 24)] == [True] * 4


D8 = datapath("D", 128, 8)
REFUSED: list[tuple[str, DType, TileLayout, TileLayout, str]] = [
    ("replicas", float32, S[(128, 8) : (1 @ tid_in_wg, 1)] + R[(2,) : (8,)], D8, "src has replicas"),
    ("cta axis", float32, S[(128, 8) : (1 @ tx, 1)], D8, "src has the axis tx; supported axes are m, laneid"),
    ("32 threads", float32, S[(4, 32, 8) : (8, 1 @ laneid, 1)], D8, "32 threads own the region of src"),
    ("wide", float64, S[(128, 8) : (1 @ tid_in_wg, 1)], D8, "needs elements of 8, 16 or 32 bits; float64 has 64"),
    ("gaps", float16, S[(128, 8) : (1 @ tid_in_wg, 2)], D8, "the region of src doesn't fill each 32-bit register"),
    ("odd", float16, S[(128, 8) : (1 @ tid_in_wg, 1)], D8 + 1 @ D8.shard[1].axis, "doesn't fill each 32-bit column"),
    ("out", float32, S[(128, 8) : (1 @ tid_in_wg, 1)], D8 + 508 @ D8.shard[1].axis, "reaches column 515"),
    ("m", float32, S[(128, 8) : (1 @ tid_in_wg, 1)], S[(128, 8) : (8, 1)], "dst has the axis m"),
]


@pytest.mark.parametrize(("dtype", "held", "there", "reason"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_no_instruction_moves_is_refused_with_the_reason(
    dtype: DType, held: TileLayout, there: TileLayout, reason: str
) -> None:
    # also what `operand` itself refuses, as a view of another type or a program in text can have it
    local, tmem = (replace(operand(s, (128, 8), float32), dtype=dtype) for s in ("local", "tmem"))
    local, tmem = replace(local, layout=held), replace(tmem, layout=there)
    with pytest.raises(DispatchError) as caught:
        dispatch("copy_async", "warpgroup", tmem, local, target="sm_100a")
    assert reason in caught.value.declines["tcgen05_ldst"][0]


def test_a_plan_says_its_schedule_in_32_bit_units() -> None:
    local = operand("local", (128, 16), uint8, S[(128, 16) : (1 @ tid_in_wg, 1)])
    place = operand("tmem", (128, 64), uint8, datapath("D", 128, 64), ((0, 128), (40, 16)))
    plan = dispatch("copy_async", "warpgroup", local, place, target="sm_100a").plan
    assert plan.schedule().dtype == np.int64
    assert plan.schedule().tolist() == [[0, 0, 10, 0, 4]]


@pytest.mark.parametrize(
    ("name", "shape", "num", "dtype"),
    [("32x32b_x4_float16", "32x32b", 4, float16), ("16x256b_x1", "16x256b", 1, float32)],
)
def test_a_round_trip_lowers_to_its_golden_lane_ir(
    name: str, shape: str, num: int, dtype: DType, golden: Golden
) -> None:
    columns = num * TCGEN05_SHAPES[shape].columns * 32 // dtype.bits
    r = operand("local", (128, columns), dtype, atom_layout(shape, num, dtype)).named("r")
    t = operand("tmem", (128, columns), dtype, datapath("D", 128, columns)).named("t")
    there, back = TileOp("copy_async", "warpgroup", (t, r)), TileOp("copy_async", "warpgroup", (r, t))
    waits = [Instruction(f"tcgen05.wait.{kind}") for kind in ("st", "ld")]
    made = kernel("round_trip", 128, [r, t], there, waits[0], Sync("cta"), back, waits[1], target="sm_100a")
    lane = pending.add_wait_registers(lower(made, target(made.target)).kernel)
    golden.check(f"copy_async/tcgen05_ldst_{name}.tile", joined(made.target, to_text(made), to_text(lane)))
