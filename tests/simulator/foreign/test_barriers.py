"""Both race checks agree about kernels of other compilers, whole and with one barrier left out.

A sample: each kernel that doesn't take long in one order of its threads, and one of its barriers.
`pytest -m long tests/long/test_barriers.py` takes all.
"""

from __future__ import annotations

import pytest

from .barriers import SCHEDULES, examine, examine_whole, mutations, stored_arguments
from .case import Case
from .test_foreign_kernels import RUNNING

#: kernels with many accesses or many barriers, or whose threads wait for each other in turn
LONG = {
    "nvcc/cub_radix_sort", "nvcc/bitonic_sort", "nvcc/libcu_maximum", "numba/bitonic_sort", "triton/scatter_atomics",
    "nvcc/edit_distance", "nvcc/radix_sort_pass",
}
SAMPLE = [case for case in RUNNING if case.name not in LONG]


@pytest.mark.parametrize(("number", "case"), list(enumerate(SAMPLE)), ids=[case.name for case in SAMPLE])
def test_both_checks_agree_about_a_kernel_without_one_of_its_barriers(number: int, case: Case) -> None:
    schedule = number % len(SCHEDULES)
    whole = examine_whole(case, schedule)
    assert whole.about_whole() == ""
    each = list(mutations(case))
    if each:
        mutation = each[number % len(each)]
        assert examine(case, mutation.ptx(), schedule).disagreement(whole) == "", f"{mutation} {mutation.text}"


def test_arguments_are_of_kernels_that_run() -> None:
    assert set(stored_arguments()) <= {case.name for case in RUNNING}
