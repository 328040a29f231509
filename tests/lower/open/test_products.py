"""How warps share products of open tiles: the fewest instructions, replicas in warps for which there is nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.open.kernels import kernel, tensor, tile, whole
from tests.lower.open.test_layouts import F16, products
from tilejit.dtypes import float32
from tilejit.ir.nodes import Alloc, Buffer, Kernel, TileOp
from tilejit.ir.verify import verify
from tilejit.ir.walk import statements
from tilejit.layout import layout_c
from tilejit.lower import lower
from tilejit.lower.open import lay_out
from tilejit.target import target


def laid_out(made: Kernel) -> dict[str, Buffer]:
    """The kernel's tiles by name, all laid out and without a conversion."""
    done = lay_out(made).kernel
    assert verify(done, "tile") == []
    return {s.buffer.name: s.buffer for s in statements(done.body) if isinstance(s, Alloc)}


def instructions(made: Kernel, arch: str = "sm_90a") -> int:
    """Tensor instructions of a thread, of all products."""
    done = lower(lay_out(replace(made, target=arch)).kernel, target(arch))
    counts = [dict(v.plan.instructions) for v in done.verdicts if v.op.name == "gemm"]
    return sum(times for count in counts for name, times in count.items() if name.startswith("mma."))


def split(acc: Buffer, of_warps: int) -> tuple[int, int, int]:
    """(warps along M, warps along N, warps that hold the same)."""
    layout = acc.tile_layout
    slots = acc.slots or acc.shape
    groups, ends = layout.group([int(n) for n in slots if isinstance(n, int)])
    along = [1, 1]
    for d in range(2):
        for it in groups.shard[ends[d] : ends[d + 1]]:
            along[d] *= it.extent if it.axis.name == "warpid" else 1
    return along[0], along[1], of_warps // (along[0] * along[1])


@pytest.mark.parametrize(
    ("extents", "warps", "wanted"),
    [
        ((64, 64, 32), 4, (2, 2, 1)), ((48, 40, 24), 4, (4, 1, 1)), ((48, 40, 24), 3, (3, 1, 1)),
        ((16, 8, 16), 4, (1, 1, 4)), ((32, 8, 16), 8, (2, 1, 4)), ((16, 24, 16), 2, (1, 2, 1)),
        ((16, 64, 16), 8, (1, 8, 1)), ((17, 9, 16), 6, (3, 2, 1)), ((20, 40, 8), 5, (1, 5, 1)),
    ],
)
def test_warps_share_a_product_so_that_each_has_the_least(
    extents: tuple[int, int, int], warps: int, wanted: tuple[int, int, int]
) -> None:
    assert split(laid_out(products(32 * warps, *extents))["c"], warps) == wanted


@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 50), st.sampled_from((1, 2, 3, 4, 5, 6, 8)))
def test_a_warp_carries_out_no_more_than_the_padded_extents_need(m: int, n: int, k: int, warps: int) -> None:
    slots = -(-k // 8) * 8
    steps = slots // 16 if slots % 16 == 0 else slots // 8
    pairs = [(wm, wn) for wm in range(1, warps + 1) for wn in range(1, warps + 1) if warps % (wm * wn) == 0]
    least = min(-(-m // (16 * wm)) * -(-n // (8 * wn)) for wm, wn in pairs)
    assert instructions(products(32 * warps, m, n, k)) == least * steps


def test_the_oldest_target_pads_to_its_own_steps() -> None:
    assert instructions(products(32, 16, 8, 12), "sm_75") == 2 and instructions(products(32, 16, 8, 12)) == 1


@pytest.mark.parametrize("warps", [(4, 1), (2, 2), (1, 4)])
def test_warps_share_a_product_as_accumulators_that_are_laid_out_by_hand_do(warps: tuple[int, int]) -> None:
    a, b, c = whole("a", (64, 20)), whole("b", (20, 64)), whole("c", (64, 64))
    made = kernel(
        128,
        tensor("A", 2, F16),
        tensor("B", 2, F16),
        tensor("C", 2),
        tile("a", (64, 20), F16),
        tile("b", (20, 64), F16),
        f"alloc c: local float32[64, 64] {layout_c((64, 64), float32, warps)} align 16",
        f"cta.copy {a}, {whole('A', (64, 20))}",
        f"cta.copy {b}, {whole('B', (20, 64))}",
        f"cta.fill {c}, 0.0",
        f"cta.gemm {c}, {a}, {b}",
        f"cta.copy {whole('C', (64, 64))}, {c}",
    )
    done = lay_out(made).kernel
    copies = [s for s in statements(done.body) if isinstance(s, TileOp) and s.name == "copy"]
    assert ["c" for s in copies if s.region("dst").buffer.root.name.startswith("c")] == []
