"""Upstream's elementwise cases: each thread's own registers, every element once; what doesn't fit is refused."""

from __future__ import annotations

import pytest

from tests.support.proving import prove_verdict
from tests.support.upstream import Case, load, operand_of
from tilejit.dtypes import DTYPES
from tilejit.errors import DispatchError
from tilejit.ir.nodes import Var
from tilejit.lower.ask import dispatch

CASES = [c for c in load("elementwise_reg") if "expect" in c]
ACCEPTED = [c for c in CASES if c["expect"]["result"] == "ok"]
REFUSED = [c for c in CASES if c["expect"]["result"] != "ok"]
NAMES = {"fdiv": "div"}
ARITY = {"add": 2, "sub": 2, "mul": 2, "fdiv": 2, "maximum": 2, "fma": 3}


def scalar_or_operand(data: Case) -> object:
    if "const" in data:
        return data["const"]
    return operand_of(data) if "shape" in data else Var("loaded", DTYPES[data["dtype"]])


def ask(case: Case) -> object:
    # the further inputs of upstream's unary operations are a bias and a scale, which ours don't have
    inputs = [scalar_or_operand(i) for i in case["inputs"][: ARITY.get(case["op"], 1)]]
    name = NAMES.get(case["op"], case["op"])
    if name == "zero":
        name, inputs = "fill", [0.0]
    target = case.get("arch", "sm_100a")
    return dispatch(name, case["scope"], operand_of(case["dst"]), *inputs, threads=case["cta_threads"], target=target)


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda c: c["id"])
def test_an_operation_runs_on_each_threads_own_registers(case: Case) -> None:
    found = ask(case)
    assert found.variant == "reg"
    trips = case["expect"]["loops"][0][1] if case["expect"]["loops"] else 1
    assert found.plan.vector_width >= case["expect"]["vec_elems"]
    assert found.plan.rounds <= trips
    prove_verdict(found)


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c["id"])
def test_a_tile_that_the_scopes_threads_dont_own_is_refused(case: Case) -> None:
    with pytest.raises(DispatchError) as refused:
        ask(case)
    (reason,) = refused.value.declines["reg"]
    wanted = "no thread axes" if "no_thread_axes" in case["expect"]["reason"] else "threads that own"
    assert wanted in reason
