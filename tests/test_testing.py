"""`tilejit.testing`: its strategies give what they say, and `check` finds what is wrong and says it."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.kernels.drawn_operands import plain
from tests.reference import layouts
from tests.types.test_docs import example_of, run
from tilejit import testing
from tilejit.dtypes import DTYPES, DType
from tilejit.testing import (
    DrawnLaunch,
    array_of,
    arrays,
    assert_equal,
    check,
    comparing,
    dtypes,
    launches,
    register_layouts,
    ulps,
)


@tj.kernel(threads=32)
def double(A: tj.Tensor, B: tj.Tensor):
    i = tj.thread_id()
    B[i] = A[i] + A[i]


@tj.kernel(threads=32)
def double_but_one(A: tj.Tensor, B: tj.Tensor):
    i = tj.thread_id()
    B[i] = tj.where(i == 7, A[i], A[i] + A[i])


A = np.arange(32, dtype=np.float32)


def test_check_compares_arrays_functions_and_names() -> None:
    before = A.copy()
    check(double, 1, A, np.zeros_like(A), expected=2 * A)
    check(double, 1, A, np.zeros_like(A), expected=[2 * A])
    check(double, 1, A, np.zeros_like(A), expected={"B": 2 * A})
    check(double, 1, A, np.zeros_like(A), expected=lambda a, b: 2 * a)

    def in_place(a: np.ndarray, b: np.ndarray) -> None:
        b[:] = a + a

    check(double, 1, A, np.zeros_like(A), expected=in_place)
    np.testing.assert_array_equal(A, before)


def test_check_names_the_first_element_that_differs() -> None:
    with pytest.raises(AssertionError, match=r"B\[7\] is 7.0, expected 14.0, 8388608 ulp apart; wrong elements: 1 of"):
        check(double_but_one, 1, A, np.zeros_like(A), expected=2 * A)
    check(double_but_one, 1, A, np.zeros_like(A), expected=2 * A, atol=7)


def test_check_finds_an_input_that_changed() -> None:
    with pytest.raises(AssertionError, match=r"B\[1\] is 2.0, expected 0.0"):
        check(double, 1, A, np.zeros_like(A), expected={})


def test_check_keeps_strides_and_alignment_of_the_arrays() -> None:
    room = np.zeros(67, np.float32)
    check(double, 1, A[::-1], room[3::2], expected=2 * A[::-1])
    assert not room.any()


def test_check_refuses_names_and_arrays_that_the_call_does_not_have() -> None:
    with pytest.raises(ValueError, match="has an entry 'C', which is not an argument; the arguments are A, B"):
        check(double, 1, A, A.copy(), expected={"C": A})
    with pytest.raises(ValueError, match="`expected` has 3 arrays"):
        check(double, 1, A, A.copy(), expected=[A, A, A])
    with pytest.raises(AssertionError, match="B has type float32, but the expected array has type float64"):
        check(double, 1, A, A.copy(), expected=2.0 * A.astype(np.float64))


def test_bits_written_between_the_elements_are_found() -> None:
    copy, room = comparing._copy(np.zeros((4, 3), np.int16)[:, ::2])
    before = room.copy()
    copy[...] = 7
    comparing._same_between("A", copy, room, before)
    at = copy.ctypes.data - room.ctypes.data
    room[at + 2] ^= 1
    with pytest.raises(AssertionError, match="A: 1 byte changed outside of its elements"):
        comparing._same_between("A", copy, room, before)


def test_nan_equals_nan_and_zeros_have_signs() -> None:
    assert_equal("x", np.array([np.nan, 0.0]), np.array([-np.nan, 0.0]))
    with pytest.raises(AssertionError, match="0 ulp apart"):
        assert_equal("x", np.array([0.0]), np.array([-0.0]))
    assert_equal("x", np.array([0.0]), np.array([-0.0]), ulp=1)
    with pytest.raises(AssertionError):
        assert_equal("x", np.array([np.nan]), np.array([1.0]), ulp=100)


def test_ulps_count_the_values_between() -> None:
    one = np.float32(1)
    assert ulps(one, np.nextafter(one, np.float32(2))) == 1
    assert ulps(np.float32(-1e-45), np.float32(1e-45)) == 2
    assert ulps(np.float16(np.inf), np.finfo(np.float16).max) == 1
    assert ulps(np.float64(np.nan), np.float64(np.nan)) == 0


SCOPE_SIZES = (("thread", 1), ("warp", 32), ("warpgroup", 128), ("cta", 48), ("cta", 96), ("cta", 100), ("cta", 256))


@given(st.data(), st.sampled_from(SCOPE_SIZES))
def test_a_register_layout_gives_every_thread_as_many_elements_each_in_a_register_of_its_own(
    data: st.DataObject, scope: tuple[str, int]
) -> None:
    layout, shape = data.draw(register_layouts(scope[0], threads=scope[1]))
    assert math.prod(shape) == layout.size()
    found = [place for n in range(layout.size()) for place in layouts.places(plain(layout), n)]
    assert len(set(found)) == len(found), "two elements share a register"
    held = np.bincount([thread for thread, _ in found])
    assert len(held) == scope[1] and len(set(held.tolist())) == 1
    assert all(isinstance(register, int) and register >= 0 for _, register in found)
    layout.group(shape)


@given(st.data(), dtypes())
def test_arrays_have_the_shape_and_type_asked_for_and_stay_inside_their_memory(
    data: st.DataObject, dtype: DType
) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3)))
    array = data.draw(arrays(shape, dtype, strided=True, misaligned=True))
    assert array.shape == shape and array.dtype == dtype.numpy
    array.copy()
    plain_one = data.draw(arrays(shape, dtype))
    assert plain_one.ctypes.data % 128 == 0 and plain_one.flags.c_contiguous


@pytest.mark.parametrize("shift", [0, 1, 5, 32])
def test_an_array_begins_where_its_shift_says(shift: int) -> None:
    assert testing.array_of((4,), tj.float32, shift=shift).ctypes.data % 128 == 4 * shift % 128


def test_arrays_hold_special_values_in_time() -> None:
    seen: set[str] = set()

    @given(arrays((64,), DTYPES["float32"]))
    def look(array: np.ndarray) -> None:
        seen.update(["nan"] if np.isnan(array).any() else [], ["inf"] if np.isinf(array).any() else [])
        seen.update(["subnormal"] if ((array != 0) & (np.abs(array) < np.finfo(np.float32).tiny)).any() else [])

    look()
    assert seen == {"nan", "inf", "subnormal"}


@given(st.data(), dtypes())
def test_finite_arrays_and_those_in_a_range_hold_nothing_else(data: st.DataObject, dtype: DType) -> None:
    finite = data.draw(arrays(40, dtype, finite=True))
    assert np.isfinite(finite.astype(np.float64)).all()
    low = data.draw(st.sampled_from((0, 1) if dtype.kind in ("bool", "uint") else (-7, -0.5, 0, 1)))
    high = data.draw(st.sampled_from((1,) if dtype.kind == "bool" else (1, 1.5, 100)))
    within = data.draw(arrays(40, dtype, range=(low, high))).astype(np.float64)
    assert ((low <= within) & (within <= high)).all()


def test_an_empty_range_and_one_beyond_the_type_are_refused() -> None:
    for limits in ((2, 1), (-1, 1), (0, 256)):
        with pytest.raises(ValueError, match="in the range of uint8, 0 to 255"):
            arrays(4, tj.uint8, range=limits)
    with pytest.raises(TypeError, match="write tj.float32"):
        arrays(4, float)


@given(st.data(), dtypes())
def test_an_array_is_made_again_by_the_call_that_shows_it(data: st.DataObject, dtype: DType) -> None:
    made: list[np.ndarray] = []
    calls: list[dict[str, object]] = []

    def recorded(*args: object, **named: object) -> np.ndarray:
        calls.append({**named, "args": args})
        made.append(array_of(*args, **named))
        return made[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys.modules[array_of.__module__], "array_of", recorded)
        array = data.draw(arrays(st.integers(1, 20), dtype, strided=True, misaligned=True))
    (call,) = calls
    again = array_of(*call.pop("args"), **call)
    assert again.tobytes() == array.tobytes() and again.strides == array.strides
    assert again.ctypes.data % 128 == array.ctypes.data % 128


def falsified(test: Callable[[], None]) -> str:
    """What hypothesis says of the smallest example that fails."""
    with pytest.raises(AssertionError) as caught:
        settings(database=None, max_examples=200, phases=[Phase.generate, Phase.shrink])(test)()
    return "\n".join(caught.value.__notes__)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="hypothesis prints where exceptions have no notes")
def test_failing_arrays_shrink_to_few_zeros_and_what_matters() -> None:
    @given(arrays(st.integers(1, 300), tj.float32))
    def no_nan(x: np.ndarray) -> None:
        assert not np.isnan(x).any()

    assert "x=array([nan], dtype=float32)" in falsified(no_nan)

    @given(arrays(st.tuples(st.integers(1, 40), st.integers(1, 40)), tj.int16))
    def never_wide(x: np.ndarray) -> None:
        assert x.shape[1] < 33

    assert "x=array_of((1, 33), 'int16', 'zeros')" in falsified(never_wide)


def test_references_of_float64_are_compared_in_units_of_the_result() -> None:
    third = np.array([1 / 3, -1 / 3, 0.0, np.nan, np.inf, 1e300, 1e-50])
    with np.errstate(over="ignore"):
        narrow = third.astype(np.float32)
    assert_equal("x", narrow, third, ulp=0.5)
    beyond = np.nextafter(narrow, np.float32(9))
    with pytest.raises(AssertionError, match=r"x\[0\] is 0.33333337, expected 0.33.*, 1.333 ulp apart; .*: 4 of 7"):
        assert_equal("x", beyond, third, ulp=0.9)
    with pytest.raises(AssertionError, match="the expected array has type float64: cast it"):
        assert_equal("x", narrow, third)
    for dtype in (tj.float16, tj.bfloat16):
        assert_equal("x", np.array([1 / 3]).astype(dtype.numpy), np.array([1 / 3]), ulp=0.5)
    with pytest.raises(AssertionError, match=r"is nan, expected 1.0; wrong elements: 1 of 1"):
        assert_equal("x", np.array([np.nan], np.float32), np.array([1.0]), ulp=1e9)
    with pytest.raises(AssertionError, match=r"is inf, expected 1e\+30; wrong elements: 1 of 1"):
        assert_equal("x", np.array([np.inf], np.float32), np.array([1e30]), ulp=1e9)


@tj.kernel(threads=32)
def scaled(A: tj.Tensor, B: tj.Tensor, s: tj.float32):
    i = tj.thread_id()
    B[i] = A[i] * s


def test_a_function_computes_its_reference_in_float64() -> None:
    seen: list[object] = []

    def reference(a: np.ndarray, b: np.ndarray, s: float) -> np.ndarray:
        seen.extend((a.dtype, s))
        return a * s

    check(scaled, 1, A / 3, np.zeros_like(A), 0.1, expected=reference, ulp=0.5)
    assert seen == [np.float64, float(np.float32(0.1))]
    with pytest.raises(AssertionError, match="ulp apart"):
        check(scaled, 1, A / 3, np.zeros_like(A), 0.1, expected=lambda a, b, s: a * s * (1 + 1e-6), ulp=0.5)


@tj.kernel(threads=64)
def last_one_wins(A: tj.Tensor):
    # no race: of updates that are atomic the order is free
    tj.atomic.exch(A[0], tj.thread_id() // 32)


def test_every_schedule_is_run_and_the_one_that_goes_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.zeros(1, np.int32), np.ones(1, np.int32)
    check(last_one_wins, 1, a, expected=b)
    with pytest.raises(AssertionError, match=r"A\[0\] is 0, expected 1; wrong elements: 1 of 1; under schedule \d+$"):
        check(last_one_wins, 1, a, expected=b, schedules=16)
    monkeypatch.setenv("TILEJIT_SCHEDULES", "16")
    with pytest.raises(AssertionError, match="under schedule"):
        check(last_one_wins, 1, a, expected=b)


def test_a_drawn_launch_says_grid_threads_target_and_schedule() -> None:
    seen: set[tuple[object, ...]] = set()

    @settings(max_examples=60)
    @given(launches(threads=[32, 64], targets=["sm_80", "sm_90a"], schedules=2))
    def look(launch: DrawnLaunch) -> None:
        assert launch.grid in range(1, 5)
        seen.add((launch.threads, launch.target, launch.schedule))

    look()
    assert len(seen) == 8
    tiles = DrawnLaunch(lambda a: tj.cdiv(a.A.size, 32), threads=32, target="sm_80", schedule=5)
    check(double, tiles, A, np.zeros_like(A), expected=2 * A)
    with pytest.raises(tj.OutOfBoundsError, match="under schedule 5, which is another legal order"):
        check(double, DrawnLaunch(1, threads=64, schedule=5), A, np.zeros_like(A), expected=2 * A)


def test_every_public_name_has_an_example_that_works(tmp_path: Path) -> None:
    for_layouts = {"AXIS_FAMILIES", "dense_layouts", "iters", "layouts", "memory_layouts", "regions_of"}
    for_layouts |= {"register_layouts", "shapes_of", "swizzles"}
    # their docstrings' examples need torch or NVRTC; tests/testing/judge has others
    judged = {"CudaCandidate", "CudaLaunch", "Reason", "Judgement", "judge_modules"}
    others = {"Array", "Operation", "operations", "dtypes", "do_bench", "ulps"}
    for name in set(testing.__all__) - for_layouts - judged - others:
        assert example_of(getattr(testing, name)), name
        run(example_of(getattr(testing, name)), tmp_path)


def test_without_hypothesis_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "tilejit.testing")
    testing = importlib.import_module("tilejit.testing")
    need_none = {"CudaCandidate", "CudaLaunch", "Reason", "Judgement", "do_bench", "judge", "judge_modules"}
    for name in set(testing.__all__) - need_none:
        with pytest.raises(ImportError, match=rf"testing.{name} needs hypothesis.*pip install hypothesis"):
            getattr(testing, name)
    assert all(callable(getattr(testing, name)) for name in need_none)
