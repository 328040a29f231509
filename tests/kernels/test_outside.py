"""`report.outside`: regions of global tensors that lay wholly outside in all executions; nothing fails by it."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import tilejit as tj
from tilejit.ir.nodes import Instruction
from tilejit.ir.walk import statements
from tilejit.isa.miscellaneous import PMEVENT
from tilejit.testing import check

A = np.arange(1, 201, dtype=np.float32)
VECTOR_64, VECTOR_256 = tj.spec((64,), tj.float32), tj.spec((256,), tj.float32)


def marked(comment):
    """The number of the line here that ends in a comment."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {comment}"))


def counts(report):
    return {(r.line, r.region): (r.instances, r.inside) for r in report.regions}


@tj.kernel(threads=64)
def three(X, Y, Z):
    i = tj.cta_id(0)
    s = tj.alloc_shared((64,), tj.float32)
    tj.cta.copy(s, X[i * 64 : i * 64 + 64])  # three: inside
    tj.cta_sync()
    tj.cta.copy(Y[(i + 4) * 64 : (i + 4) * 64 + 64], s)  # three: a whole tile off
    tj.cta.copy(Z[i * 128 - 128 : i * 128 - 64], s)  # three: in two CTAs


def test_the_one_of_three_copies_that_always_lies_outside_is_listed():
    y, z = np.zeros(200, np.float32), np.zeros(200, np.float32)
    report = tj.simulate(three, 4, A, y, z)
    (outside,) = report.outside
    assert outside.line == marked("three: a whole tile off")
    assert outside.region == "Y[(i + 4) * 64 : (i + 4) * 64 + 64]"
    assert (outside.instances, outside.inside) == (4, 0)
    assert f"line {outside.line}: {outside.region} lay wholly outside its tensor in 4 of 4 executions" in str(report)
    assert counts(report) == {
        (marked("three: inside"), "X[i * 64 : i * 64 + 64]"): (4, 4),
        (outside.line, outside.region): (4, 0),
        # CTA 0 lies before the start, CTA 3 after the end
        (marked("three: in two CTAs"), "Z[i * 128 - 128 : i * 128 - 64]"): (4, 2),
    }
    assert not y.any()
    np.testing.assert_array_equal(z[:64], A[64:128])


@pytest.mark.parametrize("ctas", [4, 5, 1])
def test_a_region_that_lies_outside_in_the_last_cta_only_is_not_listed(ctas):
    report = tj.simulate(three, ctas, A, np.zeros(ctas * 64 + 256, np.float32), np.zeros(2000, np.float32))
    x = counts(report)[marked("three: inside"), "X[i * 64 : i * 64 + 64]"]
    assert x == (ctas, min(ctas, 4))
    assert [r.line for r in report.outside] == ([marked("three: in two CTAs")] if ctas == 1 else [])


@tj.kernel(threads=64)
def at(X, Y, start, n):
    for k in range(n):
        r = tj.warp.load(X[start + k, 0:32])  # at
        tj.warp.store(Y[0, 0:32], r)
        tj.cta_sync()


@pytest.mark.parametrize(
    "start, turns, inside",
    [(0, 3, 3), (2, 4, 2), (-2, 4, 2), (-4, 4, 0), (4, 4, 0), (-1, 6, 4), (3, 0, 0)],
)
def test_instances_of_warps_and_turns_are_counted(start, turns, inside):
    x, y = np.ones((4, 32), np.float32), np.zeros((1, 32), np.float32)
    report = tj.simulate(at, 1, x, y, start, turns)
    # two warps carry out each iteration
    assert counts(report)[marked("at"), "X[start + k, 0:32]"] == (2 * turns, 2 * inside)
    assert bool(report.outside) == (turns > 0 and not inside)


@tj.kernel(threads=32)
def corner(X, Y, i, j):
    r = tj.warp.load(X[i : i + 4, j : j + 8])  # corner
    tj.warp.store(Y[0:4, 0:8], r)


@pytest.mark.parametrize("i", [-5, -4, -3, 0, 5, 6, 9])
@pytest.mark.parametrize("j", [-8, -7, 0, 9, 10])
def test_a_region_lies_inside_where_it_does_in_every_dimension(i, j):
    x, y = np.ones((6, 10), np.float32), np.zeros((4, 8), np.float32)
    report = tj.simulate(corner, 1, x, y, i, j)
    inside = -4 < i < 6 and -8 < j < 10
    assert counts(report)[marked("corner"), "X[i : i + 4, j : j + 8]"] == (1, int(inside))
    assert y.any() == inside


@tj.kernel(threads=32)
def past(X: tj.Tensor = VECTOR_64, Y: tj.Tensor = VECTOR_64):
    tj.warp.copy(Y[32:64], X[64:96])  # past


def test_a_region_that_is_sure_to_lie_outside_is_listed():
    report = tj.simulate(past, 3, A[:64].copy(), np.zeros(64, np.float32))
    assert [(r.line, r.region, r.instances) for r in report.outside] == [(marked("past"), "X[64:96]", 3)]


@tj.function
def read(X, start):
    return tj.warp.load(X[start : start + 32])


@tj.kernel(threads=32)
def through_a_function(X, Y, n):
    r = read(X, n)  # called
    tj.warp.store(Y[0:32], r)


def test_a_line_is_that_of_the_kernel():
    report = tj.simulate(through_a_function, 1, A, np.zeros(32, np.float32), 200)
    assert [r.line for r in report.outside] == [marked("called")]


@tj.kernel(threads=32)
def proved(X: tj.Tensor = VECTOR_256, Y: tj.Tensor = VECTOR_256):
    for k in range(4):
        tj.warp.copy(Y[k * 64 : k * 64 + 64], X[k * 64 : k * 64 + 64])
    tj.warp_sync()
    if tj.cta_id(0) < 256:
        tj.warp.copy(Y[tj.cta_id(0) : tj.cta_id(0) + 1], X[0:1])


@tj.kernel(threads=32)
def promised(X, Y, n):
    tj.warp.copy(tj.assume_in_bounds(Y[n : n + 32]), tj.assume_in_bounds(X[n : n + 32]))


@pytest.mark.parametrize("kernel, arguments", [(proved, ()), (promised, (0,))])
def test_what_is_proved_inside_is_not_counted(kernel, arguments):
    report = tj.simulate(kernel, 1, np.zeros(256, np.float32), np.ones(256, np.float32), *arguments)
    assert not report.regions and "pmevent.mask" not in report.instructions


def test_only_checked_builds_count():
    y, z = np.zeros(200, np.float32), np.zeros(200, np.float32)
    for plain in (tj.simulate(three, 4, A, y, z, checks=False), tj.simulate(three, 4, A, y, z, profile=True)):
        assert not plain.regions and not plain.outside and not plain.events
    compiled = three.compile(A, y, z)
    lane = compiled.derivation.lane
    events = [s for s in statements(lane.body) if isinstance(s, Instruction) and s.name == PMEVENT.name]
    assert not events


def test_a_launch_does_not_fail_by_it():
    y = np.zeros(200, np.float32)
    with tj.use_device("sim"):
        three[4](A, y, np.zeros(200, np.float32))
    assert not y.any()


@tj.kernel(threads=32)
def part_of_a_part(X, Y, j):
    tj.warp.copy(Y[0:8], X[0:16][j : j + 8])


@pytest.mark.parametrize(("j", "first"), [(-1, -1), (9, 9)])
def test_a_part_of_a_region_at_a_run_time_place_that_leaves_it_is_an_error(j, first):
    y = np.zeros(8, np.float32)
    with pytest.raises(tj.OutOfBoundsError) as caught:
        tj.simulate(part_of_a_part, 1, A, y, j)
    assert f"[{first} : {first + 8}] leaves dimension 0 of a region of X, whose extent is 16" in str(caught.value)
    assert not y.any()
    tj.simulate(part_of_a_part, 1, A, y, 8)
    np.testing.assert_array_equal(y, A[8:16])


def outside_warnings(launch):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        launch()
    assert all(each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught if each.category is tj.OutsideWarning]


@tj.kernel(threads=32)
def off(X, Y, i, n):
    for k in range(n):
        tj.cta.store(Y[0:8], tj.cta.load(X[i + k, 0:8]))  # off


WAYS = {
    "launch": lambda *args: off[2](*args), "bind": lambda *args: off[2].bind(*args)(),
    "simulate": lambda *args: tj.simulate(off, 2, *args),
    "check": lambda x, y, *rest: check(off, 2, x, y, *rest, expected={"Y": y}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("i", "n", "is_warned"), [(77, 1, True), (50, 3, True), (-2, 2, True), (-2, 3, False), (9, 0, False)]
)
def test_a_launch_warns_where_every_region_of_a_tensor_lay_outside(way, i, n, is_warned, monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    x, y = np.zeros((50, 8), np.float32), np.zeros(8, np.float32)
    texts = outside_warnings(lambda: WAYS[way](x, y, i, n))
    assert bool(texts) == is_warned
    for text in texts:
        assert text.startswith("in this launch, every region of X that off accessed was entirely outside X")
        assert "(50, 8)" in text
        assert f"test_outside.py:{marked('off')}: X[i + k, 0:8]" in text


@tj.kernel(threads=32)
def ahead(X, Y, n):
    for k in range(n):
        tj.cta.store(Y[0:8], tj.cta.load(X[8 * k : 8 * k + 8]) + tj.cta.load(X[8 * k + 64 : 8 * k + 72]))


@tj.kernel(threads=32)
def beside(X, Y, n):
    tj.cta.store(Y[0:8], tj.cta.load(X[0:8]) + tj.cta.load(X[8 * n : 8 * n + 8]))


@pytest.mark.parametrize("kernel", [ahead, beside])
def test_one_region_outside_beside_others_is_not_warned_of(kernel):
    x, y = np.zeros(60, np.float32), np.zeros(8, np.float32)
    assert not outside_warnings(lambda: tj.simulate(kernel, 1, x, y, 8))
    assert len(tj.simulate(kernel, 1, x, y, 8).outside) == 1


def test_a_tensor_without_elements_and_a_plain_build_are_not_warned_of():
    y = np.zeros(8, np.float32)
    assert not outside_warnings(lambda: tj.simulate(off, 1, np.zeros((0, 8), np.float32), y, 0, 1))
    assert not outside_warnings(lambda: tj.simulate(off, 1, np.zeros((5, 8), np.float32), y, 9, 1, checks=False))


def test_a_view_of_a_tensor_counts_as_that_tensor():
    @tj.kernel(threads=32)
    def viewed(Y, n, X: tj.Tensor = VECTOR_64):
        tj.cta.store(Y[0:8], tj.cta.load(X.view((4, 16))[n, 0:8]) + tj.cta.load(X[n * 16 - 16 : n * 16 - 8]))

    x, y = np.zeros(64, np.float32), np.zeros(8, np.float32)
    assert [len(outside_warnings(lambda n=n: tj.simulate(viewed, 1, y, n, x))) for n in (0, 3, 4, 5)] == [0, 0, 0, 1]
