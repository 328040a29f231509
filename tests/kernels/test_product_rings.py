"""Products of warpgroups whose factors come through a ring: when stages become free, and which threads synchronize."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import tilejit as tj
from tests.mutations.edits import run_edited
from tests.support.programs import source_of
from tests.support.ptxas import notes_of

M, N, K, STAGES = 128, 64, 64, 3
STEPS = 8


@tj.function
def fetch(a: tj.Tile, b: tj.Tile, A: tj.Tensor, B: tj.Tensor, ring: object, k: int) -> None:
    """Step k of both factors."""
    t = ring[k]
    t.acquire()
    tj.warp.copy_async(a[t.stage], A.tile((M, K), (0, k)), barrier=t)
    tj.warp.copy_async(b[t.stage], B.tile((K, N), (k, 0)), barrier=t)
    tj.warp.commit(t)


@tj.kernel(threads=384)
def roles(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor) -> None:
    a = tj.alloc_shared((STAGES, M, K), A.dtype, swizzle="128B")
    b = tj.alloc_shared((STAGES, K, N), B.dtype, swizzle="128B")
    ring = tj.alloc_ring(STAGES, consumers=2)
    steps = tj.cdiv(A.shape[1], K)
    i = 0
    if tj.warpgroup_id() == 0:
        tj.set_registers(24)
        if tj.warp_id() == 0:
            for k in range(steps):
                fetch(a, b, A, B, ring, k)
    else:
        tj.set_registers(240)
        w = tj.warpgroup_id() - 1
        acc = tj.alloc_local((64, N), tj.float32, layout=tj.wgmma.layout_c((64, N)))
        for k in range(steps):
            ring[i].wait()
            tj.wg.gemm_async(acc, a[ring[i].stage, w * 64 : w * 64 + 64, :], b[ring[i].stage], accumulate=k > 0)
            tj.wgmma.wait(1)
            if k > 0:
                tj.wg.release(ring[i - 1])
            i += 1
        tj.wgmma.wait(0)
        tj.wg.copy(C[w * 64 : w * 64 + 64, 0:N], acc)


@tj.kernel(threads=256)
def all_multiply(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor) -> None:
    a = tj.alloc_shared((STAGES, M, K), A.dtype, swizzle="128B")
    b = tj.alloc_shared((STAGES, K, N), B.dtype, swizzle="128B")
    ring = tj.alloc_ring(STAGES, consumers=2)
    steps = tj.cdiv(A.shape[1], K)
    w = tj.warpgroup_id()
    acc = tj.alloc_local((64, N), tj.float32, layout=tj.wgmma.layout_c((64, N)))
    if tj.warp_id() == 0:
        for k in range(min(STAGES - 1, steps)):
            fetch(a, b, A, B, ring, k)
    i = 0
    for k in range(steps):
        ring[i].wait()
        tj.wg.gemm_async(acc, a[ring[i].stage, w * 64 : w * 64 + 64, :], b[ring[i].stage], accumulate=k > 0)
        tj.wgmma.wait(1)
        if k > 0:
            tj.wg.release(ring[i - 1])
        if tj.warp_id() == 0 and i + STAGES - 1 < steps:
            fetch(a, b, A, B, ring, i + STAGES - 1)
        i += 1  # noqa: SIM113
    tj.wgmma.wait(0)
    tj.wg.copy(C[w * 64 : w * 64 + 64, 0:N], acc)


BOTH = pytest.mark.parametrize("kernel", [roles, all_multiply], ids=["roles", "all_multiply"])


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(STEPS)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((M, K * STEPS), (K * STEPS, N)))
    return a, b, np.zeros((M, N), np.float32)


@BOTH
def test_a_product_through_a_ring(kernel: tj.Kernel) -> None:
    for schedule, delivery in enumerate(("late", "early", "random:1")):
        a, b, c = arrays()
        tj.simulate(kernel, 1, a, b, c, schedule=schedule, delivery=delivery)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@BOTH
def test_no_threads_synchronize_between_steps(kernel: tj.Kernel) -> None:
    ptx = kernel.compile(*arrays(), target="sm_90a").ptx
    # where the ring is made, all threads wait for that
    assert re.findall(r"\bbar(?:rier)?\.[^;]*;", ptx) == ["bar.sync 0;"]
    assert notes_of(ptx, "sm_90a") == []


def test_a_leader_that_isnt_elected_may_come_ahead_of_its_warp() -> None:
    def first_lane(ptx: str) -> str:
        first = r"{ .reg .b32 l; mov.u32 l, %laneid; setp.eq.u32 \1, l, 0; }"
        return re.sub(r"elect\.sync _\|(%p\d+), -1;", first, ptx)

    with pytest.raises(tj.AsyncHazardError, match=r"30 more passed the wait(.|\n)*a late waiter would hang"):
        run_edited(roles, first_lane, 1, arrays(), 384)


@tj.kernel(threads=128)
def any_depth(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor) -> None:
    a = tj.alloc_shared((STAGES, 64, K), A.dtype, swizzle="128B")
    b = tj.alloc_shared((STAGES, K, N), B.dtype, swizzle="128B")
    ring = tj.alloc_ring(STAGES)
    acc = tj.alloc_local((64, N), tj.float32, layout=tj.wgmma.layout_c((64, N)))
    steps = tj.cdiv(A.shape[1], K)
    i = 0
    for row in range(tj.cdiv(C.shape[0], 64)):
        for k in range(steps):
            t = ring[i]
            if tj.warp_id() == 0:
                t.acquire()
                tj.warp.copy_async(a[t.stage], A.tile((64, K), (row, k)), barrier=t)
                tj.warp.copy_async(b[t.stage], B.tile((K, N), (k, 0)), barrier=t)
                tj.warp.commit(t)
            t.wait()
            tj.wg.gemm_async(acc, a[t.stage], b[t.stage], accumulate=k > 0)
            tj.wgmma.wait(1)
            if k > 0:
                tj.wg.release(ring[i - 1])
            i += 1
        if steps > 0:
            tj.wgmma.wait(0)
            tj.wg.release(ring[i - 1])
        else:
            tj.wg.fill(acc, 0)
        tj.wg.copy(C.tile((64, N), (row, 0)), acc)


@pytest.mark.parametrize("depth", [0, 1, 2, 5])
def test_products_are_waited_for_where_the_loop_has_turns(depth: int) -> None:
    rng = np.random.default_rng(depth)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((M, K * depth), (K * depth, N)))
    c = np.ones((M, N), np.float32)
    tj.simulate(any_depth, 1, a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


WAITED = """        if steps > 0:
            tj.wgmma.wait(0)
            tj.wg.release(ring[i - 1])
        else:
            tj.wg.fill(acc, 0)
"""
AHEAD = """        if {}:
            tj.wg.fill(C.tile((64, N), (row, 0)), 0)
            {}
        tj.wgmma.wait(0)
        tj.wg.release(ring[i - 1])
"""


def with_exit(condition: str, jump: str) -> tj.Kernel:
    """`any_depth` that leaves ahead of the wait."""
    text = inspect.getsource(any_depth)
    assert WAITED in text
    text = text[text.index("def any_depth") :].replace(WAITED, AHEAD.format(condition, jump))
    return tj.kernel(threads=128)(source_of(text, N=N, K=K, STAGES=STAGES))


@pytest.mark.parametrize("condition", ["steps == 0", "steps < 1", "not steps > 0"])
def test_a_path_may_leave_before_the_wait_where_the_loop_has_no_iterations(condition: str) -> None:
    kernel = with_exit(condition, "continue")
    for depth in (0, 1):
        rng = np.random.default_rng(depth)
        a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((M, K * depth), (K * depth, N)))
        c = np.ones((M, N), np.float32)
        tj.simulate(kernel, 1, a, b, c)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    with_exit(condition, "return").compile(*arrays(), target="sm_90a")


@pytest.mark.parametrize("jump", ["continue", "return"])
@pytest.mark.parametrize("condition", ["steps == 1", "steps > 0", "steps < 2", "i == 0", "C.shape[0] == 0"])
def test_where_it_may_have_had_turns_no_path_leaves_ahead_of_the_wait(condition: str, jump: str) -> None:
    with pytest.raises(tj.KernelTypeError, match="acc isn't waited for on every path: the kernel may end"):
        with_exit(condition, jump).compile(*arrays(), target="sm_90a")


def test_ptxas_sees_a_wait_on_every_path() -> None:
    for kernel in (any_depth, with_exit("steps == 0", "continue"), with_exit("steps == 0", "return")):
        assert notes_of(kernel.compile(*arrays(), target="sm_90a").ptx, "sm_90a") == []
