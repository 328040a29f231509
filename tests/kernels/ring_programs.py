"""Whole kernels with rings that TMA fills, in loops of any lengths: who fills, who empties, by which instructions.

A CTA takes some tiles one after the other, each of some steps, of which there may be none: tile t those from STEPS[t]
on. All hold small integers, whose sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tilejit as tj
from tests.support.orders import Order
from tilejit.dtypes import DType, bfloat16, float16, float32, int8, int32
from tilejit.layout.swizzle import SWIZZLE_BITS
from tilejit.runtime.device import Device

__all__ = ["Product", "Ring", "Sum", "rings"]

Array = np.ndarray


@tj.kernel(threads=64, target="sm_90a")
def sums(
    A: tj.Tensor, Out: tj.Tensor, FIRST: tj.Tensor, STEPS: tj.Tensor, s: tj.constexpr, GROUPS: tj.constexpr,
    STAGES: tj.constexpr, P: tj.constexpr, C: tj.constexpr, W: tj.constexpr, MODE: tj.constexpr, BOX: tj.constexpr,
    REGISTERS: tj.constexpr,
):
    """Each of P warps brings 8 rows of a step; each of C warps, or warpgroups, adds up the whole steps of a tile."""
    ring = tj.alloc_ring(STAGES, producers=P, consumers=C)
    tiles = tj.alloc_shared((STAGES, P * 8, W), A.dtype, swizzle=MODE)
    out = tj.alloc_shared((C, P * 8, W), A.dtype, swizzle=MODE)
    first, last = FIRST[tj.cta_id(0)], FIRST[tj.cta_id(0) + 1]
    i = 0
    w = tj.warpgroup_id() if GROUPS else tj.warp_id()
    front = 1 if GROUPS else P
    if w < front:
        if GROUPS:
            tj.set_registers(24)
        p = tj.warp_id()
        if p < P:
            for step in range(STEPS[first], STEPS[last]):
                ring[i].acquire()
                at = tiles[ring[i].stage, p * 8 : p * 8 + 8, :]
                tj.warp.copy_async(at, A[step * 8 : step * 8 + 8, p, 0:W], barrier=ring[i])
                tj.warp.commit(ring[i])
                i += 1
    else:
        if GROUPS:
            tj.set_registers(REGISTERS)
        c = w - front
        for tile in range(first, last):
            total = s.zeros((P * 8, W), tj.int32 if A.dtype == tj.int8 else tj.float32)
            for _ in range(STEPS[tile], STEPS[tile + 1]):
                ring[i].wait()
                total += s.load(tiles[ring[i].stage]).astype(total.dtype)
                s.release(ring[i])
                i += 1
            if BOX:
                tj.bulk.wait_read(0)
                sync(GROUPS)
                s.store(out[c], total.astype(A.dtype))
                sync(GROUPS)
                s.copy_async(Out[c, tile, 0 : P * 8, 0:W], out[c])
            else:
                s.store(Out[c, tile, 0 : P * 8, 0:W], total.astype(A.dtype))
        tj.bulk.wait(0)


@tj.function
def sync(GROUPS: tj.constexpr):
    if GROUPS:
        tj.warpgroup_sync()
    else:
        tj.warp_sync()


@tj.function
def fetch(
    a: tj.Tile, b: tj.Tile, A: tj.Tensor, B: tj.Tensor, ring: object, i: int, step: int, p: int, P: tj.constexpr,
    C: tj.constexpr, N: tj.constexpr, TURNED: tj.constexpr,
) -> None:
    """Both factors of a step, by one warp, or each by its own."""
    ring[i].acquire()
    if p == 0:
        tj.warp.copy_async(a[ring[i].stage], A.tile((64 * C, 64), (0, step)), barrier=ring[i])
    if p == P - 1:
        part = B.tile((N, 64), (0, step)) if TURNED else B.tile((64, N), (step, 0))
        tj.warp.copy_async(b[ring[i].stage], part, barrier=ring[i])
    tj.warp.commit(ring[i])


@tj.kernel(threads=256, target="sm_90a")
def products(
    A: tj.Tensor, B: tj.Tensor, Out: tj.Tensor, FIRST: tj.Tensor, STEPS: tj.Tensor, STAGES: tj.constexpr,
    P: tj.constexpr, C: tj.constexpr, N: tj.constexpr, MODE: tj.constexpr, TURNED: tj.constexpr, ROLE: tj.constexpr,
    LAG: tj.constexpr, FILL: tj.constexpr, REGISTERS: tj.constexpr,
) -> None:
    """Each of C warpgroups has 64 rows of A. ROLE: P warps of one more fetch; else the first warp, ahead."""
    ring = tj.alloc_ring(STAGES, producers=P, consumers=C)
    a = tj.alloc_shared((STAGES, 64 * C, 64), A.dtype, swizzle="128B")
    b = tj.alloc_shared((STAGES, N, 64) if TURNED else (STAGES, 64, N), A.dtype, swizzle=MODE)
    first, last = FIRST[tj.cta_id(0)], FIRST[tj.cta_id(0) + 1]
    begin, end = STEPS[first], STEPS[last]
    i = 0
    if ROLE and tj.warpgroup_id() == 0:
        tj.set_registers(24)
        if tj.warp_id() < P:
            for step in range(begin, end):
                fetch(a, b, A, B, ring, i, step, tj.warp_id(), P, C, N, TURNED)
                i += 1
    else:
        if ROLE:
            tj.set_registers(REGISTERS)
        w = tj.warpgroup_id() - (1 if ROLE else 0)
        acc = tj.alloc_local((64, N), tj.float32, layout=tj.wgmma.layout_c((64, N)))
        if not ROLE and tj.warp_id() == 0:
            for k in range(min(STAGES - 1, end - begin)):
                fetch(a, b, A, B, ring, k, begin + k, 0, P, C, N, TURNED)
        for tile in range(first, last):
            if FILL:
                tj.wg.fill(acc, 0)
            count = STEPS[tile + 1] - STEPS[tile]
            for k in range(count):
                ring[i].wait()
                left = a[ring[i].stage, w * 64 : w * 64 + 64, :]
                right = b[ring[i].stage].T if TURNED else b[ring[i].stage]
                tj.wg.gemm_async(acc, left, right, accumulate=True if FILL else k > 0)
                if LAG:
                    tj.wgmma.wait(1)
                    if k > 0:
                        tj.wg.release(ring[i - 1])
                else:
                    tj.wgmma.wait(0)
                    tj.wg.release(ring[i])
                if not ROLE and tj.warp_id() == 0 and i + STAGES - 1 < end - begin:
                    # without a lag the stage of this step, with one that of the step before
                    fetch(a, b, A, B, ring, i + STAGES - 1, begin + i + STAGES - 1, 0, P, C, N, TURNED)
                i += 1
            if LAG:
                tj.wgmma.wait(0)
                if count > 0:
                    tj.wg.release(ring[i - 1])
            tj.wg.store(Out[tile, w * 64 : w * 64 + 64, 0:N], acc)


@dataclass(frozen=True)
class Ring:
    """A kernel with a ring, and how much there is to do for it.

    turns: steps of each tile. ctas: which share the tiles out. stages, producers, consumers: of the ring.
    """

    turns: tuple[int, ...]
    ctas: int
    stages: int
    producers: int
    consumers: int
    dtype: DType
    mode: str

    @property
    def tables(self) -> tuple[Array, Array]:
        """The first tile of each CTA, and the first step of each tile; and how many there are of both."""
        return np.linspace(0, len(self.turns), self.ctas + 1).astype(np.int32), self.steps

    @property
    def steps(self) -> Array:
        return np.cumsum([0, *self.turns]).astype(np.int32)

    def registers(self, groups: int) -> int:
        """Of a thread of a consumer, beside a warpgroup of producers with 24. groups: warpgroups of a CTA."""
        entry = min(65536 // (groups * 128), 255) // 8 * 8
        return min((entry * groups - 24) // self.consumers // 8 * 8, 240)

    def numbers(self, seed: int, *shape: int) -> Array:
        return np.random.default_rng(seed).integers(-2, 3, shape).astype(self.dtype.numpy)

    def runs(self, device: Device, order: Order) -> None:
        """Run it; what is left must be what NumPy says. order: on the simulator."""
        kernel, threads, arrays, wanted, constexprs = self.launched()
        out = np.full(wanted.shape, 77, wanted.dtype)
        values = (*arrays, out, *self.tables)
        if device.number < 0:
            tj.simulate(
                kernel, self.ctas, *values, threads=threads, target="sm_90a", schedule=order.schedule,
                delivery=order.delivery, **constexprs,
            )
        else:
            with tj.use_device("cuda"):
                kernel[(self.ctas,), threads](*values, **constexprs)
        np.testing.assert_array_equal(out, wanted)

    def launched(self) -> tuple[tj.Kernel, int, list[Array], Array, dict[str, Any]]:
        """The kernel, its threads, what it reads, what it must write, its constants."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sum(Ring):
    """Consumers read stages by ordinary loads. groups: they are warpgroups. boxes: results leave by TMA."""

    groups: bool
    boxes: bool

    def launched(self) -> tuple[tj.Kernel, int, list[Array], Array, dict[str, Any]]:
        width = (16 << SWIZZLE_BITS[self.mode]) // self.dtype.bytes
        steps, rows = self.steps, self.producers * 8
        a = self.numbers(len(self.turns), max(int(steps[-1]), 1) * 8, self.producers, width)
        # of a step, the rows of each producer, one after the other
        by_step = a.reshape(-1, 8, self.producers, width).swapaxes(1, 2).reshape(-1, rows, width).astype(np.float64)
        each = [by_step[x:y].sum(0) for x, y in zip(steps[:-1], steps[1:], strict=True)]
        wanted = np.broadcast_to(np.array(each), (self.consumers, *np.shape(each))).astype(self.dtype.numpy, order="C")
        threads = 128 * (1 + self.consumers) if self.groups else 32 * (self.producers + self.consumers)
        constexprs = {
            "s": tj.wg if self.groups else tj.warp, "GROUPS": self.groups, "STAGES": self.stages, "P": self.producers,
            "C": self.consumers, "W": width, "MODE": self.mode, "BOX": self.boxes,
            "REGISTERS": self.registers(1 + self.consumers),
        }
        return sums, threads, [a], wanted, constexprs


@dataclass(frozen=True)
class Product(Ring):
    """Consumers multiply stages. columns: of B. turned: B is stored as (columns, depth).

    role: producers are warps of a warpgroup of their own. lag: a product is in flight while the next begins.
    fill: sums begin as zeros that are filled in.
    """

    columns: int
    turned: bool
    role: bool
    lag: bool
    fill: bool

    def launched(self) -> tuple[tj.Kernel, int, list[Array], Array, dict[str, Any]]:
        steps = self.steps
        depth = 64 * max(int(steps[-1]), 1)
        a, b = self.numbers(1, 64 * self.consumers, depth), self.numbers(2, depth, self.columns)
        x, y = a.astype(np.float32), b.astype(np.float32)
        cuts = [slice(64 * i, 64 * j) for i, j in zip(steps[:-1], steps[1:], strict=True)]
        wanted = np.array([x[:, cut] @ y[cut] for cut in cuts])
        groups = self.consumers + self.role
        constexprs = {
            "STAGES": self.stages, "P": self.producers, "C": self.consumers, "N": self.columns, "MODE": self.mode,
            "TURNED": self.turned, "ROLE": self.role, "LAG": self.lag, "FILL": self.fill,
            "REGISTERS": self.registers(groups),
        }
        return products, 128 * groups, [a, np.ascontiguousarray(b.T) if self.turned else b], wanted, constexprs


@st.composite
def rings(draw: st.DrawFn) -> Ring:
    """A program with a ring of any stages, producers and consumers, and loops of any lengths."""
    multiplies = draw(st.booleans())
    role, lag, fill = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    # a consumer one product late, and a producer one fetch early, hold two stages
    stages = draw(st.integers(2 if multiplies and (lag or not role) else 1, 5))
    turns = draw(st.lists(st.integers(0 if fill or not multiplies else 1, 5), min_size=1, max_size=4))
    shape = tuple(turns), draw(st.integers(1, len(turns))), stages
    if not multiplies:
        dtype, mode = draw(st.sampled_from((float16, bfloat16, float32, int8, int32))), draw(st.sampled_from(_MODES))
        groups, boxes = draw(st.booleans()), draw(st.booleans())
        return Sum(*shape, draw(st.integers(1, 3)), draw(st.integers(1, 3)), dtype, mode, groups, boxes)
    turned = draw(st.booleans())
    mode = draw(st.sampled_from(_MODES))
    columns = draw(st.sampled_from([n for n in (8, 24, 64, 128) if turned or n * 2 % (16 << SWIZZLE_BITS[mode]) == 0]))
    producers = draw(st.integers(1, 2)) if role else 1
    consumers = draw(st.integers(1, 2))
    dtype = draw(st.sampled_from((float16, bfloat16)))
    return Product(*shape, producers, consumers, dtype, mode, columns, turned, role, lag, fill)


#: the swizzles of wide rows
_MODES = ("32B", "64B", "128B")
