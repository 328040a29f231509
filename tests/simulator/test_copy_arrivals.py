"""cp.async.mbarrier.arrive: barriers that count completed copies, and accesses that these do or don't order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.small_kernels import aligned, simulate
from tilejit.errors import (
    AsyncHazardError,
    DeadlockError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    UnsupportedInstructionError,
)

THREADS = 64
SHARED = ".shared .align 16 .b8 tile[2048]; .shared .align 8 .b64 bars[2];"
# thread i has 16 bytes of p0 at %x1, of the tile at %r3 and of p1 at %x2; %r4 is another thread's place in the tile
START = """
mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 16, %r2;
xor.b32 %r4, %r1, 33; mad.lo.u32 %r4, %r4, 16, %r2;
ld.param.u64 %x9, [p0]; mad.wide.u32 %x1, %r1, 16, %x9; ld.param.u64 %x8, [p1]; mad.wide.u32 %x2, %r1, 16, %x8;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mbarrier.init.shared.b64 [bars], {count};
mbarrier.init.shared.b64 [bars+8], {count};
READY: bar.sync 0;
"""
COPY = "cp.async.cg.shared.global [%r3], [%x1], 16;\n"
NOINC = "cp.async.mbarrier.arrive.noinc.shared.b64 [bars];\n"
COUNTED = "cp.async.mbarrier.arrive.shared::cta.b64 [bars];\nmbarrier.arrive.shared.b64 %x5, [bars];\n"
WAIT = "WAIT: mbarrier.test_wait.parity.shared.b64 %p2, [bars], 0; @!%p2 bra WAIT;\n"
OUT = "ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r4]; st.global.v4.b32 [%x2], {%r10, %r11, %r12, %r13};\n"
ORDERS = [{"delivery": x, "schedule": s} for s in range(2) for x in ("late", "early", "random:1", "random:2")]
ORDERS += [{"checks": False}]


def attempt(body, count=THREADS, grid=2, source=None, start=START, **options):
    """Run a kernel on 64 threads; return what each stored to its 16 bytes of p1."""
    source = aligned(np.arange(1, 4 * THREADS + 1, dtype="u4")) if source is None else source
    out = aligned(np.zeros((THREADS, 4), "u4"))
    text = start.format(count=count) + body + "\nret;"
    simulate(text, source, out, grid=1 if "st.global" in body else grid, block=THREADS, registers=SHARED, **options)
    return out


def mirrored(values):
    return values.reshape(THREADS, 4)[np.arange(THREADS) ^ 33]


@pytest.mark.parametrize("arrive", [NOINC, COUNTED], ids=["noinc", "counted"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_a_wait_finds_the_copies(arrive, order):
    source = aligned(np.random.default_rng(3).integers(0, 2**32, 4 * THREADS, "u4"))
    assert (attempt(COPY + arrive + WAIT + OUT, source=source, **order) == mirrored(source)).all()


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_only_some_threads_copy(order):
    copy = f"and.b32 %r5, %r1, 1; setp.eq.u32 %p3, %r5, 0; @%p3 {COPY} @%p3 cp.async.mbarrier.arrive.shared.b64 [bars];"
    zero = "mov.u32 %r6, 7; st.shared.v4.b32 [%r3], {%r6, %r6, %r6, %r6}; fence.acq_rel.cta;\n"
    body = f"@!%p3 bra ODD; bra ALL; ODD: {zero} ALL: mbarrier.arrive.shared.b64 %x5, [bars];\n"
    got = attempt(copy + body + WAIT + OUT, **order)
    expected = np.arange(1, 4 * THREADS + 1, dtype="u4").reshape(THREADS, 4)
    expected[1::2] = 7
    assert (got == mirrored(expected)).all()


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_two_stages_in_turn(order):
    """Four rounds over two stages of the tile: each round copies 16 more bytes for the first 32 threads' places."""
    rounds = 4
    source = aligned(np.random.default_rng(4).integers(0, 2**32, (rounds, THREADS, 4), "u4"))
    out = aligned(np.zeros_like(source))
    body = """
    mov.u32 %r20, 0;
    AGAIN: and.b32 %r21, %r20, 1; mad.lo.u32 %r22, %r21, 1024, %r3; mad.lo.u32 %r23, %r21, 1024, %r4;
    mov.u32 %r24, bars; mad.lo.u32 %r24, %r21, 8, %r24; shr.u32 %r25, %r20, 1; and.b32 %r25, %r25, 1;
    cp.async.cg.shared.global [%r22], [%x1], 16; cp.async.mbarrier.arrive.noinc.shared.b64 [%r24];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r24], %r25; @!%p2 bra WAIT;
    ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r23]; st.global.v4.b32 [%x2], {%r10, %r11, %r12, %r13};
    add.u64 %x1, %x1, 1024; add.u64 %x2, %x2, 1024; add.u32 %r20, %r20, 1; bar.sync 0;
    setp.lt.u32 %p3, %r20, 4; @%p3 bra AGAIN; ret;
    """
    text = START.format(count=THREADS) + body
    simulate(text, source, out, block=THREADS, registers=SHARED, **order)
    assert (out == source[:, np.arange(THREADS) ^ 33]).all()


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_a_later_barrier_also_counts_earlier_copies(order):
    second = "cp.async.ca.shared.global [%r3+1024], [%x1], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [bars+8];\n"
    got = attempt(COPY + NOINC + second + WAIT.replace("[bars]", "[bars+8]") + OUT, **order)
    assert (got == mirrored(np.arange(1, 4 * THREADS + 1))).all()


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("wait", ["cp.async.wait_all;", "cp.async.commit_group; cp.async.wait_group 0;"])
def test_the_copying_thread_may_wait_itself(order, wait):
    got = attempt(COPY + NOINC + wait + "bar.sync 0;" + OUT, **order)
    assert (got == mirrored(np.arange(1, 4 * THREADS + 1))).all()


@pytest.mark.parametrize("order", ORDERS[:-1], ids=str)
@pytest.mark.parametrize(("body", "error", "text"), [
    (COPY + NOINC + OUT, AsyncHazardError, "reads 16 bytes.*before the (asynchronous )?copy"),
    (COPY + NOINC + "bar.sync 0;" + OUT, AsyncHazardError, "reads 16 bytes.*before the (asynchronous )?copy"),
    (COPY + NOINC + "mov.u32 %r5, 1; st.shared.u32 [%r4], %r5;" + WAIT, AsyncHazardError, "writes 4 bytes.*before the"),
    (NOINC + COPY + WAIT + OUT, AsyncHazardError, "before the asynchronous copy to it by"),
    (COPY + "st.shared.u32 [%r3+1024], %r1;" + NOINC + WAIT + "ld.shared.u32 %r5, [%r4+1024];"
     "st.global.u32 [%x2], %r5;", RaceError, "nothing that orders the two"),
    ("setp.gt.u32 %p3, %r1, 3; @%p3 bra LATE;" + COPY + NOINC + "LATE:" + WAIT, DeadlockError, "4 of 64 arrivals"),
    (COPY + "cp.async.mbarrier.arrive.shared.b64 [bars];" + WAIT, DeadlockError, "0 of 64 arrivals"),
    (COPY + "mov.u32 %r5, 1; cp.async.mbarrier.arrive.noinc.shared.b64 [tile];", AsyncHazardError, "not initialized"),
    (COPY + "cp.async.mbarrier.arrive.shared.b64 [bars+16];", OutOfBoundsError, "uses an mbarrier of 8 bytes out"),
    (COPY + "cp.async.mbarrier.arrive.shared.b64 [bars+4];", MisalignedError, "not a multiple of 8"),
])
def test_faults_are_reported_in_every_order(body, error, text, order):
    with pytest.raises(error, match=f"(?s){text}"):
        attempt(body, **order)


@pytest.mark.parametrize("order", ORDERS[:-1], ids=str)
def test_the_source_must_not_change_before_the_copy_is_complete(order):
    copy = "cp.async.cg.shared.global [%r3], [%x2], 16;"
    with pytest.raises(AsyncHazardError, match="reads it"):
        attempt(copy + NOINC + "mov.u32 %r5, 1; st.global.u32 [%x2], %r5;", **order)


def test_more_arrivals_than_the_barrier_expects():
    with pytest.raises(DeadlockError, match="it is in phase 4: 0 of 16 arrivals"):
        attempt(COPY + NOINC + WAIT, count=16)


@pytest.mark.parametrize("text", [
    "cp.async.mbarrier.arrive.noinc.shared.b64 [bars], 1;", "cp.async.mbarrier.arrive.shared::cluster.b64 [bars];",
    "cp.async.mbarrier.arrive.b32 [bars];", "cp.async.mbarrier.arrive.noinc.shared.b64 [%p1];",
])
def test_other_forms_are_refused(text):
    with pytest.raises(UnsupportedInstructionError):
        attempt(text)
