"""What analyses say doesn't concern them changes none of their states."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.example_sizes import EXAMPLES
from tilejit.ir.analyses import collectives, flow, initialized
from tilejit.ir.analyses.flow import Analysis
from tilejit.ir.analyses.initialized import _Initialized
from tilejit.ir.analyses.uniformity import Uniformity
from tilejit.lower.passes import arrivals, fences, guards, pending
from tilejit.lower.passes.arrivals import _SynchronizationAnalysis
from tilejit.lower.passes.fences import _Dirty
from tilejit.lower.passes.guards import _WaitAnalysis
from tilejit.lower.passes.pending import _InFlight

#: those that pass statements over, and the modules that solve them
PASSING_OVER: dict[type[Analysis[Any]], Any] = {
    _Initialized: initialized, _WaitAnalysis: guards, _SynchronizationAnalysis: arrivals, _InFlight: pending,
    _Dirty: fences, Uniformity: collectives,
}


def test_all_of_them_are_looked_at() -> None:
    # by name: of a class with slots there may be the one that it was made of, until it is collected
    passing = (
        kind for kind in Analysis.__subclasses__()
        if kind.concerns is not Analysis.concerns or kind.kinds is not Analysis.kinds
    )
    assert {str(kind) for kind in passing if "tilejit" in kind.__module__} == {str(kind) for kind in PASSING_OVER}


@pytest.mark.parametrize("name", ["gemm_hopper.gemm", "attention full 64"])
def test_states_are_those_of_visits_to_every_statement(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []

    def both(analysis: Any, body: Any, start: Any) -> Any:
        states = flow.solve(analysis, body, start)
        with monkeypatch.context() as patch:
            patch.setattr(type(analysis), "concerns", Analysis.concerns)
            patch.setattr(type(analysis), "kinds", Analysis.kinds)
            assert flow.solve(analysis, body, start) == states
        solved.append(type(analysis))
        return states

    for module in PASSING_OVER.values():
        monkeypatch.setattr(module, "solve", both)
    EXAMPLES[name]()
    assert set(solved) == set(PASSING_OVER)
