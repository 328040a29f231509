"""Many operations that hand values over through shared memory: they share it, and wait for who still reads it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.runtime.device import Device

#: as many of a kind have memory of their own
APART = 8


@tj.kernel(threads=128)
def transposes(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    x = tj.cta.load(X[0:32, 0:32])
    for _ in tj.static_range(TURNS):
        x = x + x.T
    tj.cta.store(Y[0:32, 0:32], x)


@tj.kernel(threads=128)
def passed_over(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    """If `n` is 0, nothing separates the first exchange from the last, which uses the same memory."""
    x = tj.cta.load(X[0:32, 0:32]) + 1
    x = x + x.T
    if n > 0:
        for _ in tj.static_range(APART - 1):
            x = x * 2 + (x + 1).T
    x = x + (x * 2).T
    tj.cta.store(Y[0:32, 0:32], x)


@tj.kernel(threads=128)
def rows_by_their_greatest(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    """Sums and extremes of one row that all warps share, in a loop and around it."""
    x = tj.cta.load(X[0, 0:512])
    for _ in tj.static_range(TURNS):
        x = x - tj.max(x) + tj.min(x)
    for i in range(3):
        x = x + i - tj.max(x) - tj.min(x)
    if Y.shape[0] > 1:
        x = x - tj.max(x)
    tj.cta.store(Y[0, 0:512], x - tj.max(x))


def row(x: Any, turns: int) -> Any:
    for _ in range(turns):
        x = x - x.max() + x.min()
    for i in range(3):
        x = x + i - x.max() - x.min()
    x = x - x.max()
    return x - x.max()


@pytest.mark.parametrize("schedule", range(3))
def test_transposes_are_numpys_in_any_order(schedule: int) -> None:
    turns = APART + 2
    x = np.random.default_rng(turns).integers(-9, 9, (32, 32)).astype(np.float32)
    y, expected = np.zeros_like(x), x.copy()
    for _ in range(turns):
        expected = expected + expected.T
    tj.simulate(transposes, 1, x, y, turns, schedule=schedule)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("schedule", range(3))
def test_memory_that_is_taken_again_is_waited_for_on_every_path(schedule: int) -> None:
    x = np.random.default_rng(2).integers(-9, 9, (32, 32)).astype(np.float32)
    y, once = np.zeros_like(x), x + 1 + (x + 1).T
    tj.simulate(passed_over, 1, x, y, 0, schedule=schedule)
    np.testing.assert_array_equal(y, once + (once * 2).T)


@pytest.mark.parametrize("turns", [2, APART])
def test_reductions_across_warps_are_numpys(turns: int, device: Device) -> None:
    x = np.random.default_rng(turns).integers(-9, 9, (2, 512)).astype(np.float32)
    y = np.zeros_like(x)
    with tj.use_device("cuda" if device.number >= 0 else "sim"):
        rows_by_their_greatest[1](x, y, turns)
    np.testing.assert_array_equal(y[0], row(x[0], turns))


def test_a_long_kernel_takes_no_more_memory_and_one_barrier_more_for_each() -> None:
    """An exchange has a barrier between its stores and its loads; a shared one another in front."""
    square = tj.spec((32, 32), tj.float32)
    few, some, many = (transposes.compile(square, square, turns, target="sm_90a") for turns in (APART, 2 * APART, 40))
    assert some.shared_bytes == many.shared_bytes <= APART * 32 * 32 * 4
    barriers = [len(re.findall(r"bar\.sync", each.ptx)) for each in (few, some, many)]
    assert barriers[2] - barriers[1] == 2 * (40 - 2 * APART)


def test_exchanges_of_two_kinds_have_memory_apart() -> None:
    text = (
        "def kernel(X: tj.Tensor, Y: tj.Tensor):\n"
        "    x, y = tj.cta.load(X[0:32, 0:32]) + 1, tj.cta.load(Y[0:64, 0:16]) + 1\n"
        "    for _ in tj.static_range(12):\n"
        "        x, y = x + x.T, tj.where(y > 1, y + y.reshape((16, 64)).T, y)\n"
        "    tj.cta.store(X[0:32, 0:32], x)\n"
        "    tj.cta.store(Y[0:64, 0:16], y)\n"
    )
    x, y = np.ones((32, 32), np.float32), np.random.default_rng(1).integers(0, 3, (64, 16)).astype(np.float32)
    a, b = x + 1, y + 1
    tj.simulate(tj.kernel(threads=128)(source_of(text)), 1, x, y)
    for _ in range(12):
        a, b = a + a.T, np.where(b > 1, b + b.reshape(16, 64).T, b)
    np.testing.assert_array_equal(x, a)
    np.testing.assert_array_equal(y, b)


def grown(parts: int, turns: int) -> Any:
    """A tile that grows by 8 at each of many `tj.cat`, which are conversions of as many sizes, in its own loop."""
    lines = ["def kernel(X: tj.Tensor, Y: tj.Tensor):", f"    for turn in range({turns}):"]
    lines.append("        x = tj.cta.load(X[0:8]) + turn")
    for k in range(1, parts):
        piece = f"tj.cta.load(X[{8 * k} : {8 * k + 8}])"
        lines.append(f"        x = tj.cat(x, {piece}{' > 0' if k == 1 else ''}, 0)")
    lines.append(f"        tj.cta.store(Y[turn, 0:{8 * parts}], x)")
    lines = lines if turns > 1 else [lines[0], "    turn = 0", *[line[4:] for line in lines[2:]]]
    return tj.kernel(threads=128)(source_of("\n".join(lines) + "\n"))


@pytest.mark.parametrize("turns", [1, 3])
def test_a_tile_that_grows_takes_turns_in_rooms(turns: int) -> None:
    parts = 64
    x = np.random.default_rng(5).random(8 * parts, dtype=np.float32)
    wanted = np.tile(x, (turns, 1))
    wanted[:, 8:16] = x[8:16] > 0
    wanted[:, 0:8] += np.arange(turns, dtype=np.float32)[:, None]
    kernel = grown(parts, turns)
    for schedule in range(3):
        y = np.zeros_like(wanted)
        tj.simulate(kernel, 1, x, y, schedule=schedule)
        np.testing.assert_array_equal(y, wanted)


def test_rooms_are_few() -> None:
    def shared_bytes(parts: int) -> int:
        row, rows = tj.spec((8 * parts,), tj.float32), tj.spec((1, 8 * parts), tj.float32)
        return grown(parts, 1).compile(row, rows, target="sm_90a").shared_bytes

    assert shared_bytes(160) - shared_bytes(80) <= 2 * 160 * 8 * 4
    assert shared_bytes(160) < 48 * 1024


def test_scratch_memory_is_reused_only_after_its_readers_are_done() -> None:
    """Transposes of many sizes, with nothing but their own barriers."""
    sizes = range(20, 32)
    lines = ["def kernel(X: tj.Tensor, Y: tj.Tensor):"]
    for k, n in enumerate(sizes):
        lines += [f"    x = tj.cta.load(X[0:{n}, 0:{n}]) + 1", f"    tj.cta.store(Y[{k}, 0:{n}, 0:{n}], x - x.T)"]
    x = np.random.default_rng(7).integers(0, 99, (32, 32)).astype(np.float32)
    y = np.zeros((len(sizes), 32, 32), np.float32)
    kernel = tj.kernel(threads=128)(source_of("\n".join(lines) + "\n"))
    kernel[1](x, y)
    for made, n in zip(y, sizes, strict=True):
        np.testing.assert_array_equal(made[:n, :n], x[:n, :n] - x[:n, :n].T)
    assert "room" in kernel.compile(x, y, target="sm_90a").lane_ir
