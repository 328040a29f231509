"""Kernels that other compilers made run as their files come and compute what NumPy says."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tilejit.errors import OutOfBoundsError
from tilejit.simulator import Device

from .case import HERE, Case, Launch, check
from .failing import FAILING
from .numba_cases import CASES as NUMBA
from .nvcc_cases import CASES as NVCC
from .simulate import simulate
from .triton_cases import CASES as TRITON

CASES = [*NVCC, *TRITON, *NUMBA]
REASONS = {name: reason for reason, names in FAILING.items() for name in names}
RUNNING = [case for case in CASES if case.name not in REASONS]
REFUSED = [case for case in CASES if case.name in REASONS]


#: legal orders of the threads
SCHEDULES = range(5)


@pytest.mark.parametrize("case", RUNNING, ids=lambda case: case.name)
def test_the_kernel_computes_what_numpy_says_in_any_order(case: Case) -> None:
    for schedule in SCHEDULES:
        check(simulate(case, schedule=schedule))


@pytest.mark.parametrize("case", RUNNING, ids=lambda case: case.name)
def test_the_checks_change_no_result(case: Case) -> None:
    check(simulate(case, checks=False))


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_what_fails_fails_for_the_reason_listed(case: Case) -> None:
    with pytest.raises(Exception, match=re.escape(REASONS[case.name])):
        check(simulate(case))


@pytest.mark.parametrize(("family", "file", "entry", "short", "places"), [
    ("nvcc", "tiles", "matmul_tiled", 0, [r"tiles\.cu:26", r"tiles\.cu:36"]),
    ("triton", "vector_add", "vector_add", 1, [r"triton/kernels\.py:17"]),
])
def test_a_report_names_the_users_line(family: str, file: str, entry: str, short: int, places: list[str]) -> None:
    """An array that is shorter than the kernel believes; the helper that reads it may have been inlined."""
    case = next(x for x in CASES if (x.family, x.file, x.entry) == (family, file, entry))

    def with_short_array(device: Device) -> Launch:
        launch = case.make(device)
        launch.args[short] = launch.args[short].reshape(-1)[:-40].copy()
        return launch

    with pytest.raises(OutOfBoundsError, match=rf"argument {short}[^$]*" + r"\s+called from \S*".join(places)):
        simulate(replace(case, make=with_short_array))


def test_every_stored_file_has_a_case_and_every_failure_is_one() -> None:
    stored = {f"{path.parent.name}/{path.name.removesuffix('.ptx.xz')}" for path in Path(HERE).glob("*/*.ptx.xz")}
    assert stored == {f"{case.family}/{case.file}" for case in CASES}
    assert set(REASONS) <= {case.name for case in CASES}
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []
