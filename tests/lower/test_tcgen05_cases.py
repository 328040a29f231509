"""Upstream's cases of copies between tensor memory and registers: the same shape, instructions and registers."""

from __future__ import annotations

import pytest

from tests.support.proving import prove_verdict
from tests.support.upstream import Case, is_static, layout_of, load, operand_of
from tilejit.dtypes import float32
from tilejit.errors import DispatchError, KernelTypeError
from tilejit.layout import S, TileLayout, atom_layout, datapath, m, tid_in_wg
from tilejit.lower.ask import dispatch, operand
from tilejit.lower.engine import Verdict

CASES = load("copy_async_tcgen05_ldst")
ACCEPTED = [c for c in CASES if c["kind"] == "dispatch" and "quirk" not in c]
SCATTERED = [c for c in CASES if c["kind"] == "dispatch" and "quirk" in c]
REJECTED = [c for c in CASES if c["kind"] == "rejection"]
DEFECTS = {c["id"]: c for c in CASES if c["kind"] == "upstream_defect"}


def ask(case: Case, target: str = "sm_100a") -> Verdict:
    dst, src = (operand_of(case[k]) for k in ("dst", "src"))
    return dispatch("copy_async", case["scope"], dst, src, threads=case["cta_threads"], target=target)


def test_the_case_file_is_complete() -> None:
    assert (len(ACCEPTED), len(SCATTERED), len(REJECTED), len(DEFECTS)) == (157, 67, 3, 2)


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda c: c["id"])
def test_a_copy_takes_upstreams_shape_number_slabs_and_registers(case: Case) -> None:
    found, expect = ask(case), case["expect"]
    assert f"copy_async.{found.variant}" == case["variant"]
    rows = [
        [i, x["row"], 0 if isinstance(x["col"], dict) else x["col"], x["first_reg"], x["n_regs"]]
        for i, x in enumerate(expect["issues"])
    ]
    plan = found.plan
    assert plan.schedule().tolist() == rows
    assert (plan.issues, plan.slabs) == (len(rows), expect["slabs"])
    assert list(plan.instructions) == [(x["op"], x["trips"]) for x in expect["instructions"]]
    assert expect["ptx"].split(".")[4:6] == [plan.shape, f"x{plan.num}"]


@pytest.mark.parametrize("case", [c for c in ACCEPTED if is_static(c)][::4], ids=lambda c: c["id"])
def test_a_plan_moves_every_element_from_its_place_to_its_place(case: Case) -> None:
    found = ask(case)
    prove_verdict(found)


@pytest.mark.parametrize("case", SCATTERED, ids=lambda c: c["id"])
def test_64_rows_of_data_path_d_are_refused(case: Case) -> None:
    # upstream accepts these: its warps then touch rows 0-15, 32-47, 64-79 and 96-111 instead of rows 0 to 63
    with pytest.raises(DispatchError, match="its warp reaches lanes 32 to 63"):
        ask(case)


@pytest.mark.parametrize("case", REJECTED, ids=lambda c: c["id"])
def test_data_paths_that_dont_fit_are_refused(case: Case) -> None:
    # one of them names 128 rows of a buffer of 64
    with pytest.raises((DispatchError, KernelTypeError)):
        ask(case)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100", "sm_120a"])
def test_other_targets_are_refused_by_name(target: str) -> None:
    having = f"tensor memory needs sm_100a or sm_103a or sm_110a; target is {target}"
    with pytest.raises(DispatchError, match=having) as caught:
        ask(ACCEPTED[0], target)
    assert having in caught.value.declines["tcgen05_ldst"][0]


@pytest.mark.parametrize("target", ["sm_100a", "sm_103a", "sm_110a"])
def test_every_target_with_tensor_memory_is_accepted(target: str) -> None:
    assert ask(ACCEPTED[0], target).variant == "tcgen05_ldst"


def test_permuted_registers_are_moved_one_by_one() -> None:
    # upstream moves them as if they lay in order
    setup = DEFECTS["defect/tcgen05/32x32b_ignores_register_layout"]["setup"]
    permuted, threads = (layout_of(data) for data in setup["reg"])
    tmem = operand("tmem", (128, 8), float32, layout_of(setup["tmem"]))
    plan = dispatch(
        "copy_async", "warpgroup", operand("local", (128, 8), float32, permuted), tmem, target="sm_100a"
    ).plan
    assert plan.schedule()[:, 1:].tolist() == [[0, 2 * (k % 4) + k // 4, k, 1] for k in range(8)]
    with pytest.raises(DispatchError, match="thread 1 would need lane 32 .*its warp reaches lanes 0 to 31"):
        dispatch("copy_async", "warpgroup", operand("local", (128, 8), float32, threads), tmem, target="sm_100a")


def test_64_rows_of_data_path_d_are_the_stated_defect() -> None:
    assert DEFECTS["defect/tcgen05/D_with_64_row_atom"]["required"].startswith("reject")
    tmem = operand("tmem", (128, 8), float32, datapath("D", 128, 8), region=((0, 64), (0, 8)))
    local = operand("local", (64, 8), float32, atom_layout("16x256b", 1, float32, rows=64))
    with pytest.raises(DispatchError, match="thread 32 would need lane 16 of src"):
        dispatch("copy_async", "warpgroup", local, tmem, target="sm_100a")


@pytest.mark.parametrize("scope", ["thread", "warp", "cta"])
def test_only_a_warpgroup_moves_tensor_memory(scope: str) -> None:
    rows: TileLayout = S[(128, 8) : (1 @ tid_in_wg, 1 @ m)]
    tmem = operand("tmem", (128, 8), float32, datapath("D", 128, 8))
    with pytest.raises(DispatchError, match=f"needs the scope warpgroup, 128 threads; called on {scope}"):
        dispatch("copy_async", scope, operand("local", (128, 8), float32, rows), tmem, target="sm_100a")
