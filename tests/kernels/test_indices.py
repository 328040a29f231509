"""Indices past their own dimension, in every kind of memory: checked builds name them, plain builds don't look."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times


@tj.kernel(threads=1)
def read_global(A, B, i, j):
    B[0] = A[i, j]


@tj.kernel(threads=1)
def write_global(A, B, i, j):
    A[i, j] = 5
    B[0] = 5


@tj.kernel(threads=1)
def read_transposed(A, B, i, j):
    t = A.T
    B[0] = t[j, i]


@tj.kernel(threads=1)
def read_shared(A, B, i, j):
    s = tj.alloc_shared((4, 6), tj.float32)
    tj.thread.copy(s, A[0:4, 0:6])
    B[0] = s[i, j]


@tj.kernel(threads=1)
def write_shared(A, B, i, j):
    s = tj.alloc_shared((4, 6), tj.float32)
    tj.thread.copy(s, A[0:4, 0:6])
    s[i, j] = 5
    tj.thread.copy(A[0:4, 0:6], s)
    B[0] = 5


@tj.kernel(threads=1)
def read_local(A, B, i, j):
    r = tj.alloc_local((4, 6), tj.float32)
    tj.thread.copy(r, A[0:4, 0:6])
    B[0] = r[i, j]


@tj.kernel(threads=1)
def write_local(A, B, i, j):
    r = tj.alloc_local((4, 6), tj.float32)
    tj.thread.copy(r, A[0:4, 0:6])
    r[i, j] = 5
    tj.thread.copy(A[0:4, 0:6], r)
    B[0] = 5


@tj.kernel(threads=1)
def region_of_shared(A, B, i, j):
    s = tj.alloc_shared((4, 6), tj.float32)
    tj.thread.copy(s, A[0:4, 0:6])
    tj.thread.copy(B[0:2], s[i : i + 2, j : j + 1])


@tj.kernel(threads=1)
def region_of_local(A, B, i, j):
    r = tj.alloc_local((4, 6), tj.float32)
    tj.thread.copy(r, A[0:4, 0:6])
    tj.thread.copy(B[0:2], r[i, j : j + 2])


READS = (read_global, read_transposed, read_shared, read_local)
WRITES = (write_global, write_shared, write_local)
INDEX = st.integers(-9, 9) | st.sampled_from((-(2**31), 2**31 - 1))


@pytest.mark.parametrize("kernel", READS + WRITES, ids=lambda k: k.name)
@given(INDEX, INDEX)
@settings(max_examples=times(1.3))
def test_an_element_is_reached_exactly_where_numpy_reaches_it_without_counting_from_the_end(kernel, i, j):
    a, b = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros(4, np.float32)
    before = a.copy()
    with tj.use_device("sim"):
        if 0 <= i < 4 and 0 <= j < 6:
            kernel[1](a, b, i, j)
            assert b[0] == (before[i, j] if kernel in READS else 5)
            if kernel in WRITES:
                before[i, j] = 5
            np.testing.assert_array_equal(a, before)
            plain_a, plain_b = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros(4, np.float32)
            tj.simulate(kernel, 1, plain_a, plain_b, i, j, checks=False)
            assert plain_a.tobytes() == a.tobytes() and plain_b.tobytes() == b.tobytes()
            return
        with pytest.raises(tj.OutOfBoundsError, match="whose extent is [46], in thread 0"):
            kernel[1](a, b, i, j)
        np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize(("kernel", "rows", "columns"), [(region_of_shared, 2, 1), (region_of_local, 1, 2)])
@given(INDEX, INDEX)
@settings(max_examples=times(1.3))
def test_a_region_of_shared_or_local_memory_lies_inside(kernel, rows, columns, i, j):
    a, b = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros(4, np.float32)
    with tj.use_device("sim"):
        if 0 <= i <= 4 - rows and 0 <= j <= 6 - columns:
            kernel[1](a, b, i, j)
            np.testing.assert_array_equal(b[:2], a[i : i + rows, j : j + columns].ravel())
            return
        with pytest.raises(tj.OutOfBoundsError, match="outside|leaves"):
            kernel[1](a, b, i, j)


def test_the_message_names_array_dimension_index_extent_thread_and_line():
    @tj.kernel(threads=32)
    def past(A, n):
        A[0, tj.thread_id() + n] = 1

    a = np.zeros((4, 64), np.float32)[:, :32]
    with pytest.raises(tj.OutOfBoundsError) as caught, tj.use_device("sim"):
        past[1](a, 9)
    who = "thread 23 (warp 0, lane 23) of CTA (0, 0, 0)"
    assert caught.value.message == f"index 32 is outside dimension 1 of A, whose extent is 32, in {who}"
    assert "A[0, tj.thread_id() + n] = 1" in str(caught.value)


def test_a_negative_index_and_a_start_past_the_end_are_reported_with_numbers():
    a, b = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros(4, np.float32)
    with tj.use_device("sim"):
        with pytest.raises(tj.OutOfBoundsError, match=r"index -1 is outside dimension 0 of s, whose extent is 4"):
            read_shared[1](a, b, -1, 0)
        with pytest.raises(tj.OutOfBoundsError, match=r"\[5 : 7\] leaves dimension 1 of r, whose extent is 6"):
            region_of_local[1](a, b, 0, 5)
        with pytest.raises(tj.OutOfBoundsError, match=r"dimension 0 of a view of A, whose extent is 6"):
            read_transposed[1](a, b, 0, 6)


def assertions(kernel, *args):
    """How many assertions a kernel's checked build has."""
    return kernel.compile(*args, target="sm_90a").lane_ir.count("assert ")


def test_what_is_proved_is_not_checked():
    @tj.kernel(threads=32, debug=True)
    def proved(A, n):
        lane = tj.lane_id()
        s = tj.alloc_shared((32,), tj.float32)
        s[lane] = 1
        for i in range(A.shape[0]):
            A[i] = s[lane]
        if n >= 0:
            s[lane] = 2
            if A.shape[0] > n:
                A[n] = s[lane]
        if n < 0:
            return
        if n >= A.shape[0]:
            return
        A[n] = s[lane]
        for i in range(8):
            s[4 * i + lane // 8] = 2

    assert assertions(proved, np.zeros(8, np.float32), 3) == 0


def test_one_check_serves_the_accesses_that_follow():
    @tj.kernel(threads=1, debug=True)
    def twice(A, n):
        A[n] = A[n] + 1
        if n > 2:
            A[n] = A[n] * 2

    assert assertions(twice, np.zeros(8, np.float32), 3) == 1


def test_a_variable_that_changes_is_checked_again():
    @tj.kernel(threads=1)
    def walked(A):
        i = 0
        while i < 20:
            A[i] = 1
            i += 3

    a = np.zeros(18, np.float32)
    with pytest.raises(tj.OutOfBoundsError, match="index 18"), tj.use_device("sim"):
        walked[1](a)


def test_a_plain_build_looks_at_addresses_only_and_is_what_is_compiled():
    a, b = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros(4, np.float32)
    tj.simulate(read_global, 1, a, b, 0, 7, checks=False)
    assert b[0] == a[1, 1]
    compiled = read_global.compile(a, b, 0, 7)
    assert compiled.executable.assertions == () and "assert" not in compiled.lane_ir
    with pytest.raises(tj.OutOfBoundsError):
        tj.simulate(read_global, 1, a, b, 0, 7)
    tj.simulate(read_global, 1, a, b, 0, 7, profile=True)


def test_the_environment_turns_checked_builds_off(monkeypatch):
    monkeypatch.setenv("TILEJIT_SIM_CHECKS", "0")
    a, b = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros(4, np.float32)
    with tj.use_device("sim"):
        read_global[1](a, b, 0, 7)
        assert b[0] == a[1, 1]
        monkeypatch.delenv("TILEJIT_SIM_CHECKS")
        with pytest.raises(tj.OutOfBoundsError):
            read_global[1](a, b, 0, 7)


def test_threads_that_wait_for_one_that_failed_are_no_deadlock():
    @tj.kernel(threads=64)
    def waiting(A, n):
        A[tj.thread_id() + n] = 1
        tj.cta_sync()
        A[tj.thread_id()] = 2

    with pytest.raises(tj.OutOfBoundsError, match="thread 60"), tj.use_device("sim"):
        waiting[1](np.zeros(64, np.float32), 4)
