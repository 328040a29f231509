"""copy_async through cp.async: upstream's cases, edges, tails, swizzles, and what is refused."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.test_emitted_copies import EXTENTS, TYPES, memory, outcome
from tests.support.proving import prove_verdict
from tests.support.upstream import Case, digest, is_static, load, operand_of
from tilejit.dtypes import DTYPES, float16, float32, uint8
from tilejit.errors import DispatchError
from tilejit.ir.nodes import TileOp
from tilejit.layout import Swizzle, TileLayout
from tilejit.lower.ask import OperandSpec, dispatch, operand, sym
from tilejit.lower.engine import Verdict

CASES = load("copy_async_ldgsts")


def ask(
    dst: OperandSpec, src: OperandSpec, *fill: float, scope: str = "warp", threads: int = 32, arch: str = "sm_90a"
) -> Verdict:
    found = dispatch("copy_async", scope, dst, src, *fill, threads=threads, target=arch)
    prove_verdict(found)
    return found


def refusal(dst: OperandSpec, src: OperandSpec, *fill: float, arch: str = "sm_90a") -> str:
    with pytest.raises(DispatchError) as refused:
        ask(dst, src, *fill, arch=arch)
    return "; ".join(refused.value.declines["ldgsts"])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_a_case_takes_upstreams_copies(case: Case) -> None:
    dst, src = (operand_of(case[k]) for k in ("dst", "src"))
    found = dispatch("copy_async", case["scope"], dst, src, threads=case["cta_threads"], target=case["arch"])
    plan, expect = found.plan, case["expect"]
    assert f"copy_async.{found.variant}" == case["variant"]
    (wanted,) = expect["instructions"]
    assert plan.vector_bits // 8 == wanted["bytes"]
    assert plan.instructions == (("cp.async.cg.shared.global", wanted["trips"]),)
    if "schedule" not in expect:
        # upstream's one forced transfer, of a row that is known only at run time
        assert (plan.vector_width, plan.rounds) == (16, 1)
        return
    assert (plan.vector_width, plan.rounds) == (expect["vec_elems"], expect["rounds"])
    assert digest(plan.schedule()) == expect["schedule"]["sha1_16"]
    assert is_static(case)
    prove_verdict(found)
    outcome(found.op, case["cta_threads"])


def test_the_case_file_is_complete() -> None:
    assert len(CASES) == 14


@pytest.mark.parametrize(("align", "size", "cache"), [(16, 16, "cg"), (8, 8, "ca"), (4, 4, "ca")])
def test_what_is_aligned_decides_the_size_and_the_size_the_cache(align: int, size: int, cache: str) -> None:
    source = operand("global", (32, 32), float16, strides="runtime", align=align)
    found = ask(operand("shared", (32, 32), float16), source)
    assert found.plan.vector_bits == 8 * size
    assert found.plan.instructions == ((f"cp.async.{cache}.shared.global", 32 * 32 * 2 // size // 32),)
    outcome(found.op, 32)


def test_swizzled_destinations_keep_whole_vectors() -> None:
    for chunk, size in ((3, 16), (2, 8), (1, 4)):
        layout = TileLayout.row_major((64, 64), Swizzle(3, chunk, 3))
        found = ask(operand("shared", (64, 64), float16, layout), operand("global", (64, 64), float16))
        assert found.plan.vector_bits == 8 * size
        outcome(found.op, 32)


def test_a_ragged_row_ends_in_narrower_copies() -> None:
    region = ((0, 8), (0, 14))
    found = ask(operand("shared", (8, 16), float16, region=region), operand("global", (8, 16), float16, region=region))
    assert (found.plan.vector_width, found.plan.tail) == (8, 6)
    outcome(found.op, 32)


def test_the_last_round_is_partial() -> None:
    found = ask(operand("shared", (1000,), float32), operand("global", (1000,), float32), scope="cta", threads=96)
    assert (found.plan.rounds, found.plan.count) == (3, 250)
    outcome(found.op, 96)


@pytest.mark.parametrize("columns", [64, 60, 57, 33, 32, 31, 1])
def test_what_lies_past_the_edge_is_zero(columns: int) -> None:
    """Rows end anywhere, in a vector too: the bytes that lie inside are a prefix of it."""
    source = operand("global", (13, columns), float16, strides="runtime", align=16, region=((8, 16), (32, 32)))
    found = ask(operand("shared", (16, 32), float16), source)
    assert found.plan.vector_width == 8
    outcome(found.op, 32)


def test_a_region_may_start_before_the_tensor_by_whole_vectors() -> None:
    found = ask(
        operand("shared", (16, 32), float16),
        operand("global", (32, 33), float16, strides="runtime", align=16, region=((-3, 16), (-8, 32))),
    )
    outcome(found.op, 32)


def test_older_targets_are_refused() -> None:
    sides = operand("shared", (32, 32), float16), operand("global", (32, 32), float16)
    assert refusal(*sides, arch="sm_75") == "cp.async needs sm_80 or newer; target is sm_75"
    with pytest.raises(DispatchError, match='help: compile for target="sm_80" or newer'):
        ask(*sides, arch="sm_75")
    assert ask(*sides, arch="sm_80").variant == "ldgsts"


@pytest.mark.parametrize(
    ("fill", "accepted"), [(0, True), (0.0, True), (-0.0, False), (1, False), (float("nan"), False)]
)
def test_only_zero_fills(fill: float, accepted: bool) -> None:
    sides = operand("shared", (32, 32), float16), operand("global", (32, 32), float16)
    if accepted:
        assert ask(*sides, fill).variant == "ldgsts"
    else:
        assert "fills with 0 outside the tensor; got fill=" in refusal(*sides, fill)


def test_fewer_than_four_bytes_are_refused_with_what_is_in_the_way() -> None:
    narrow = operand("global", (32, 32), float16, strides="runtime", align=2)
    reason = refusal(operand("shared", (32, 32), float16), narrow)
    assert reason.startswith("cp.async moves 4, 8 or 16 bytes; at most 2 are contiguous and aligned here: ")
    assert "rows of src start every 2 * src.stride.0 (a multiple of 2) bytes" in reason
    transposed = operand("global", (32, 32), float16, strides=(1, 32))
    assert "elements apart" in refusal(operand("shared", (32, 32), float16), transposed)
    region = ((0, 4), (0, 15))
    odd = operand("shared", (4, 16), uint8, region=region), operand("global", (4, 16), uint8, region=region)
    assert refusal(*odd) == "rows end with a piece of 1 byte; cp.async moves 4, 8 or 16"


def test_other_memory_is_refused() -> None:
    sides = operand("global", (32, 32), float16), operand("shared", (32, 32), float16)
    assert refusal(*sides, arch="sm_80") == "moves global -> shared; got shared -> global"


@given(st.data())
def test_a_copy_that_is_accepted_moves_each_element_once_and_nothing_else(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(TYPES))
    extents = data.draw(EXTENTS.filter(lambda e: prod(e) <= 1024))
    scopes = [("thread", 1), ("warp", 32), ("warpgroup", 128), ("cta", 48), ("cta", 96)]
    scope, threads = data.draw(st.sampled_from(scopes))
    dst, src = (data.draw(memory(s, extents, dtype)).named(n) for s, n in (("shared", "dst"), ("global", "src")))
    op = TileOp("copy_async", scope, (dst, src))
    try:
        verdict = outcome(op, threads)
    except DispatchError as error:
        (reason,) = error.declines["ldgsts"]
        assert "cp.async" in reason or "whole parts" in reason, reason
        return
    assert verdict.plan.vector_bits // 8 in (4, 8, 16)


@given(st.data())
def test_wherever_a_tensor_ends_what_lies_inside_arrives_and_the_rest_is_zero(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([DTYPES[n] for n in ("float16", "float32", "uint8")]))
    rows, columns = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 70))
    start = (data.draw(st.integers(-4, 12)), data.draw(st.sampled_from([-64, -16, 0, 16, 32])))
    align = data.draw(st.sampled_from([16, 8, 4]))
    region = ((start[0], 8), (start[1], 32))
    source = operand("global", (rows, columns), dtype, strides="runtime", align=align, region=region)
    layout = TileLayout.row_major((8, 32), data.draw(st.sampled_from([None, Swizzle(2, 3, 3), Swizzle(1, 4, 2)])))
    found = ask(operand("shared", (8, 32), dtype, layout), source)
    outcome(found.op, 32)


def test_a_vector_of_which_only_the_first_element_surely_lies_inside_is_cut() -> None:
    # 17 of 32 columns lie inside: the second vector of each row begins inside, and 15 of its 16 elements don't
    source = operand("global", (9, 49), DTYPES["uint8"], strides="runtime", align=16, region=((0, 8), (32, 32)))
    asked = ask(operand("shared", (8, 32), DTYPES["uint8"], TileLayout.row_major((8, 32))), source)
    assert asked.plan.vector_width == 16
    outcome(asked.op, 32)


def test_symbolic_starts_keep_their_factors() -> None:
    region = ((sym("i", multiple_of=32), 32), (sym("k", multiple_of=8), 32))
    source = operand("global", (128, 128), float16, region=region)
    assert ask(operand("shared", (32, 32), float16), source).plan.vector_width == 8
