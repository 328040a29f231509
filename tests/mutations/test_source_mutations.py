"""Correct kernels run without a report; each seeded bug in their source is reported with its lines."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.mutations.edits import reports
from tests.mutations.programs import PIPELINE, PROGRAMS, RELAY, ROWS, STENCIL, SUM, TRANSPOSE, numbers

RACE, UNWRITTEN, OUTSIDE = tj.RaceError, tj.UninitializedReadError, tj.OutOfBoundsError


@pytest.fixture(autouse=True)
def simulator(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    monkeypatch.delenv("TILEJIT_SIM_CHECKS", raising=False)


SIZES = [(name, n) for name, program in PROGRAMS.items() for n in program.sizes]


@pytest.mark.parametrize(("name", "n"), SIZES)
def test_a_correct_kernel_gives_numpys_result_without_a_report(name, n):
    PROGRAMS[name].run(PROGRAMS[name].kernel(), n)


# the program, the barrier that is dropped, the lines of the two accesses that race then
BARRIERS = [
    (PIPELINE, "loaded", ("load", "read")),
    (PIPELINE, "written", ("write", "store")),
    (SUM, "filled", ("fill", "fold")),
    (SUM, "folded", ("fold",)),
    (STENCIL, "staged", ("middle", "sum")),
    (TRANSPOSE, "staged", ("in", "out")),
    (RELAY, "handed-over", ("produce", "consume")),
]


@pytest.mark.parametrize(("program", "barrier", "lines"), BARRIERS, ids=[b[1] for b in BARRIERS])
def test_a_dropped_barrier_is_a_race_of_the_two_lines_around_it(program, barrier, lines):
    message = reports(program.without(barrier), RACE, lines, program.sizes[1])
    assert "race in shared memory" in message


# the program, the text, its replacement, the report, its lines, words of the message
EDITS = [
    (SUM, "s[t + step]", "s[t + step + 1]", OUTSIDE, ("fold",), "index 128 is outside dimension 0 of s"),
    (SUM, "B[row] =", "B[row + 1] =", OUTSIDE, ("result",), "outside dimension 0 of B"),
    (SUM, "A[row, t]", "A[row, t + 1]", OUTSIDE, ("fill",), "outside dimension 1 of A"),
    (SUM, "shared((128,)", "shared((96,)", OUTSIDE, ("fill",), "index 96 is outside dimension 0 of s"),
    (SUM, "t == 0:\n        B[row] = s[0]", "t < 2:\n        B[row] = s[t]", RACE, ("result",), "race in global"),
    (SUM, "step = 64", "step = 128", OUTSIDE, ("fold",), "index 128 is outside dimension 0 of s"),
    (STENCIL, "s[t + 2]", "s[t + 3]", OUTSIDE, ("sum",), "index 66 is outside dimension 0 of s"),
    (STENCIL, "A[i] if i < n else 0.0", "A[i] if i <= n else 0.0", OUTSIDE, ("middle",), "outside dimension 0 of A"),
    (STENCIL, "A[i - 1] if i > 0", "A[i - 1] if i >= 0", OUTSIDE, ("left",), "index -1 is outside dimension 0 of A"),
    (STENCIL, "    if i < n:\n", "    if i <= n:\n", OUTSIDE, ("store",), "outside dimension 0 of B"),
    (TRANSPOSE, "s[x * 33 + j]", "s[x * 32 + j]", UNWRITTEN, ("out",), "nothing has written"),
    (TRANSPOSE, "s[x * 33 + j]", "s[x * 33 + j + 33]", OUTSIDE, ("out",), "outside dimension 0 of s"),
    (TRANSPOSE, "s[j * 33 + x]", "s[j + x]", RACE, ("in",), "race in shared memory"),
    (TRANSPOSE, "shared((32 * 33,)", "shared((32 * 32,)", OUTSIDE, ("in",), "whose extent is 1024"),
    (TRANSPOSE, "32, 8):\n        s", "31, 8):\n        s", UNWRITTEN, ("out",), "nothing has written"),
    (RELAY, "s[(i - 1) % 2, lane]", "s[i % 2, lane]", RACE, ("produce", "consume"), "race in shared memory"),
    (RELAY, "s[i % 2, lane]", "s[i, lane]", OUTSIDE, ("produce",), "index 2 is outside dimension 0 of s"),
    # what is read too early would be stored before the output
    (RELAY, "and i > 0", "and i >= 0", OUTSIDE, ("consume",), "index -1 is outside dimension 0 of B"),
    (ROWS, "B[row, t] =", "B[0, t] =", RACE, ("store",), "of CTA (0, 0, 0)"),
    (ROWS, "B[row, t] =", "B[row, t // 2] =", RACE, ("store",), "race in global memory"),
    (ROWS, "B[row, t] =", "B[row, t * 2] =", OUTSIDE, ("store",), "outside dimension 1 of B"),
]


@pytest.mark.parametrize(("program", "old", "new", "kind", "lines", "words"), EDITS, ids=[e[2] for e in EDITS])
def test_an_edited_index_size_or_condition_is_reported_at_its_line(program, old, new, kind, lines, words):
    broken = program.replaced((old, new))
    assert words in reports(broken, kind, lines)


# the program, the store that is dropped, the report's lines: a read and the store to global memory that uses it
STORES = [(SUM, "fill", ("result",)), (PIPELINE, "load", ("store",)), (STENCIL, "middle", ("sum", "store")),
          (TRANSPOSE, "in", ("out",)), (STENCIL, "left", ("sum", "store")), (RELAY, "produce", ("consume",))]


@pytest.mark.parametrize(("program", "store", "lines"), STORES, ids=[s[1] for s in STORES])
def test_a_dropped_store_to_shared_memory_is_an_uninitialised_read(program, store, lines):
    assert "which nothing has written" in reports(program.without(store), UNWRITTEN, lines)


def test_a_tile_that_was_never_filled_is_refused_when_the_kernel_is_compiled():
    broken = ROWS.without("load")
    with pytest.raises(tj.KernelTypeError, match="x is read before anything has been written to it") as caught:
        broken.run(broken.kernel(), 2)
    assert caught.value.span.line == broken.line("scale")


def test_an_array_that_was_never_written_is_reported_where_it_is_read():
    kernel, b = ROWS.kernel(), np.zeros((2, 32), np.float32)
    with pytest.raises(UNWRITTEN, match=r"thread 0 .*of CTA \(0, 0, 0\) reads .* at A.*, which nothing has written"):
        kernel[2](tj.empty((2, 32), tj.float32), b)
    assert not b.any()


def test_a_dropped_store_to_the_output_is_reported_at_its_read():
    broken = ROWS.without("store")
    a, b, c = tj.to_device(numbers(2, 32)), tj.empty((2, 32), tj.float32), tj.empty((2, 32), tj.float32)
    broken.kernel()[2](a, b)
    with pytest.raises(UNWRITTEN, match="which nothing has written"):
        ROWS.kernel()[2](b, c)


@pytest.mark.parametrize("rows", [1, 3])
def test_an_array_that_is_too_small_for_the_grid_is_reported(rows):
    a, b = numbers(rows, 32), np.zeros((rows, 32), np.float32)
    words = rf"index {rows} is outside dimension 0 of B, whose extent is {rows}, in thread .* of CTA \({rows}, 0, 0\)"
    with pytest.raises(OUTSIDE, match=words):
        ROWS.kernel()[rows + 1](a, b)


def test_both_ctas_of_a_race_are_named():
    message = reports(ROWS.replaced(("B[row, t] =", "B[0, t] =")), RACE, ("store",), 2)
    assert "of CTA (0, 0, 0)" in message and "of CTA (1, 0, 0)" in message


def test_the_same_value_stored_by_several_ctas_is_no_race():
    same = ROWS.replaced(("B[row, t] = x.registers[0]", "B[0, t] = 5.0"))
    b = np.zeros((3, 32), np.float32)
    same.kernel()[3](numbers(3, 32), b)
    assert (b[0] == 5).all() and not b[1:].any()
