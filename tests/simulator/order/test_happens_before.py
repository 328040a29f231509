"""The independent race check and the simulator's agree about small programs, right and wrong."""

from __future__ import annotations

import pytest

from .asynchronous_programs import ALL
from .happens_before import races
from .programs import Program
from .recorder import recorded
from .test_programs import IDS, attempt


@pytest.mark.parametrize("program", ALL, ids=IDS)
def test_both_checks_agree_about_a_program(program: Program) -> None:
    for holes in (program.right, program.wrong):
        with recorded() as recorder:
            report, _ = attempt(program, holes, 0, "collect")
        (stream,) = recorder.streams
        assert bool(races(stream).races) == bool(report.findings), (holes, races(stream), report.findings)
