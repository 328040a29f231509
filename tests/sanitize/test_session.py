"""Launches and findings of a session, without the compilers whose contexts use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.sanitize.kernels_ptx import PTX
from tilejit.errors import LaunchError, RaceError
from tilejit.sanitize.session import Session, SimulatedLaunch, options, summary
from tilejit.simulator import DeviceArray, Report

#: each of two outputs is written in part
PARTS = """
.version 8.6
.target sm_90
.address_size 64
.visible .entry parts(.param .u64 a, .param .u64 b)
{
.reg .b32 %r<2>; .reg .b64 %x<3>;
ld.param.u64 %x1, [a]; ld.param.u64 %x2, [b]; mov.u32 %r1, 1;
st.global.u32 [%x1], %r1; st.global.u32 [%x2], %r1;
ret;
}
"""


def session(on_finding: str = "collect", schedules: int = 1) -> Session:
    return Session(options("sm_90", on_finding, True, schedules, "all"))


def launched(of: Session, ptx: str, name: str, arrays: list[DeviceArray], threads: int = 1) -> SimulatedLaunch:
    def run(schedule: int) -> Report:
        return of.module(ptx).launch(name, (1,), (threads,), arrays, on_finding="collect", schedule=schedule)

    return of.launch(name, (1, 1, 1), (threads, 1, 1), run, lambda: None)


@pytest.fixture
def racy() -> Iterator[Session]:
    of = session(schedules=2)
    launched(of, PTX, "reverse", [of.device.empty(256, "u4")], 256)
    yield of


def test_findings_without_lines_are_not_taken_for_one() -> None:
    of = session()
    launch = launched(of, PARTS, "parts", [of.device.empty(4, "u4", name) for name in ("a", "b")])
    assert [finding.rule for finding in launch.findings] == ["unwritten"] * 2
    assert all(f"first {name}+4 bytes" in x.message for name, x in zip("ab", launch.findings, strict=True))


def test_findings_of_several_schedules_are_listed_once(racy: Session) -> None:
    (launch,) = racy.launches
    assert [len(report.findings) for report in launch.reports] == [1, 1]
    assert [finding.rule for finding in launch.findings] == ["race"] and racy.errors == launch.findings
    assert summary("sm_90", [launch.counts] * 2).startswith("simulated sm_90: 1 kernel, 2 launches, 2 findings, ")


def test_forgotten_launches_count(racy: Session) -> None:
    (launch,) = racy.forget()
    assert racy.launches == [] and racy.findings == ()
    assert racy.instructions == launch.reports[0].thread_instructions > 0


def test_an_error_is_raised_when_the_launch_ends() -> None:
    of = session("raise")
    with pytest.raises(RaceError, match="race in shared memory"):
        launched(of, PTX, "reverse", [of.device.empty(256, "u4")], 256)
    assert len(of.launches) == 1


@pytest.mark.parametrize("option, value", [
    (0, "sm_1"), (1, "ignore"), (2, 1), (2, "loose"), (3, 0), (3, True), (3, 1.5), (4, "some"),
])
def test_bad_options_are_refused(option: int, value: Any) -> None:
    valid: list[Any] = ["sm_90", "raise", True, 1, "all"]
    assert options(*valid).target.name == "sm_90"
    valid[option] = value
    with pytest.raises(LaunchError, match="\nhelp: "):
        options(*valid)
