"""Copies by TMA and of runs of bytes: what is moved, what is refused and why, which bytes go with which arrival."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.profiles import times
from tests.support.programs import tile_ir
from tests.support.proving import prove_verdict
from tilejit.dtypes import DType, bfloat16, float16, float64, int32, int64, uint8
from tilejit.dtypes import barrier as barrier_type
from tilejit.errors import DispatchError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Buffer, Expr, Region, Strided, TileOp, Var
from tilejit.ir.params import TensorMapSpec
from tilejit.ir.text.printer import to_text
from tilejit.ir.types import ArrayType
from tilejit.ir.verify import verify
from tilejit.layout import S, Swizzle, TileLayout, swizzled_atom_layout
from tilejit.lower import VARIANTS, lower
from tilejit.lower.ask import operand, sym
from tilejit.lower.engine import Verdict, dispatch
from tilejit.lower.moves.boxes import BoxCopy
from tilejit.lower.passes import expects
from tilejit.lower.variant import DispatchContext
from tilejit.target import target

Window = Sequence[tuple[int | Var, int]]

ONE = TileLayout.row_major((1,))
MATRIX = ArrayType(float16, 2, 1, 16, 16)
BARRIER = Region(Buffer("full", "shared", barrier_type, (1,), ONE, 8), (build.const(0, int32),), (None,))


def asked(
    dst: Region, src: Region, *, fill: Expr | None = None, barrier: Region | None = BARRIER, scope: str = "warp",
    arch: str = "sm_90a", variant: str | None = None,
) -> Verdict[Any]:
    attrs = () if variant is None else (("variant", variant),)
    given = [dst, src, fill, barrier]
    while given[-1] is None:
        given.pop()
    operands = tuple(given)
    op = TileOp("copy_async", scope, operands, attrs)
    return dispatch(op, DispatchContext(target(arch), 128), VARIANTS)


def shared(shape: tuple[int, ...], mode: str, dtype: DType = float16, window: Window | None = None) -> Region:
    layout = TileLayout.row_major(shape) if mode == "rows" else swizzled_atom_layout(shape, dtype.bits, mode)
    return operand("shared", shape, dtype, layout, window).named("s")


def tensor(
    shape: tuple[int, ...], window: Window | None = None, dtype: DType = float16, align: int = 16,
    strides: str | tuple[int, ...] = "runtime",
) -> Region:
    return operand("global", shape, dtype, None, window, strides=strides, align=align).named("A")


TILE = shared((64, 64), "128B")
PLACE = tensor((512, 512), [(0, 64), (0, 64)])


def test_a_tile_of_b_is_four_boxes_of_a_map_in_the_hardwares_order() -> None:
    verdict = asked(shared((64, 256), "128B"), tensor((512, 512), [(8, 64), (128, 256)]))
    assert isinstance(verdict.plan, BoxCopy) and verdict.variant == "tma_load"
    assert verdict.plan.map == TensorMapSpec("A", float16, (1, 0), (64, 64), "128B")
    assert [(i.coordinates, i.shared) for i in verdict.plan.issues] == [((64 * j, 0), 4096 * j) for j in range(4)]
    assert str(verdict.plan.facts()) == "box 64 x 64, 128B in 4 rounds" and verdict.plan.bytes == 32768


@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B", "rows"])
@settings(max_examples=times(1 / 8))
@pytest.mark.parametrize("dtype", [uint8, bfloat16, float64], ids=str)
@given(data=st.data())
def test_what_boxes_move_is_what_the_layouts_say(mode: str, dtype: DType, loads: bool, data: st.DataObject) -> None:
    wide = "32B" if mode == "rows" else mode
    swizzle = Swizzle.for_dtype(dtype, wide)
    e = swizzle.chunk << swizzle.bits
    rows, blocks = data.draw(st.sampled_from((1, 3, 8, 24, 264))), data.draw(st.integers(1, 3))
    stages = data.draw(st.integers(1, 2))
    shape = (stages, -(-rows // 8) * 8, e * blocks)
    window = [(data.draw(st.integers(0, stages - 1)), 1), (0, rows), (0, e * blocks)]
    tile = shared(shape, mode, dtype, window)
    # along rows in chunks of 16 bytes; what is stored doesn't begin before the tensor
    first, unit = -40 if loads else 0, 16 // dtype.bytes
    starts = [data.draw(st.one_of(st.integers(first, 40), st.just(sym(f"i{d}")))) for d in range(2)]
    starts.append(unit * data.draw(st.integers(first // unit, 40 // unit)))
    place = tensor((40, 600, 80), list(zip(starts, (1, rows, e * blocks), strict=True)), dtype)
    sides = (tile, place) if loads else (place, tile)
    variant = "tma_load" if loads else "tma_store"
    verdict = asked(*sides, barrier=BARRIER if loads else None, variant=variant)
    prove_verdict(verdict)
    schedule = verdict.plan.schedule()
    assert (np.sort(schedule[:, 1]) == np.arange(rows * e * blocks)).all()
    assert len(np.unique(schedule[:, 2])) == len(schedule)
    assert verdict.plan.bytes == rows * e * blocks * dtype.bytes


@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize("shape", [(3, 512, 64), (2, 3, 264, 64), (3, 8, 64), (300, 8, 64)])
def test_after_a_dimension_in_parts_each_step_is_a_separate_box(shape: tuple[int, ...], loads: bool) -> None:
    tile = shared(shape, "128B")
    place = tensor(tuple(2 * n for n in shape), [(8, n) for n in shape])
    sides = (tile, place) if loads else (place, tile)
    variant = "tma_load" if loads else "tma_store"
    verdict = asked(*sides, barrier=BARRIER if loads else None, variant=variant)
    prove_verdict(verdict)
    rows = verdict.plan.schedule()
    assert (np.sort(rows[:, 1]) == np.arange(np.prod(shape))).all() and len(np.unique(rows[:, 2])) == len(rows)


@pytest.mark.parametrize("loads", [True, False])
def test_a_run_of_bytes_needs_no_map(loads: bool) -> None:
    run, place = shared((4, 64), "rows"), tensor((8, 64), [(2, 4), (0, 64)], strides=(64, 1))
    verdict = asked(*((run, place) if loads else (place, run)), barrier=BARRIER if loads else None)
    assert (verdict.variant, verdict.plan.bytes) == ("bulk", 512)
    prove_verdict(verdict)


APART = S[(2, 8, 64) : (1024, 64, 1)].swizzled(Swizzle(3, 3, 3))

#: what TMA declines: (operands, reason)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no barrier": ({"barrier": None}, "needs barrier=: a load completes on a barrier"),
    "an old target": ({"arch": "sm_80"}, "tma.load needs sm_90 or newer; target is sm_80"),
    "a fill": (
        {"fill": build.const(1.0, float16)}, "fills with 0 outside the tensor; got fill=1.0 (copy takes any value)"
    ),
    "a fill of -0": ({"fill": build.const(-0.0, float16)}, "fills with 0 outside the tensor; got fill=-0.0"),
    "an odd stride": (
        {"src": tensor((512, 1025), [(0, 64), (0, 64)], strides=(1025, 1))},
        "rows of A start every 2050 bytes; TMA needs a multiple of 16",
    ),
    "strides of which little is known": (
        {"src": tensor((512, 512), [(0, 64), (0, 64)], align=8)}, "A is aligned to 8 bytes; TMA needs 16",
    ),
    "a start between chunks": (
        {"src": tensor((512, 512), [(0, 64), (4, 64)])},
        "the region of A starts at a multiple of 8 bytes in dimension 1; TMA needs a multiple of 16",
    ),
    "a start of which nothing is known": (
        {"src": tensor((512, 512), [(0, 64), (sym("i"), 64)])},
        "the region of A starts at a multiple of 2 bytes in dimension 1; TMA needs a multiple of 16",
    ),
    "no neighbours": (
        {"src": tensor((64, 64), [(0, 64), (0, 64)], strides=(1024, 2))},
        "dimension 1 of A has no unit stride; strides are (1024, 2)",
    ),
    "columns together": (
        {"src": tensor((64, 64), [(0, 64), (0, 64)], strides=(1, 64))},
        "dimension 1 of A has no unit stride; strides are (1, 64)",
    ),
    "a negative stride": (
        {"src": tensor((64, 64), [(0, 64), (0, 64)], strides=(-64, 1))},
        "dimension 0 of A steps back by 128 bytes; TMA supports no negative strides",
    ),
    "six dimensions": (
        {"src": tensor((2, 2, 2, 2, 64, 64), [(0, 1)] * 4 + [(0, 64)] * 2),
         "dst": shared((1, 1, 1, 1, 64, 64), "128B")},
        "A has 6 dimensions; TMA takes at most 5",
    ),
    "another type's swizzle": (
        {"dst": operand("shared", (64, 64), float16, Swizzle(3, 4, 3)).named("s")},
        "swizzle Swizzle(3, 4, 3) is for 8-bit elements; float16 needs base 3",
    ),
    "between the swizzle's rows": (
        {"dst": shared((72, 64), "128B", window=[(4, 64), (0, 64)])},
        "row start 4 of s isn't a multiple of 8, the swizzle's period",
    ),
    "half a row": (
        {"dst": shared((64, 64), "128B", window=[(0, 64), (0, 48)]), "src": tensor((512, 512), [(0, 64), (0, 48)])},
        "the tile is 48 columns wide; a row of the 128B swizzle holds 64",
    ),
    "rows without a part": (
        {"dst": shared((264, 64), "128B", window=[(0, 260), (0, 64)]), "src": tensor((512, 512), [(0, 260), (0, 64)])},
        "260 rows can't be divided into equal parts of at most 256 rows that are multiples of 8",
    ),
    "long rows": (
        {"dst": shared((8, 512), "rows"), "src": tensor((512, 512), [(0, 8), (0, 512)])},
        "512 columns are contiguous; a box holds at most 256",
    ),
    "short rows": (
        {"dst": shared((8, 4), "rows"), "src": tensor((512, 512), [(0, 8), (0, 4)])},
        "rows have 8 bytes; TMA needs a multiple of 16",
    ),
    "gaps": (
        {"dst": operand("shared", (16, 64), float16, APART).named("s"),
         "src": tensor((512, 512), [(0, 16), (0, 64)])},
        "8 rows of s start every 2048 bytes; TMA needs contiguous rows, so groups must start every 1024 bytes",
    ),
    "an unaligned row": (
        {"dst": shared((8, 16), "rows", window=[(1, 4), (0, 16)]), "src": tensor((512, 512), [(0, 4), (0, 16)])},
        "start 0 of s is a multiple of 32 bytes; TMA needs a multiple of 128",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_tma_cant_do_is_declined_with_numbers(case: str) -> None:
    changes, reason = REFUSED[case]
    with pytest.raises(DispatchError) as refused:
        asked(**{"dst": TILE, "src": PLACE, "variant": "tma_load", **changes})
    assert any(reason in each for each in refused.value.declines["tma_load"]), refused.value.declines


@pytest.mark.parametrize(
    ("columns", "start", "is_taken"), [(512, 0, True), (501, 0, True), (501, 448, False), (501, "i", False),
                                       (512, "i", True), (504, "i", True)],
)
def test_rows_that_are_stored_end_at_whole_chunks_or_the_region_inside(
    columns: int, start: int | str, is_taken: bool
) -> None:
    at = start if isinstance(start, int) else Var(start, int64, 64)
    place = tensor((512, columns), [(0, 64), (at, 64)], strides=(512, 1))
    assert asked(TILE, place, variant="tma_load").variant == "tma_load"
    if is_taken:
        assert asked(place, TILE, barrier=None).variant == "tma_store"
        return
    assert asked(replace(place, in_bounds=True), TILE, barrier=None).variant == "tma_store"
    with pytest.raises(DispatchError) as refused:
        asked(place, TILE, barrier=None)
    (reason,) = refused.value.declines["tma_store"]
    assert reason.startswith("rows of A end after 1002 bytes; TMA writes whole chunks of 16")


def test_a_view_of_another_shape_is_declined() -> None:
    root = operand("global", (4096,), float16).named("A").buffer
    view = Buffer("V", "global", float16, (64, 64), Strided((64, 1), 16), 16, root)
    zero = build.const(0, PLACE.buffer.index_dtype)
    with pytest.raises(DispatchError) as refused:
        asked(TILE, Region(view, (zero, zero), (64, 64)), variant="tma_load")
    assert "the dimensions of the view V aren't a permutation of those of A" in refused.value.declines["tma_load"][0]


@pytest.mark.parametrize(
    ("start", "is_taken"), [(0, True), (1, False), (sym("i"), False)], ids=["0", "1", "a variable"]
)
def test_a_dimension_that_a_view_adds_has_no_coordinate(start: int | Var, is_taken: bool) -> None:
    root = operand("global", (64, 64), float16, strides=(64, 1), align=16).named("A").buffer
    view = Buffer("V", "global", float16, (1, 64, 64), Strided((4096, 64, 1), 16), 16, root)
    zero = build.const(0, PLACE.buffer.index_dtype)
    first = start if isinstance(start, Var) else build.const(start, zero.dtype)
    region = Region(view, (first, zero, zero), (1, 64, 64))
    if is_taken:
        assert asked(TILE, region).plan.map.axes == (1, 0)
        return
    with pytest.raises(DispatchError) as refused:
        asked(TILE, region, variant="tma_load")
    assert "the dimensions of the view V aren't a permutation of those of A" in refused.value.declines["tma_load"][0]


#: what `bulk` declines: (operands, reason)
NO_RUN: dict[str, tuple[dict[str, Any], str]] = {
    "rows apart": (
        {"dst": shared((4, 64), "rows"), "src": tensor((8, 64), [(0, 4), (0, 64)])},
        "a stride of A is known only at launch; needs contiguous bytes",
    ),
    "an edge": (
        {"dst": shared((4, 64), "rows"), "src": tensor((8, 64), [(sym("i"), 4), (0, 64)], strides=(64, 1))},
        "the region may exceed dimension 0 of A; this copy masks no elements",
    ),
    "an odd number of bytes": (
        {"dst": shared((1, 4), "rows"), "src": tensor((8, 4), [(0, 1), (0, 4)], strides=(4, 1))},
        "moves 8 bytes; needs a multiple of 16",
    ),
    "an odd place": (
        {"dst": shared((1, 8), "rows"), "src": tensor((8, 12), [(1, 1), (0, 8)], strides=(12, 1))},
        "start 0 of A is a multiple of 24 bytes; needs a multiple of 16",
    ),
    "a swizzle": (
        {"src": tensor((64, 64), strides=(64, 1))}, "s is swizzled, replicated or gathered; needs contiguous bytes",
    ),
    "part of a row": (
        {"dst": shared((4, 32), "rows"), "src": tensor((8, 64), [(0, 4), (0, 32)], strides=(64, 1))},
        "runs of 64 contiguous bytes of A are 128 bytes apart; all bytes must be contiguous",
    ),
    "another order": (
        {"dst": shared((16, 16), "rows"), "src": tensor((16, 16), strides=(1, 16))},
        "the dimensions of s and A have different orders in memory",
    ),
}


@pytest.mark.parametrize("case", NO_RUN)
def test_what_is_no_run_of_bytes_is_declined_with_numbers(case: str) -> None:
    changes, reason = NO_RUN[case]
    with pytest.raises(DispatchError) as refused:
        asked(**{"dst": TILE, "src": PLACE, "variant": "bulk", **changes})
    assert any(reason in each for each in refused.value.declines["bulk"]), refused.value.declines


def lines(body: str, threads: int = 64, producers: int = 2) -> list[str]:
    """The lane IR of a kernel of two copies' operands without what isn't about barriers."""
    head = f"""def k(A, B, n):
    a, b = tj.alloc_shared((64, 64), A.dtype, swizzle="128B"), tj.alloc_shared((64, 64), A.dtype, swizzle="128B")
    ring, i = tj.alloc_ring(4, {producers}), n
    flag = tj.alloc_shared((1,), tj.int32)
"""
    text = head + "".join(f"    {line}\n" for line in body.splitlines())
    made = expects.lower_expects(lower(tile_ir(text, MATRIX, MATRIX, int32, threads=threads), target("sm_90a")).kernel)
    assert verify(made, "lane") == []
    kept = ("expect", "arrive", "tma", "for", "if %", "set")
    return [line.strip() for line in to_text(made).splitlines() if any(word in line for word in kept)]


TWO = """tj.warp.copy_async(a, A[0:64, 0:64], barrier=ring[i])
tj.warp.copy_async(b, B[0:64, 0:64], barrier=ring[i])
"""


def arrived(text: list[str]) -> list[str]:
    return [re.sub(r"<- .*, ", "", line) for line in text if "expect" in line or ".arrive" in line]


def test_an_arrival_announces_the_bytes_of_the_copies_before_it() -> None:
    (arrival,) = arrived(lines(TWO + "tj.warp.commit(ring[i])"))
    assert arrival.startswith("warp.arrive ring.full[") and arrival.endswith(" bytes 16384")


@pytest.mark.parametrize(
    "between",
    [
        "i += 1", "if n == 3:\n    return", "tj.thread.arrive(ring[i].full)", "for j in range(2):\n    i += j",
        "ring[i].wait()", "if ring[i].full.test(0):\n    n = 1", "tj.cta_sync()", "tj.named_barrier(1, 64).sync()",
        "tj.load_acquire(flag[0])", "tj.atomic.add(flag[0], 1)",
    ],
    ids=[
        "another step", "a way out", "another arrival", "a loop that changes the step", "a wait", "a question",
        "a barrier", "a barrier by its number", "a flag", "a count",
    ],
)
def test_bytes_not_announced_with_an_arrival_are_announced_before_the_copy(between: str) -> None:
    producers = 66 if "thread.arrive" in between else 2
    text = arrived(lines(f"{TWO}{between}\ntj.warp.commit(ring[i])", producers=producers))
    assert [line for line in text if "expect_tx" in line] == ["instruction mbarrier.expect_tx 8192"] * 2
    assert not any("bytes" in line for line in text)


def test_a_barrier_whose_number_is_loaded_again_may_be_another_one() -> None:
    copy = "tj.thread.copy_async(a, A[0:64, 0:64], barrier=many[{}])\ntj.thread.arrive(many[{}])"
    prepared = "many = tj.alloc_barrier(stages=4)\nm = flag[0]\n"
    assert not any("expect_tx" in line for line in arrived(lines(prepared + copy.format("m", "m"))))
    assert any("expect_tx" in line for line in arrived(lines(prepared + copy.format("flag[0]", "flag[0]"))))


def test_another_scopes_arrival_takes_no_bytes() -> None:
    text = arrived(lines(TWO + "tj.cta.commit(ring[i])", producers=1))
    assert len([line for line in text if "expect_tx" in line]) == 2


def test_an_arrival_in_another_block_takes_no_bytes() -> None:
    text = arrived(lines(TWO + "if n > 3:\n    tj.warp.commit(ring[i])"))
    assert len([line for line in text if "expect_tx" in line]) == 2
