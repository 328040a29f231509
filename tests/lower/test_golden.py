"""Golden files of lowering: target, tile IR, lane IR."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.goldens import Golden, cases, joined, read
from tilejit.dtypes import DType, float16, float32, int64, uint8
from tilejit.ir.nodes import (
    Alloc,
    Buffer,
    Const,
    Kernel,
    Region,
    Strided,
    Sync,
    TileOp,
    Var,
)
from tilejit.ir.params import (
    ExtentParam,
    PointerParam,
    ScalarParam,
    StrideParam,
)
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.layout import Swizzle, TileLayout
from tilejit.lower import lower
from tilejit.lower.ask import operand
from tilejit.lower.passes import arrivals, clusters, expects, fences, pending
from tilejit.target import target

LANE_ROWS = "laneid"


def kernel(name: str, threads: int, regions: list[Region], *body: TileOp | Sync, target: str = "sm_90a") -> Kernel:
    """A kernel of these operations; global buffers are its parameters, all others it allocates."""
    outside = [r.buffer for r in regions if r.buffer.space == "global"]
    params = tuple(PointerParam(b.name, b, written=True) for b in outside)
    allocs = tuple(Alloc(r.buffer) for r in regions if r.buffer.space != "global")
    return Kernel(name, params, threads, target, (*allocs, *body))


def through_shared(dtype: DType) -> Kernel:
    """A 32x32 tile, row-major on both sides, global -> shared -> global, by one warp."""
    a, b = (operand("global", (32, 32), dtype).named(n) for n in "AB")
    s = operand("shared", (32, 32), dtype).named("s")
    down, up = TileOp("copy", "warp", (s, a)), TileOp("copy", "warp", (b, s))
    return kernel("through_shared", 32, [a, b, s], down, Sync("warp"), up)


def rows(k: int) -> TileLayout:
    return TileLayout.from_iters([(32, 1, LANE_ROWS), (k, 1, "m")])


def through_registers(dtype: DType, k: int) -> Kernel:
    """A 32xk tile of which lane i owns row i, shared -> local -> shared."""
    s = operand("shared", (32, k), dtype).named("s")
    r = operand("local", (32, k), dtype, rows(k)).named("r")
    return kernel("through_registers", 32, [s, r], TileOp("copy", "warp", (r, s)), TileOp("copy", "warp", (s, r)))


def sqrt() -> Kernel:
    r = operand("local", (32, 8), float32, rows(8)).named("r")
    return kernel("roots", 32, [r], TileOp("sqrt", "warp", (r, r)))


def fill() -> Kernel:
    r = operand("local", (32, 8), float32, rows(8)).named("r")
    return kernel("halves", 32, [r], TileOp("fill", "warp", (r, Const(0.5, float32))))


def binary_and_fma(arch: str) -> Kernel:
    r, x = (operand("local", (32, 8), float32, rows(8)).named(n) for n in "rx")
    twice = TileOp("add", "warp", (r, r, x))
    fused = TileOp("fma", "warp", (r, r, Const(2.0, float32), x))
    return kernel("sums", 32, [r, x], twice, fused, target=arch)


def sums_in_memory() -> Kernel:
    """A column that is added to all others, in shared memory."""
    a, s = (operand("shared", (32, 64), float32).named(n) for n in "as")
    column = operand("shared", (32, 1), float32).named("column")
    return kernel("sums_in_memory", 32, [a, s, column], TileOp("add", "warp", (s, a, column)))


def every_second_lane() -> Kernel:
    """A tile that a half of the warp owns: each lane looks whether it has a part."""
    half = TileLayout.from_iters([(16, 2, LANE_ROWS), (4, 1, "m")])
    r = operand("local", (16, 4), float32, half).named("r")
    s = operand("shared", (16, 4), float32).named("s")
    return kernel("every_second_lane", 32, [r, s], TileOp("copy", "warp", (r, s)))


def narrowed() -> Kernel:
    """float32 to float16: adjacent registers go in pairs."""
    r = operand("local", (32, 8), float32, rows(8)).named("r")
    h = operand("local", (32, 8), float16, rows(8)).named("h")
    return kernel("narrowed", 32, [r, h], TileOp("cast", "warp", (h, r)))


def swizzled() -> Kernel:
    """A swizzle whose rounds only add: the address of a round is one addition."""
    a = operand("global", (128, 64), float16).named("A")
    s = operand("shared", (128, 64), float16, TileLayout.row_major((128, 64), Swizzle(3, 3, 3))).named("s")
    return kernel("swizzled", 128, [a, s], TileOp("copy", "cta", (s, a)))


def edge() -> Kernel:
    """A tile that may pass the edges of a tensor whose size is known only at launch."""
    size = tuple(Var(f"A.shape.{d}", int64, m, (0, 2**40)) for d, m in ((0, 1), (1, 4)))
    strided = Strided((Var("A.stride.0", int64, 4, (0, 2**40)), 1), 16, 16)
    buffer = Buffer("A", "global", float32, size, strided, 16)
    start = (Var("i", int64, 32, (0, 2**30)), Const(0, int64))
    s = operand("shared", (32, 32), float32).named("s")
    made = kernel("edge", 32, [s], TileOp("copy", "warp", (s, Region(buffer, start, (32, 32)))))
    params = (
        PointerParam("A", buffer),
        *(ExtentParam("A", v, d) for d, v in enumerate(size)),
        StrideParam("A", strided.strides[0], 0),
        ScalarParam("i", start[0]),
    )
    return Kernel("edge", params, 32, "sm_90a", made.body)


def masked_tail() -> Kernel:
    """1000 elements among 96 threads: the third round is partial."""
    a = operand("global", (1000,), float32).named("A")
    s = operand("shared", (1000,), float32).named("s")
    return kernel("masked_tail", 96, [a, s], TileOp("copy", "cta", (s, a)))


CASES: dict[str, Callable[[], Kernel]] = {
    **{
        f"copy/gmem_smem_{t.name}_32x32.tile": lambda t=t: through_shared(t) for t in (float32, float16, uint8)
    },
    **{
        f"copy/reg_{t.name}_32x{k}.tile": lambda t=t, k=k: through_registers(t, k)
        for t in (float32, float16)
        for k in (8, 16)
    },
    "copy/gmem_smem_swizzled.tile": swizzled,
    "copy/fallback_every_second_lane.tile": every_second_lane,
    "copy/gmem_smem_edge.tile": edge,
    "copy/gmem_smem_masked_tail.tile": masked_tail,
    "elementwise/fill.tile": fill,
    "elementwise/sqrt.tile": sqrt,
    "elementwise/smem_add.tile": sums_in_memory,
    "elementwise/add_fma_sm_90a.tile": lambda: binary_and_fma("sm_90a"),
    "elementwise/add_fma_sm_100a.tile": lambda: binary_and_fma("sm_100a"),
    "elementwise/cast.tile": narrowed,
}


@pytest.mark.parametrize("name", CASES)
def test_a_demonstration_lowers_to_its_golden_lane_ir(name: str, golden: Golden) -> None:
    tile = CASES[name]()
    lane = lower(tile, target(tile.target)).kernel
    golden.check(name, joined(tile.target, to_text(tile), to_text(lane)))


@pytest.mark.parametrize("name", cases())
def test_the_tile_ir_of_every_golden_file_lowers_to_its_lane_ir(name: str, golden: Golden) -> None:
    arch, tile, _ = read(name)
    lane = lower(from_text(tile), target(arch)).kernel
    if name.startswith("barriers/"):
        # what those passes make of arrivals that `lower` leaves as they are
        lane = clusters.synchronize_clusters(arrivals.expand(fences.with_fences(expects.lower_expects(lane))))
    golden.check(name, joined(arch, tile, to_text(pending.add_wait_registers(lane))))
