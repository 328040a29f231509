"""Races with loads whose values nothing uses: warnings, and errors as soon as anything may use a value."""

import numpy as np
import pytest

from tests.simulator.small_kernels import simulate
from tilejit.errors import RaceError, SimulationError

SCHEDULES = (*range(5), 14, 17)
# thread t reads word t % 32 of its CTA's 64 words; %p1: warp 0; %x3: the place; %x4: a place of the thread's own
START = """
.reg .pred %q<4>;
.shared .align 16 .b8 s[1024];
ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; mov.u32 %r8, %ctaid.x;
mul.wide.u32 %x5, %r8, 256; add.u64 %x1, %x1, %x5; mul.wide.u32 %x3, %r2, 4; add.u64 %x3, %x1, %x3;
mov.u32 %r10, %ntid.x; mad.lo.u32 %r9, %r8, %r10, %r1; mad.wide.u32 %x4, %r9, 4, %x2;
setp.lt.u32 %p1, %r1, 32; setp.lt.u32 %p2, %r1, 64; mul.lo.u32 %r11, %r2, 4; mov.u32 %r12, s; add.u32 %r11, %r11, %r12;
"""
LOAD = "ld.global.b32 %r3, [%x3]; add.s32 %r4, %r3, 1;"
STORE = "@%p1 st.global.b32 [%x3], %r4;"
LOOP = "mov.u32 %r20, 0; AGAIN: {} add.u32 %r20, %r20, 1; setp.lt.u32 %q1, %r20, 3; @%q1 bra AGAIN;"
SHARED_STORE = "@%p1 st.shared.b32 [%r11], %r4;"
SHARED = (
    "@%p1 st.shared.b32 [%r11], %r1; bar.sync 0; ld.shared.b32 %r3, [%r11]; add.s32 %r4, %r3, 1;" + SHARED_STORE
)


def attempt(body, threads=64, grid=2, **options):
    arrays = np.zeros(128, "i4"), np.zeros(1024, "i4")
    return simulate(f"{START}{body}\nret;", *arrays, block=threads, grid=grid, **options)


# what no thread but the one that stores uses
UNUSED = {
    "in place": LOAD + STORE,
    "a vector": "and.b32 %r13, %r1, 15; mul.wide.u32 %x6, %r13, 16; add.u64 %x6, %x1, %x6; setp.lt.u32 %q2, %r1, 16;"
                "ld.global.v4.b32 {%r3, _, %r5, _}, [%x6]; add.s32 %r4, %r3, %r5; @%q2 st.global.b32 [%x6], %r4;",
    "in shared memory": SHARED,
    "stored by the owner to another place": LOAD + STORE + "@%p1 st.global.b32 [%x4], %r4;",
    "an update by the owner": LOAD + STORE + "@%p1 red.global.add.u32 [%x4], %r4;",
    "in a loop": LOOP.format(LOAD + STORE + "bar.sync 0;"),
    "a store of another value": LOAD + STORE.replace("%r4", "%r1") + "@%p1 st.global.b32 [%x4], %r4;",
    "a load after the store": STORE.replace("%r4", "%r1") + LOAD + "@%p1 st.global.b32 [%x4], %r4;",
    "a read of other code": "@%p1 bra FIRST; ld.global.b32 %r3, [%x3]; bra DONE; FIRST:" + LOAD
                            + "st.global.b32 [%x3], %r4; DONE:",
    "a selection": LOAD + "setp.gt.s32 %q2, %r3, 7; selp.b32 %r4, %r3, 2, %q2;" + STORE,
    "a guarded sum": LOAD + "setp.gt.s32 %q2, %r3, -7; @%q2 add.s32 %r4, %r4, 1;" + STORE,
    "a choice between two sums": LOAD + "setp.gt.s32 %q2, %r3, 7; @%q2 bra HIGH; add.s32 %r4, %r3, 2; bra JOIN;"
        "HIGH: setp.gt.s32 %q3, %r3, 9; @%q3 bra JOIN; add.s32 %r4, %r3, 3; JOIN:" + STORE,
    "a use before the preceding barrier": LOAD + "st.global.b32 [%x4], %r4; bar.sync 0;" + LOAD.replace("%r3", "%r5")
        .replace("%r4", "%r6") + STORE.replace("%r4", "%r6"),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("threads", [64, 128])
@pytest.mark.parametrize("what", UNUSED)
def test_a_race_with_what_nothing_uses_is_a_warning(what, threads, schedule):
    for mode in ("raise", "collect"):
        report = attempt(UNUSED[what], threads, schedule=schedule, on_finding=mode)
        assert {(x.rule, x.level) for x in report.findings} == {("race", "warning")}, report.findings
        assert all("no instruction uses the value" in x.message for x in report.findings)


OTHERS = "@!%p1"
IN_SHARED = SHARED.replace(SHARED_STORE, SHARED_STORE.replace("%r4", "%r1") + "@%p1 st.global.b32 [%x4], %r4;")
USED = {
    # after the race
    "a store": LOAD + STORE + f"{OTHERS} st.global.b32 [%x4], %r4;",
    "a store by one thread": LOAD + STORE + "setp.eq.u32 %q2, %r1, 37; @%q2 st.global.b32 [%x4], %r4;",
    "a store to shared memory": LOAD + STORE + f"{OTHERS} st.shared.b32 [%r11], %r3;",
    "a store to local memory": ".local .b8 mine[16]; mov.u64 %x7, mine;" + LOAD + STORE
                               + f"{OTHERS} st.local.b32 [%x7], %r3;",
    "an update": LOAD + STORE + f"{OTHERS} red.global.add.u32 [%x4], %r4;",
    "an address": LOAD + STORE + "cvt.u64.u32 %x7, %r3; add.u64 %x7, %x7, %x4; ld.global.b8 %r6, [%x7];",
    "a selection": LOAD + "setp.gt.s32 %q2, %r3, 7; selp.b32 %r4, 1, 2, %q2;" + STORE
        + f"{OTHERS} st.global.b32 [%x4], %r4;",
    "a guarded sum": LOAD + "setp.gt.s32 %q2, %r3, 7; @%q2 add.s32 %r4, %r4, 1;" + STORE
        + f"{OTHERS} st.global.b32 [%x4], %r4;",
    "a choice between a sum and a store": LOAD + "setp.gt.s32 %q2, %r3, 7; @%q2 bra HIGH; st.global.b32 [%x4], %r1;"
        "bra JOIN; HIGH: add.s32 %r4, %r3, 3; JOIN:" + STORE,
    "an exit": LOAD + "setp.gt.s32 %q2, %r3, 7; @%q2 ret;" + STORE,
    "a loop": LOAD + "AGAIN: sub.s32 %r4, %r4, 1; setp.gt.s32 %q2, %r4, 0; @%q2 bra AGAIN;" + STORE,
    "a store of another value to shared memory": IN_SHARED,
    "a guarded store": LOAD + "setp.gt.s32 %q2, %r3, -7; @%q2 st.global.b32 [%x4], %r1;" + STORE,
    "a branch": LOAD + STORE + "setp.gt.s32 %q2, %r4, 7; @%q2 bra PAST; st.global.b32 [%x4], %r1; PAST:",
    "a shuffle": LOAD + STORE + "shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1;",
    "a sum over turns": "mov.u32 %r6, 0;" + LOOP.format(LOAD + "add.s32 %r6, %r6, %r3;" + STORE + "bar.sync 0;")
                        + f"{OTHERS} st.global.b32 [%x4], %r6;",
    "the same store, elsewhere": LOAD + "selp.b64 %x7, %x3, %x4, %p1; st.global.b32 [%x7], %r4;",
    # before it: the commonest bug
    "a store before": LOAD + f"{OTHERS} st.global.b32 [%x4], %r4;" + STORE,
    "an update before": LOAD + f"{OTHERS} red.global.add.u32 [%x4], %r4;" + STORE,
    "a read before by another instruction": LOAD + f"{OTHERS} st.global.b32 [%x4], %r4;"
        + LOAD.replace("%r3", "%r5").replace("%r4", "%r6") + STORE.replace("%r4", "%r6"),
    "an earlier turn": LOOP.format(LOAD + "setp.eq.u32 %q2, %r20, 0; @%q2 st.global.b32 [%x4], %r3;") + STORE,
    # reads that have no register, or that order
    "a copy": "cvt.u64.u32 %x7, %r11; cp.async.ca.shared.global [%r11], [%x3], 4; cp.async.wait_all;"
              "mov.u32 %r4, 1;" + STORE,
    "an ordered load": LOAD.replace("ld.global", "ld.relaxed.gpu.global") + STORE,
    # readers that don't do what the writer does
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("what", USED)
def test_a_race_with_what_anything_may_use_is_an_error(what, schedule):
    with pytest.raises(SimulationError) as e:
        attempt(USED[what], schedule=schedule)
    assert isinstance(e.value, RaceError) or what == "a copy", e.value
    report = attempt(USED[what], schedule=schedule, on_finding="collect")
    assert any(x.level == "error" for x in report.findings)


@pytest.mark.parametrize("schedule", range(20))
@pytest.mark.parametrize("space", ["global", "shared"])
def test_each_of_four_replicas_is_known(space, schedule):
    """Its use is found before and after the owner's store, whatever the other CTA does meanwhile."""
    head, store = {"global": (LOAD, STORE), "shared": (SHARED.removesuffix(SHARED_STORE), SHARED_STORE)}[space]
    for user in (1, 2, 3):
        use = f"shr.u32 %r14, %r1, 5; setp.eq.u32 %q2, %r14, {user}; @%q2 st.global.b32 [%x4], %r4;"
        for body in (head + store + use, head + use + store):
            with pytest.raises(RaceError):
                attempt(body, 128, schedule=schedule)


def test_the_error_of_a_late_use_names_both_accesses_and_the_use():
    with pytest.raises(RaceError, match="thread 37 .* of CTA .* uses the value that it has read") as e:
        attempt(USED["a store by one thread"], grid=1)
    assert len(e.value.instructions) == 2 and e.value.hint
    report = attempt(USED["a store by one thread"], grid=1, on_finding="collect")
    assert [x.level for x in report.findings] == ["error"]
    assert "no instruction uses" not in report.findings[0].message


def test_a_reader_that_the_records_may_have_lost_makes_it_an_error(monkeypatch):
    monkeypatch.setattr("tilejit.simulator.checks.records.MOST_LATER", 16)
    with pytest.raises(RaceError):
        attempt(UNUSED["in place"])


def test_other_ctas_readers_are_in_doubt():
    body = LOAD.replace("[%x3]", "[%x6]") + "setp.eq.u32 %q2, %r9, 0; @%q2 st.global.b32 [%x6], %r4;"
    with pytest.raises(RaceError):
        attempt("ld.param.u64 %x6, [p0];" + body)
