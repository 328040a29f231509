"""Cooperative launches: the memory through which a kernel synchronizes its grid."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.small_kernels import simulate
from tilejit.errors import DeadlockError, RaceError, SimulationError

CTAS, THREADS = 3, 64
# CTA 0 adds what is missing to 2^31, the others add 1: the highest bit of the count flips when all have arrived
BARRIER = """
mov.u32 %r20, %envreg1; mov.u32 %r21, %envreg2; mov.b64 %x10, {%r21, %r20};
setp.ne.u64 %p10, %x10, 0; @%p10 bra THERE; trap;
THERE: bar.sync 0; setp.ne.u32 %p11, %r1, 0; @%p11 bra DONE;
mov.u32 %r22, %nctaid.x; sub.u32 %r22, 0x80000001, %r22; setp.eq.u32 %p12, %r2, 0; selp.u32 %r22, %r22, 1, %p12;
FENCE atom.global.add.u32 %r23, [%x10+4], %r22;
SPIN: ld.volatile.global.u32 %r24, [%x10+4]; xor.b32 %r24, %r24, %r23; setp.ge.s32 %p13, %r24, 0; @%p13 bra SPIN;
FENCE
DONE: bar.sync 0;
"""
# each thread stores its number, and then loads that of the thread at the mirrored place in the grid
MIRROR = """
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; mad.wide.u32 %x3, %r4, 4, %x1; mad.wide.u32 %x4, %r4, 4, %x2;
st.global.u32 [%x3], %r4;
{sync}
mov.u32 %r5, %nctaid.x; mul.lo.u32 %r5, %r5, %r3; sub.u32 %r5, %r5, 1; sub.u32 %r5, %r5, %r4;
mad.wide.u32 %x5, %r5, 4, %x1; ld.global.u32 %r6, [%x5]; st.global.u32 [%x4], %r6; ret;
"""


def mirror(sync, **options):
    stored, loaded = np.zeros((2, CTAS * THREADS), "u4")
    simulate(MIRROR.format(sync=sync), stored, loaded, grid=CTAS, block=THREADS, **options)
    return loaded


def fenced(fence):
    return BARRIER.replace("FENCE", fence)


@pytest.mark.parametrize("schedule", range(6))
@pytest.mark.parametrize("fence", ["membar.gl;", "fence.sc.gpu;", "fence.acq_rel.gpu;"])
@pytest.mark.parametrize("checks", [True, False])
def test_a_grid_synchronizes(schedule, fence, checks):
    loaded = mirror(fenced(fence), schedule=schedule, checks=checks, cooperative=True)
    assert loaded.tolist() == list(range(CTAS * THREADS))[::-1]


def test_all_ctas_run_at_once_though_no_loop_waits():
    count = np.zeros(1, "u4")
    body = "mov.u32 %r1, %envreg1; ld.param.u64 %x1, [p0]; atom.global.add.u32 %r2, [%x1], 1; ret;"
    simulate(body, count, grid=50, block=1024, cooperative=True)
    assert count[0] == 50 * 1024


@pytest.mark.parametrize("sync", [fenced(""), "", "bar.sync 0;"])
def test_a_barrier_without_fences_and_no_barrier_are_races(sync):
    with pytest.raises(RaceError, match="nothing that orders the two"):
        mirror(sync, cooperative=True)


def test_a_cta_that_does_not_arrive_is_a_deadlock():
    sync = fenced("membar.gl;").replace("THERE: ", "THERE: setp.eq.u32 %p14, %r2, 2; @%p14 exit; ")
    with pytest.raises(DeadlockError, match="no thread can make progress"):
        mirror(sync, cooperative=True)


def test_another_launch_has_no_workspace():
    with pytest.raises(SimulationError, match="executed trap") as caught:
        mirror(fenced("membar.gl;"))
    assert caught.value.hint == "launch this kernel cooperatively: it synchronizes its grid"


def test_accesses_beyond_the_workspace_are_out_of_bounds():
    body = "mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; mov.b64 %x1, {%r2, %r1}; st.global.u32 [%x1+256], 0; ret;"
    with pytest.raises(SimulationError, match=r"256 bytes.*the workspace of the cooperative launch has 256 bytes"):
        simulate(body, cooperative=True)


# reserved shared memory

RESERVED = """mov.u32 %r1, %tid.x; mov.u32 %r2, %reserved_smem_offset_begin; mov.u32 %r3, %reserved_smem_offset_end;
mov.u32 %r4, %reserved_smem_offset_cap; mov.u32 %r5, %reserved_smem_offset_0; mov.u32 %r6, %reserved_smem_offset_1;
mov.u32 %r7, own; ld.param.u64 %x1, [p0];
"""
OWN = ".shared .align 16 .b8 own[64];"


def test_the_reserved_shared_memory_is_the_systems():
    out = np.zeros(6, "u4")
    store = "setp.ne.u32 %p1, %r1, 0; @%p1 exit;"
    store += "".join(f"st.global.u32 [%x1+{4 * i}], %r{i + 2};" for i in range(6))
    simulate(RESERVED + store + "ret;", out, registers=OWN)
    # as measured on an H200
    assert out.tolist() == [0, 288, 1024, 0, 0, 1024]


def test_the_reserved_shared_memory_is_zero_at_first():
    out = np.ones(32, "u4")
    load = "mad.lo.u32 %r6, %r1, 4, %r6; mad.wide.u32 %x1, %r1, 4, %x1;"
    load += "ld.shared.u32 %r8, [%r6]; st.global.u32 [%x1], %r8;"
    simulate(RESERVED + load + "ret;", out, registers=OWN)
    assert not out.any()


@pytest.mark.parametrize(("body", "error", "text"), [
    ("st.shared.u32 [%r3], %r1;", SimulationError, "reserved shared memory.288 bytes"),
    ("st.shared.u32 [%r5], %r1;", RaceError, "reserved shared memory.0 bytes"),
])
def test_the_reserved_shared_memory_is_checked(body, error, text):
    with pytest.raises(error, match=text):
        simulate(RESERVED + body + "ret;", np.zeros(1, "u4"), registers=OWN)
