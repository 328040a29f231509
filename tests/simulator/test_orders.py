"""`orders=1`: a launch that is called clean has one outcome in all interleavings; otherwise open pairs are named."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.simulator import test_phases, test_rings
from tests.simulator.interleavings import Program, drawn, outcomes, simulated
from tests.simulator.order.programs import PROGRAMS
from tests.simulator.small_kernels import kernel, pointer, simulate
from tilejit.errors import LaunchError
from tilejit.simulator import Device, run, run_grid
from tilejit.simulator.checks.races import AccessChecker
from tilejit.simulator.orders.certificate import Certificate, Location
from tilejit.testing import check

#: right programs of the race check's list in which threads compete: for a lock, to be the last, or to read in between
OPEN = {
    "a strong store after an ordinary read that precedes a strong read of the other warp",
    "an atomic on something else", "a compare-and-swap that fails releases nothing",
    "a reduction without a result is no acquire", "an atomic continues what was released", "the last block sums up",
    "the last block waits for its threads", "a lock by acquire and release", "a lock with fences",
    "a lock needs an acquire", "atomics with atomics", "the first guess of an exchange loop",
}


def verdict_of(program, holes):
    arrays = [np.arange(100, 356, dtype="u4"), np.zeros(256, "u4"), np.zeros(1024, "u4")]
    params = ", ".join(f".param .u64 p{i}" for i in range(3))
    text = kernel(program.text(holes), params, ".shared .align 16 .b8 s[1024];")
    args = [pointer(a, name) for a, name in zip(arrays, ("data", "flags", "out"), strict=True)]
    report = run(
        text, "k", (program.grid,), (program.block,), args, checks=program.checks, on_finding="collect", orders=1)
    return report.orders.verdict


def test_the_race_checks_programs_are_distinguished():
    right = {p.name: verdict_of(p, p.right) for p in PROGRAMS}
    assert {name for name, verdict in right.items() if verdict != "clean"} == OPEN
    assert {right[name] for name in OPEN} == {"incomplete"}
    assert {verdict_of(p, p.wrong) for p in PROGRAMS} == {"finding"}


@pytest.mark.parametrize("by_number", [True, False], ids=["number", "parity"])
@pytest.mark.parametrize("name", test_phases.RIGHT)
def test_right_phases_have_one_order(name, by_number):
    report = test_phases.played(*test_phases.RIGHT[name], by_number, 0, orders=1)
    # which operations are in flight when copies arrive isn't followed
    assert report.orders.verdict == ("incomplete" if "copies" in name else "clean"), report.orders


@pytest.mark.parametrize("ring", test_rings.RINGS, ids=str)
def test_rings_have_one_order(ring):
    src, out = ring.arrays()
    report = test_rings.launch(ring.text(), src, out, block=ring.block, orders=1)
    assert report.orders.verdict == "clean", report.orders


# against all interleavings


SEEDS = 100


@pytest.mark.parametrize("part", range(20))
def test_what_is_clean_has_one_outcome_in_all_interleavings(part):
    verdicts = []
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        program, ends = drawn(seed)
        report, end = simulated(program, on_finding="collect", orders=1)
        if not report.findings:
            assert end in ends, (seed, program)
        if report.orders.verdict == "clean":
            assert ends == {end}, (seed, program)
        verdicts.append(report.orders.verdict)
    assert verdicts.count("clean") > SEEDS / 10
    assert set(verdicts) == {"clean", "finding", "incomplete"}


def failing_swaps_release(self, region, index, site, old, operands):
    RELEASE(self, region, index, site, old, (old,))


def forgets_reads(self, location, write, after):
    location.reads.clear()
    WRITE_ONE(self, location, write, after)


def ignores_operands(self, location, writes, read):
    return read.loop is not None and all(self.turn(read, x.before) == read.loop.head for x in writes)


RELEASE, WRITE_ONE, WAITS_FOR = AccessChecker.release, Certificate.write_one, Certificate.waits_for
SUM = Program(((("set", 1, 1), ("add", 0, 1)), (("add", 0, 2),), (("least", 0, 2), ("look", 1, 0))), 1)
#: rule → (class, method, what is wrong instead, a program or its seed)
FAULTS = {
    "arrivals of two phases race": (Certificate, "arrive", lambda *_: None, 1290),
    "waits outside of loops race with arrivals": (Certificate, "wait", lambda *_: None, 123),
    "an older value may end the loop": (Certificate, "waits_for", lambda self, at, writes, read: bool(read.loop), 103),
    "any of several older values may": (
        Certificate, "waits_for", lambda self, at, writes, read: WAITS_FOR(self, at, writes[-1:], read), 270),
    "so may a value without one that a known update followed": (
        Certificate, "waits_for", lambda self, at, writes, read: WAITS_FOR(self, Location(writes), writes, read), 8206),
    "so may a sum that this order has skipped": (Certificate, "waits_for", ignores_operands, SUM),
    "a later value may not end the loop": (
        Certificate, "has_same_end", lambda self, location, read, write, after: bool(read.loop), 836),
    "reads race with later writes": (Certificate, "write_one", forgets_reads, 132),
    "used results don't commute": (Certificate, "is_unread", lambda *_: True, 398),
    "writes race with later accesses": (Certificate, "unordered", lambda *_: [], 1),
    "a compare-and-swap that fails releases nothing": (AccessChecker, "release", failing_swaps_release, 1255),
}


@pytest.mark.parametrize("name", FAULTS)
def test_without_one_of_its_rules_the_answer_would_be_wrong(name, monkeypatch):
    owner, method, wrong, program = FAULTS[name]
    if isinstance(program, int):
        program, _ = drawn(program)
    assert len(outcomes(program)) > 1
    assert simulated(program, on_finding="collect", orders=1)[0].orders.verdict != "clean"
    monkeypatch.setattr(owner, method, wrong)
    assert simulated(program, on_finding="collect", orders=1)[0].orders.verdict == "clean"


# loops

START = "ld.param.u64 %x1, [p0]; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 0; @%p1 bra SET; mov.u32 %r4, 0;\n"
SET = "\nSET: st.release.gpu.global.u32 [%x1], 1; st.release.gpu.global.u32 [%x1], 2; E: ret;"
LOOK = "L: ld.acquire.gpu.global.u32 %r3, [%x1]; "
LOOPS = {
    "waits for the last value": ("setp.ne.u32 %p2, %r3, 2; @%p2 bra L;", "clean"),
    "pauses": ("nanosleep.u32 100; setp.ne.u32 %p2, %r3, 2; @%p2 bra L;", "clean"),
    "branches": ("setp.eq.u32 %p2, %r3, 0; @%p2 bra L; setp.eq.u32 %p3, %r3, 1; @%p3 bra L;", "clean"),
    "ends with the first value": ("setp.eq.u32 %p2, %r3, 0; @%p2 bra L;", "incomplete"),
    "gives up": ("add.u32 %r4, %r4, 1; setp.ge.u32 %p3, %r4, 9; @%p3 bra E; setp.ne.u32 %p2, %r3, 2; @%p2 bra L;",
                 "incomplete"),
    "writes": ("st.global.u32 [%x1+8], %r4; setp.ne.u32 %p2, %r3, 2; @%p2 bra L;", "incomplete"),
    "doesn't repeat": ("", "incomplete"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_only_waits_has_one_order(name):
    body, verdict = LOOPS[name]
    report = simulate(START + LOOK + body + "bra E;" + SET, np.zeros(4, "u4"), block=1, grid=2, orders=1)
    assert report.orders.verdict == verdict, report.orders


def test_very_many_writes_to_a_flag_are_followed():
    body = """
    ld.param.u64 %x1, [p0]; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 0; mov.u32 %r4, 0; @%p1 bra SET;
    NEXT: add.u32 %r4, %r4, 1;
    L: ld.acquire.gpu.global.u32 %r3, [%x1]; setp.ne.u32 %p2, %r3, %r4; @%p2 bra L;
    st.release.gpu.global.u32 [%x1+4], %r4; setp.lt.u32 %p2, %r4, 100; @%p2 bra NEXT; ret;
    SET: add.u32 %r4, %r4, 1; st.release.gpu.global.u32 [%x1], %r4;
    M: ld.acquire.gpu.global.u32 %r3, [%x1+4]; setp.ne.u32 %p2, %r3, %r4; @%p2 bra M;
    setp.lt.u32 %p2, %r4, 100; @%p2 bra SET; ret;
    """
    assert simulate(body, np.zeros(4, "u4"), block=1, grid=2, orders=1).orders.verdict == "clean"


@pytest.mark.parametrize(("body", "verdict"), [
    ("atom.global.add.u32 %r3, [%x1], 1; st.global.u32 [%x1+8], %r3;", "finding"),
    ("atom.relaxed.gpu.global.add.u32 %r3, [%x1], 1; setp.eq.u32 %p2, %r3, 2; @!%p2 bra E;", "incomplete"),
    ("red.relaxed.gpu.global.add.u32 [%x1], 1;", "clean"),
    ("atom.relaxed.cta.shared.add.u32 %r3, [s], 1; st.volatile.shared.u32 [s], 0;", "clean"),
])
def test_ctas_that_are_simulated_one_after_another_are_compared(body, verdict, monkeypatch):
    monkeypatch.setattr(run_grid, "CHUNK_THREADS", 1)
    text = f"ld.param.u64 %x1, [p0]; st.shared.u32 [s], 0; {body} E: ret;"
    report = simulate(
        text, np.zeros(4, "u4"), block=1, grid=4, registers=".shared .align 16 .b8 s[16];", orders=1,
        on_finding="collect")
    assert report.orders.verdict == verdict, report


# the interface


@tj.kernel(threads=32)
def ticket(counter: tj.Tensor, out: tj.Tensor):
    if tj.thread_id() == 0:
        out[tj.cta_id(0)] = tj.atomic.add(counter[0], 1)


def test_the_answer_names_the_open_pair_and_the_grid():
    report = tj.simulate(ticket, 2, np.zeros(1, np.int32), np.zeros(2, np.int32), orders=1)
    assert report.orders.verdict == "incomplete" and report.orders.explored == 1
    (pair,) = report.orders.races
    assert pair.first == pair.second and "tj.atomic.add(counter[0], 1)" in str(pair)
    assert str(report.orders).startswith("no finding in 1 order of grid (2, 1, 1): incomplete; open:\n")
    assert f"orders: {report.orders}" in str(report)
    alone = tj.simulate(ticket, 1, np.zeros(1, np.int32), np.zeros(2, np.int32), orders=1)
    assert str(alone.orders) == "one order of grid (1, 1, 1): no two synchronizing events race"
    assert tj.simulate(ticket, 1, np.zeros(1, np.int32), np.zeros(2, np.int32)).orders is None


def test_a_check_may_require_one_order():
    arrays = [np.zeros(1, np.int32), np.zeros(2, np.int32)]

    def expected(counter, out):
        return {"counter": np.array([2], np.int32), "out": np.array([0, 1], np.int32)}

    check(ticket, 2, *arrays, expected=expected)
    with pytest.raises(AssertionError, match=r"incomplete; open:\n.*tj.atomic.add\(counter\[0\], 1\)"):
        check(ticket, 2, *arrays, expected=expected, orders=1)
    check(ticket, 1, *arrays, expected={"counter": np.array([1], np.int32)}, orders=1)


PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p0) {
.reg .b32 %r<4>; .reg .b64 %x<4>;
ld.param.u64 %x1, [p0]; atom.global.add.u32 %r1, [%x1], 1; st.global.u32 [%x1+4], %r1; ret; }
"""


def test_modules_take_the_option_and_wrong_values_are_refused():
    module, x = Device().load(PTX), np.zeros(2, "u4")
    assert module.launch("k", (1,), (1,), [x], orders=1).orders.verdict == "clean"
    assert module.launch("k", (2,), (1,), [x], orders=1, on_finding="collect").orders.verdict == "finding"
    with pytest.raises(LaunchError, match="orders must be 1 or None, got 5"):
        module.launch("k", (1,), (1,), [x], orders=5)
    for options in ({"checks": False}, {"profile": True}):
        with pytest.raises(LaunchError, match="only be examined with checks, and without profile=True"):
            module.launch("k", (1,), (1,), [x], orders=1, **options)
