"""Schedules against the elements themselves: wherever an index leads in every operand, however its digits change."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.dtypes import float16, int32
from tilejit.errors import LayoutError
from tilejit.ir.arithmetic import build
from tilejit.ir.arithmetic.evaluate import evaluate
from tilejit.ir.nodes import Buffer, Region, Var
from tilejit.layout import S, TileLayout, laneid
from tilejit.lower.ask import operand
from tilejit.lower.schedule.access import Edges
from tilejit.lower.schedule.addresses import Thread
from tilejit.lower.schedule.placement import Placement, element_offset, need_all_threads, place
from tilejit.lower.schedule.views import Digit, DigitSchedule

M, N, K = 4, 6, 8

#: operand -> (its shape in the space (m, n, k), which of its dimensions goes along each)
PRODUCT = {"acc": ((M, N), (0, 1, None)), "a": ((M, K), (0, None, 1)), "b": ((K, N), (None, 1, 0))}


def shared(shape: tuple[int, ...], order: Sequence[int]) -> Placement:
    """A tile in shared memory, its dimensions slowest first in `order`, each row padded by 2."""
    strides, size = [0] * len(shape), 1
    for d in reversed(order):
        strides[d], size = size, size * shape[d] + 2
    layout = TileLayout.from_iters([(e, s, "m") for e, s in zip(shape, strides, strict=True)])
    return place(operand("shared", shape, float16, layout).named("x"), "thread")


def index_of(digits: Sequence[Digit], coordinates: np.ndarray) -> np.ndarray:
    """The index that counts all digits, from coordinates in the space, of shape (dims, points)."""
    index = np.zeros(coordinates.shape[1], np.int64)
    for digit in digits:
        dim = coordinates[digit.dim] if digit.dim is not None else None
        assert dim is not None, "a digit of one dimension"
        index = index * digit.extent + dim // digit.weight % digit.extent
    return index


@given(st.permutations(range(2)), st.permutations(range(2)), st.permutations(range(2)), st.booleans(), st.data())
def test_an_operand_of_a_product_moves_along_its_own_dimensions_only(
    x: list[int], y: list[int], z: list[int], shuffled: bool, data: st.DataObject
) -> None:
    placements = {name: shared(PRODUCT[name][0], o) for name, o in zip(PRODUCT, (x, y, z), strict=True)}
    schedule = DigitSchedule.of((M, N, K), {name: (placements[name], PRODUCT[name][1]) for name in PRODUCT})
    if shuffled:
        first, *others = schedule.digits
        order = data.draw(st.permutations([*first.split(2), *others]))
        schedule = schedule.over(order)
    assert schedule.count == M * N * K
    points = np.indices((M, N, K)).reshape(3, -1)
    index = Var("index", int32, bounds=(0, schedule.count - 1))
    for name, (_, dims) in PRODUCT.items():
        of_operand = [points[dims.index(d)] for d in range(2)]
        names = [Var("i", int32), Var("j", int32)]
        wanted = evaluate(element_offset(placements[name].buffer, names), dict(zip("ij", of_operand, strict=True)))
        got = evaluate(schedule[name].located(index), {"index": index_of(schedule.digits, points)})
        np.testing.assert_array_equal(np.broadcast_to(got, wanted.shape), wanted)


def test_what_an_operand_lacks_doesnt_move_it_and_neighbours_join() -> None:
    row = shared((8,), [0])
    schedule = DigitSchedule.of((4, 8), {"row": (row, (None, 0))})
    assert [d.strides for d in schedule.digits] == [{"row": 0}, {"row": 1}]
    whole = shared((4, 8), [0, 1])
    assert len(DigitSchedule.of_same_shape({"x": whole}).joined().digits) == 2, "rows are padded"
    dense = place(operand("shared", (4, 8), float16).named("x"), "thread")
    (digit,) = DigitSchedule.of_same_shape({"x": dense}).joined().digits
    assert (digit.extent, digit.dim, digit.strides["x"]) == (32, None, 1)


def test_a_dimension_with_an_edge_stays_apart() -> None:
    outside = operand("global", (3, 8), float16, region=[(0, 4), (0, 8)], strides=(8, 1)).named("x")
    schedule = DigitSchedule.of_same_shape({"x": place(outside, "thread")}).joined()
    assert [d.dim for d in schedule.digits] == [0, 1]
    edges = Edges.of(schedule["x"], 4)
    assert (edges.dims, edges.run_dim, edges.whole) == ((0,), 1, True)


def test_vectors_count_the_last_digit_and_a_part_of_one_counts() -> None:
    schedule = DigitSchedule.of_same_shape({"x": shared((4, 13), [0, 1])})
    assert [(d.extent, d.strides["x"]) for d in schedule.in_vectors(4).digits] == [(4, 15), (4, 4)]
    assert [(d.extent, d.strides["x"]) for d in schedule.in_vectors(16).digits] == [(4, 15)]


def test_digits_spread_over_threads_are_a_part_of_the_schedule() -> None:
    layout = TileLayout.from_iters([(8, 4, "laneid"), (4, 1, "laneid"), (2, 1, "m")])
    registers = place(operand("local", (8, 8), float16, layout).named("r"), "warp")
    schedule = DigitSchedule.of_same_shape({"r": registers, "s": shared((8, 8), [0, 1])})
    spread = schedule.where(lambda digit: digit.is_spread("r"))
    assert [(d.strides["r"], d.strides["s"]) for d in spread.digits] == [(Thread(4), 10), (Thread(1), 2)]
    thread = build.const(13, int32)
    assert [int(evaluate(v, {})) for v in spread["r"].of_thread(thread)] == [3, 1]
    assert int(evaluate(spread["s"].at(spread["r"].of_thread(thread)), {})) == 3 * 10 + 2


def test_operands_of_other_shapes_have_no_index_in_common() -> None:
    for other in ((8, 6), (8,), (8, 4, 2)):
        placements = {"a": shared((8, 8), [0, 1]), "b": shared(other, list(range(len(other))))}
        with pytest.raises(LayoutError, match=re.escape(f"a has shape (8, 8), but b has shape {other}")):
            DigitSchedule.of_same_shape(placements)


def test_threads_need_common_digits() -> None:
    layout = TileLayout.from_iters([(6, 1, "laneid")])
    registers = place(operand("local", (6,), float16, layout).named("r"), "warp")
    other = TileLayout.from_iters([(2, 1, "m"), (3, 10, "m")])
    crossed = TileLayout.from_iters([(3, 1, "m"), (2, 10, "m")])
    memory = [place(operand("shared", (6,), float16, x).named(n), "warp") for n, x in (("s", other), ("t", crossed))]
    with pytest.raises(LayoutError, match="r as 6 and s as 2·3 and t as 3·2"):
        DigitSchedule.of_same_shape({"r": registers, "s": memory[0], "t": memory[1]})


def test_refusals_of_local_tiles_give_the_reason() -> None:
    flat = Buffer("x", "local", float16, (8, 16), S[(32, 4) : (1 @ laneid, 1)], 16, slots=(128,))
    zero, row = build.const(0, int32), Var("i", int32, bounds=(0, 7))
    with pytest.raises(LayoutError, match="x is laid out as one dimension"):
        place(Region(flat, (zero, zero), (8, 16)), "warp")
    rows = Buffer("x", "local", float16, (8, 16), S[(8, 4, 4) : (4 @ laneid, 1 @ laneid, 1)], 16)
    with pytest.raises(LayoutError, match="start 0 of x is known only at run time; the region may be"):
        place(Region(rows, (row, zero), (1, 16)), "warp")
    with pytest.raises(LayoutError, match="1 thread owns the region of x; the warp has 32"):
        need_all_threads(place(Region(rows, (zero, zero), (1, 4)), "warp"), "warp", 32)
    whole = Region(rows, (zero, zero), (8, 16))
    with pytest.raises(LayoutError, match="32 threads own the region of x; the cta has 16\nhelp: use a layout over"):
        need_all_threads(place(whole, "cta"), "cta", 16)
    with pytest.raises(LayoutError, match="on one thread\nhelp: call it on the warp, or use no thread axes"):
        place(whole, "thread")
