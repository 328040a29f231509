"""Whole kernels in which a product's result is the next one's factor, in registers, as attention has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import tilejit as tj
from tests.support.orders import Order
from tilejit.dtypes import DType, bfloat16, float16
from tilejit.layout.swizzle import SWIZZLE_BITS
from tilejit.runtime.device import Device

__all__ = ["Chain", "chains"]


@tj.function
def stored(X: tj.Tensor, R: tj.constexpr, C: tj.constexpr, MODE: tj.constexpr, TURNED: tj.constexpr) -> tj.Tile:
    """All of X, (R, C), in shared memory; TURNED: stored as (C, R)."""
    kept = tj.alloc_shared((C, R) if TURNED else (R, C), X.dtype, swizzle=MODE)
    if TURNED:
        tj.wg.copy(kept, X[0:R, 0:C].T)
    else:
        tj.wg.copy(kept, X[0:R, 0:C])
    return kept.T if TURNED else kept


@tj.kernel(threads=128, target="sm_90a")
def chained(
    A: tj.Tensor, B: tj.Tensor, V: tj.Tensor, Out: tj.Tensor, n: tj.int32, SHAPE: tj.constexpr, MODES: tj.constexpr,
    TURNED: tj.constexpr, HELD: tj.constexpr, AHEAD: tj.constexpr,
) -> None:
    """n times (A @ B) @ V. AHEAD: the next A @ B and this @ V are in flight together. HELD: A is in registers."""
    M, K, N, D = SHAPE
    a = stored(A, M, K, MODES[0], TURNED[0])
    b = stored(B, K, N, MODES[1], TURNED[1])
    v = stored(V, N, D, MODES[2], TURNED[2])
    held = tj.alloc_local((M, K), A.dtype, layout=tj.wgmma.layout_a((M, K), A.dtype))
    if HELD:
        tj.wg.copy(held, A[0:M, 0:K])
    scores = tj.alloc_local((M, N), tj.float32, layout=tj.wgmma.layout_c((M, N)))
    acc = tj.alloc_local((M, D), tj.float32, layout=tj.wgmma.layout_c((M, D)))
    p = tj.alloc_local((M, N), A.dtype, layout=tj.wgmma.layout_a((M, N), A.dtype))
    tj.wg.fill(p, 0)
    tj.warpgroup_sync()
    for j in range(n):
        if HELD:
            tj.wg.gemm_async(scores, held, b, accumulate=False)
        else:
            tj.wg.gemm_async(scores, a, b, accumulate=False)
        if AHEAD:
            tj.wg.gemm_async(acc, p, v, accumulate=j > 0)
            tj.wgmma.wait(1)
            weights = scores * 2
            tj.wgmma.wait(0)
            tj.wg.cast(p, weights)
        else:
            tj.wgmma.wait(0)
            tj.wg.cast(p, scores * 2)
            tj.wg.gemm_async(acc, p, v, accumulate=j > 0)
            tj.wgmma.wait(0)
    if AHEAD:
        tj.wg.gemm_async(acc, p, v)
        tj.wgmma.wait(0)
    tj.wg.store(Out[0:M, 0:D], acc)


@dataclass(frozen=True)
class Chain:
    """shape: rows of A, its columns, columns of B and of V. modes, turned: of A, B and V, as they are stored."""

    shape: tuple[int, int, int, int]
    dtype: DType
    modes: tuple[str, str, str]
    turned: tuple[bool, bool, bool]
    held: bool
    ahead: bool
    turns: int

    def runs(self, device: Device, order: Order) -> None:
        """Run it; what is left must be what NumPy says. order: on the simulator."""
        m, k, n, d = self.shape
        random = np.random.default_rng(self.turns)
        a, b, v = (random.integers(-1, 2, s).astype(self.dtype.numpy) for s in ((m, k), (k, n), (n, d)))
        x, y, z = (factor.astype(np.float32) for factor in (a, b, v))
        wanted = self.turns * 2 * (x @ y) @ z
        out = np.full(wanted.shape, 77, np.float32)
        constexprs = {
            "SHAPE": self.shape, "MODES": self.modes, "TURNED": self.turned, "HELD": self.held, "AHEAD": self.ahead,
        }
        if device.number < 0:
            tj.simulate(
                chained, 1, a, b, v, out, self.turns, target="sm_90a", schedule=order.schedule,
                delivery=order.delivery, **constexprs,
            )
        else:
            with tj.use_device("cuda"):
                chained[1](a, b, v, out, self.turns, **constexprs)
        np.testing.assert_array_equal(out, wanted)


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """Two products of any sizes, one after the other."""
    blocks = draw(st.sampled_from((1, 1, 2)))
    k, n, d = (draw(st.sampled_from((16, 32, 64) if blocks == 2 else (16, 48, 64, 96))) for _ in range(3))
    turned = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    # as it is stored: the bytes of a row
    rows = [2 * (r if t else c) for (r, c), t in zip(((64 * blocks, k), (k, n), (n, d)), turned, strict=True)]
    a, b, v = (
        draw(st.sampled_from([m for m, bits in SWIZZLE_BITS.items() if bits and row % (16 << bits) == 0]))
        for row in rows
    )
    dtype, held, ahead = draw(st.sampled_from((float16, bfloat16))), draw(st.booleans()), draw(st.booleans())
    return Chain((64 * blocks, k, n, d), dtype, (a, b, v), turned, held, ahead, draw(st.integers(1, 4)))
