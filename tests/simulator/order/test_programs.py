"""What the simulator says about order: nothing about right programs, the rule's name about wrong ones."""

import numpy as np
import pytest

from tests.simulator.order.programs import PROGRAMS
from tests.simulator.small_kernels import kernel, pointer
from tilejit.errors import SimulationError
from tilejit.simulator import run
from tilejit.simulator.checks.findings import RULES

SCHEDULES = range(5)
IDS = [p.name.replace(" ", "-") for p in PROGRAMS]


def attempt(program, holes, schedule, on_finding):
    arrays = [np.arange(100, 356, dtype="u4"), np.zeros(256, "u4"), np.zeros(1024, "u4")]
    params = ", ".join(f".param .u64 p{i}" for i in range(3))
    text = kernel(program.text(holes), params, ".shared .align 16 .b8 s[1024];")
    args = [pointer(a, name) for a, name in zip(arrays, ("data", "flags", "out"), strict=True)]
    return run(text, "k", (program.grid,), (program.block,), args, checks=program.checks, schedule=schedule,
               on_finding=on_finding), arrays


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_a_right_program_gives_no_error_in_any_order(program, schedule):
    report, _ = attempt(program, program.right, schedule, "raise")
    assert {x.rule for x in report.findings} <= program.warned
    assert all(x.level == "warning" for x in report.findings)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_a_wrong_program_is_reported_in_every_order(program, schedule):
    rules = program.rule.split()
    with pytest.raises(SimulationError) as e:
        attempt(program, program.wrong, schedule, "raise")
    assert type(e.value) in {RULES[x] for x in rules}, e.value
    report, _ = attempt(program, program.wrong, schedule, "collect")
    errors = {x.rule for x in report.findings if x.level == "error"}
    assert errors & set(rules), report.findings
    first = report.findings[0]
    assert first.first is not None and first.count >= len(first.threads) >= 1
