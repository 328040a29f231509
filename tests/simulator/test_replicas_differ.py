"""Threads that store different values by one instruction: an error, or a warning if they are replicas."""

import numpy as np
import pytest

from tests.simulator.small_kernels import kernel, pointer
from tilejit.errors import LaunchError, RaceError
from tilejit.simulator import run
from tilejit.simulator.checks.replicas import Replicas

START = """
.shared .align 4 .b8 s[64];
mov.u32 %r1, %tid.x; mov.u32 %r2, s; shr.u32 %r3, %r1, 5; ld.param.u64 %x1, [out];
"""
END = """
bar.sync 0; ld.shared.u32 %r9, [%r2]; setp.ne.u32 %p9, %r1, 0; @%p9 bra END; st.global.u32 [%x1], %r9; END: ret;
"""
# every lane of a warp stores the warp's number
BY_WARPS = "st.shared.u32 [%r2], %r3;"
# every lane stores its number
BY_LANES = "st.shared.u32 [%r2], %r1;"
# the warps store by instructions of their own
BY_TWO = """
setp.eq.u32 %p1, %r3, 0; @%p1 bra A; st.shared.u32 [%r2], 7; bra B; A: st.shared.u32 [%r2], 8; B: mov.u32 %r8, 0;
"""
# each warp stores twice, the number of the round
BY_ROUNDS = """
mov.u32 %r4, 0;
LOOP: st.shared.u32 [%r2], %r4; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 2; @%p1 bra LOOP;
"""
# a barrier ends each round
BY_BARRIERS = BY_ROUNDS.replace("add.u32", "bar.sync 0; add.u32")
# the warps store once, but warp 1 in its second round: a guard leaves its first store out
LATE = """
mov.u32 %r4, 0;
LOOP: setp.lt.u32 %p2, %r4, %r3; @%p2 bra NEXT; setp.gt.u32 %p2, %r4, %r3; @%p2 bra NEXT; st.shared.u32 [%r2], %r3;
NEXT: add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 2; @%p1 bra LOOP;
"""


def launch(body, replicas_differ, schedule=0, grid=1, threads=64):
    out = np.zeros(1, "u4")
    ptx = kernel(START + body + END, ".param .u64 out")
    return run(ptx, "k", (grid,), (threads,), [pointer(out, "out")], replicas_differ=replicas_differ,
               on_finding="collect", schedule=schedule)


def rules(report):
    return [(x.rule, x.level) for x in report.findings]


@pytest.mark.parametrize("schedule", range(4))
@pytest.mark.parametrize("body", [BY_WARPS, BY_LANES])
def test_one_execution_of_one_store_is_a_warning_if_replicas_may_differ(body, schedule):
    report = launch(body, "warning", schedule)
    assert rules(report) == [("replicas", "warning")]
    assert report.verdict == "clean"
    (finding,) = report.findings
    assert "replicas differ: thread" in finding.message and "by the same execution of the same instruction" in \
        finding.message
    assert finding.first.text.startswith("st.shared.u32")
    assert rules(launch(body, "error", schedule)) == [("race", "error")]


def test_both_values_are_shown():
    (finding,) = launch(BY_WARPS, "warning").findings
    assert {"0x00000000", "0x00000001"} == {word.strip(",") for word in finding.message.split() if word[:2] == "0x"}


@pytest.mark.parametrize("schedule", range(4))
@pytest.mark.parametrize("body", [BY_TWO, BY_ROUNDS], ids=["instructions", "rounds"])
def test_two_instructions_and_two_rounds_race(body, schedule):
    assert ("race", "error") in rules(launch(body, "warning", schedule))


def test_a_barrier_orders_two_rounds():
    assert rules(launch(BY_BARRIERS, "warning")) == []


@pytest.mark.parametrize("schedule", range(4))
def test_the_threads_executions_count_not_the_rounds_of_a_loop(schedule):
    assert rules(launch(LATE, "warning", schedule)) == [("replicas", "warning")]


def test_ctas_have_shared_memory_of_their_own():
    report = launch(BY_WARPS, "warning", grid=3)
    assert [x.rule for x in report.findings if x.first.text.startswith("st.shared")] == ["replicas"]


def test_global_memory_is_the_users():
    ptx = kernel("mov.u32 %r1, %tid.x; ld.param.u64 %x1, [out]; st.global.u32 [%x1], %r1; ret;", ".param .u64 out")
    with pytest.raises(RaceError):
        run(ptx, "k", (1,), (32,), [pointer(np.zeros(1, "u4"))], replicas_differ="warning")


def test_the_level_is_error_or_warning():
    with pytest.raises(LaunchError, match="replicas_differ must be 'error' or 'warning', got 'note'"):
        launch(BY_WARPS, "note")


def test_stores_before_the_last_barrier_are_forgotten(monkeypatch):
    most, store = 0, Replicas.store

    def watched(self, pc, space):
        nonlocal most
        store(self, pc, space)
        most = max(most, sum(map(len, self.stored.values())))

    monkeypatch.setattr(Replicas, "store", watched)
    assert rules(launch(BY_BARRIERS.replace(", 2;", ", 50;"), "warning")) == []
    assert 0 < most <= 4
