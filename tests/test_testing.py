"""`tilejit.testing`: its strategies give what they say, and `check` finds what is wrong and says it."""

from __future__ import annotations

import importlib
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.kernels.drawn_operands import plain
from tests.reference import layouts
from tilejit.dtypes import DTYPES, DType
from tilejit.testing import arrays, assert_equal, check, comparing, dtypes, register_layouts, ulps


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
    with pytest.raises(AssertionError, match=r"B\[7\] is 7.0, expected 14.0, 8388608 ulp apart; the other 31 agree"):
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
    with pytest.raises(ValueError, match="expected names C; the arguments are A, B"):
        check(double, 1, A, A.copy(), expected={"C": A})
    with pytest.raises(ValueError, match="3 arrays are expected"):
        check(double, 1, A, A.copy(), expected=[A, A, A])
    with pytest.raises(AssertionError, match="B is of float32; expected is of float64"):
        check(double, 1, A, A.copy(), expected=2.0 * A.astype(np.float64))


def test_bits_written_between_the_elements_are_found() -> None:
    copy, room = comparing._copy(np.zeros((4, 3), np.int16)[:, ::2])
    before = room.copy()
    copy[...] = 7
    comparing._same_between("A", copy, room, before)
    at = copy.ctypes.data - room.ctypes.data
    room[at + 2] ^= 1
    with pytest.raises(AssertionError, match="A: 1 bytes changed that belong to none"):
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


def test_arrays_hold_special_values_in_time() -> None:
    seen: set[str] = set()

    @given(arrays((64,), DTYPES["float32"]))
    def look(array: np.ndarray) -> None:
        seen.update(["nan"] if np.isnan(array).any() else [], ["inf"] if np.isinf(array).any() else [])
        seen.update(["subnormal"] if ((array != 0) & (np.abs(array) < np.finfo(np.float32).tiny)).any() else [])

    look()
    assert seen == {"nan", "inf", "subnormal"}


def test_without_hypothesis_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "tilejit.testing")
    testing = importlib.import_module("tilejit.testing")
    for name in set(testing.__all__) - {"do_bench"}:
        with pytest.raises(ImportError, match=rf"testing.{name} needs hypothesis.*pip install hypothesis"):
            getattr(testing, name)
    # timing needs none
    assert callable(testing.do_bench)
