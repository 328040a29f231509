"""Registers that nothing wrote on the path taken: checked builds say so, wherever the compiler can't."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times
from tests.support.programs import source_of
from tilejit import S, laneid

ROWS = S[(32, 8) : (1 @ laneid, 1)]


@tj.kernel(threads=1)
def one_branch(A, n):
    r = tj.alloc_local((8,), tj.float32)
    if n > 5:
        r[7] = 3
    else:
        r[6] = 2
    A[0] = r[7]


@tj.kernel(threads=32)
def no_round(A, n):
    r = tj.alloc_local((32, 8), tj.float32, layout=ROWS)
    for _ in range(n - 5):
        tj.warp.fill(r, 3)
    tj.warp.copy(A[0:32], r[:, 0])


@tj.kernel(threads=1)
def somewhere(A, n):
    r = tj.alloc_local((8,), tj.float32)
    for i in range(n):
        r[i] = 3
    A[0] = r[5]


@tj.kernel(threads=32)
def some_columns(A, n):
    r = tj.alloc_local((32, 8), tj.float32, layout=ROWS)
    tj.warp.fill(r[:, n - 6 : n - 2], 3)
    tj.warp.copy(A[0:32], r[:, 0])


@tj.kernel(threads=32)
def own_registers(A, n):
    r = tj.alloc_local((32, 8), tj.float32, layout=ROWS)
    if n > 5:
        for i in tj.static_range(8):
            r.registers[i] = 3
    tj.warp.copy(A[0:32], r[:, 0])


@pytest.mark.parametrize("kernel", [one_branch, no_round, somewhere, some_columns, own_registers], ids=lambda k: k.name)
def test_the_path_taken_decides(kernel):
    a = np.full(64, -7, np.float32)
    with tj.use_device("sim"):
        kernel[1](a, 6)
        assert a[0] == 3
        plain = np.full(64, -7, np.float32)
        tj.simulate(kernel, 1, plain, 6, checks=False)
        assert plain.tobytes() == a.tobytes()
        later = 7 if kernel is some_columns else 5
        with pytest.raises(tj.UninitializedReadError, match="r.* is read before anything has been written to it"):
            kernel[1](a, later)


def test_what_is_sure_to_be_unwritten_is_refused_when_compiling():
    @tj.kernel(threads=32)
    def half(A):
        r = tj.alloc_local((32, 8), tj.float32, layout=ROWS)
        tj.warp.fill(r[:, 0:4], 1)
        tj.warp.copy(A[0:32, 0:8], r)

    with pytest.raises(tj.KernelTypeError, match=r"r\[0, 4\] is read before anything has been written to it"):
        half.compile(np.zeros((32, 8), np.float32))


def test_the_message_names_element_thread_and_line():
    @tj.kernel(threads=32)
    def upper(A):
        r = tj.alloc_local((8,), tj.float32)
        if tj.thread_id() < 9:
            r[5] = 1
        A[tj.thread_id()] = r[5]

    with pytest.raises(tj.UninitializedReadError) as caught, tj.use_device("sim"):
        upper[1](np.zeros(32, np.float32))
    who = "thread 9 (warp 0, lane 9) of CTA (0, 0, 0)"
    assert caught.value.message == f"r[5] is read before anything has been written to it, in {who}"
    assert "A[tj.thread_id()] = r[5]" in str(caught.value)


def test_what_loops_of_known_turns_write_needs_no_flags():
    @tj.kernel(threads=1, debug=True)
    def filled(A, m):
        r = tj.alloc_local((4, 6), tj.float32)
        for i in range(4):
            for j in range(3):
                r[i, 2 * j] = 1
                r[i, 2 * j + 1] = 2
        tj.thread.copy(A[0:4, 0:6], r)
        q = tj.alloc_local((4, 6), tj.float32)
        for i in range(3, -1, -1):
            tj.thread.copy(q[i], A[i, 0:6])
        A[0, 0] = q[m, 0]

    assert ".written" not in filled.compile(np.zeros((4, 6), np.float32), 1).lane_ir


def test_a_loop_that_may_be_left_writes_no_more_than_its_first_iteration_for_sure():
    @tj.kernel(threads=1)
    def left(A, n):
        r = tj.alloc_local((4,), tj.float32)
        for i in range(4):
            r[i] = 3
            if i == n:
                break
        A[0] = r[0]
        A[1] = r[2]

    a = np.zeros(2, np.float32)
    with tj.use_device("sim"):
        left[1](a, 2)
        np.testing.assert_array_equal(a, 3)
        with pytest.raises(tj.UninitializedReadError, match=r"r\[2\]"):
            left[1](a, 1)


def test_registers_that_hold_padding_alone_need_no_value():
    """Tiles of 17 columns have some: neighbouring registers are written part by part, and read as a whole."""

    @tj.kernel(threads=128)
    def beside(A, B):
        for i in range(3):
            x = tj.warp.load(A[tj.warp_id() : tj.warp_id() + 1, 0:32, 0:17]).reshape((32, 17)) + 0 + i
            y = tj.cat(x, x + 1, 0)
            tj.warp.store(B[tj.warp_id(), i, 0:64, 0:17], y)

    a = np.arange(4 * 40 * 40, dtype=np.int32).reshape(4, 40, 40)
    b = np.zeros((4, 3, 64, 64), np.int32)
    with tj.use_device("sim"):
        beside[1](a, b)
    for i in range(3):
        x = a[:, :32, :17] + i
        np.testing.assert_array_equal(b[:, i, :, :17], np.concatenate([x, x + 1], axis=1))


def test_padding_is_computed_with_where_only_some_ways_wrote_it():
    """Fragments of 24 of 32 rows have some, which a transpose leaves as it was, and a branch does or doesn't."""

    @tj.kernel(threads=32)
    def turned(A, Out, n):
        a = tj.cta.load(A[0:24, 0:24])
        z = tj.cta.zeros((24, 24), tj.float32)
        for _ in range(n):
            if n > 2:
                for _ in range(1):
                    z = z.T + z
                z = z + 1
        x = a @ a
        tj.cta.store(Out[0:24, 0:24], x + z)

    a, out = np.ones((24, 24), np.float16), np.zeros((24, 24), np.float32)
    with tj.use_device("sim"):
        turned[1](a, out, 3)
    assert (out == 24 + 7).all()


def test_flags_count_for_no_limit():
    @tj.kernel(threads=1)
    def large(A, n):
        r = tj.alloc_local((4096,), tj.float32)
        for i in range(n):
            r[i] = i
        A[0] = r[n - 1]

    a = np.zeros(1, np.float32)
    with tj.use_device("sim"):
        large[1](a, 40)
    assert a[0] == 39


@tj.kernel(threads=32, debug=True)
def below_a_bound(A, N: tj.constexpr, START: tj.constexpr, n, m):
    """Elements from START on are filled up to n; some up to m are read."""
    r = tj.alloc_local((N,), tj.float32)
    i = tj.thread_id()
    for k in range(START, n):
        r[k] = k + i
    total = tj.float32(0)
    for k in range(1, n):
        total = total + r[k]
    for k in range(n - 1):
        total = total + r[k + 1] if k > 100 else total + r[k]
    for k in range(n, m):
        total = total + r[k]
    A[i] = total


@tj.kernel(threads=32, debug=True)
def up_to_a_bound(A, N: tj.constexpr, n):
    r = tj.alloc_local((N,), tj.float32)
    i = tj.thread_id()
    for k in range(n + i):
        r[k] = k
    total = tj.float32(0)
    for k in range(n + i):
        total = total + r[k]
    A[i] = total


@pytest.mark.parametrize("size", [64, 300])
def test_what_a_loop_filled_up_to_a_bound_needs_no_flags_below_it(size):
    a = np.zeros(32, np.float32)
    assert ".written" not in up_to_a_bound.compile(a, size, 7).lane_ir
    with tj.use_device("sim"):
        up_to_a_bound[1](a, size, 7)
    np.testing.assert_array_equal(a, [sum(range(7 + i)) for i in range(32)])


@pytest.mark.parametrize("size", [32, 64, 300])
def test_what_lies_past_the_bound_or_before_the_start_is_found(size):
    a = np.zeros(32, np.float32)
    with tj.use_device("sim"):
        below_a_bound[1](a, size, 0, 20, 20)
        np.testing.assert_array_equal(a, [sum(range(20)) + 19 * i + sum(range(19)) + 19 * i for i in range(32)])
        with pytest.raises(tj.UninitializedReadError, match=r"r\[20\]"):
            below_a_bound[1](a, size, 0, 20, 21)
        with pytest.raises(tj.UninitializedReadError, match=r"r\[0\]"):
            below_a_bound[1](a, size, 1, 20, 20)
        with pytest.raises(tj.UninitializedReadError, match=r"r\[1\]"):
            below_a_bound[1](a, size, 2, 20, 20)


def test_a_bound_that_has_changed_since_says_nothing():
    @tj.kernel(threads=1)
    def moved(A, n):
        r = tj.alloc_local((80,), tj.float32)
        for k in range(n):
            r[k] = 1
        n = n + 1
        total = tj.float32(0)
        for k in range(n):
            total = total + r[k]
        A[0] = total

    with pytest.raises(tj.UninitializedReadError, match=r"r\[6\]"), tj.use_device("sim"):
        moved[1](np.zeros(1, np.float32), 6)


#: what a random program does with its array of four registers; c is a number given at launch, i the index of a loop
ACTIONS = ["r[0] = 1", "r[1] = r[0] + 1", "r[c] = 5", "A[0] = r[1]", "A[1] = r[c]", "r[2] = r[2] + 1", "r[3] = r[c]"]


@st.composite
def blocks(draw, depth=2):
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["action", "action", "if", "for", "constant for"] if depth else ["action"]))
        if kind == "action":
            lines.append(draw(st.sampled_from(ACTIONS)))
            continue
        inner = ["    " + line for line in draw(blocks(depth - 1))]
        if kind == "if":
            lines += [f"if n > {draw(st.integers(0, 3))}:", *inner]
            if draw(st.booleans()):
                lines += ["else:", *("    " + line for line in draw(blocks(depth - 1)))]
            continue
        turns = "n" if kind == "for" else "4"
        # after a loop its index has no value: those of loops around it differ
        name = f"i{depth}"
        extra = [f"r[{name} % 4] = 7", f"r[{name}] = 7", f"A[0] = r[{name}]", f"if {name} == c: break"]
        inner += ["    " + line for line in draw(st.lists(st.sampled_from(extra), max_size=2))]
        lines += [f"for {name} in range({turns}):", *inner]
    return lines


class Array:
    """Four numbers that know whether they were written."""

    def __init__(self):
        self.values = {}

    def __setitem__(self, index, value):
        self.values[index] = value

    def __getitem__(self, index):
        return self.values[index]


@given(blocks(), st.integers(0, 4), st.integers(0, 3), st.sampled_from([4, 40, 70]))
@settings(max_examples=times(7), deadline=None)
def test_a_random_program_gives_pythons_result_or_names_what_is_unwritten(lines, n, c, size):
    """Arrays of more elements than are used have their flags elsewhere.

    Python's dict raises KeyError where the kernel must raise; and where Python doesn't, the kernel doesn't."""
    body = "\n    ".join(lines)
    assume("A[" in body)
    names = {"A": np.zeros(2, np.float32), "r": Array(), "n": n, "c": c}
    try:
        exec("\n".join(lines), names)
        is_sound = True
    except KeyError:
        is_sound = False
    text = f"def k(A, n, c):\n    r = tj.alloc_local(({size},), tj.float32)\n    {body}\n"
    kernel = tj.kernel(threads=1)(source_of(text))
    a = np.zeros(2, np.float32)
    with tj.use_device("sim"):
        try:
            kernel[1](a, n, c)
        except tj.UninitializedReadError:
            assert not is_sound
            return
        except tj.KernelTypeError as error:
            # refused whatever n is: there is a path on which nothing has been written
            assert "before anything has been written" in error.message
            return
    assert is_sound
    np.testing.assert_array_equal(a, names["A"])
    plain = np.zeros(2, np.float32)
    tj.simulate(kernel, 1, plain, n, c, checks=False)
    assert plain.tobytes() == a.tobytes()
