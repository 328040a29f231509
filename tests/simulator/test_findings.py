"""Findings: records that launches raise, and that a simulation collects, grouped by both lines."""

import numpy as np
import pytest

import tilejit as tj
from tests.simulator.small_kernels import simulate
from tilejit.errors import DeadlockError, OutOfBoundsError, RaceError

THREAD = "mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r1, 4, %x1;\n"


@tj.kernel(threads=64)
def two_races(X: tj.Tensor, Y: tj.Tensor):
    i = tj.thread_id()
    for k in range(3):
        X[0] = i + k
        Y[0] = i - k


def test_a_launch_raises_the_first_finding():
    with pytest.raises(RaceError, match="X"):
        tj.simulate(two_races, 1, np.zeros(4, "i4"), np.zeros(4, "i4"))


def test_a_collecting_simulation_goes_on_and_groups_by_both_lines():
    report = tj.simulate(two_races, 1, np.zeros(4, "i4"), np.zeros(4, "i4"), on_finding="collect")
    pairs = [(x.first.location.text, x.second.location.text) for x in report.findings]
    assert len(pairs) == len(set(pairs))
    assert any("X[0] = i + k" in a and "X[0] = i + k" in b for a, b in pairs)
    assert any("Y[0] = i - k" in a and "Y[0] = i - k" in b for a, b in pairs)
    first = report.findings[0]
    assert (first.rule, first.level) == ("race", "error")
    assert first.count >= 63 and len(first.threads) == 32
    assert "race in global memory" in first.message and first.message in str(report)


def test_the_right_kernel_gives_no_findings():
    @tj.kernel(threads=64)
    def right(X: tj.Tensor):
        X[tj.thread_id()] = tj.thread_id()

    assert tj.simulate(right, 1, np.zeros(64, "i4"), on_finding="collect").findings == ()


def test_an_error_that_ends_the_launch_is_the_last_finding():
    out = np.zeros(4, "u4")
    body = THREAD + "st.global.u32 [%x1], %r1; st.global.u32 [%x2+4000], %r1; ret;"
    report = simulate(body, out, on_finding="collect")
    assert [x.rule for x in report.findings] == ["race", "bounds"]
    with pytest.raises(OutOfBoundsError):
        simulate(THREAD + "st.global.u32 [%x2+4000], %r1; ret;", out)


def test_a_failed_assertion_is_a_finding():
    @tj.kernel(threads=32)
    def fails(X: tj.Tensor):
        assert tj.thread_id() < 3, "too many"
        X[tj.thread_id()] = 1

    report = tj.simulate(fails, 1, np.zeros(32, "i4"), on_finding="collect")
    assert [x.rule for x in report.findings] == ["failure"] and "too many" in report.findings[0].message


@pytest.mark.parametrize("seed", range(4))
def test_results_dont_depend_on_the_schedule(seed):
    body = THREAD + """
    st.shared.u32 [tile], 0; bar.sync 0; red.shared.add.u32 [tile], %r1; bar.sync 0;
    ld.shared.u32 %r2, [tile]; st.global.u32 [%x2], %r2; ret;
    """
    out = np.zeros(128, "u4")
    simulate(body, out, block=128, registers=".shared .align 4 .b8 tile[4];", schedule=seed)
    assert (out == sum(range(128))).all()


def test_schedules_are_different_orders():
    body = THREAD + "atom.global.add.u32 %r2, [%x1+512], 1; st.global.u32 [%x2], %r2; ret;"
    orders = set()
    for seed in range(4):
        out = np.zeros(129, "u4")
        simulate(body, out, block=128, schedule=seed)
        assert sorted(out[:128]) == list(range(128))
        orders.add(tuple(out))
    assert len(orders) > 1


def test_a_deadlock_is_the_end_of_a_collecting_simulation():
    spin = "S: ld.volatile.global.u32 %r2, [%x1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra S; ret;"
    report = simulate(THREAD + spin, np.zeros(4, "u4"), on_finding="collect")
    assert [x.rule for x in report.findings] == ["deadlock"]
    with pytest.raises(DeadlockError):
        simulate(THREAD + spin, np.zeros(4, "u4"))
