"""Kernels that other compilers made run as their files come and compute what NumPy says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from .case import HERE, Case, check
from .failing import FAILING
from .numba_cases import CASES as NUMBA
from .nvcc_cases import CASES as NVCC
from .simulate import simulate
from .triton_cases import CASES as TRITON

CASES = [*NVCC, *TRITON, *NUMBA]
REASONS = {name: reason for reason, names in FAILING.items() for name in names}
RUNNING = [case for case in CASES if case.name not in REASONS]
REFUSED = [case for case in CASES if case.name in REASONS]


@pytest.mark.parametrize("case", RUNNING, ids=lambda case: case.name)
def test_the_kernel_computes_what_numpy_says(case: Case) -> None:
    check(simulate(case))


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_what_fails_fails_for_the_reason_listed(case: Case) -> None:
    with pytest.raises(Exception, match=re.escape(REASONS[case.name])):
        check(simulate(case))


def test_every_stored_file_has_a_case_and_every_failure_is_one() -> None:
    stored = {f"{path.parent.name}/{path.name.removesuffix('.ptx.xz')}" for path in Path(HERE).glob("*/*.ptx.xz")}
    assert stored == {f"{case.family}/{case.file}" for case in CASES}
    assert set(REASONS) <= {case.name for case in CASES}
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []
