"""Many random programs by seeds of the day: NumPy = simulator = GPU, and none takes long to compile.

    pytest -m long tests/long -n auto                    20,000 programs
    TILEJIT_SEED=20260101 pytest -m long tests/long      those of another day
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.conftest import why_no_gpu
from tests.frontend.test_random_programs import by_python, deep_programs, programs
from tests.kernels import test_property_copies as copies
from tests.kernels import test_property_elementwise as elementwise
from tests.kernels import test_trees, tile_programs
from tests.kernels.test_gemm import multiplies
from tests.support.operands import Operand
from tests.support.programs import source_of
from tilejit import pipeline
from tilejit.dtypes import DTYPES
from tilejit.errors import DispatchError
from tilejit.isa.mma import MMA
from tilejit.runtime import devices, variants
from tilejit.runtime.device import Device

pytestmark = pytest.mark.long

DAY = int(os.environ.get("TILEJIT_SEED") or datetime.date.today().strftime("%Y%m%d"))

#: programs of one test, and the longest that one may take from Python to PTX, in seconds
PROGRAMS = 250
LONGEST = 5.0


def all_devices() -> list[Device]:
    return [devices.named(name) for name in (["sim"] if why_no_gpu() else ["sim", "cuda"])]


def named(device: Device) -> str:
    return "cuda" if device.number >= 0 else "sim"


@contextmanager
def compile_times() -> Iterator[list[float]]:
    """The seconds that each compilation inside takes, the reading of the source included."""
    times: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                times.append(time.perf_counter() - began)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variants.VariantCache, "_make", timed(variants.VariantCache._make))
        patch.setattr("tests.support.running.compile", timed(pipeline.compile))
        yield times


def scalar_program(case: tuple[str, int]) -> None:
    text, n = case
    wanted = by_python(text, n)
    for device in all_devices():
        array = np.zeros(8, np.int32)
        with tj.use_device(named(device)):
            tj.kernel(threads=1)(source_of(text))[1](array, n)
        np.testing.assert_array_equal(array, wanted, named(device))


def copy(case: tuple[copies.Copy, str]) -> None:
    made, target = case
    for device in all_devices():
        made.run(device, None if device.number >= 0 else target)


def copy_async(case: tuple[copies.Copy, str]) -> None:
    made, target = case
    made.operation = replace(made.operation, name="copy_async", operands=made.operation.operands[:2])
    made.fill = np.zeros_like(made.fill)
    for device in all_devices():
        try:
            made.run(device, None if device.number >= 0 else target)
        except DispatchError as error:
            assert "ldgsts" in error.declines


def computation(case: tuple[elementwise.Computation, str, bool]) -> None:
    made, target, at_run_time = case
    # fp8 has no arithmetic, and scalars of it no parameters
    assume(not any(not isinstance(i, Operand) and DTYPES[elementwise._name(i)].is_fp8 for i in made.inputs))
    for device in all_devices():
        made.run(device, None if device.number >= 0 else target, at_run_time)


def product(case: tuple[Any, tuple[int, int, int], tuple[int, int], int]) -> None:
    form, tiles, warps, number = case
    for device in all_devices():
        if device.number < 0 or MMA.row(form).missing(device.target) is None:
            multiplies(form, tiles, warps, device, number)


def tree(case: tuple[tile_programs.Program, str, int]) -> None:
    program, target, schedule = case
    for device in all_devices():
        simulated = device.number < 0
        test_trees.runs(program, device, target if simulated else None, schedule if simulated else 0)


TARGETS = st.sampled_from(copies.TARGETS)
ANY_MEMORY = tuple(pair for pair in copies.ANY_PAIR if "local" not in pair)

#: name -> (how a case is drawn, what is done with it, tests of so many programs)
KINDS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], None], int]] = {
    "scalars": (st.tuples(programs() | deep_programs(), st.integers(-3, 9)), scalar_program, 24),
    "copies": (
        st.tuples(
            copies.memory_copies(copies.MEMORY_PAIRS)
            | copies.memory_copies(ANY_MEMORY, "fallback")
            | copies.register_copies()
            | copies.register_copies("fallback", windowed=True)
            | copies.local_copies()
            | copies.matrix_copies(),
            TARGETS,
        ),
        copy,
        24,
    ),
    "cp.async": (st.tuples(copies.memory_copies((("shared", "global"),)), TARGETS), copy_async, 8),
    "elementwise": (
        st.tuples(elementwise.computations() | elementwise.memory_computations(), TARGETS, st.booleans()),
        computation,
        20,
    ),
    "trees": (
        st.tuples(tile_programs.programs(12), TARGETS, st.sampled_from([0] * 9 + [1])),
        tree,
        24,
    ),
    "products": (
        st.tuples(
            st.sampled_from(MMA.forms()),
            st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
            st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (3, 1), (1, 4), (4, 2)]),
            st.integers(0, 99),
        ),
        product,
        4,
    ),
}


@pytest.mark.parametrize(
    ("kind", "number"), [pytest.param(k, n, id=f"{k}-{DAY}-{n}") for k in KINDS for n in range(KINDS[k][2])]
)
def test_random_programs(kind: str, number: int) -> None:
    strategy, run, _ = KINDS[kind]

    @seed(DAY * 1000 + number)
    @settings(
        max_examples=PROGRAMS, database=None, deadline=None, phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def case_by_case(case: Any) -> None:
        run(case)

    with compile_times() as times:
        case_by_case()
    assert len(times) >= PROGRAMS // 2, "next to nothing was compiled"
    assert max(times) <= LONGEST, f"{max(times):.1f} s to compile"
