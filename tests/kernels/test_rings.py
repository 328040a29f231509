"""Rings of ordinary copies: producers fill stages, consumers empty them, in loops of any lengths."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.kernels.ring_programs import Ring, rings
from tests.support.orders import EVERY_ORDER, Order
from tests.support.programs import source_of
from tilejit.runtime.device import Device

LANES = 32

TEXT = """def k(A, B, N):
    ring = tj.alloc_ring(STAGES, producers=P, consumers=C)
    s = tj.alloc_shared((STAGES, P * WIDTH), tj.int32)
    w = tj.{scope}_id()
    lane = tj.thread_id() % WIDTH
    i = 0
    if w < P:
        for tile in range(N.shape[0]):
            for k in range(N[tile]):
                t = ring[i]
                t.acquire()
                s[t.stage, w * WIDTH + lane] = A[i, w * WIDTH + lane]
                tj.{scope}.commit(t)
                i += 1
    else:
        for tile in range(N.shape[0]):
            total = 0
            for k in range(N[tile]):
                t = ring[i]
                t.wait()
                for p in tj.static_range(P):
                    total += s[t.stage, p * WIDTH + (lane + 7) % WIDTH]
                tj.{scope}.release(t)
                i += 1
            B[w - P, tile, lane] = total
"""


@dataclass(frozen=True)
class Shape:
    """How many stages a ring has, and how many warps, or warpgroups, fill and empty each."""

    stages: int
    producers: int = 1
    consumers: int = 1
    scope: str = "warp"

    @property
    def width(self) -> int:
        return LANES if self.scope == "warp" else 4 * LANES


@cache
def ring(shape: Shape) -> tj.Kernel:
    names = {"STAGES": shape.stages, "P": shape.producers, "C": shape.consumers, "WIDTH": shape.width}
    threads = (shape.producers + shape.consumers) * shape.width
    return tj.kernel(threads=threads)(source_of(TEXT.format(scope=shape.scope), **names))


def arrays(shape: Shape, turns: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What the kernel gets, and what `B` is to be."""
    width = shape.producers * shape.width
    a = np.arange(max(sum(turns), 1) * width, dtype=np.int32).reshape(-1, width) * 7 % 1000
    summed = np.zeros((len(turns), shape.width), np.int32)
    at = 0
    for tile, count in enumerate(turns):
        parts = a[at : at + count].reshape(count, shape.producers, shape.width).sum((0, 1), dtype=np.int32)
        summed[tile] = np.roll(parts, -7)
        at += count
    expected = np.broadcast_to(summed, (shape.consumers, *summed.shape))
    return a, np.zeros_like(expected), np.array(turns, np.int32), expected


def hands_over(shape: Shape, counts: list[int], order: Order, device: Device | None = None) -> None:
    """Run it on the simulator in an order, or on another device."""
    a, b, n, expected = arrays(shape, counts)
    if device is None or device.number < 0:
        tj.simulate(ring(shape), 1, a, b, n, schedule=order.schedule, delivery=order.delivery)
    else:
        with tj.use_device("cuda"):
            ring(shape)[1](a, b, n)
    np.testing.assert_array_equal(b, expected)


def check(shape: Shape, counts: list[int], schedule: int = 0) -> None:
    hands_over(shape, counts, Order(schedule, "late"))


def shapes() -> st.SearchStrategy[Shape]:
    return st.builds(Shape, st.integers(1, 6), st.integers(1, 3), st.integers(1, 3))


def turns() -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 6), min_size=1, max_size=4)


@pytest.mark.parametrize("stages", range(1, 6))
@pytest.mark.parametrize("scope", ["warp", "warpgroup"])
def test_a_ring_between_two(stages: int, scope: str) -> None:
    for schedule in range(5):
        check(Shape(stages, scope=scope), [4, 0, 7], schedule)


def test_several_producers_and_consumers() -> None:
    for shape in (Shape(2, 2), Shape(3, 1, 3), Shape(4, 2, 2), Shape(2, 1, 2, "warpgroup")):
        for schedule in range(3):
            check(shape, [5, 1], schedule)


@settings(max_examples=settings.default.max_examples // 2)
@given(shapes(), turns(), st.integers(0, 99))
@example(Shape(1, 3, 3), [0, 0], 0)
def test_any_ring_hands_over_each_step_once(shape: Shape, counts: list[int], schedule: int) -> None:
    check(shape, counts, schedule)


# whole kernels: a quarter as many as of other properties
@settings(max_examples=settings.default.max_examples // 4)
@given(rings(), st.sampled_from(EVERY_ORDER))
def test_any_ring_that_boxes_fill_is_right(hopper: Device, program: Ring, order: Order) -> None:
    program.runs(hopper, order)


def dropped(call: str, shape: Shape) -> tj.Kernel:
    """The kernel without one of its calls."""
    text = TEXT.format(scope=shape.scope)
    assert text.count(call) == 1
    names = {"STAGES": shape.stages, "P": shape.producers, "C": shape.consumers, "WIDTH": shape.width}
    return tj.kernel(threads=2 * shape.width)(source_of(text.replace(call, "pass"), **names))


@pytest.mark.parametrize(
    ("call", "errors"),
    [
        ("t.wait()", (tj.RaceError, tj.AsyncHazardError, tj.UninitializedReadError)),
        ("t.acquire()", (tj.RaceError, tj.AsyncHazardError)),
        ("tj.warp.release(t)", tj.DeadlockError),
        ("tj.warp.commit(t)", tj.DeadlockError),
    ],
)
def test_what_is_forgotten_is_found(call: str, errors: type[Exception] | tuple[type[Exception], ...]) -> None:
    a, b, n, _ = arrays(Shape(2), [6])
    with pytest.raises(errors) as error:
        tj.simulate(dropped(call, Shape(2)), 1, a, b, n)
    if errors is tj.DeadlockError:
        assert "ring." in str(error.value)


def test_a_consumer_too_few_is_found() -> None:
    names = {"STAGES": 2, "P": 1, "C": 1, "WIDTH": LANES}
    kernel = tj.kernel(threads=3 * LANES)(source_of(TEXT.format(scope="warp"), **names))
    a, b, n, _ = arrays(Shape(2, 1, 2), [6])
    with pytest.raises(tj.KernelTypeError, match="2 warps release each step of ring, which was allocated with cons"):
        tj.simulate(kernel, 1, a, b, n)


@pytest.mark.gpu
def test_a_gpu_hands_over_the_same() -> None:
    for shape in (Shape(1), Shape(3, 2, 2), Shape(4, scope="warpgroup")):
        a, b, n, expected = arrays(shape, [4, 0, 9, 1])
        with tj.use_device("cuda"):
            for _ in range(20):
                ring(shape)[1](a, b, n)
        np.testing.assert_array_equal(b, expected)


@pytest.mark.gpu
@pytest.mark.long
def test_of_ten_thousand_launches_none_hangs() -> None:
    # a kernel that hangs can't be ended but with its process
    command = [sys.executable, "-m", "tests.kernels.many_launches", "10000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10,000 launches, none hangs" in done.stdout
