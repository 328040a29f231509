"""Clusters of CTAs: special registers, addresses, barriers, arrivals at and copies to peers, and bugs of each."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.simulator.cluster_kernels import ENTRY, EXIT, FENCE, READS_DONE, ROWS, SHARE, ClusterRing, module, play
from tests.simulator.ring_kernels import wait
from tests.simulator.small_kernels import aligned, pointer
from tilejit.errors import (
    AsyncHazardError,
    DeadlockError,
    DivergenceError,
    LaunchError,
    OutOfBoundsError,
    RaceError,
    SimulationError,
    UnsupportedInstructionError,
)
from tilejit.simulator import run

PAIR = (2, 1, 1)
UNORDERED = "is used without being ordered after its initialization"
EXITS = "exits without being ordered after the arrival at its mbarrier by thread 32"
SHAPES = [(2, 1, 1), (1, 2, 1), (2, 2, 1), (1, 1, 2), (2, 1, 2), (1, 1, 1), None]
REGISTERS = [
    *(f"%{name}.{axis}" for name in ("ctaid", "cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid")
      for axis in "xyz"),
    "%cluster_ctarank", "%cluster_nctarank",
]
ORDERS = [(0, "late"), (1, "early"), (2, "random:1"), (3, "random:2")]


def launch(body, out, *, cluster=PAIR, grid=(2,), block=64, **options):
    text = module(f"ld.param.u64 %x1, [out];\n{body}\nret;", ".param .u64 out", cluster)
    return run(text, "k", grid, (block,), [pointer(out, "out")], **options)


# special registers


@pytest.mark.parametrize("cluster", SHAPES, ids=str)
@pytest.mark.parametrize("block", [32, 1024])
def test_special_registers_say_where_a_cta_is(cluster, block):
    grid = (4, 4, 2)
    count = len(REGISTERS) + 1
    out = np.zeros((2, 4, 4, count), np.uint32)
    stores = "".join(f"mov.u32 %r9, {name}; st.global.u32 [%x3+{4 * i}], %r9;\n" for i, name in enumerate(REGISTERS))
    body = f"""
mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE;
mov.u32 %r2, %ctaid.z; mov.u32 %r3, %ctaid.y; mov.u32 %r4, %ctaid.x;
mad.lo.u32 %r2, %r2, 4, %r3; mad.lo.u32 %r2, %r2, 4, %r4; mul.wide.u32 %x2, %r2, {4 * count}; add.u64 %x3, %x1, %x2;
{stores}mov.pred %p2, %is_explicit_cluster; selp.u32 %r9, 1, 0, %p2; st.global.u32 [%x3+{4 * count - 4}], %r9;
DONE:"""
    launch(body, out, cluster=cluster, grid=grid, block=block)
    of = cluster or (1, 1, 1)
    for z, y, x in np.ndindex(2, 4, 4):
        at = (x, y, z)
        inside, outside = [a % b for a, b in zip(at, of, strict=True)], [a // b for a, b in zip(at, of, strict=True)]
        clusters = [a // b for a, b in zip(grid, of, strict=True)]
        rank = inside[0] + of[0] * (inside[1] + of[1] * inside[2])
        size = of[0] * of[1] * of[2]
        assert out[z, y, x].tolist() == [*at, *inside, *of, *outside, *clusters, rank, size, cluster is not None]


@pytest.mark.parametrize(("grid", "cluster", "message"), [
    ((3,), (2, 1, 1), r"grid \(3, 1, 1\) must consist of whole clusters of \(2, 1, 1\) CTAs"),
    ((4, 3), (2, 2, 1), "must consist of whole clusters"), ((34,), (17, 1, 1), "has 1 to 16 CTAs"),
    ((2,), (0, 1, 1), "has 1 to 16 CTAs"),
])
def test_a_grid_is_whole_clusters(grid, cluster, message):
    with pytest.raises(LaunchError, match=message):
        launch("", np.zeros(1, np.uint32), cluster=cluster, grid=grid)


def test_a_grid_is_not_counted_in_clusters():
    text = module("ret;", "", PAIR).replace(".reqnctapercluster", ".blocksareclusters .reqnctapercluster")
    with pytest.raises(UnsupportedInstructionError, match="blocksareclusters"):
        run(text, "k", (2,), (32,), [])


def test_threads_are_named_by_their_place_in_the_grid():
    with pytest.raises(OutOfBoundsError) as caught:
        launch("mov.u32 %r1, %clusterid.y; setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE;\n"
               "mov.u32 %r1, %cluster_ctarank; setp.ne.u32 %p1, %r1, 2; @%p1 bra DONE;\n"
               "ld.global.u32 %r2, [%x1+4]; DONE:", np.zeros(1, np.uint32), cluster=(2, 2, 1), grid=(2, 4), block=32)
    assert "of CTA (0, 3, 0)" in str(caught.value)
    assert caught.value.threads[0] == 6 * 32


# addresses


def test_addresses_have_the_rank_of_their_cta():
    out = np.zeros((4, 5), np.uint32)
    launch("""
mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE;
mov.u32 %r2, %ctaid.x; mul.wide.u32 %x2, %r2, 20; add.u64 %x3, %x1, %x2;
mov.u32 %r3, sm; mov.u32 %r4, %cluster_ctarank; xor.b32 %r5, %r4, 1;
mapa.shared::cluster.u32 %r6, %r3, %r5; mapa.shared::cluster.u32 %r7, %r3, %r4; getctarank.shared::cluster.u32 %r8, %r6;
st.global.u32 [%x3], %r3; st.global.u32 [%x3+4], %r6; st.global.u32 [%x3+8], %r7; st.global.u32 [%x3+12], %r8;
mov.u64 %x4, sm; cvta.shared.u64 %x4, %x4; st.u32 [%x4+8], %r2; ld.shared.u32 %r9, [%r3+8]; ld.u32 %r10, [%x4+8];
ld.shared.u32 %r11, [sm+8]; add.u32 %r9, %r9, %r10; add.u32 %r9, %r9, %r11; st.global.u32 [%x3+16], %r9;
mapa.u64 %x5, %x4, %r5; getctarank.u64 %r12, %x5; setp.eq.u32 %p2, %r12, %r5; @!%p2 trap; DONE:""", out, grid=(4,))
    assert (out[:, 0] == out[:, 2]).all()
    assert (out[:, 0] >> 24).tolist() == [0, 1, 0, 1]
    assert (out[:, 1] ^ out[:, 0] == 1 << 24).all()
    assert out[:, 3].tolist() == [1, 0, 1, 0]
    assert out[:, 4].tolist() == [0, 3, 6, 9]


@pytest.mark.parametrize("access", ["ld.shared.u32 %r6, [%r4+8]", "st.shared.u32 [%r4+8], %r6"])
def test_loads_and_stores_reach_only_their_own_cta(access):
    body = "mov.u32 %r3, sm; mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1; mov.u32 %r6, 0;"
    with pytest.raises(OutOfBoundsError, match=r"0x1000408: it is in the CTA of rank 1 of the cluster"):
        launch(f"{body} mapa.shared::cluster.u32 %r4, %r3, %r5; {access};", np.zeros(1, np.uint32))


@pytest.mark.parametrize("use", ["ld.shared::cluster.u32 %r5, [%r4]", "mbarrier.arrive.shared::cluster.b64 _, [%r4]"])
@pytest.mark.parametrize("rank", [2, 256, -1])
def test_there_are_as_many_ranks_as_ctas(use, rank):
    """A compiler may move a mapa before the branch that makes sure that the rank exists."""
    body = f"mov.u32 %r3, sm; mapa.shared::cluster.u32 %r4, %r3, {rank};"
    launch(body, np.zeros(1, np.uint32))
    with pytest.raises(OutOfBoundsError, match="out of bounds at shared address 0xff000400"):
        launch(f"{body} {use};", np.zeros(1, np.uint32))


# the barrier

SWAP = """
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1; xor.b32 %r4, %r3, 64;
mul.wide.u32 %x2, %r3, 4; add.u64 %x2, %x2, %x1; mul.wide.u32 %x3, %r4, 4; add.u64 %x3, %x3, %x1;
st.global.u32 [%x2], %r3;
{sync}
ld.global.u32 %r5, [%x3];
{sync}
st.global.u32 [%x2], %r5;
"""
SYNC = "barrier.cluster.arrive{sem};\nbarrier.cluster.wait{acquire};"


def swapped(sync, **options):
    out = np.zeros((4, 64), np.uint32)
    launch(SWAP.format(sync=sync), out, grid=(4,), **options)
    return out


@pytest.mark.parametrize(("seed", "delivery"), ORDERS)
def test_a_cluster_synchronizes(seed, delivery):
    for sem, acquire in (("", ""), (".release", ".acquire"), (".aligned", ".aligned"), (".release.aligned", "")):
        out = swapped(SYNC.format(sem=sem, acquire=acquire), schedule=seed, delivery=delivery)
        assert np.array_equal(out.reshape(-1), np.arange(256) ^ 64)


def test_a_barrier_orders_the_own_cta_too():
    body = "mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, sm; add.u32 %r4, %r3, %r2; xor.b32 %r2, %r2, 128;" \
           "add.u32 %r5, %r3, %r2; st.shared.u32 [%r4], %r1;\n{}\nld.shared.u32 %r6, [%r5];"
    out = np.zeros(1, np.uint32)
    launch(body.format(SYNC.format(sem="", acquire="")), out, schedule=1)
    with pytest.raises(RaceError):
        launch(body.format(SYNC.format(sem=".relaxed", acquire="")), out)


@pytest.mark.parametrize("sync", [SYNC.format(sem=".relaxed", acquire=""), "bar.sync 0;"])
def test_what_releases_nothing_orders_nothing(sync):
    with pytest.raises(RaceError, match="race in global memory"):
        swapped(sync)


def test_threads_that_have_exited_are_not_waited_for():
    body = "mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; setp.eq.u32 %p1, %r2, 0;" \
           f"setp.lt.and.u32 %p2, %r1, 32, %p1; @%p2 bra DONE;\n{SYNC.format(sem='', acquire='')}\nDONE:"
    for seed in range(4):
        launch(body, np.zeros(1, np.uint32), schedule=seed)


@pytest.mark.parametrize(("body", "message"), [
    ("barrier.cluster.wait;", "waited at the cluster barrier without having arrived"),
    ("barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.wait;", "arrived at the cluster barrier again"),
    ("barrier.cluster.arrive; barrier.cluster.wait; barrier.cluster.wait;", "without having arrived"),
])
def test_threads_arrive_and_wait_in_turn(body, message):
    with pytest.raises(AsyncHazardError, match=message):
        launch(body, np.zeros(1, np.uint32))


def test_an_aligned_barrier_needs_whole_warps():
    body = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE;\nbarrier.cluster.arrive{0}; " \
           "barrier.cluster.wait{0};\nDONE:"
    launch(body.format(""), np.zeros(1, np.uint32))
    with pytest.raises(DivergenceError):
        launch(body.format(".aligned"), np.zeros(1, np.uint32))


def test_a_deadlock_names_the_barrier_and_the_warps_that_it_misses():
    body = f"""
mov.u32 %r1, %tid.x; mov.u32 %r3, sm; mov.u32 %r10, 0; mov.u32 %r4, %cluster_ctarank;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [%r3], 1; READY: bar.sync 0;
setp.ne.u32 %p2, %r4, 1; @%p2 bra SYNC; setp.lt.u32 %p3, %r1, 32; @%p3 bra SYNC;
{wait("W", "%r3", "%r10")}SYNC: {SYNC.format(sem="", acquire="")}"""
    with pytest.raises(DeadlockError) as caught:
        launch(body, np.zeros(1, np.uint32), grid=(4,))
    text = str(caught.value)
    waiting = r"warpgroup 0 of CTA \(0, 0, 0\) waits at the cluster barrier\n  PTX line \d+: barrier.cluster.wait"
    assert re.search(waiting, text)
    assert "missing: warp 1 of CTA (1, 0, 0)" in text
    assert "warp 1 of CTA (1, 0, 0) waits for phase 0 of mbarrier sm+0" in text
    assert "threads of 1 more cluster also wait at the cluster barrier\n" in text


# arrivals

ARRIVE = """
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.u32 %r5, %cluster_ctarank; xor.b32 %r6, %r5, 1; mov.u32 %r10, 0;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [%r2], {count}; {fence}
READY: bar.sync 0; {sync}
mul.wide.u32 %x2, %r5, 4; add.u64 %x2, %x2, %x1; mul.wide.u32 %x3, %r6, 4; add.u64 %x3, %x3, %x1;
@%p1 bra WAIT; st.global.u32 [%x2], %r5; mapa.shared::cluster.u32 %r7, %r2, %r6; {arrive}
WAIT: {wait}
{then}
"""
RELAXED, RELEASED = ENTRY, ENTRY.replace(".relaxed", "")
PLAIN = "mbarrier.arrive.shared::cluster.b64 _, [%r7];"


def arrived(arrive=PLAIN, count=1, fence=FENCE, sync=RELAXED, then="", scope="", out=None, **options):
    waits = wait("W", "%r2", "%r10").replace(".parity", f".parity{scope}")
    values = {"arrive": arrive, "count": count, "fence": fence, "sync": sync, "wait": waits, "then": then}
    launch(ARRIVE.format(**values), np.zeros(2, np.uint32) if out is None else out, **options)


@pytest.mark.parametrize(("seed", "delivery"), ORDERS)
def test_a_cta_that_knows_of_the_arrivals_may_exit(seed, delivery):
    arrived(schedule=seed, delivery=delivery)
    arrived(fence="", sync=RELEASED, schedule=seed)
    arrived(f"{PLAIN}\nmov.u32 %r3, %r2; mapa.shared::cluster.u32 %r7, %r3, %r5; {PLAIN}", 2, schedule=seed)


@pytest.mark.parametrize(("fence", "sync"), [("", RELAXED), (FENCE, ""), ("fence.proxy.async;", RELAXED)])
@pytest.mark.parametrize(("seed", "delivery"), ORDERS)
def test_a_peer_must_know_that_the_barrier_is_there(fence, sync, seed, delivery):
    with pytest.raises((RaceError, AsyncHazardError), match=f"{UNORDERED}|not initialized"):
        arrived(fence=fence, sync=sync, schedule=seed, delivery=delivery)


def test_arrivals_at_peers_count_as_others():
    arrived("mbarrier.arrive.shared::cluster.b64 _, [%r7], 3;", 3)
    arrived("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r7];")
    arrived("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r7], 0;")
    with pytest.raises(AsyncHazardError, match="more arrivals than the 1 of phase 0|is in phase"):
        arrived(f"mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%r7], 16; {PLAIN}")
    with pytest.raises(DeadlockError, match=r"1 of 2 arrivals\n  thread 0 .* of CTA \(1, 0, 0\) arrived"):
        arrived(count=2)
    for wrong in (PLAIN.replace("_,", "%x5,"), PLAIN.replace("arrive.", "arrive.noComplete.").replace("]", "], 1")):
        with pytest.raises(UnsupportedInstructionError, match="arrival with .shared::cluster"):
            arrived(wrong)


def test_arrivals_at_the_scope_of_the_cluster_order_ordinary_accesses():
    then, wide = "ld.global.u32 %r8, [%x3];", PLAIN.replace("arrive", "arrive.release.cluster")
    for seed in range(4):
        arrived(wide, then=then, scope=".acquire.cluster", schedule=seed)
    for arrive, scope in ((PLAIN, ".acquire.cluster"), (wide, ""), (wide, ".acquire.cta"), (wide, ".relaxed.cluster")):
        with pytest.raises(RaceError, match="race in global memory"):
            arrived(arrive, then=then, scope=scope)


def test_what_copies_have_stored_to_global_memory_takes_the_scope_of_the_cluster():
    store = "add.u32 %r11, %r2, 16; mov.u32 %r12, 7; st.shared.u32 [%r11], %r12; st.shared.u32 [%r11+4], %r12;" \
            "st.shared.v2.u32 [%r11+8], {%r12, %r12}; fence.proxy.async;" \
            "mul.wide.u32 %x4, %r5, 16; add.u64 %x4, %x4, %x1;" \
            f"cp.async.bulk.global.shared::cta.bulk_group [%x4+16], [%r11], 16;\n{READS_DONE.replace('.read', '')}"
    then = "mul.wide.u32 %x5, %r6, 16; add.u64 %x5, %x5, %x1; ld.global.u32 %r8, [%x5+16];"
    out = aligned(np.zeros(12, np.uint32))
    wide = PLAIN.replace("arrive", "arrive.release.cluster")
    arrived(store + wide, then=then, scope=".acquire.cluster", out=out)
    assert out[4:].tolist() == [7] * 8
    for arrive, scope in ((PLAIN, ".acquire.cluster"), (wide, "")):
        with pytest.raises(AsyncHazardError, match="reads 4 bytes at out"):
            arrived(store + arrive, then=then, scope=scope, out=out)


@pytest.mark.parametrize("seed", range(4))
def test_no_thread_arrives_at_a_cta_that_has_exited(seed):
    with pytest.raises(AsyncHazardError, match=f"which has exited, receives an arrival|{EXITS.replace('32', '0')}"):
        arrived(sync=RELAXED + "setp.eq.u32 %p4, %r5, 1; @%p4 ret;", schedule=seed)


TO_BOTH = "".join(
    f"mapa.shared::cluster.u32 %r7, %r2, {rank}; mbarrier.arrive.shared::cluster.b64 _, [%r7];\n" for rank in range(2)
)
#: arrivals of a phase, and what warps 0 and 1 of each CTA do in each of three steps
RIGHT_ARRIVALS = {
    "each CTA waits": (2, TO_BOTH + wait("W0", "%r2", "%r10"), ""),
    "all warps wait": (4, TO_BOTH + wait("W0", "%r2", "%r10"), TO_BOTH + wait("W1", "%r2", "%r10")),
}
WRONG_ARRIVALS = {
    "no warp waits": (2, TO_BOTH, ""),
    "one of two warps doesn't wait": (4, TO_BOTH + wait("W0", "%r2", "%r10"), TO_BOTH),
    "one of two CTAs doesn't wait": (
        2, f"{TO_BOTH}setp.eq.u32 %p3, %r5, 0; @%p3 bra NEXT;\n" + wait("W0", "%r2", "%r10") + "NEXT:\n", ""),
}


def arrivals_at_both(count, first, second, **options):
    """Thread 0 of each of two warps arrives at the barriers of both CTAs, step after step."""
    def steps(label, body):
        return f"{label}: {body}add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, 3; @%p4 bra {label};\n"

    body = f"""
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.u32 %r5, %cluster_ctarank; mov.u32 %r10, 0;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [%r2], {count}; {FENCE}
READY: bar.sync 0; {ENTRY}
and.b32 %r3, %r1, 31; setp.ne.u32 %p1, %r3, 0; @%p1 bra DONE; setp.ge.u32 %p2, %r1, 32; @%p2 bra SECOND;
{steps("FIRST", first)}bra DONE;
SECOND: {steps("AGAIN", second)}
DONE: {EXIT.replace(".relaxed", "")}"""
    launch(body, np.zeros(1, np.uint32), **options)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", RIGHT_ARRIVALS)
def test_arrivals_at_several_ctas_count_as_one(name, seed):
    arrivals_at_both(*RIGHT_ARRIVALS[name], schedule=seed)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", WRONG_ARRIVALS)
def test_an_arrival_at_several_ctas_that_may_come_a_phase_early_is_reported(name, seed):
    with pytest.raises(AsyncHazardError, match=r"the arrival of .* at mbarrier sm\+0\n(.|\n)*isn't ordered after"):
        arrivals_at_both(*WRONG_ARRIVALS[name], schedule=seed)


# rings

RINGS = [
    ClusterRing(), ClusterRing(ordinary=True), ClusterRing((2, 2, 1), 3, steps=4), ClusterRing((1, 2, 1), 1, steps=4),
    ClusterRing((1, 1, 1)), ClusterRing((4, 1, 1), 1, steps=3, ordinary=True),
]


@pytest.mark.parametrize("ring", RINGS, ids=str)
@pytest.mark.parametrize(("seed", "delivery"), ORDERS)
def test_rings_are_right_in_every_order(ring, seed, delivery):
    play(ring, ring.text(), schedule=seed, delivery=delivery)
    play(ring, ring.text(), (1, 1, 1), schedule=seed, delivery=delivery, checks=False)


RING, LOADS = ClusterRing(), ClusterRing(ordinary=True)
MASK = "mov.u16 %h1, 3;"
PEER = "xor.b32 %r40, %r5, 1; add.u32 %r40, %r40, 1; cvt.u16.u32 %h1, %r40;"
TO_ITSELF = "mbarrier.arrive.shared::cta.b64 _, [%r14];\n"
TO_PEER = "xor.b32 %r40, %r5, 1; mapa.shared::cluster.u32 %r30, %r14, %r40;" \
          "mbarrier.arrive.shared::cluster.b64 _, [%r30];\n"
FEWER = "sub.u32 %r41, 7, %r5;\nCONSUME: setp.ge.u32 %p3, %r10, %r41;"
ONE_LEAVES = ENTRY + "setp.eq.u32 %p20, %r5, 1; @%p20 ret;\n"
NOT_THERE = "which is not initialized there"
READ = r"TMA load that writes(.|\n)*and thread \d+ .* read it"
HAZARDS = AsyncHazardError, RaceError
OTHER_REGIONS = r"name different regions: thread 0 .* of CTA \((\d), .* copies src from \((\d+), (\d+)\) on to " \
                r"stages\+(\d+) bytes, .*\n  PTX line \d+: cp.async.bulk.*\nand thread 0 .* of CTA \((?!\1)\d, " \
                r".* copies src from \((?!\2, \3)\d+, \d+\) on to stages\+\4 bytes"
#: name → ring, what becomes what in its text, the error, and what its message says
MUTATIONS = {
    "no fence after the initialization": (
        RING, FENCE, "", HAZARDS, f"without a fence.mbarrier_init by the thread|{UNORDERED}"),
    "no barrier at the entry": (RING, ENTRY, "", HAZARDS, f"of CTA .* {UNORDERED}|{NOT_THERE}"),
    "no wait at the entry": (
        RING, "barrier.cluster.wait.acquire.aligned;", "", HAZARDS,
        f"{UNORDERED}|{NOT_THERE}|arrived at the cluster barrier again"),
    "a mask without the own bit": (RING, MASK, PEER, DeadlockError, "1,024 bytes missing; no operation"),
    "a mask of the own bit": (RING, MASK, "mov.u16 %h1, 1; shl.b16 %h1, %h1, %r5;", DeadlockError, "024 bytes missing"),
    "a mask of a CTA that isn't there": (
        RING, MASK, "mov.u16 %h1, 7;", SimulationError, "mask 0x0007, in a cluster of 2"),
    "an empty mask": (RING, MASK, "mov.u16 %h1, 0;", SimulationError, "mask 0x0000, in a cluster of 2"),
    "no barrier at the exit": (RING, EXIT, "", AsyncHazardError, f"{EXITS}|which has exited, receives an arrival"),
    "no wait at the exit": (RING, "barrier.cluster.wait;", "", AsyncHazardError, f"{EXITS}|which has exited"),
    "half the arrivals": (
        RING, f"[%r2+{RING.empty}], 2;", f"[%r2+{RING.empty}], 1;", HAZARDS,
        "before the copy that writes it was waited for|gets more arrivals than|is in phase|lags"),
    "no release of the peer": (
        RING, RING.release(), TO_ITSELF, DeadlockError, r"phase 0 of mbarrier empty\[0\]\n.*\n.*1 of 2 arrivals"),
    "a copy that a CTA doesn't wait for": (
        RING, "CONSUME: setp.ge.u32 %p3, %r10, 7;", FEWER, AsyncHazardError,
        "a CTA exits while a TMA load to its shared memory may be in flight"),
    "a CTA that leaves early": (
        RING, ENTRY, ONE_LEAVES, AsyncHazardError,
        r"copies to CTA \(1, 0, 0\), which has exited|a CTA exits while a TMA load to its shared"),
    "a release before the reads": (
        RING, READS_DONE, "cp.async.bulk.commit_group;", AsyncHazardError, "in flight|read"),
    "a release before the reads to the peer alone": (
        RING, READS_DONE + RING.release(), TO_PEER + READS_DONE + TO_ITSELF, AsyncHazardError, "TMA load that writes"),
    "no wait for the stage": (
        RING, wait("ACQUIRE", "%r14", "%r16"), "", HAZARDS, "TMA load that writes|gets more arrivals than"),
    "no wait for the copies": (RING, wait("WAIT", "%r13", "%r12"), "", SimulationError, "stages|nothing has written"),
    "reads are released to the own CTA alone": (LOADS, "arrive.release.cluster", "arrive", HAZARDS, READ),
    "reads are acquired from the own CTA alone": (LOADS, "parity.acquire.cluster", "parity", HAZARDS, READ),
    "no fence between reads and release": (
        LOADS, "fence.proxy.async;\n", "", AsyncHazardError, "no fence.proxy.async"),
    "a share of other rows": (
        RING, f"mul.lo.u32 %r20, %r20, {ROWS};", f"mul.lo.u32 %r20, %r20, {ROWS}; mad.lo.u32 %r20, %r5, 3, %r20;",
        AsyncHazardError, OTHER_REGIONS),
    "a share of other columns": (RING, "mov.u32 %r22, 0;", "shl.b32 %r22, %r5, 2;", AsyncHazardError, OTHER_REGIONS),
    "a share of another step": (
        RING, f"mad.lo.u32 %r20, %r6, {RING.steps}, %r10;",
        f"mad.lo.u32 %r20, %r6, {RING.steps}, %r10; setp.eq.u32 %p21, %r5, 1; setp.eq.and.u32 %p22, %r10, 2, %p21; "
        "@%p22 add.u32 %r20, %r20, 1;", AsyncHazardError, OTHER_REGIONS),
    "shares for two stages": (
        ClusterRing(steps=1), f"mad.lo.u32 %r21, %r5, {SHARE}, %r15;",
        f"mad.lo.u32 %r21, %r5, {SHARE + RING.stage}, %r15;", AsyncHazardError,
        r"name different places: thread 0 .* from \((\d+), 0\) on to stages\+2048 bytes, element 512 of 4 bytes\n"
        r"(.|\n)*\nand thread 0 .* from \(\1, 0\) on to stages\+0 bytes, element 0 of 4 bytes"),
    "arrivals that release nothing": (
        RING, "mbarrier.arrive.shared::cluster", "mbarrier.arrive.relaxed.cluster.shared::cluster", HAZARDS,
        "TMA load that writes"),
}


@pytest.mark.parametrize(("seed", "delivery"), ORDERS)
def test_the_own_barrier_may_be_reached_as_without_clusters(seed, delivery):
    assert RING.release() in RING.text()
    play(RING, RING.text().replace(RING.release(), TO_ITSELF + TO_PEER), schedule=seed, delivery=delivery)


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize(("seed", "delivery"), ORDERS)
def test_seeded_bugs_are_reported(name, seed, delivery):
    ring, old, new, error, message = MUTATIONS[name]
    with pytest.raises(error, match=message):
        assert old in ring.text()
        play(ring, ring.text().replace(old, new), schedule=seed, delivery=delivery)


@pytest.mark.parametrize("rule", ["undefined", "bounds", "race"])
def test_findings_number_threads_as_the_grid_does(rule):
    access = {
        "undefined": "mov.u32 %r5, sm; ld.shared.u32 %r4, [%r5]; st.global.u32 [%x1], %r4;",
        "bounds": "ld.global.u32 %r4, [%x1+64];",
        "race": "mov.u32 %r3, %tid.x; st.global.u32 [%x1], %r3;",
    }[rule]
    body = f"""
    mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mad.lo.u32 %r9, %r8, 2, %r7; setp.ne.u32 %p1, %r9, 2; @%p1 bra DONE;
    {access} DONE:
    """
    report = launch(body, np.zeros(1, np.uint32), cluster=(1, 2, 1), grid=(2, 2), block=32, on_finding="collect")
    assert report.findings and {x // 32 for f in report.findings for x in f.threads} == {2}
