"""What the simulator says about order: nothing about right programs, the rule's name about wrong ones."""

import numpy as np
import pytest

from tests.simulator.order.asynchronous_programs import ALL
from tests.simulator.small_kernels import kernel, pointer, simulate
from tilejit.errors import SimulationError
from tilejit.simulator import run, run_grid
from tilejit.simulator.checks.findings import RULES

SCHEDULES = range(5)
IDS = [p.name.replace(" ", "-") for p in ALL]


def attempt(program, holes, schedule, on_finding):
    arrays = [np.arange(100, 356, dtype="u4"), np.zeros(256, "u4"), np.zeros(1024, "u4")]
    params = ", ".join(f".param .u64 p{i}" for i in range(3))
    text = kernel(program.text(holes), params, ".shared .align 16 .b8 s[1024];")
    args = [pointer(a, name) for a, name in zip(arrays, ("data", "flags", "out"), strict=True)]
    return run(text, "k", (program.grid,), (program.block,), args, checks=program.checks, schedule=schedule,
               on_finding=on_finding), arrays


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", ALL, ids=IDS)
def test_a_right_program_gives_no_error_in_any_order(program, schedule):
    report, _ = attempt(program, program.right, schedule, "raise")
    assert {x.rule for x in report.findings} <= program.warned
    assert all(x.level == "warning" for x in report.findings)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", ALL, ids=IDS)
def test_a_wrong_program_is_reported_in_every_order(program, schedule):
    rules = program.rule.split()
    with pytest.raises(SimulationError) as e:
        attempt(program, program.wrong, schedule, "raise")
    assert type(e.value) in {RULES[x] for x in rules}, e.value
    report, _ = attempt(program, program.wrong, schedule, "collect")
    errors = {x.rule for x in report.findings if x.level == "error"}
    assert errors & set(rules), report.findings
    first = report.findings[0]
    assert first.first is not None and first.count >= len(first.threads) >= 1


GRIDS = [p for p in ALL if p.grid > 1]


@pytest.mark.parametrize("program", GRIDS, ids=[p.name.replace(" ", "-") for p in GRIDS])
def test_ctas_that_are_simulated_one_after_another_are_ordered_as_those_at_once(program, monkeypatch):
    monkeypatch.setattr(run_grid, "CHUNK_THREADS", 1)
    report, _ = attempt(program, program.right, 0, "collect")
    assert {x.rule for x in report.findings if x.level == "error"} == set()
    report, _ = attempt(program, program.wrong, 0, "collect")
    assert {x.rule for x in report.findings if x.level == "error"} & set(program.rule.split())


@pytest.mark.parametrize("wait", ["cp.async.bulk.wait_group 0;", ""])
def test_a_flag_tells_later_ctas_of_a_bulk_store_that_was_waited_for(wait, monkeypatch):
    monkeypatch.setattr(run_grid, "CHUNK_THREADS", 1)
    body = START + f"""
    ld.param.u64 %x2, [p1]; mov.u32 %r8, s; setp.ne.u32 %p1, %r1, 0; @%p1 bra E; setp.ne.u32 %p1, %r2, 0; @%p1 bra READ;
    st.shared.v4.u32 [%r8], {{%r1, %r1, %r1, %r1}}; fence.proxy.async;
    cp.async.bulk.global.shared::cta.bulk_group [%x1], [%r8], 16; cp.async.bulk.commit_group; {wait}
    st.release.gpu.global.u32 [%x2], 1; bra E;
    READ: ld.acquire.gpu.global.u32 %r9, [%x2]; ld.global.u32 %r9, [%x1]; E: ret;
    """
    arrays = np.zeros(8, "u4"), np.zeros(1, "u4")
    report = simulate(body, *arrays, block=32, grid=3, registers=".shared .align 16 .b8 s[16];", on_finding="collect")
    assert {x.rule for x in report.findings} == (set() if wait else {"in-flight"})


START = "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shr.u32 %r4, %r1, 5; ld.param.u64 %x1, [p0];"


@pytest.mark.parametrize("ctas", [2, 4])
def test_a_store_races_with_the_last_of_very_many_that_stored_the_same(ctas):
    # the writer's own CTA, 1024 threads, is ordered before it; the others aren't
    body = START + """
    st.global.u32 [%x1], 42; bar.sync 0; or.b32 %r3, %r1, %r2; setp.ne.u32 %p1, %r3, 0; @%p1 bra E;
    st.global.u32 [%x1], 43; E: ret;
    """
    report = simulate(body, np.zeros(1, "u4"), block=1024, grid=ctas, on_finding="collect")
    assert [(x.rule, x.threads) for x in report.findings] == [("race", (0,))]


def test_a_store_races_with_those_before_very_many_that_are_ordered():
    # CTA 0 stores once, CTA 1 the same 21 times; a barrier orders CTA 1's 21 × 1024 stores before the last one
    body = START + """
    mov.u32 %r5, 0;
    AGAIN: st.global.u32 [%x1], 42; setp.eq.u32 %p1, %r2, 0; @%p1 bra E;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 21; @%p1 bra AGAIN; bar.sync 0;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra E; st.global.u32 [%x1], 43; E: ret;
    """
    report = simulate(body, np.zeros(1, "u4"), block=1024, grid=2, on_finding="collect")
    assert [(x.rule, x.count) for x in report.findings] == [("race", 1)]


@pytest.mark.parametrize("readers", [2, 3])
def test_a_store_races_with_a_reader_that_no_barrier_orders_before_it(readers):
    # warps 1 to `readers` read; the barriers of all but warp 2 order them before warp 0, which writes
    with_third = "bar.sync 2, 64;" if readers == 3 else ""
    body = START + f"""
    st.shared.u32 [s], 1; bar.sync 0; setp.eq.u32 %p1, %r4, 0; @%p1 bra WRITE;
    ld.shared.u32 %r9, [s]; setp.eq.u32 %p1, %r4, 1; @%p1 bra FIRST; setp.eq.u32 %p1, %r4, 3; @%p1 bra THIRD; ret;
    FIRST: bar.sync 1, 64; ret;
    THIRD: {with_third} ret;
    WRITE: bar.sync 1, 64; {with_third} st.shared.u32 [s], 5; ret;
    """
    shared = ".shared .align 4 .b8 s[4];"
    report = simulate(body, np.zeros(1, "u4"), block=32 * (readers + 1), registers=shared, on_finding="collect")
    assert [x.rule for x in report.findings] == ["race"]
