"""The tiers of the tests: which tests a run of pytest leaves out unless it is asked for them.

The default tier leaves out the tests with a marker of `MARKED`. Of each test function with more than `FEW` cases it
runs the first, the middle and the last case, and a sixteenth of the others, which changes daily: within 16 days every
case runs.
"""

from __future__ import annotations

import os
import shlex
import zlib
from collections.abc import Sequence
from datetime import date, datetime, timezone

import pytest

#: the markers of tests that run only if the expression of `-m` names them; a test with several counts for the first
MARKED = ("long", "integration")

#: functions with at most this many cases run all of them
FEW = 3

#: one of this many cases runs on a given date
ONE_OF = 16

#: the environment variables on which the tests depend
_VARIABLES = ("HYPOTHESIS_PROFILE", "TILEJIT_DEVICE")


def add_options(parser: pytest.Parser) -> None:
    """Add the options that choose a tier."""
    parser.addoption(
        "--cases", metavar="DATE", type=_date,
        help=f"of functions with more than {FEW} cases, run those of a date, such as 2026-11-30 (default: today, UTC)",
    )
    parser.addoption("--all-cases", action="store_true", help=f"run all cases of functions with more than {FEW}")
    parser.addoption("--other-cases", action="store_true", help="run only the cases that --cases leaves out")


def _date(text: str) -> str:
    return date.fromisoformat(text).isoformat()


def configure(config: pytest.Config) -> None:
    """Take the date, once for all processes: the one that starts the workers hands its options to them."""
    if config.option.cases is None:
        config.option.cases = datetime.now(timezone.utc).date().isoformat()
    config.stash[LEFT_OUT] = {}


def is_default(config: pytest.Config) -> bool:
    """True if a run is of the default tier, without tests or cases that are left out of it."""
    option = config.option
    asks_for_more = option.all_cases or option.other_cases or option.bless
    return not asks_for_more and not any(name in option.markexpr for name in MARKED)


#: how many tests a process left out, by the option that runs them
LEFT_OUT = pytest.StashKey[dict[str, int]]()


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the items of the tier, and report the others as deselected."""
    option, left_out = config.option, config.stash[LEFT_OUT]
    # golden files are rewritten from all cases
    every = option.all_cases or option.bless
    markers = [name for name in MARKED if name not in option.markexpr and not (option.bless and name != "long")]
    kept: set[str] = set()
    cases: dict[str, list[str]] = {}
    for item in items:
        marker = next((name for name in MARKED if item.get_closest_marker(name)), None)
        if marker in markers:
            left_out[f"-m {marker}"] = left_out.get(f"-m {marker}", 0) + 1
        elif marker is not None or every:
            kept.add(item.nodeid)
        else:
            cases.setdefault(item.nodeid.split("[")[0], []).append(item.nodeid)
    for listed in cases.values():
        sample = sampled(listed, option.cases)
        others = set(listed) - sample
        kept |= others if option.other_cases else sample
        if others and not option.other_cases:
            left_out["--all-cases"] = left_out.get("--all-cases", 0) + len(others)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def sampled(cases: Sequence[str], day: str) -> set[str]:
    """Of the node ids of one function's cases, those that run on a date."""
    if len(cases) <= FEW:
        return set(cases)
    number = date.fromisoformat(day).toordinal()
    drawn = {case for case in cases if (zlib.crc32(case.encode()) + number) % ONE_OF == 0}
    return drawn | {cases[0], cases[len(cases) // 2], cases[-1]}


def header(config: pytest.Config) -> str:
    """The line that names the tier at the beginning of a run."""
    if config.option.all_cases or config.option.bless:
        return "tier: all cases"
    which = "the cases that are left out" if config.option.other_cases else "the cases"
    return f"tier: {which} of {config.option.cases}; repeat it by --cases {config.option.cases}"


def summary(left_out: dict[str, int]) -> str:
    """The line that says at the end of a run what it left out, "" if nothing."""
    listed = [f"{count:,} tests ({option})" for option, count in sorted(left_out.items())]
    return f"left out: {', '.join(listed)}" if listed else ""


def command(item: pytest.Item) -> str:
    """The command that runs one test again."""
    variables = [f"{name}={shlex.quote(os.environ[name])}" for name in _VARIABLES if os.environ.get(name)]
    marker = next((f"-m {name}" for name in MARKED if item.get_closest_marker(name)), "")
    return " ".join(filter(None, [*variables, "python -m pytest", marker, shlex.quote(item.nodeid)]))
