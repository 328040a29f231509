"""Kernels of clusters: copies that fill several CTAs, releases that reach them, ids and barriers; against NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.kernels.cluster_programs import ClusterProgram, cluster_programs
from tests.support.orders import EVERY_ORDER, FEW_ORDERS, Order, simulated
from tests.support.profiles import times
from tests.support.programs import source_of
from tests.support.ptxas import notes_of
from tilejit.runtime.device import Device

Cluster = tuple[int, int]
CLUSTERS: tuple[Cluster, ...] = ((2, 1), (1, 2), (2, 2), (4, 1), (1, 1))


def spread(
    A: tj.Tensor, Out: tj.Tensor, AXIS: tj.constexpr, STAGES: tj.constexpr, H: tj.constexpr, W: tj.constexpr,
    MODE: tj.constexpr,
) -> None:
    """The CTAs along an axis of a cluster get the same rows of A, step by step; each writes them to its own of Out."""
    ring = tj.alloc_ring(STAGES, multicast=AXIS)
    s = tj.alloc_shared((STAGES, H, W), A.dtype, swizzle=MODE)
    x, y = tj.cta_id(0), tj.cta_id(1)
    first = tj.cta_id(AXIS) // tj.cluster.size(AXIS) * tj.cluster.size(AXIS)
    for k in range(A.shape[2] // H):
        t = ring[k]
        t.acquire()
        if AXIS == 0:
            tj.warp.copy_async(s[t.stage], A[first, y, k * H : k * H + H, 0:W], barrier=t, multicast=AXIS)
        else:
            tj.warp.copy_async(s[t.stage], A[x, first, k * H : k * H + H, 0:W], barrier=t, multicast=AXIS)
        tj.warp.commit(t)
        t.wait()
        tj.warp.copy_async(Out[x, y, k * H : k * H + H, 0:W], s[t.stage])
        tj.bulk.wait_read(0)
        tj.warp.release(t)
    tj.bulk.wait(0)


M, K = 128, 64


def product(
    A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, AXIS: tj.constexpr, TURNED: tj.constexpr, STAGES: tj.constexpr,
    N: tj.constexpr,
) -> None:
    """A tile of C = A @ B a CTA. Those along an axis multiply the same columns of B, which one copy brings to all."""
    a = tj.alloc_shared((STAGES, M, K), A.dtype, swizzle="128B")
    b = tj.alloc_shared((STAGES, N, K) if TURNED else (STAGES, K, N), B.dtype, swizzle="128B")
    ring = tj.alloc_ring(STAGES, consumers=2, multicast=AXIS)
    row, column = tj.cta_id(AXIS), tj.cta_id(1 - AXIS)
    steps = tj.cdiv(A.shape[1], K)
    if tj.warp_id() == 8:
        for k in range(steps):
            t = ring[k]
            t.acquire()
            tj.warp.copy_async(a[t.stage], A.tile((M, K), (row, k)), barrier=t)
            if TURNED:
                tj.warp.copy_async(b[t.stage], B.tile((N, K), (column, k)), barrier=t, multicast=AXIS)
            else:
                tj.warp.copy_async(b[t.stage], B.tile((K, N), (k, column)), barrier=t, multicast=AXIS)
            tj.warp.commit(t)
    else:
        w = tj.warpgroup_id()
        acc = tj.alloc_local((64, N), tj.float32, layout=tj.wgmma.layout_c((64, N)))
        for k in range(steps):
            t = ring[k]
            t.wait()
            factor = b[t.stage].T if TURNED else b[t.stage]
            tj.wg.gemm_async(acc, a[t.stage, w * 64 : w * 64 + 64, :], factor, accumulate=k > 0)
            tj.wgmma.wait(0)
            tj.wg.release(t)
        if steps > 0:
            tj.wg.copy(C[row * M + w * 64 : row * M + w * 64 + 64, column * N : column * N + N], acc)


@cache
def kernel(function: Callable[..., None], threads: int, cluster: Cluster | None) -> tj.Kernel:
    return tj.kernel(threads=threads, cluster=cluster, target="sm_90a")(function)


def ones_and_twos(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


def along(axis: int, count: int, other: int) -> tuple[int, int]:
    """A grid with `count` CTAs along an axis."""
    return (count, other) if axis == 0 else (other, count)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("cluster", [*CLUSTERS, None])
def test_products_share_the_copies_of_a_factor(cluster: Cluster | None, axis: int, turned: bool) -> None:
    rows, columns, steps, n = 4, 4 if cluster == (4, 1) else 2, 5, 128
    a, b = ones_and_twos(1, rows * M, steps * K), ones_and_twos(2, steps * K, columns * n)
    given_b = np.ascontiguousarray(b.T) if turned else b
    c = np.zeros((rows * M, columns * n), np.float32)
    with simulated(Order(1, "random:1")):
        kernel(product, 288, cluster)[along(axis, rows, columns)](a, given_b, c, axis, turned, 3, n)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_products_are_the_same_whenever_copies_land(order: Order) -> None:
    a, b = ones_and_twos(3, 2 * M, 7 * K), ones_and_twos(4, 7 * K, 64)
    c = np.zeros((2 * M, 64), np.float32)
    with simulated(order):
        kernel(product, 288, (2, 1))[2, 1](a, b, c, 0, False, 2, 64)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@settings(max_examples=times(0.4))
@given(st.data())
def test_a_region_comes_to_all_ctas_along_an_axis(data: st.DataObject) -> None:
    cluster, axis = data.draw(st.sampled_from([*CLUSTERS, (3, 1), (3, 2)])), data.draw(st.sampled_from([0, 1]))
    mode, width = data.draw(st.sampled_from([("128B", 64), ("128B", 128), ("64B", 32), ("32B", 48), (None, 16)]))
    h, steps = 8 * cluster[axis] * data.draw(st.integers(1, 3)), data.draw(st.integers(0, 6))
    grid = tuple(size * data.draw(st.integers(1, 2)) for size in cluster)
    bits = np.random.default_rng(5).integers(1, 100, (*grid, steps * h, width)).astype(np.float16)
    out = np.zeros_like(bits)
    with simulated(data.draw(st.sampled_from(FEW_ORDERS))):
        stages = data.draw(st.integers(1, 3))
        kernel(spread, 32, cluster)[grid](bits, out, axis, stages, h, width, mode)
    size = cluster[axis]
    first = np.arange(grid[axis]) // size * size
    np.testing.assert_array_equal(out, np.take(bits, first, axis))


# whole kernels: a quarter as many as of other properties
@settings(max_examples=settings.default.max_examples // 4)
@given(cluster_programs(), st.sampled_from(EVERY_ORDER))
def test_any_rings_of_a_cluster_bring_what_they_are_to(hopper: Device, program: ClusterProgram, order: Order) -> None:
    program.runs(hopper, order)


def slabs(A: tj.Tensor, Out: tj.Tensor, D: tj.constexpr, H: tj.constexpr) -> None:
    """Both CTAs get the same tile of three dimensions, and write it to their own of Out."""
    ring = tj.alloc_ring(1, multicast=0)
    s = tj.alloc_shared((D, H, 64), A.dtype, swizzle="128B")
    ring[0].acquire()
    tj.warp.copy_async(s, A[0:D, 0:H, 0:64], barrier=ring[0], multicast=0)
    tj.warp.commit(ring[0])
    ring[0].wait()
    tj.warp.copy_async(Out[tj.cluster.rank(), 0:D, 0:H, 0:64], s)
    tj.bulk.wait(0)


@pytest.mark.parametrize(("depth", "rows"), [(2, 24), (3, 16), (3, 64), (1, 48), (3, 512)])
def test_rows_of_several_dimensions_are_shared(depth: int, rows: int) -> None:
    bits = np.random.default_rng(6).integers(1, 100, (depth, rows, 64)).astype(np.float16)
    out = np.zeros((2, *bits.shape), bits.dtype)
    kernel(slabs, 32, (2, 1))[2](bits, out, depth, rows)
    np.testing.assert_array_equal(out, np.stack([bits, bits]))


def looked_up(
    A: tj.Tensor, Starts: tj.Tensor, Out: tj.Tensor, AXIS: tj.constexpr, STAGES: tj.constexpr, H: tj.constexpr,
    W: tj.constexpr, MODE: tj.constexpr,
) -> None:
    """The CTAs along an axis get a region a step, each from where a table says; each writes them to its own of Out.

    Starts: of each CTA and step the region's row, its column in steps of 16 bytes, and how many stages too far it goes.
    """
    ring = tj.alloc_ring(STAGES, multicast=AXIS)
    s = tj.alloc_shared((STAGES, H, W), A.dtype, swizzle=MODE)
    x, y = tj.cta_id(0), tj.cta_id(1)
    for k in range(Starts.shape[2]):
        t = ring[k]
        row, column, stage = Starts[x, y, k, 0], Starts[x, y, k, 1] * 8, (t.stage + Starts[x, y, k, 2]) % STAGES
        t.acquire()
        tj.warp.copy_async(s[stage], A[row : row + H, column : column + W], barrier=t, multicast=AXIS)
        tj.warp.commit(t)
        t.wait()
        tj.warp.copy_async(Out[x, y, k, 0:H, 0:W], s[stage])
        tj.bulk.wait_read(0)
        tj.warp.release(t)
    tj.bulk.wait(0)


@dataclass(frozen=True)
class LookedUp:
    """A launch of `looked_up`. starts: of each CTA and step."""

    cluster: Cluster
    axis: int
    stages: int
    h: int
    width: int
    mode: str | None
    source: np.ndarray
    starts: np.ndarray

    def run(self, starts: np.ndarray) -> np.ndarray:
        x, y, steps, _ = starts.shape
        out = np.zeros((x, y, steps, self.h, self.width), np.float16)
        options = self.axis, self.stages, self.h, self.width, self.mode
        kernel(looked_up, 32, self.cluster)[x, y](self.source, starts, out, *options)
        return out

    def expected(self) -> np.ndarray:
        height, width = self.source.shape
        rows = self.starts[..., 0, None, None] + np.arange(self.h)[:, None]
        columns = 8 * self.starts[..., 1, None, None] + np.arange(self.width)
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        return np.where(inside, self.source[rows.clip(0, height - 1), columns.clip(0, width - 1)], 0)


@st.composite
def lookups(draw: st.DrawFn) -> LookedUp:
    """Clusters, tensors, boxes and regions, which may hang over every edge; along the axis all CTAs want the same."""
    cluster, axis = draw(st.sampled_from([*CLUSTERS, (3, 1), (3, 2)])), draw(st.sampled_from([0, 1]))
    modes = ("128B", 64), ("128B", 128), ("128B", 192), ("64B", 32), ("32B", 48), (None, 16)
    mode, width = draw(st.sampled_from(modes))
    h = 8 * cluster[axis] * draw(st.integers(1, 3))
    grid = tuple(size * draw(st.integers(1, 2)) for size in cluster)
    random = np.random.default_rng(draw(st.integers(0, 9)))
    source = random.integers(1, 100, (draw(st.integers(1, 90)), 8 * draw(st.integers(1, 30)))).astype(np.float16)
    shape = (*grid, draw(st.integers(1, 5)))
    rows, columns = random.integers(-h - 3, 100, shape), random.integers(-width // 8 - 1, 33, shape)
    starts = np.stack([rows, columns, np.zeros(shape, np.int64)], -1).astype(np.int32)
    first = np.arange(grid[axis]) // cluster[axis] * cluster[axis]
    return LookedUp(cluster, axis, draw(st.integers(1, 3)), h, width, mode, source, np.take(starts, first, axis))


@settings(max_examples=times(0.5))
@given(lookups(), st.sampled_from(FEW_ORDERS))
def test_ctas_that_name_the_same_region_hear_nothing(launch: LookedUp, order: Order) -> None:
    with simulated(order):
        np.testing.assert_array_equal(launch.run(launch.starts), launch.expected())


@settings(max_examples=times(0.5))
@given(lookups(), st.sampled_from(FEW_ORDERS), st.data())
def test_one_cta_that_names_another_region_is_reported(launch: LookedUp, order: Order, data: st.DataObject) -> None:
    assume(launch.cluster[launch.axis] > 1)
    starts = launch.starts.copy()
    x, y, step = (data.draw(st.integers(0, size - 1)) for size in starts.shape[:3])
    starts[x, y, step, data.draw(st.integers(0, 1))] += data.draw(st.sampled_from([-9, -1, 1, launch.h]))
    refused = pytest.raises(tj.AsyncHazardError, match="name different regions")
    with tj.use_device("sim"), simulated(order), refused as error:
        launch.run(starts)
    found = re.findall(r"of CTA \((\d+), (\d+), 0\) copies A from \((-?\d+), (-?\d+)\) on", str(error.value))
    reported = [tuple(map(int, each)) for each in found]
    assert len(reported) == 2 and [(a, b) for a, b, _, _ in reported].count((x, y)) == 1
    for a, b, row, column in reported:
        np.testing.assert_array_equal([row, column], starts[a, b, step, :2] * (1, 8))


@pytest.mark.parametrize("row", [2**31 - 20, 2**31 - 4, -(2**31), 2**31 - 100])
def test_regions_as_far_as_coordinates_count_are_one(row: int) -> None:
    starts = np.zeros((2, 1, 1, 3), np.int32)
    starts[..., 0] = row
    launch = LookedUp((2, 1), 0, 1, 32, 64, "128B", np.ones((16, 64), np.float16), starts)
    assert not launch.run(starts).any()


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_one_cta_that_names_another_stage_is_reported(order: Order) -> None:
    starts = np.zeros((2, 1, 4, 3), np.int32)
    starts[1, 0, 0, 2] = 1
    launch = LookedUp((2, 1), 0, 2, 16, 64, "128B", np.ones((16, 64), np.float16), starts)
    refused = pytest.raises(tj.AsyncHazardError, match="name different places")
    with tj.use_device("sim"), simulated(order), refused as error:
        launch.run(starts)
    assert re.findall(r"CTA \((\d), 0, 0\) copies A from \(0, 0\) on to s\+(\d+) bytes", str(error.value)) in (
        [("1", "2048"), ("0", "0")], [("0", "0"), ("1", "2048")])


def three_branches(A: tj.Tensor, Out: tj.Tensor, COPIES: tj.constexpr) -> None:
    """Two warps write what one copies, each warp in a branch of its own, one after the other."""
    ring = tj.alloc_ring(2, consumers=2, multicast=0)
    s = tj.alloc_shared((2, 16, 64), A.dtype, swizzle="128B")
    for w in tj.static_range(3):
        if tj.warp_id() == w:
            for i in range(3):
                t = ring[i]
                if w == COPIES:
                    t.acquire()
                    tj.warp.copy_async(s[t.stage], A[i * 16 : i * 16 + 16, 0:64], barrier=t, multicast=0)
                    tj.warp.commit(t)
                else:
                    t.wait()
                    tj.warp.copy_async(Out[tj.cta_id(0), w, i * 16 : i * 16 + 16, 0:64], s[t.stage])
                    tj.bulk.wait_read(0)
                    tj.warp.release(t)
            tj.bulk.wait(0)


@pytest.mark.parametrize("order", EVERY_ORDER)
@pytest.mark.parametrize("copies", [0, 1, 2])
def test_all_releasing_warps_synchronize_at_the_end_whichever_branch_is_last(copies: int, order: Order) -> None:
    a, out = ones_and_twos(9, 48, 64), np.zeros((2, 3, 48, 64), np.float16)
    with simulated(order):
        kernel(three_branches, 96, (2, 1))[2](a, out, copies)
    wanted = np.where(np.arange(3)[:, None, None] == copies, 0, a)
    np.testing.assert_array_equal(out, np.broadcast_to(wanted, out.shape))


def two_consumers(A: tj.Tensor, Out: tj.Tensor, STAGES: tj.constexpr) -> None:
    """Steps that are not shared, of a ring whose consumers release each step to both CTAs."""
    ring = tj.alloc_ring(STAGES, producers=1, consumers=2, multicast=0)
    stages = tj.alloc_shared((STAGES, 8, 64), A.dtype)
    cta, warp = tj.cta_id(0), tj.warp_id()
    if warp == 0:
        for i in range(6):
            t = ring[i]
            t.acquire()
            tj.warp.copy_async(stages[t.stage], A[8 * i : 8 * i + 8, 0:64], barrier=t)
            tj.warp.commit(t)
    elif warp == 1:
        for i in range(6):
            t = ring[i]
            t.wait()
            tj.warp.copy_async(Out[cta, 0, 8 * i : 8 * i + 8, 0:64], stages[t.stage])
            tj.bulk.wait_read(0)
            tj.warp.release(t)
        tj.bulk.wait(0)
    else:
        for i in range(6):
            t = ring[i]
            t.wait()
            tj.warp.copy_async(Out[cta, 1, 8 * i : 8 * i + 8, 0:64], stages[t.stage])
            tj.bulk.wait_read(0)
            tj.warp.release(t)
        tj.bulk.wait(0)


@pytest.mark.parametrize("order", EVERY_ORDER)
@pytest.mark.parametrize("stages", [1, 2])
def test_a_release_may_reach_one_cta_after_the_next_step_does(stages: int, order: Order) -> None:
    a, out = ones_and_twos(9, 48, 64), np.zeros((2, 2, 48, 64), np.float16)
    with simulated(order):
        kernel(two_consumers, 96, (2, 1))[2](a, out, stages)
    np.testing.assert_array_equal(out, np.broadcast_to(a, out.shape))


def two_shares(A: tj.Tensor, Out: tj.Tensor) -> None:
    """Copies by one map that are shared by columns and by rows: a box doesn't say which one it is of."""
    ring = tj.alloc_ring(2, multicast=0)
    wide = tj.alloc_shared((16, 128), A.dtype, swizzle="128B")
    high = tj.alloc_shared((32, 64), A.dtype, swizzle="128B")
    column = tj.cta_id(0) // 2 * 64
    for k in range(2):
        t = ring[k]
        t.acquire()
        if k == 0:
            tj.warp.copy_async(wide, A[0:16, column : column + 128], barrier=t, multicast=0)
        else:
            tj.warp.copy_async(high, A[0:32, column : column + 64], barrier=t, multicast=0)
        tj.warp.commit(t)
        t.wait()
        tj.warp.release(t)
    tj.warp.copy_async(Out[tj.cta_id(0), 0:16, 0:128], wide)
    tj.warp.copy_async(Out[tj.cta_id(0), 16:48, 0:64], high)
    tj.bulk.wait(0)


def test_copies_of_one_map_may_be_shared_in_two_ways() -> None:
    half = tj.spec((64, 256), tj.float16)
    compiled = kernel(two_shares, 32, (2, 1)).compile(half, tj.spec((4, 48, 128), tj.float16))
    (shares,) = [param.shares for param in compiled.executable.params if getattr(param, "shares", ())]
    assert [(share.coordinates, share.bytes) for share in shares] == [((64, 0), 2048), ((0, 16), 2048)]
    a, out = ones_and_twos(8, 64, 256), np.zeros((4, 48, 128), np.float16)
    for order in FEW_ORDERS:
        with simulated(order):
            kernel(two_shares, 32, (2, 1))[4](a, out)
        for cta in range(4):
            np.testing.assert_array_equal(out[cta, :16], a[:16, cta // 2 * 64 :][:, :128])
            np.testing.assert_array_equal(out[cta, 16:, :64], a[:32, cta // 2 * 64 :][:, :64])


def numbers(Out: tj.Tensor) -> None:
    """What each CTA knows of its cluster, and what its neighbour wrote before a barrier of the cluster."""
    x, y = tj.cta_id(0), tj.cta_id(1)
    if tj.thread_id() == 0:
        Out[x, y, 0] = tj.cluster.rank()
        Out[x, y, 1] = tj.cluster.rank(0)
        Out[x, y, 2] = tj.cluster.rank(axis=1)
        Out[x, y, 3] = tj.cluster.rank(2)
        Out[x, y, 4] = tj.int32(tj.cluster.id(0))
        Out[x, y, 5] = tj.int32(tj.cluster.id(1))
        Out[x, y, 6] = tj.cluster.size() * 100 + tj.cluster.size(0) * 10 + tj.cluster.size(1)
    tj.cluster_sync()
    if tj.thread_id() == 0:
        other = x // tj.cluster.size(0) * tj.cluster.size(0) + (tj.cluster.rank(0) + 1) % tj.cluster.size(0)
        Out[x, y, 7] = Out[other, y, 4] * 100 + Out[other, y, 1]


@pytest.mark.parametrize("cluster", [(2, 1), (2, 2), (3, 2), (1, 2), None])
def test_a_cta_knows_where_it_is_in_its_cluster(cluster: Cluster | None) -> None:
    sizes = cluster or (1, 1)
    grid = 2 * sizes[0], 3 * sizes[1]
    out = np.zeros((*grid, 8), np.int32)
    kernel(numbers, 64, cluster)[grid](out)
    for x, y in np.ndindex(grid):
        rx, ry = x % sizes[0], y % sizes[1]
        expected = [rx + ry * sizes[0], rx, ry, 0, x // sizes[0], y // sizes[1]]
        expected.append(sizes[0] * sizes[1] * 100 + sizes[0] * 10 + sizes[1])
        expected.append(x // sizes[0] * 100 + (rx + 1) % sizes[0])
        assert out[x, y].tolist() == expected, (x, y)


FLAGGED = """def k(Data, Flag, Out, TOGETHER):
    x = tj.cta_id(0)
    first = x // TOGETHER * TOGETHER
    if x == first:
        Data[x, tj.thread_id()] = x + tj.thread_id()
    tj.cta_sync()
    if tj.thread_id() == 0:
        if x == first:
            RAISE
        else:
            while LOOK == 0:
                pass
            tj.fence("cluster")
    tj.cta_sync()
    if x != first:
        Out[x, tj.thread_id()] = Data[first, tj.thread_id()]
"""
#: how a flag is raised, and looked at, before a fence
FLAGS = {
    "stores": ("tj.store_release(Flag[first], 1, scope='cluster')", "tj.load_acquire(Flag[first], scope='cluster')"),
    "fences": (
        "tj.fence('cluster'); tj.atomic.exch(Flag[first], 1, order='relaxed', scope='cluster')",
        "tj.load_volatile(Flag[first])",
    ),
    "updates": (
        "tj.atomic.add(Flag[first], 1, order='release', scope='cluster')",
        "tj.atomic.add(Flag[first], 0, order='relaxed', scope='cluster')",
    ),
}


@pytest.mark.parametrize("order", FEW_ORDERS)
@pytest.mark.parametrize("flags", FLAGS)
def test_the_scope_of_a_cluster_reaches_its_ctas_and_no_others(flags: str, order: Order) -> None:
    raised, looked = FLAGS[flags]
    text = FLAGGED.replace("RAISE", raised.replace("; ", "\n            ")).replace("LOOK", looked)
    flagged = tj.kernel(threads=64, cluster=2, target="sm_90a")(source_of(text))

    def run(together: int) -> np.ndarray:
        out = np.zeros((4, 64), np.int32)
        with tj.use_device("sim"), simulated(order):
            flagged[4](np.zeros((4, 64), np.int32), np.zeros(4, np.int32), out, together)
        return out

    out = run(2)
    for x in (1, 3):
        np.testing.assert_array_equal(out[x], x - 1 + np.arange(64))
    with pytest.raises(tj.RaceError, match=r"CTA \([23], 0, 0\)"):
        run(4)
    flagged = tj.kernel(threads=64, cluster=2, target="sm_90a")(source_of(text.replace('tj.fence("cluster")', "pass")))
    if flags != "stores":
        with pytest.raises(tj.RaceError, match=r"CTA \([13], 0, 0\)"):
            run(2)


def failing(A: tj.Tensor, Out: tj.Tensor, role: tj.int32, lane: tj.int32) -> None:
    """Some lanes of a role, 0 for the producer and 1 for the consumer, fail at step 3 in CTA 1."""
    ring = tj.alloc_ring(2, multicast=0)
    s = tj.alloc_shared((2, 16, 64), A.dtype, swizzle="128B")
    cta = tj.cta_id(0)
    fails = cta == 1 and tj.warp_id() == role and tj.lane_id() >= lane
    if tj.warp_id() == 0:
        for i in range(6):
            t = ring[i]
            t.acquire()
            assert not (fails and i == 3), "as asked"
            tj.warp.copy_async(s[t.stage], A[i * 16 : i * 16 + 16, 0:64], barrier=t, multicast=0)
            tj.warp.commit(t)
    else:
        for i in range(6):
            t = ring[i]
            t.wait()
            assert not (fails and i == 3), "as asked"
            tj.warp.copy_async(Out[cta, i * 16 : i * 16 + 16, 0:64], s[t.stage])
            tj.bulk.wait_read(0)
            tj.warp.release(t)
        tj.bulk.wait(0)


@pytest.mark.parametrize("order", EVERY_ORDER)
@pytest.mark.parametrize("lane", [0, 31])
@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("cluster", [None, (2, 1)])
def test_a_failed_assertion_is_reported_rather_than_the_waiters_for_its_thread(
    cluster: Cluster | None, role: int, lane: int, order: Order
) -> None:
    refused = pytest.raises(tj.SimulationError, match=r"assert failed in thread \d+ of CTA \(1, 0, 0\): as asked")
    with tj.use_device("sim"), simulated(order), refused as error:
        kernel(failing, 64, cluster)[4](np.ones((96, 64), np.float16), np.zeros((4, 96, 64), np.float16), role, lane)
    (thread,) = re.findall(r"thread (\d+)", str(error.value).splitlines()[0])
    # of lanes that part any may be the first
    assert int(thread) in range(32 * role + lane, 32 * role + 32)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("cluster", [(2, 1), (2, 2), (4, 1)])
def test_ptxas_takes_them_without_a_remark(cluster: Cluster, turned: bool) -> None:
    half, full = tj.spec((1024, 1024), tj.float16), tj.spec((1024, 1024), tj.float32)
    compiled = kernel(product, 288, cluster).compile(half, half, full, 0, turned, 3, 128)
    assert notes_of(compiled.ptx, "sm_90a") == []


def ptx_of(cluster: Cluster | None, axis: int = 0) -> str:
    half, full = tj.spec((1024, 1024), tj.float16), tj.spec((1024, 1024), tj.float32)
    return kernel(product, 288, cluster).compile(half, half, full, axis, False, 3, 128).ptx


@pytest.mark.parametrize(("cluster", "axis"), [(None, 0), ((1, 1), 0), ((2, 1), 1)])
def test_along_an_axis_of_one_cta_all_is_as_without_a_cluster(cluster: Cluster | None, axis: int) -> None:
    ptx = ptx_of(cluster, axis)
    assert not re.findall(r"multicast|mapa|barrier\.cluster|%cluster", ptx)


@pytest.mark.parametrize(("cluster", "boxes", "others"), [((2, 1), 1, 1), ((2, 2), 1, 1), ((4, 1), 2, 3)])
def test_each_cta_copies_its_share_and_tells_all_others(cluster: Cluster, boxes: int, others: int) -> None:
    ptx = ptx_of(cluster)
    assert (ptx.count(".multicast::cluster"), ptx.count("mapa")) == (boxes, others)
    assert ("mov.b16" in ptx) == (cluster != (2, 2))  # the mask is known where all CTAs of the cluster are meant
    # 2 consumers of each CTA empty a stage
    assert re.search(rf"mov\.b32 \t%r\d+, {2 * (others + 1)};", ptx)
    assert ptx.count("barrier.cluster.arrive.relaxed") == ptx.count("barrier.cluster.arrive.release") == 1


def test_explain_lists_shares_and_the_ctas_that_a_release_reaches() -> None:
    half, full = tj.spec((1024, 1024), tj.float16), tj.spec((1024, 1024), tj.float32)
    explained = kernel(product, 288, (2, 1)).compile(half, half, full, 0, False, 3, 128).explain()
    widths = [row.width for row in explained.rows if row.variant == "tma_load"]
    assert widths == ["box 128 x 64, 128B", "box 64 x 64, 128B, to 2 CTAs, each copying a share"]
    (reached,) = [each for each in explained.inserted if "release" in each.reason]
    assert reached.instruction == "mbarrier.arrive.shared::cluster.b64" and reached.times == 1
    assert reached.reason == "a release arrives at ring.empty in all 2 CTAs along axis 0 of the cluster"
