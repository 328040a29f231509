"""Upstream's copy cases: at least their vector width, at most their rounds, and every element moved once."""

from __future__ import annotations

import pytest

from tests.support.proving import prove_verdict
from tests.support.upstream import Case, digest, is_static, load, operand_of
from tilejit.ir.nodes import TileOp
from tilejit.lower.ask import dispatch
from tilejit.lower.engine import Verdict

MEMORY = [c for c in load("copy_gmem_smem") if "expect" in c]
REGISTERS = [c for c in load("copy_reg") if "expect" in c]
FALLBACK = load("copy_fallback")


def ask(case: Case) -> tuple[Verdict, TileOp]:
    dst, src = (operand_of(case[k]) for k in ("dst", "src"))
    found = dispatch("copy", case["scope"], dst, src, threads=case["cta_threads"], target=case["arch"])
    return found, found.op


def test_the_case_files_are_complete() -> None:
    assert (len(MEMORY), len(REGISTERS), len(FALLBACK)) == (148, 131, 9)


@pytest.mark.parametrize("case", MEMORY + REGISTERS, ids=lambda c: c["id"])
def test_a_copy_is_as_wide_as_upstreams_and_moves_every_element_once(case: Case) -> None:
    found, op = ask(case)
    expect = case["expect"]
    assert f"copy.{found.variant}" == case["variant"]
    assert found.plan.vector_width >= expect["vec_elems"]
    assert found.plan.rounds <= expect["rounds"]
    if not is_static(case):
        return
    prove_verdict(found, op)
    same = (found.plan.vector_width, found.plan.rounds) == (expect["vec_elems"], expect["rounds"])
    if same and "schedule" in expect:
        assert_same_schedule(found, expect["schedule"])


def assert_same_schedule(found: Verdict, expected: Case) -> None:
    """The same partition, not only the same elements, where upstream's columns are ours in another order."""
    rows = found.plan.schedule()
    source_first = {"g_elem": "global", "s_elem": "shared", "mem_elem": None, "reg_elem": "local"}
    src = found.op.operands[1].buffer.space
    first = source_first[expected["columns"][2]]
    own_first = src == first or (first is None and src != "local")
    rows = rows if own_first else rows[:, [0, 1, 3, 2]]
    assert digest(rows) == expected["sha1_16"]


@pytest.mark.parametrize("case", FALLBACK, ids=lambda c: c["id"])
def test_what_upstream_leaves_to_one_thread_is_shared_out(case: Case) -> None:
    # upstream copies with one thread, element by element; ours masks the tail of a shared-out copy
    found, op = ask(case)
    prove_verdict(found, op)
    scopes = case["dst"]["scope"], case["src"]["scope"]
    if scopes == ("local", "local"):
        assert found.variant == "rename"
    elif "local" in scopes:
        assert found.variant == "fallback"
    else:
        assert found.variant == "gmem_smem"
        assert found.plan.threads == case["cta_threads"]
