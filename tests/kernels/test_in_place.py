"""Operands of one operation in the same memory: NumPy's result where they are the same or apart, an error elsewhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times

ROWS, COLUMNS = 6, 8


@tj.kernel(threads=32)
def copied_in_shared(A, i, j, k, m):
    s = tj.alloc_shared((6, 8), tj.float32)
    tj.warp.copy(s, A[0:6, 0:8])
    tj.warp_sync()
    tj.warp.copy(s[i : i + 2, j : j + 3], s[k : k + 2, m : m + 3])
    tj.warp_sync()
    tj.warp.copy(A[0:6, 0:8], s)


@tj.kernel(threads=1)
def copied_in_global(A, i, j, k, m):
    tj.thread.copy(A[i : i + 2, j : j + 3], A[k : k + 2, m : m + 3])


@tj.kernel(threads=1)
def copied_between_constants(A, i: tj.constexpr, j: tj.constexpr, k: tj.constexpr, m: tj.constexpr):
    tj.thread.copy(A[i : i + 2, j : j + 3], A[k : k + 2, m : m + 3])


@tj.kernel(threads=32)
def doubled_in_shared(A, i, j, k, m):
    s = tj.alloc_shared((6, 8), tj.float32, swizzle=tj.Swizzle(1, 1, 2))
    tj.warp.copy(s, A[0:6, 0:8])
    tj.warp_sync()
    tj.warp.mul(s[i : i + 2, j : j + 3], s[k : k + 2, m : m + 3], 1)
    tj.warp_sync()
    tj.warp.copy(A[0:6, 0:8], s)


@tj.kernel(threads=1)
def transposed_in_shared(A, i, j, k, m):
    s = tj.alloc_shared((6, 8), tj.float32)
    tj.thread.copy(s, A[0:6, 0:8])
    t = s.T
    tj.thread.copy(s[i : i + 2, j : j + 3], t[k : k + 2, m : m + 3])
    tj.thread.copy(A[0:6, 0:8], s)


@tj.kernel(threads=1)
def reshaped_in_shared(A, i, j, k, m):
    s = tj.alloc_shared((6, 8), tj.float32)
    tj.thread.copy(s, A[0:6, 0:8])
    v = s.view((3, 16))
    tj.thread.copy(s[i : i + 2, 0:3], v[1:3, m : m + 3])
    tj.thread.copy(A[0:6, 0:8], s)


@tj.kernel(threads=1)
def row_in_shared(A, i, j, k, m):
    s = tj.alloc_shared((6, 8), tj.float32)
    tj.thread.copy(s, A[0:6, 0:8])
    tj.thread.maximum(s[i : i + 2, j : j + 3], s[i : i + 2, j : j + 3], s[k, m : m + 3])
    tj.thread.copy(A[0:6, 0:8], s)


def boxes(i, j, k, m):
    numbers = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    return numbers[i : i + 2, j : j + 3], numbers[k : k + 2, m : m + 3]


def transposed(i, j, k, m):
    numbers = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    return numbers[i : i + 2, j : j + 3], numbers.T[k : k + 2, m : m + 3]


def reshaped(i, j, k, m):
    numbers = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    return numbers[i : i + 2, 0:3], numbers.reshape(3, 16)[1:3, m : m + 3]


def one_row(i, j, k, m):
    numbers = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    return numbers[i : i + 2, j : j + 3], np.broadcast_to(numbers[k, m : m + 3], (2, 3))


ROW, COLUMN = st.integers(0, ROWS - 2), st.integers(0, COLUMNS - 3)
#: kernel, the numbers of the elements that it writes and reads, where the third and fourth start may be
KERNELS = [
    (copied_in_shared, boxes, ROW, COLUMN),
    (copied_in_global, boxes, ROW, COLUMN),
    (copied_between_constants, boxes, ROW, COLUMN),
    (doubled_in_shared, boxes, ROW, COLUMN),
    (transposed_in_shared, transposed, st.integers(0, COLUMNS - 2), st.integers(0, ROWS - 3)),
    (reshaped_in_shared, reshaped, ROW, st.integers(0, 13)),
    (row_in_shared, one_row, ROW, COLUMN),
]


@pytest.mark.parametrize(("kernel", "elements", "row", "column"), KERNELS, ids=[k.name for k, *_ in KERNELS])
@given(st.data())
@settings(max_examples=times(2), deadline=None)
def test_numpy_gives_the_same_or_there_is_an_error(kernel, elements, row, column, data):
    starts = [data.draw(each) for each in (ROW, COLUMN, row, column)]
    a = np.random.default_rng(0).permutation(ROWS * COLUMNS).astype(np.float32).reshape(ROWS, COLUMNS)
    before = a.copy()
    written, read = elements(*starts)
    is_sound = np.array_equal(written, read) or not np.isin(written, read).any()
    with tj.use_device("sim"):
        if not is_sound:
            with pytest.raises((tj.KernelTypeError, tj.SimulationError), match="in part or in another order"):
                kernel[1](a, *starts)
            return
        kernel[1](a, *starts)
        values = before.ravel()[read]
        before.ravel()[written] = np.maximum(before.ravel()[written], values) if kernel is row_in_shared else values
        np.testing.assert_array_equal(a, before)
        plain = np.random.default_rng(0).permutation(ROWS * COLUMNS).astype(np.float32).reshape(ROWS, COLUMNS)
        tj.simulate(kernel, 1, plain, *starts, checks=False)
        assert plain.tobytes() == a.tobytes()


def test_constants_are_refused_when_compiling_with_both_regions_named():
    @tj.kernel(threads=1)
    def shifted(A):
        tj.thread.copy(A[4:12, 0:32], A[0:8, 0:32])

    with pytest.raises(tj.KernelTypeError, match=r"writes A\[4:12, 0:32\] and reads A\[0:8, 0:32\]: they overlap"):
        shifted.compile(tj.spec((16, 32), tj.float32))


def test_a_transposed_view_of_the_same_tile_is_refused_but_a_local_tile_is_transposed():
    @tj.kernel(threads=1)
    def in_shared(A):
        s = tj.alloc_shared((4, 4), tj.float32)
        tj.thread.copy(s, A[0:4, 0:4])
        tj.thread.copy(s, s.T)

    @tj.kernel(threads=1)
    def in_registers(A):
        r = tj.alloc_local((4, 4), tj.float32)
        tj.thread.copy(r, A[0:4, 0:4])
        tj.thread.copy(r, r.T)
        tj.thread.copy(A[0:4, 0:4], r)

    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    with pytest.raises(tj.KernelTypeError, match="another order"):
        in_shared.compile(a)
    expected = a.T.copy()
    with tj.use_device("sim"):
        in_registers[1](a)
    np.testing.assert_array_equal(a, expected)


def test_columns_of_one_tile_lie_apart_though_their_bytes_alternate():
    @tj.kernel(threads=32)
    def halves(A):
        s = tj.alloc_shared((8, 8), tj.float32)
        tj.warp.copy(s, A[0:8, 0:8])
        tj.warp_sync()
        tj.warp.copy(s[:, 4:8], s[:, 0:4])
        tj.warp_sync()
        tj.warp.add(s[:, 0:4], s[:, 0:4], s[:, 4:8])
        tj.warp_sync()
        tj.warp.copy(A[0:8, 0:8], s)

    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    expected = np.hstack([2 * a[:, :4], a[:, :4]])
    with tj.use_device("sim"):
        halves[1](a)
    np.testing.assert_array_equal(a, expected)


def test_a_view_of_another_width_overlaps_by_its_bytes():
    @tj.kernel(threads=1)
    def upper(A, B):
        s = tj.alloc_shared((8,), tj.float32)
        tj.thread.fill(s, 1)
        h = s.view(tj.float16)
        tj.thread.cast(s[0:4], h[8:12])
        tj.thread.copy(B[0:8], s)

    @tj.kernel(threads=1)
    def lower(A, B):
        s = tj.alloc_shared((8,), tj.float32)
        tj.thread.fill(s, 1)
        h = s.view(tj.float16)
        tj.thread.cast(s[0:4], h[4:8])

    b = np.zeros(8, np.float32)
    upper.compile(b, b)
    with pytest.raises(tj.KernelTypeError, match="overlap"):
        lower.compile(b, b)


def test_stages_of_one_buffer_are_distinguished_at_run_time():
    @tj.kernel(threads=1)
    def staged(A, n):
        s = tj.alloc_shared((2, 4, 4), tj.float32)
        t = s.permute(0, 2, 1)
        tj.thread.copy(s[0], A[0:4, 0:4])
        tj.thread.copy(s[1 - n], t[n])
        tj.thread.copy(A[0:4, 0:4], s[1])

    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    expected = a.T.copy()
    with tj.use_device("sim"):
        staged[1](a, 0)
    np.testing.assert_array_equal(a, expected)


@tj.kernel(threads=1)
def copied_between_arrays(A, B):
    tj.thread.copy(B[0:4, 0:3], A[0:4, 0:3])


@tj.kernel(threads=32)
def added_between_arrays(A, B):
    tj.warp.add(B[0:4, 0:3], A[0:4, 0:3], 0)


@st.composite
def parts(draw, shape):
    """A part of an array of this shape that has at most 4 x 3 elements, with strides of any sign."""
    rows, columns = (draw(st.sampled_from((1, 1, 2, -1))) for _ in range(2))
    first, left = draw(st.integers(0, shape[0] - 1)), draw(st.integers(0, shape[1] - 1))
    return np.s_[first::rows, left::columns]


@pytest.mark.parametrize("kernel", [copied_between_arrays, added_between_arrays], ids=lambda k: k.name)
@given(parts((6, 8)), parts((6, 8)), st.booleans())
@settings(max_examples=times(3.3), deadline=None)
def test_arrays_that_overlap_at_launch_give_numpys_result_or_an_error(kernel, source, target, is_transposed):
    def views(memory):
        b = memory[target].T if is_transposed else memory[target]
        return memory[source], b

    a = np.arange(48, dtype=np.float32).reshape(6, 8)
    (x, y), before = views(a), a.copy()
    read, written = (each[:4, :3] for each in views(np.arange(48).reshape(6, 8)))
    box = tuple(map(min, read.shape, written.shape))
    inside = written[: box[0], : box[1]]
    # what lies outside A reads as 0; B's elements there are written, too
    values = np.zeros(written.shape, np.float32)
    values[: box[0], : box[1]] = before.ravel()[read[: box[0], : box[1]]]
    is_same = np.array_equal(inside, read[: box[0], : box[1]])
    is_apart = not np.isin(written, read).any()
    with tj.use_device("sim"):
        if not is_apart and not is_same:
            with pytest.raises((tj.SimulationError, tj.RaceError)):
                kernel[1](x, y)
            return
        if not is_apart and written.shape != read.shape:
            # the same places, of which one array has more
            return
        kernel[1](x, y)
        before.ravel()[written] = values
        np.testing.assert_array_equal(a, before)


def test_arrays_that_overlap_are_named_with_their_regions():
    a = np.arange(16, dtype=np.float32)
    message = r"writes B\[0:8\] and reads A\[0:8\]: they overlap"
    with tj.use_device("sim"), pytest.raises(tj.SimulationError, match=message):
        shifted_arrays[1](a[:8], a[4:12])


@tj.kernel(threads=1)
def shifted_arrays(A, B):
    tj.thread.copy(B[0:8], A[0:8])


def test_arrays_whose_rows_alternate_lie_apart():
    a = np.arange(256, dtype=np.float32).reshape(8, 32)
    expected = a[:, :3].copy()
    with tj.use_device("sim"):
        added_between_arrays[1](a[:4, :3], a[:4, 20:23])
    np.testing.assert_array_equal(a[:4, 20:23], expected[:4])


@tj.kernel(threads=128)
def each_cta_from_one_place(A, n: tj.int32):
    at = tj.cta_id() * 40
    tj.cta.copy(A[at : at + 80], A[n : n + 80])


@tj.kernel(threads=128)
def each_thread_from_one_place(A, n: tj.int32):
    at = tj.thread_id() * 40
    tj.thread.copy(A[at : at + 80], A[n : n + 80])


@pytest.mark.parametrize("kernel", [each_cta_from_one_place, each_thread_from_one_place])
@pytest.mark.parametrize("schedule", range(4))
def test_the_overlap_is_reported_although_others_race_before_the_check_has_ended_its_thread(kernel, schedule):
    # the second instance overlaps its source in part; the third reads what the first writes
    overlap = r"A\[40 : 40 \+ 80\] and reads A\[0 : 0 \+ 80\]: they overlap in part"
    with pytest.raises(tj.SimulationError, match=overlap):
        tj.simulate(kernel, 3, np.zeros(5200, np.float32), 0, schedule=schedule)
