"""The tiers: what a run leaves out, and that within four days every case runs."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.support.tiers import FEW, ONE_OF, command, sampled, summary

CASES = [f"tests/test_x.py::test[{k}]" for k in range(100)]


def test_all_of_few_cases_run() -> None:
    assert sampled(CASES[:FEW], "2026-11-30") == set(CASES[:FEW])


def test_a_share_of_many_cases_runs_with_the_first_the_middle_and_the_last() -> None:
    chosen = sampled(CASES, "2026-11-30")
    assert {CASES[0], CASES[50], CASES[99]} <= chosen
    share = len(CASES) / ONE_OF
    assert share / 2 < len(chosen) < 2 * share + 3
    assert chosen == sampled(CASES, "2026-11-30") != sampled(CASES, "2026-12-01")


def test_after_as_many_days_every_case_has_run() -> None:
    days = [(date(2026, 12, 30) + timedelta(days=k)).isoformat() for k in range(ONE_OF)]
    assert set().union(*(sampled(CASES, day) for day in days)) == set(CASES)


def test_a_run_says_what_it_left_out_and_how_to_run_it() -> None:
    assert summary({}) == ""
    assert summary({"-m long": 7, "--all-cases": 1234}) == "left out: 1,234 tests (--all-cases), 7 tests (-m long)"


def test_a_failure_is_repeated_by_a_command(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    monkeypatch.delenv("HYPOTHESIS_PROFILE", raising=False)
    test = "tests/test_tiers.py::test_a_failure_is_repeated_by_a_command"
    assert command(request.node) == f"TILEJIT_DEVICE=sim python -m pytest {test}"


#: some tests of which there are many cases, by file and name
MANY = "tests/ops/test_elementwise.py"


@pytest.mark.integration
def test_cases_and_other_cases_are_all_cases() -> None:
    def collected(*options: str) -> set[str]:
        command = [sys.executable, "-m", "pytest", MANY, "--collect-only", "-q", "-p", "no:cacheprovider", *options]
        run = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
        return set(re.findall(r"^tests/.*::.*$", run.stdout, re.MULTILINE))

    some, others = collected("--cases", "2026-11-30"), collected("--cases", "2026-11-30", "--other-cases")
    assert not some & others
    assert some | others == collected("--all-cases")
