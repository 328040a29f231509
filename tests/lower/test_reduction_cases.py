"""Upstream's reductions of local tiles: what fits is proved; what doesn't is refused with the reason.

Ours have no `accum`, take axes that are counted from the front, and local tiles only. Upstream's `thread_reduce` says
whether lanes are combined; ours are wherever the layouts give a result's elements to several.
"""

from __future__ import annotations

from math import prod

import pytest

from tests.support.proving import prove_verdict
from tests.support.upstream import Case, load, operand_of
from tilejit.errors import DispatchError
from tilejit.lower.ask import dispatch
from tilejit.lower.engine import Verdict

CASES = [c for c in load("reduction") if not c["accum"]]
LOCAL = [c for c in CASES if c["src"]["scope"] == c["dst"]["scope"] == "local"]


def kept(case: Case) -> list[int]:
    """The extents that are left, without those of 1."""
    extents = [e for _, e in case["src"]["region"]]
    axes = [axis % len(extents) for axis in case["axes"]]
    return [e for d, e in enumerate(extents) if d not in axes and e != 1]


def is_reduced(case: Case) -> bool:
    """Whether the destination has the elements that are left: upstream's may have one for each lane."""
    return kept(case) == [e for _, e in case["dst"]["region"] if e != 1]


def ask(case: Case) -> Verdict[object]:
    src = operand_of(case["src"])
    axes = tuple(sorted(axis % len(case["src"]["region"]) for axis in case["axes"]))
    return dispatch(
        case["op"], case["scope"], operand_of(case["dst"]), src, axis=axes, threads=case["cta_threads"],
        target=case["arch"],
    )


@pytest.mark.parametrize("case", [c for c in LOCAL if is_reduced(c)], ids=lambda c: c["id"])
def test_what_a_thread_or_a_warp_reduces_is_proved(case: Case) -> None:
    made = ask(case)
    lanes = [it for it in case["dst"]["layout"].get("replica", []) if it[2] == "laneid"]
    assert made.variant == ("shuffle" if lanes else "registers")
    elements = prod(e for _, e in case["src"]["region"]) // (prod(case["active"].values()) if case["active"] else 1)
    assert made.plan.schedule()[:, 1:].size == elements  # type: ignore[attr-defined]
    prove_verdict(made)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", [c for c in LOCAL if not is_reduced(c)], ids=lambda c: c["id"])
def test_a_destination_with_an_element_for_each_lane_is_refused(case: Case) -> None:
    with pytest.raises(DispatchError, match="shapes differ"):
        ask(case)


@pytest.mark.parametrize("case", [c for c in CASES if c not in LOCAL], ids=lambda c: c["id"])
def test_what_lies_in_shared_memory_is_to_be_loaded_first(case: Case) -> None:
    with pytest.raises(DispatchError, match=r"reduces local tiles to local ones; .* is shared .load it first"):
        ask(case)
