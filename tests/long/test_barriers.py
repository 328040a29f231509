"""Every barrier of every kernel of other compilers is left out in turn: the simulator reports it, or it was redundant.

    pytest -m long tests/long/test_barriers.py -n auto

With `--bless`, and without `-n`, the arguments of the independent pass for redundant ones are stored.
"""

from __future__ import annotations

import pytest

from tests.simulator.foreign.barriers import (
    SCHEDULES,
    examine,
    examine_whole,
    explained,
    mutations,
    store_argument,
    stored_arguments,
)
from tests.simulator.foreign.case import Case
from tests.simulator.foreign.test_foreign_kernels import RUNNING
from tests.simulator.order.asynchronous_programs import ALL
from tests.simulator.order.happens_before import races
from tests.simulator.order.programs import Program
from tests.simulator.order.recorder import recorded
from tests.simulator.order.test_programs import IDS, attempt

pytestmark = pytest.mark.long

@pytest.mark.parametrize("case", RUNNING, ids=lambda case: case.name)
def test_the_checks_report_nothing_about_a_kernel_as_it_came(case: Case) -> None:
    for schedule in SCHEDULES:
        assert examine_whole(case, schedule).about_whole() == "", schedule


@pytest.mark.parametrize("case", RUNNING, ids=lambda case: case.name)
def test_a_barrier_that_is_left_out_is_reported_or_was_redundant(case: Case, request: pytest.FixtureRequest) -> None:
    redundant, whole = [], examine_whole(case, 0)
    for mutation in mutations(case):
        verdicts = [examine(case, mutation.ptx(), schedule) for schedule in SCHEDULES]
        for schedule, verdict in zip(SCHEDULES, verdicts, strict=True):
            assert verdict.disagreement(whole) == "", (f"{mutation} {mutation.text}", schedule)
        if not any(verdict.beyond(whole) for verdict in verdicts):
            redundant.append(mutation)
    text = explained(case, redundant)
    if request.config.getoption("--bless"):
        store_argument(case.name, text)
    assert text == stored_arguments().get(case.name, "")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", ALL, ids=IDS)
def test_both_checks_agree_about_a_program_in_any_order(program: Program, schedule: int) -> None:
    for holes in (program.right, program.wrong):
        with recorded() as recorder:
            report, _ = attempt(program, holes, schedule, "collect")
        (stream,) = recorder.streams
        assert bool(races(stream).races) == bool(report.findings), (holes, races(stream), report.findings)
