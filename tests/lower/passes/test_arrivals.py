"""Arrivals as instructions: the threads that synchronise, and the thread that arrives."""

from __future__ import annotations

import pytest

from tests.support.programs import array, statements, tile_ir
from tilejit.dtypes import float16, int32
from tilejit.ir import nodes as ir
from tilejit.ir.text.printer import to_text
from tilejit.ir.verify import verify
from tilejit.lower import lower
from tilejit.lower.passes import arrivals, expects, fences
from tilejit.target import target


def expanded(*lines: str, threads: int) -> ir.Kernel:
    text = "def k(n):\n    b = tj.alloc_barrier()\n    many = tj.alloc_barrier(stages=4)\n"
    text += "    ring = tj.alloc_ring(3, 8)\n    x = tj.alloc_shared((1024,), tj.float32)\n"
    text += "".join(f"    {line}\n" for line in lines)
    made = arrivals.expand(lower(tile_ir(text, int32, threads=threads), target("sm_90a")).kernel)
    assert verify(made, "lane") == []
    return made


WROTE = "x[tj.thread_id()] = 1.0"


def syncs(*lines: str, threads: int = 256) -> list[str]:
    """The barriers before the arrivals of a kernel, including the kernel's own."""
    return [stmt.scope for stmt in statements(expanded(*lines, threads=threads).body, ir.Sync)]


@pytest.mark.parametrize(
    ("scope", "threads", "barriers", "leader"),
    [
        ("thread", 64, [], None),
        ("warp", 64, ["warp"], "leads"),
        ("warpgroup", 256, ["warpgroup"], "%warp_id % 4 == 0 and leads"),
        ("cta", 256, ["cta"], "%warp_id == 0 and leads"),
        ("cta", 48, ["cta"], "%thread_id == 0"),
    ],
)
def test_the_instance_synchronises_and_its_leader_arrives(
    scope: str, threads: int, barriers: list[str], leader: str | None
) -> None:
    made = expanded(WROTE, f"tj.{scope}.arrive(many[2])", threads=threads)
    assert [stmt.scope for stmt in statements(made.body, ir.Sync)] == barriers
    text = to_text(made).replace("leads.0", "leads")
    assert "instruction mbarrier.arrive <- many[2 +: 1]" in text
    assert leader is None or f"if {leader}\n" in text
    assert ("instruction elect" in text) == (leader is not None and "leads" in leader)


def test_a_number_of_bytes_goes_with_the_arrival() -> None:
    made = expanded("tj.warp.arrive(b)", threads=32)
    (alloc,) = (s for s in made.body if isinstance(s, ir.Alloc) and s.buffer.name == "b")
    place = ir.Vector(alloc.buffer, ir.Const(0, ir.Special("lane_id").dtype))
    announced = ir.Arrive(place, "warp", ir.Const(512, place.offset.dtype))
    kernel = ir.Kernel("k", (), 32, "sm_90a", (alloc, announced))
    assert "instruction mbarrier.arrive.expect_tx <- b[0 +: 1], 512" in to_text(arrivals.expand(kernel))


def test_threads_synchronise_after_acting_on_their_own() -> None:
    for act in (WROTE, "y = x[tj.thread_id()]", "tj.atomic.add(x[0], 1.0)", 'tj.fence("cta")'):
        for scope in ("warp", "warpgroup", "cta"):
            assert syncs(act, f"tj.{scope}.arrive(b)") == [scope], act
    # what they computed is visible to themselves only
    assert syncs("y = tj.alloc_local((4,), tj.float32)", "tj.thread.fill(y, n * 1.0)", "tj.warp.arrive(b)") == []


def test_threads_that_have_synchronised_since_need_not_do_so_again() -> None:
    arrive = "tj.warp.arrive(b)", "tj.warpgroup.arrive(b)", "tj.cta.arrive(b)"
    assert syncs(WROTE, "tj.cta_sync()", *arrive) == ["cta"]
    assert syncs(WROTE, "tj.warp_sync()", "tj.warp.arrive(b)", "tj.warpgroup.arrive(b)") == ["warp", "warpgroup"]
    assert syncs(WROTE, "tj.named_barrier(1, 256).sync()", "tj.warp.arrive(b)") == []
    assert syncs(WROTE, "tj.cta.arrive(b)", "tj.warp.arrive(b)", "tj.cta.arrive(b)") == ["cta"]


def test_several_warps_synchronise_after_a_wait_that_one_may_not_have_passed() -> None:
    assert syncs("ring[n].acquire()", "tj.warp.commit(ring[n])") == []
    assert syncs("b.wait(n)", "tj.warpgroup.arrive(b)") == ["warpgroup"]
    assert syncs("b.wait(n)", "tj.cta.arrive(b)") == ["cta"]
    assert syncs("b.wait(n)", "tj.cta_sync()", "tj.cta.arrive(b)") == ["cta"]
    # of a CTA whose last warp isn't whole, no lane is elected
    assert syncs("b.wait(n)", "if tj.warp_id() == 0:", "    tj.warp.arrive(b)", threads=48) == ["warp"]


def test_what_a_path_or_an_earlier_turn_did_counts() -> None:
    branch = ("if n > 3:", f"    {WROTE}", "tj.warp.arrive(b)")
    assert syncs(*branch) == ["warp"]
    assert syncs("for i in range(n):", "    tj.warp.arrive(b)", f"    {WROTE}") == ["warp"]
    assert syncs("for i in range(n):", "    tj.warp.arrive(b)", f"    {WROTE}", "    tj.cta_sync()") == ["cta"]
    assert syncs("while n > 3:", "    tj.warp.arrive(b)") == []


#: two warpgroups that multiply what a warp of a third one fetches
PRODUCT = """def k(A, B, n):
    ring = tj.alloc_ring({stages}, consumers={consumers})
    other = tj.alloc_ring(2, consumers=2)
    b = tj.alloc_barrier()
    x = tj.alloc_shared((2, 64, 64), tj.float16, swizzle="128B")
    y = tj.alloc_shared((64, 64), tj.float16, swizzle="128B")
    plain = tj.alloc_shared((384,), tj.float32)
    i = 0
    if tj.warpgroup_id() == 0:
        tj.set_registers(24)
        if tj.warp_id() == 0:
            for k in range(n):
                t = ring[i]
                {acquire}
                tj.warp.copy_async(x[0], A[0:64, 0:64], barrier=t)
                tj.warp.commit(t)
                i += 1
                u = other[k]
                u.acquire()
                tj.warp.copy_async(y, B[0:64, 0:64], barrier=u)
                tj.warp.commit(u)
    else:
        tj.set_registers(240)
        w = tj.warpgroup_id() - 1
        acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
        for k in range(n):
{lines}
        tj.wgmma.wait(0)
"""
WAIT, MULTIPLY, RELEASE = "ring[i].wait()", "tj.wg.gemm_async(acc, x[w], y, accumulate=k > 0)", "tj.wg.release(ring[i])"
RELEASE_LAST, NEXT = ("if k > 0:", "    tj.wg.release(ring[i - 1])"), "i += 1"


def in_product(
    *lines: str, stages: int = 4, consumers: int = 2, acquire: str = "t.acquire()", threads: int = 384
) -> list[str]:
    """The barriers before the arrivals of a kernel whose consumers run these lines in each iteration."""
    indented = "".join(f"            {line}\n" for line in lines)
    text = PRODUCT.format(lines=indented, stages=stages, consumers=consumers, acquire=acquire)
    made = tile_ir(text, array(float16, 2), array(float16, 2), int32, threads=threads)
    kernel = expects.lower_expects(lower(made, target("sm_90a")).kernel)
    kernel = arrivals.expand(fences.with_fences(kernel))
    assert verify(kernel, "lane") == []
    return [stmt.scope for stmt in statements(kernel.body, ir.Sync)]


def test_products_that_were_waited_for_tell_that_all_warps_passed_the_waits_before_them() -> None:
    assert in_product(WAIT, MULTIPLY, "tj.wgmma.wait(0)", RELEASE, NEXT) == []
    # the latest product may be unfinished, and it is the one after the wait
    assert in_product(WAIT, MULTIPLY, "tj.wgmma.wait(1)", RELEASE, NEXT) == ["warpgroup"]
    assert in_product(WAIT, MULTIPLY, MULTIPLY, "tj.wgmma.wait(1)", RELEASE, NEXT) == []
    assert in_product(MULTIPLY, WAIT, "tj.wgmma.wait(0)", RELEASE, NEXT) == ["warpgroup"]
    assert in_product(WAIT, "if k > 3:", f"    {MULTIPLY}", "tj.wgmma.wait(0)", RELEASE, NEXT) == ["warpgroup"]
    # so it is with any barrier
    assert in_product("b.wait(k)", MULTIPLY, "tj.wgmma.wait(0)", "tj.wg.arrive(b)") == []


def test_products_are_no_excuse_for_what_threads_did_on_their_own() -> None:
    for act in ("plain[tj.thread_id()] = 1.0", "z = plain[tj.thread_id()]", "z = A[0, tj.thread_id() % 64]"):
        assert in_product(WAIT, MULTIPLY, "tj.wgmma.wait(0)", act, RELEASE, NEXT) == ["warpgroup"], act
        assert in_product(WAIT, act, MULTIPLY, "tj.wgmma.wait(0)", RELEASE, NEXT) == ["warpgroup"], act
        assert in_product(
            act, "tj.warpgroup_sync()", WAIT, MULTIPLY, "tj.wgmma.wait(0)", RELEASE, NEXT
        ) == ["warpgroup"], f"the user's own after {act}"


def test_a_warp_at_a_wait_for_another_stage_is_not_overtaken() -> None:
    loop = (WAIT, MULTIPLY, "tj.wgmma.wait(1)", *RELEASE_LAST, NEXT)
    for stages in (2, 3, 4, 5):
        assert in_product(*loop, stages=stages) == [], stages
    # of the same stage, and of one that isn't known
    assert in_product(*loop, stages=1) == ["warpgroup"]
    assert in_product(*loop[:3], "if k > 3:", "    tj.wg.release(ring[i - 4])", NEXT) == ["warpgroup"]
    assert in_product(*loop[:3], "if k > 0:", "    tj.wg.release(ring[k - 1])", NEXT) == ["warpgroup"]
    # the counter has changed since the wait
    assert in_product(WAIT, NEXT, MULTIPLY, "tj.wgmma.wait(1)", "tj.wg.release(ring[i - 1])") == ["warpgroup"]
    assert in_product(*loop[:3], "if k > 5:", "    tj.wg.release(ring[i - 6])", NEXT, stages=3) == ["warpgroup"]
    assert in_product(*loop[:3], "if k > 5:", "    tj.wg.release(ring[i - 5])", NEXT, stages=3) == []
    # a stage of an earlier turn is another one by now
    assert in_product(WAIT, MULTIPLY, "tj.wgmma.wait(2)", *RELEASE_LAST, NEXT) == ["warpgroup"]
    # nor is a warp at a wait for another ring
    assert in_product(
        WAIT, MULTIPLY, "other[k].wait()", MULTIPLY, "tj.wgmma.wait(1)", RELEASE, "tj.wgmma.wait(0)",
        "tj.wg.release(other[k])", NEXT,
    ) == []
    assert in_product("b.wait(k)", MULTIPLY, "tj.wgmma.wait(1)", RELEASE, NEXT) == ["warpgroup"]


def test_a_ring_whose_stages_wrap_without_all_consumers_prevents_no_overtaking() -> None:
    loop = (WAIT, MULTIPLY, "tj.wgmma.wait(1)", *RELEASE_LAST, NEXT)
    assert in_product(*loop, acquire="pass") == ["warpgroup"]
    assert in_product(*loop, acquire="ring[i + 1].acquire()") == ["warpgroup"]
    assert in_product(*loop, acquire="if k > 3:\n                    t.acquire()") == ["warpgroup"]
    # it is committed once more without a wait, or waited for by one who doesn't release it
    again = "t.acquire()\n                tj.warp.commit(t)"
    assert in_product(*loop, acquire=again) == ["warpgroup"]
    assert in_product(*loop, acquire="t.acquire()\n                t.wait()") == ["warpgroup"]
    # each releases it twice
    assert in_product(*loop[:3], *RELEASE_LAST, RELEASE_LAST[1], NEXT, consumers=4) == ["warpgroup"]


@pytest.mark.parametrize("scope", ["warpgroup", "cta"])
def test_copies_of_another_warp_than_the_leaders_come_before_the_arrival(scope: str) -> None:
    load = "tj.warp.copy_async(x, A[0:64, 0:64], barrier=b)"
    store = "tj.warp.copy_async(A[0:64, 0:64], x); tj.bulk.wait_read(0)"
    for copy in (load, store, "tj.thread.arrive(b); b.expect(16)"):
        for warp, barriers in ((0, []), (2, [scope])):
            text = f"""def k(A):
    x, b, c = tj.alloc_shared((64, 64), A.dtype), tj.alloc_barrier(), tj.alloc_barrier()
    if tj.warp_id() == {warp}:
        {copy}
    tj.{scope}.arrive(c)
"""
            made = lower(tile_ir(text, array(float16, 2), threads=128), target("sm_90a")).kernel
            kernel = arrivals.expand(fences.with_fences(expects.lower_expects(made)))
            assert [stmt.scope for stmt in statements(kernel.body, ir.Sync)] == barriers, (copy, warp)


def test_a_warpgroup_that_waits_and_stores_by_tma_synchronises_before_it_releases() -> None:
    store = "tj.wg.copy_async(B[0:64, 0:64], x[0])", "tj.bulk.wait_read(0)"
    assert in_product(WAIT, *store, RELEASE, NEXT) == ["warpgroup"]
    assert in_product(WAIT, MULTIPLY, "tj.wgmma.wait(0)", *store, RELEASE, NEXT) == []


def test_the_leaders_own_warp_may_wait_for_what_it_likes() -> None:
    def loop(who: str) -> tuple[str, ...]:
        return (WAIT, MULTIPLY, "tj.wgmma.wait(0)", f"if {who}:", "    b.wait(k)", RELEASE, NEXT)

    assert in_product(*loop("tj.warp_id() == 4")) == []
    assert in_product(*loop("tj.warp_id() % 4 == 0 and n > 7")) == []
    assert in_product(*loop("tj.warp_id() == 5")) == ["warpgroup"]
    assert in_product(*loop("tj.warp_id() == 4 or n > 7")) == ["warpgroup"]
