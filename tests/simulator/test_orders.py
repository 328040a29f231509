"""Launches in all orders of their synchronizing events: verdicts, outcomes against all interleavings, the interface."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from examples import copy_tma
from tests.simulator import test_phases, test_rings
from tests.simulator.interleavings import Program, drawn, in_all_orders, outcomes
from tests.simulator.order.programs import PROGRAMS
from tests.simulator.small_kernels import kernel, pointer, simulate
from tilejit.errors import DeadlockError, LaunchError
from tilejit.simulator import Device, run
from tilejit.simulator.orders import events, explorer, ordered_machine
from tilejit.simulator.orders.explorer import Explorer
from tilejit.simulator.orders.ordered_machine import OrderedMachine
from tilejit.testing import check

#: right programs of the race check's list in which threads compete: for a lock, to be the last, or to read in between
OPEN = {
    "a strong store after an ordinary read that precedes a strong read of the other warp",
    "an atomic on something else", "a compare-and-swap that fails releases nothing",
    "the last block sums up",
    "the last block waits for its threads", "a lock by acquire and release", "a lock with fences",
    "a lock needs an acquire", "atomics with atomics", "the first guess of an exchange loop",
}
#: a program whose threads take elements one by one: there are too many orders
MANY = "the first guess of an exchange loop"


def orders_of(program, holes, orders):
    arrays = [np.arange(100, 356, dtype="u4"), np.zeros(256, "u4"), np.zeros(1024, "u4")]
    params = ", ".join(f".param .u64 p{i}" for i in range(3))
    text = kernel(program.text(holes), params, ".shared .align 16 .b8 s[1024];")
    args = [pointer(a, name) for a, name in zip(arrays, ("data", "flags", "out"), strict=True)]
    return run(
        text, "k", (program.grid,), (program.block,), args, checks=program.checks, on_finding="collect", orders=orders,
        limit=30).orders


def test_the_race_checks_programs_are_distinguished():
    right = {p.name: orders_of(p, p.right, 1).verdict for p in PROGRAMS}
    assert {name for name, verdict in right.items() if verdict != "clean"} == OPEN
    assert {right[name] for name in OPEN} == {"incomplete"}
    assert {orders_of(p, p.wrong, 1).verdict for p in PROGRAMS} == {"finding"}
    every = {p.name: orders_of(p, p.right, "all") for p in PROGRAMS if p.name in OPEN - {MANY}}
    assert {orders.verdict for orders in every.values()} == {"clean"}
    assert every["a lock with fences"].explored == 24


@pytest.mark.parametrize("by_number", [True, False], ids=["number", "parity"])
@pytest.mark.parametrize("name", test_phases.RIGHT)
def test_right_phases_have_one_order(name, by_number):
    report = test_phases.played(*test_phases.RIGHT[name], by_number, 0, orders="all")
    # which operations are in flight when copies arrive isn't followed
    assert report.orders.verdict == ("incomplete" if "copies" in name else "clean"), report.orders
    assert report.orders.explored == report.orders.at_least == 1


@pytest.mark.parametrize("ring", test_rings.RINGS, ids=str)
def test_rings_have_one_order(ring):
    src, out = ring.arrays()
    report = test_rings.launch(ring.text(), src, out, block=ring.block, orders="all")
    assert report.orders.verdict == "clean" and report.orders.explored == 1, report.orders


# against all interleavings


def compare(seeds):
    for seed in seeds:
        program, ends = drawn(seed)
        report, found = in_all_orders(program)
        assert report.orders.at_least == report.orders.explored
        assert found == ends, (seed, program)


@pytest.mark.parametrize("part", range(6))
def test_outcomes_are_those_of_all_interleavings(part):
    compare(range(10 * part, 10 * part + 10))


@pytest.mark.long
@pytest.mark.parametrize("part", range(97))
def test_outcomes_of_many_programs_are_those_of_all_interleavings(part):
    compare(range(60 + 20 * part, 80 + 20 * part))


CONFLICTS, USE, IS_MEMORY = events.conflicts, OrderedMachine.use, events.is_memory


def unless(exempt):
    """Return `conflicts` without the pairs (use asleep, use done) for which `exempt` is true."""
    return lambda asleep, done: not exempt(asleep, done) and CONFLICTS(asleep, done)


def is_update(use):
    return IS_MEMORY(use.place) and use.kind not in ("read", "write")


def ascending(self, event, use):
    phases = self.phases_of(use.place)
    for stay in phases.stays.get(use.phase, []):
        if not event.past >> stay.index & 1:
            self.races.append(events.Race(stay.index, event.index, event.agent, event.past, False))
            event.past |= stay.before_later


def in_one_phase(self, place, kind, phase=0, **access):
    USE(self, place, kind, 0 if kind == "arrive" else phase, **access)


def commuting(self, event, use, log):
    unknown = [(f, x) for f, x in log if CONFLICTS(x, use) and not event.pre >> f.index & 1]
    return [f.index for f, x in unknown if self.may_end(event, use, x)]


#: a wait that may end after the second update alone
SUM = Program(((("set", 1, 1), ("add", 0, 1)), (("add", 0, 2),), (("least", 0, 2), ("look", 1, 0))), 1)
#: rule → (what is wrong instead: owner and name of what is replaced, and by what; a program or its seed)
FAULTS = {
    "writes conflict": (events, "conflicts", unless(lambda x, y: x.kind == y.kind == "write"), 8),
    "reads conflict with later writes": (
        events, "conflicts", unless(lambda x, y: x.kind == "read" and IS_MEMORY(x.place)), 4),
    "writes conflict with later reads": (
        events, "conflicts", unless(lambda x, y: y.kind == "read" and IS_MEMORY(x.place)), 3),
    "updates conflict with reads": (events, "conflicts", unless(lambda x, y: is_update(x) and y.kind == "read"), 4),
    "updates whose results are used don't commute": (Explorer, "is_read", lambda *_: False, 18),
    "arrivals in two phases conflict": (OrderedMachine, "use", in_one_phase, 42),
    "waits and tests stay in their phase": (OrderedMachine, "check_stays", lambda *_: None, 35),
    "a wait may end earlier": (OrderedMachine, "outrun", lambda *_: [], 3),
    "a wait without an end may end earlier": (OrderedMachine, "note_pending", lambda *_: None, 4),
    "updates between which a wait may end don't commute": (OrderedMachine, "outrun", commuting, SUM),
    "a conflict awakes": (explorer, "independent", lambda *_: True, 3),
    "the latest of the events that stay in a phase comes first": (OrderedMachine, "check_stays", ascending, 476),
}


@pytest.mark.parametrize("name", FAULTS)
def test_without_one_of_its_rules_outcomes_would_be_missing(name, monkeypatch):
    owner, attribute, wrong, program = FAULTS[name]
    program = program if isinstance(program, Program) else drawn(program)[0]
    ends = outcomes(program)
    assert in_all_orders(program)[1] == ends
    monkeypatch.setattr(owner, attribute, wrong)
    if attribute == "conflicts":
        monkeypatch.setattr(ordered_machine, attribute, wrong)
    assert in_all_orders(program)[1] < ends


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
def test_ctas_are_compared(body, verdict):
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
    assert report.orders.verdict == "incomplete" and report.orders.explored == 1 and report.orders.at_least == 2
    assert report.verdict == "incomplete"
    (pair,) = report.orders.races
    assert pair.first == pair.second and "tj.atomic.add(counter[0], 1)" in str(pair)
    arrays = "assertions (56 bytes), counter (4 bytes), out (8 bytes)"
    start = f"no finding in 1 of at least 2 orders of grid (2, 1, 1) with {arrays}: incomplete; open:\n"
    assert str(report.orders).startswith(start)
    assert f"orders: {report.orders}" in str(report)
    alone = tj.simulate(ticket, 1, np.zeros(1, np.int32), np.zeros(2, np.int32), orders=1)
    assert str(alone.orders) == f"clean in the one order of grid (1, 1, 1) with {arrays}"
    assert tj.simulate(ticket, 1, np.zeros(1, np.int32), np.zeros(2, np.int32)).orders is None


def test_all_orders_are_run_and_one_of_them_again():
    counter, out = np.zeros(1, np.int32), np.zeros(3, np.int32)
    orders = tj.simulate(ticket, 3, counter, out, orders="all").orders
    assert (orders.verdict, orders.explored, orders.results) == ("clean", 6, 6)
    assert str(orders).startswith("clean in all 6 orders of grid (3, 1, 1) with ")
    # the memory is left as by the first order
    assert counter[0] == 3 and out.tolist() == [0, 1, 2]
    counter[:] = 0
    again = tj.simulate(ticket, 3, counter, out, orders=f"replay:{orders.different}").orders
    assert again.verdict == "incomplete" and again.choices == orders.different
    assert sorted(out) == [0, 1, 2] and out.tolist() != [0, 1, 2]


def test_what_is_incomplete_is_never_clean():
    arrays = [np.zeros(1, np.int32), np.zeros(4, np.int32)]
    limited = tj.simulate(ticket, 4, *arrays, orders="all", limit=3).orders
    assert limited.verdict == "incomplete" and limited.explored == 3 < limited.at_least
    assert tj.simulate(ticket, 4, *arrays, orders=24).orders.verdict == "clean"
    assert tj.simulate(ticket, 4, *arrays, orders=23).orders.verdict == "incomplete"
    late = tj.simulate(ticket, 4, *arrays, orders="all", seconds=0).orders
    assert late.verdict == "incomplete" and late.explored == 1


@tj.kernel(threads=32)
def two_locks(locks: tj.Tensor, data: tj.Tensor):
    if tj.thread_id() == 0:
        c = tj.cta_id(0)
        while tj.atomic.cas(locks[c], 0, 1, order="acquire") != 0:
            pass
        while tj.atomic.cas(locks[1 - c], 0, 1, order="acquire") != 0:
            pass
        data[0] = data[0] + 1
        tj.atomic.exch(locks[1 - c], 0, order="release")
        tj.atomic.exch(locks[c], 0, order="release")


def test_a_finding_comes_with_a_story_and_can_be_run_again():
    arrays = [np.zeros(2, np.int32), np.zeros(1, np.int32)]
    message = r"no thread can make progress(.|\n)*in this order:\n  CTA \(0, 0, 0\) sets"
    with pytest.raises(DeadlockError, match=message):
        tj.simulate(two_locks, 2, *arrays, orders="all")
    for array in arrays:
        array[:] = 0
    report = tj.simulate(two_locks, 2, *arrays, orders="all", on_finding="collect")
    orders = report.orders
    assert orders.verdict == "finding" and [x.rule for x in report.findings] == ["deadlock"]
    assert len(orders.story) == 2 and all("while tj.atomic.cas(locks[c]" in line for line in orders.story)
    for array in arrays:
        array[:] = 0
    again = tj.simulate(two_locks, 2, *arrays, orders=f"replay:{orders.choices}", on_finding="collect")
    assert again.orders.verdict == "finding" and again.orders.story == orders.story


def test_a_check_compares_all_orders():
    arrays = [np.zeros(1, np.int32), np.zeros(2, np.int32)]

    def expected(counter, out):
        return {"counter": np.array([2], np.int32), "out": np.array([0, 1], np.int32)}

    check(ticket, 2, *arrays, expected=expected)
    with pytest.raises(AssertionError, match=r"incomplete; open:\n.*tj.atomic.add\(counter\[0\], 1\)"):
        check(ticket, 2, *arrays, expected=expected, orders=1)
    with pytest.raises(AssertionError, match=r"out(.|\n)*in this order:\n  CTA \(1, 0, 0\) sets counter\+0 to 1"):
        check(ticket, 2, *arrays, expected=expected, orders="all")
    check(ticket, 1, *arrays, expected={"counter": np.array([1], np.int32)}, orders=1)


def test_a_check_takes_the_orders_of_the_environment(monkeypatch):
    arrays = [np.zeros(1, np.int32), np.zeros(2, np.int32)]
    monkeypatch.setenv("TILEJIT_ORDERS", "1")
    with pytest.raises(AssertionError, match="incomplete"):
        check(ticket, 2, *arrays, expected={"counter": np.array([2], np.int32), "out": np.array([0, 1], np.int32)})


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
    for wrong in (0, -1, True, "some", 1.0):
        with pytest.raises(LaunchError, match="orders must be 'all', a number of orders, 'replay:…' or None, got"):
            module.launch("k", (1,), (1,), [x], orders=wrong)
    for options in ({"checks": False}, {"profile": True}):
        with pytest.raises(LaunchError, match="only be examined with checks, and without profile=True"):
            module.launch("k", (1,), (1,), [x], orders=1, **options)


def test_a_first_wait_before_a_loop_for_a_constant_phase_has_one_order():
    source = np.ones((4, 256), np.float32)
    orders = tj.simulate(copy_tma.copy, 1, source, np.zeros_like(source), orders="all").orders
    assert orders.verdict == "clean" and orders.explored == 1, orders
