"""Twelve faults in the order of events: each is found, with a story that names the lines."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.simulator.order_faults.programs import FAULTS
from tilejit.simulator.orders.story import MOST_ROWS
from tilejit.testing import check

#: found only in another order than that of schedule 0
SILENT = {"tests, then sets", "look-back with one word", "a ticket by a second look"}


def copies(fault):
    return [x.copy() if isinstance(x, np.ndarray) else x for x in fault.args]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_with_a_story(name):
    fault = FAULTS[name]
    if fault.expected:
        # no order has a finding: some leave other contents
        with pytest.raises(AssertionError) as caught:
            check(fault.kernel, fault.grid, *fault.args, expected=fault.expected, orders="all")
        story = str(caught.value).partition("in this order:\n")[2].splitlines()
    else:
        report = tj.simulate(fault.kernel, fault.grid, *copies(fault), orders="all", on_finding="collect")
        assert report.orders.verdict == "finding", report.orders
        story = report.orders.story
    assert 0 < len(story) <= MOST_ROWS
    assert any(fault.line in row for row in story), story


@pytest.mark.parametrize("name", FAULTS)
def test_schedule_0_names_most_faults(name):
    fault = FAULTS[name]
    report = tj.simulate(fault.kernel, fault.grid, *copies(fault), on_finding="collect")
    assert bool(report.findings) == (name not in SILENT), report
