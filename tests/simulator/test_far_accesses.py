"""Loads, stores and atomics in the shared memory of a cluster's other CTAs, against NumPy, and what the checks say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.cluster_kernels import module
from tests.simulator.small_kernels import pointer
from tilejit.errors import (
    AsyncHazardError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    SimulationError,
    UninitializedReadError,
    UnsupportedInstructionError,
)
from tilejit.simulator import run

THREADS = 64
CLUSTERS = [(2, 1, 1), (2, 2, 1), (1, 4, 1), (8, 1, 1)]
SYNC = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
# %r1: thread, %r2: rank, %r3: number of the thread in the grid, cluster by cluster, %r4: address in `sm` of its word
START = """
mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r5, %clusterid.x; mov.u32 %r6, %clusterid.y;
mov.u32 %r7, %nclusterid.x; mad.lo.u32 %r5, %r6, %r7, %r5;
mov.u32 %r6, %cluster_nctarank; mad.lo.u32 %r5, %r5, %r6, %r2;
mad.lo.u32 %r3, %r5, 64, %r1; mov.u32 %r4, sm; mad.lo.u32 %r4, %r1, 4, %r4;
ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r3, 4, %x1; ld.param.u64 %x3, [p1]; mad.wide.u32 %x4, %r3, 4, %x3;
ld.param.u64 %x5, [p2]; mad.wide.u32 %x6, %r3, 4, %x5;
"""
#: the address of %r11 bytes into `sm` of rank %r10: in shared memory %r12, generic %x12
TO = "mov.u32 %r12, sm; add.u32 %r12, %r12, %r11; cvt.u64.u32 %x12, %r12; cvta.shared.u64 %x12, %x12;\n" \
     "mapa.shared::cluster.u32 %r12, %r12, %r10; mapa.u64 %x12, %x12, %r10;\n"
WAYS = {"near": ".shared::cluster{} [%r12]", "generic": "{} [%x12]", "converted": ".shared::cluster{} [%x13]"}
CONVERT = "cvta.to.shared::cluster.u64 %x13, %x12;\n"
PEER = "xor.b32 %r10, %r2, 1; shl.b32 %r11, %r1, 2;" + TO


def launch(body, *arrays, cluster=(2, 1, 1), count=2, **options):
    """Run a kernel on `count` clusters along x, of 64 threads per CTA."""
    grid = (cluster[0] * count, *cluster[1:])
    ctas = int(np.prod(grid))
    arrays = [*arrays, *(np.zeros(ctas * THREADS, "u4") for _ in range(3 - len(arrays)))]
    text = module(START + body + "\nDONE: ret;", ", ".join(f".param .u64 p{i}" for i in range(3)), cluster)
    run(text, "k", grid, (THREADS,), [pointer(x, f"p{i}") for i, x in enumerate(arrays)], **options)
    return arrays[-1]


def access(way, opcode, operand, t="u32"):
    """An instruction on the address that `TO` has computed."""
    place = WAYS[way]
    name, _, rest = place.format(".@").partition(".@")
    mode, _, op = opcode.partition(" ")
    op = f".{op}" if op else ""
    if mode in ("ld", "atom"):
        target, _, value = operand.partition(",")
        return f"{mode}{name}{op}.{t} {target},{rest}{',' + value if value else ''};\n"
    return f"{mode}{name}{op}.{t}{rest}, {operand};\n"


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("schedule", [0, 1])
@pytest.mark.parametrize("checks", [True, False])
def test_a_permutation_of_a_clusters_words(cluster, way, schedule, checks):
    """Each thread stores its value to the word of another thread; that one loads what a third thread has received."""
    ranks, rng = int(np.prod(cluster)), np.random.default_rng(len(way) + schedule)
    values = rng.integers(0, 2**32, (2, ranks * THREADS), "u4")
    there = np.stack([rng.permutation(ranks * THREADS) for _ in range(2)]).astype("u4")
    locate = "ld.global.u32 %r20, [%x4]; shr.u32 %r10, %r20, 6; and.b32 %r11, %r20, 63; shl.b32 %r11, %r11, 2;" + TO
    body = locate + CONVERT + "ld.global.u32 %r21, [%x2];" + access(way, "st", "%r21") + SYNC
    body += "ld.shared.u32 %r22, [%r4]; " + SYNC + "st.shared.u32 [%r4], %r22;" + SYNC
    body += access(way, "ld", "%r23") + "sub.u32 %r22, %r22, %r23; st.global.u32 [%x6], %r22;" + SYNC
    got = launch(body, values.reshape(-1), there.reshape(-1), cluster=cluster, schedule=schedule, checks=checks)
    received = np.zeros_like(values)
    np.put_along_axis(received, there.astype(int), values, 1)
    assert (got.reshape(2, -1) == received - values).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_atomics_on_other_ctas(way, schedule):
    cluster, ranks = (4, 1, 1), 4
    keys = np.random.default_rng(schedule).integers(0, 20, 2 * ranks * THREADS).astype("u4")
    zero = "mov.u32 %r20, 0; st.shared.u32 [%r4], %r20;" + SYNC
    locate = "ld.global.u32 %r20, [%x2]; rem.u32 %r10, %r20, 4; shr.u32 %r11, %r20, 2; shl.b32 %r11, %r11, 2;" + TO
    body = zero + locate + CONVERT + access(way, "atom add", "%r21, 1") + access(way, "red add", "2") + SYNC
    body += "ld.shared.u32 %r22, [%r4]; st.global.u32 [%x6], %r22;"
    got = launch(body, keys, cluster=cluster, schedule=schedule).reshape(2, ranks, THREADS)
    expected = np.zeros((2, ranks, THREADS), "u4")
    for c in range(2):
        for key in keys.reshape(2, -1)[c]:
            expected[c, key % 4, key // 4] += 3
    assert (got == expected).all()


@pytest.mark.parametrize("schedule", range(3))
def test_vectors_and_an_offset(schedule):
    values = np.arange(2 * 2 * THREADS, dtype="u4")
    body = "ld.global.u32 %r20, [%x2]; st.shared.v2.u32 [%r4+0], {%r20, %r20};".replace("[%r4+0]", "[%r14]")
    body = "mov.u32 %r14, sm; mad.lo.u32 %r14, %r1, 8, %r14;" + body + SYNC
    body += "xor.b32 %r10, %r2, 1; shl.b32 %r11, %r1, 3; sub.u32 %r11, %r11, 16;" + TO
    body += "ld.shared::cluster.v2.u32 {%r21, %r22}, [%r12+16]; add.u32 %r21, %r21, %r22;" + SYNC
    got = launch(body + "st.global.u32 [%x6], %r21;", values, schedule=schedule)
    assert (got.reshape(2, 2, THREADS) == 2 * values.reshape(2, 2, THREADS)[:, ::-1]).all()


def test_windows_of_the_own_and_of_any_cta():
    body = PEER + """
    isspacep.shared::cta %p1, %x12; isspacep.shared::cluster %p2, %x12; mov.u64 %x14, sm; cvta.shared.u64 %x14, %x14;
    isspacep.shared %p3, %x14; isspacep.shared::cluster %p4, %x14; isspacep.shared %p5, %x2;
    isspacep.shared::cluster %p6, %x2; mov.u32 %r20, 0;
    """ + "".join(f"@%p{i} add.u32 %r20, %r20, {1 << i};" for i in range(1, 7)) + "st.global.u32 [%x6], %r20;"
    assert set(launch(body).tolist()) == {1 << 2 | 1 << 3 | 1 << 4}


FILL = "st.shared.u32 [%r4], %r1;"
LOAD = "ld.shared::cluster.u32 %r20, [%r12]; st.global.u32 [%x6], %r20;"


@pytest.mark.parametrize("schedule", range(3))
@pytest.mark.parametrize("wrong", [
    "bar.sync 0;", "", "barrier.cluster.arrive.relaxed; barrier.cluster.wait;", "fence.acq_rel.cluster; bar.sync 0;",
])
@pytest.mark.parametrize("load", [LOAD, LOAD.replace(".shared::cluster", "").replace("%r12", "%x12"),
                                  "atom.shared::cluster.add.u32 %r20, [%r12], 1;", "st.shared::cluster.u32 [%r12], 9;"])
def test_only_a_barrier_of_the_cluster_orders(wrong, load, schedule):
    launch(FILL + PEER + SYNC + load + SYNC, schedule=schedule)
    with pytest.raises(RaceError, match="nothing that orders the two"):
        launch(FILL + PEER + wrong + load + SYNC, schedule=schedule)


@pytest.mark.parametrize("schedule", range(3))
def test_a_later_store_of_the_owner_races_with_a_far_load(schedule):
    body = FILL + PEER + SYNC + LOAD
    launch(body + SYNC + FILL, schedule=schedule)
    with pytest.raises(RaceError, match="nothing that orders the two"):
        launch(body + "bar.sync 0;" + FILL + SYNC, schedule=schedule)


@pytest.mark.parametrize("schedule", range(3))
@pytest.mark.parametrize("scope", ["cta", "cluster", "gpu"])
def test_the_scope_of_atomics_must_include_the_cluster(scope, schedule):
    zero = "mov.u32 %r20, 0; st.shared.u32 [%r4], %r20;" + SYNC
    mine = f"atom.relaxed.{scope}.shared.add.u32 %r21, [%r4], 1;"
    theirs = f"red.relaxed.{scope}.shared::cluster.add.u32 [%r12], 1;"
    body = zero + PEER + mine + theirs + SYNC
    if scope != "cta":
        launch(body, schedule=schedule)
        return
    with pytest.raises(RaceError) as caught:
        launch(body, schedule=schedule)
    assert caught.value.hint == "use .gpu: the scope of one access doesn't include the other's CTA"


FLAG = """setp.ne.u32 %p1, %r1, 0; mov.u32 %r11, 1024; xor.b32 %r10, %r2, 1; mov.u32 %r20, 0;
@!%p1 st.shared.u32 [sm+1024], %r20;""" + SYNC + """@%p1 bra SKIP; setp.ne.u32 %p2, %r2, 0; @%p2 bra WAITS;
st.shared.u32 [sm], 77;""" + TO + """SET st.SEM.shared::cluster.u32 [%r12], 1; bra SKIP;
WAITS: ld.ACQ.shared.u32 %r20, [sm+1024]; setp.eq.u32 %p3, %r20, 0; @%p3 bra WAITS;
mov.u32 %r11, 0;""" + TO.replace("%r12", "%r13") + """ld.shared::cluster.u32 %r21, [%r13]; st.global.u32 [%x6], %r21;
SKIP:""" + SYNC


@pytest.mark.parametrize("schedule", range(4))
@pytest.mark.parametrize(("fence", "store", "load", "right"), [
    ("", "release.cluster", "acquire.cluster", True), ("", "release.gpu", "acquire.gpu", True),
    ("fence.acq_rel.cluster;", "relaxed.cluster", "acquire.cluster", True),
    ("", "relaxed.cluster", "acquire.cluster", False), ("", "release.cluster", "relaxed.cluster", False),
    ("", "release.cta", "acquire.cluster", False),
])
def test_a_flag_in_another_ctas_memory(fence, store, load, right, schedule):
    text = FLAG.replace("SET", fence).replace("SEM", store).replace("ACQ", load)
    if right:
        assert launch(text, schedule=schedule).reshape(2, 2, THREADS)[:, 1, 0].tolist() == [77, 77]
    else:
        with pytest.raises(RaceError):
            launch(text, schedule=schedule)


@pytest.mark.parametrize("schedule", range(4))
@pytest.mark.parametrize("load", [LOAD, "red.shared::cluster.add.u32 [%r12], 1;"])
def test_a_cta_must_not_exit_before_it_is_accessed(load, schedule):
    """In every schedule: either it has exited, or its exit is not ordered after the access."""
    leave = FILL + PEER + SYNC + "setp.eq.u32 %p1, %r2, 0; @%p1 bra DONE;" + load
    with pytest.raises(AsyncHazardError, match="which has exited|exits without being ordered after the access"):
        launch(leave, schedule=schedule)
    launch(FILL + PEER + SYNC + "setp.eq.u32 %p1, %r2, 0; @%p1 bra OUT;" + load + "OUT:" + SYNC, schedule=schedule)


@pytest.mark.parametrize(("body", "error", "text"), [
    (PEER + SYNC + LOAD, UninitializedReadError, "rank 1's sm.0 bytes.*which nothing has written"),
    ("mov.u32 %r11, 4096; xor.b32 %r10, %r2, 1;" + TO + LOAD, OutOfBoundsError, r"0x1001400: sm\+4096 bytes"),
    ("mov.u32 %r11, -4; xor.b32 %r10, %r2, 1;" + TO + LOAD, OutOfBoundsError, r"0x10003fc: sm-4 bytes"),
    (PEER + "ld.u32 %r20, [%x12+4096];", OutOfBoundsError, r"generic address 0x100001001400: sm\+4096"),
    ("mov.u32 %r10, 5; mov.u32 %r11, 0;" + TO + LOAD, OutOfBoundsError, "the cluster of 2 CTAs has none of this rank"),
    (PEER + "ld.shared::cluster.u32 %r20, [%r12+2];", MisalignedError, "which is not a multiple of 4"),
    (PEER + "ld.shared.u32 %r20, [%r12];", OutOfBoundsError, "in the CTA of rank 1.*can't access"),
    ("mov.u32 %r11, 0; mov.u32 %r10, 0;" + TO + "st.shared::cluster.u32 [%r12], %r3;", RaceError, "writes 4 bytes"),
    ("setp.ne.u32 %p1, %r1, 0; @!%p1 mbarrier.init.shared.b64 [sm], 1; xor.b32 %r10, %r2, 1; mov.u32 %r11, 0;"
     + TO + SYNC + LOAD + SYNC, AsyncHazardError, "rank [01]'s sm.0 bytes.*part of an mbarrier"),
])
def test_faulty_accesses(body, error, text):
    with pytest.raises(error, match=f"(?s){text}"):
        launch(body + SYNC)


def test_without_a_cluster_the_own_cta_is_rank_0():
    body = FILL.replace("%r4", "%r2") + """mapa.shared::cluster.u32 %r12, %r2, 0; ld.shared::cluster.u32 %r20, [%r12];
    st.global.u32 [%x2], %r20; ret;"""
    start = "mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mad.lo.u32 %r2, %r1, 4, %r2; ld.param.u64 %x1, [p0]; "
    out = np.zeros(32, "u4")
    text = module(start + "mad.wide.u32 %x2, %r1, 4, %x1;" + body, ".param .u64 p0", None)
    run(text, "k", (1,), (32,), [pointer(out)])
    assert out.tolist() == list(range(32))


@pytest.mark.parametrize("text", [
    "ld.global::cluster.u32 %r20, [%x2];", "cvta.to.global::cluster.u64 %x13, %x12;",
    "atom.global::cluster.add.u32 %r1, [%x2], 1;",
])
def test_other_spaces_have_no_clusters(text):
    with pytest.raises((UnsupportedInstructionError, SimulationError), match="is not supported"):
        launch(text)
