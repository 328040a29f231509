"""mbarriers: phases, counts, bytes, waits, misuse and deadlock, on hand-written PTX."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.ring_kernels import launch, module, wait
from tests.simulator.small_kernels import pointer
from tilejit.errors import (
    AsyncHazardError,
    DeadlockError,
    DivergenceError,
    RaceError,
    SimulationError,
    UnsupportedInstructionError,
)
from tilejit.simulator import run
from tilejit.simulator.checks.phase_waits import PhaseWaits

START = """
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; ld.param.u64 %x1, [out]; mad.wide.u32 %x2, %r1, 4, %x1;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r2+1024], {count};
fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
add.u32 %r3, %r2, 1024;
"""
END = "\nEND: st.global.u32 [%x2], %r10; ret;"


def results(body, block=32, count=1, grid=1, **options):
    """%r10 of each thread after a body; barrier of `count` arrivals at [%r3]."""
    out = np.zeros(block * grid, "u4")
    text = module(START.format(count=count) + body + END)
    if grid > 1:
        across = f"mov.u32 %r4, %ctaid.x; mad.lo.u32 %r5, %r4, {block}, %r1; mad.wide.u32 %x2, %r5, 4, %x1;"
        text = text.replace("mad.wide.u32 %x2, %r1, 4, %x1;", across)
    launch(text, out, block=block, grid=grid, **options)
    return out.tolist()


def asks(parity, target="%r10"):
    """Set a register to whether the barrier's phase of a parity is complete."""
    return (
        f"mbarrier.test_wait.parity.shared::cta.b64 %p9, [%r3], {parity}; selp.u32 {target}, 1, 0, %p9;\n"
    )


@pytest.mark.parametrize(("arrivals", "phase"), [(0, 0), (1, 0), (2, 0), (3, 1), (5, 1), (6, 2), (9, 3)])
def test_a_phase_takes_its_arrivals(arrivals, phase):
    body = "@%p1 bra TELL;\n" + "mbarrier.arrive.shared::cta.b64 _, [%r3];\n" * arrivals + "TELL: bar.sync 0;\n"
    assert results(body + asks(0), count=3) == [phase & 1] * 32
    assert results(body + asks(1), count=3) == [1 - phase % 2] * 32


@pytest.mark.parametrize("count", [1, 2, 5, 20, 32, 40])
def test_the_lanes_of_an_instruction_arrive_one_by_one(count):
    body = (
        "mbarrier.arrive.shared::cta.b64 %x3, [%r3]; mbarrier.pending_count.b64 %r11, %x3;\n"
        "mbarrier.test_wait.shared::cta.b64 %p9, [%r3], %x3; selp.u32 %r12, 100, 0, %p9; add.u32 %r10, %r11, %r12;\n"
    )
    phases = 32 // count
    expected = [count - i % count + 100 * (i // count < phases) for i in range(32)]
    out = np.zeros(32, "u4")
    report = launch(module(START.format(count=count) + body + END), out, block=32, on_finding="collect")
    assert out.tolist() == expected
    # a state is good for the phase of its arrival and the next one
    late = [x.message.split("\n")[0].split("sm+1024 ")[1] for x in report.findings]
    assert late == ([f"is in phase {phases} when its phase 0 is waited for"] if phases > 1 else [])


EXCHANGE = """
mad.lo.u32 %r6, %r1, 4, %r2; st.shared.u32 [%r6], %r1;
mbarrier.arrive.shared::cta.b64 %x3, [%r3];
W: mbarrier.test_wait.shared::cta.b64 %p9, [%r3], %x3; @!%p9 bra W;
xor.b32 %r6, %r1, 127; mad.lo.u32 %r6, %r6, 4, %r2; ld.shared.u32 %r10, [%r6];
"""


def test_a_phase_does_not_order_arrivals_after_its_end():
    assert results(EXCHANGE, block=128, count=128) == list(range(127, -1, -1))
    # threads 96 to 127 arrive in the second phase, and have nothing to wait for
    few = EXCHANGE.replace("W: ", "mov.u32 %r10, 0; setp.gt.u32 %p8, %r1, 95; @%p8 bra END;\nW: ")
    for schedule in range(3):
        with pytest.raises(RaceError, match=r"(?s)ld\.shared.*st\.shared|st\.shared.*ld\.shared"):
            results(few, block=128, count=96, schedule=schedule)


STEPS_ALONE = """
mov.u32 %r4, %ctaid.x; mov.u32 %r7, 0; setp.eq.u32 %p2, %r4, 0; selp.u32 %r8, 1, 40, %p2;
LOOP: bar.sync 0; @%p1 bra W; mbarrier.arrive.shared::cta.b64 _, [%r3];
{wait}add.u32 %r7, %r7, 1; setp.lt.u32 %p3, %r7, %r8; @%p3 bra LOOP; mov.u32 %r10, %r7;
"""


def test_what_is_kept_of_waits_does_not_grow_with_those_of_a_longer_cta(monkeypatch):
    """The first CTA's barrier stays in its first phase while the other's goes through forty."""
    most, note = 0, PhaseWaits.note

    def watched(self, barrier, positions, phases, pc):
        nonlocal most
        note(self, barrier, positions, phases, pc)
        most = max(most, len(self.passed[barrier]))

    monkeypatch.setattr(PhaseWaits, "note", watched)
    got = results(STEPS_ALONE.format(wait=wait("W", "%r3", "%r7")), grid=2)
    assert got == [1] * 32 + [40] * 32
    assert 0 < most < 6


def test_an_arrival_may_count_for_several():
    body = "@%p1 bra TELL;\nmbarrier.arrive.shared::cta.b64 _, [%r3], 4;\nTELL: bar.sync 0;\n"
    assert results(body + asks(0), count=4) == [1] * 32
    assert results(body + asks(0), count=5) == [0] * 32


@pytest.mark.parametrize("order", ["expect first", "arrive first", "come before expected"])
def test_a_phase_takes_its_bytes(order):
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%r3];\n"
    expect = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], 64;\n"
    come = "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r3], 64;\n"
    steps = {
        "expect first": (expect, arrive, come),
        "arrive first": ("", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 64;\n", come),
        "come before expected": (come, expect, arrive),
    }[order]
    for done in range(4):
        body = "@%p1 bra TELL;\n" + "".join(steps[:done]) + "TELL: bar.sync 0;\n"
        assert results(body + asks(0)) == [int(done == 3)] * 32


def test_a_thread_that_drops_out_is_not_expected_in_later_phases():
    drop = "mbarrier.arrive_drop.shared::cta.b64 _, [%r3];\n"
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%r3];\n"
    for text, phase in ((drop + arrive, 1), (drop + arrive * 2, 2), (arrive * 3, 1)):
        body = "@%p1 bra TELL;\n" + text + "TELL: bar.sync 0;\n"
        assert results(body + asks(0), count=2) == [phase & 1] * 32


def test_generic_addresses_and_acquire_forms():
    body = """
    cvta.shared.u64 %x3, sm; add.u64 %x3, %x3, 1024;
    @%p1 bra W; mbarrier.arrive.release.cta.b64 %x4, [%x3];
    W: mbarrier.try_wait.parity.acquire.cta.b64 %p9, [%x3], 0, 1000; selp.u32 %r10, 7, 8, %p9; @!%p9 bra W;
    """
    body = body.replace("cvta.shared.u64 %x3, sm;", "mov.u64 %x3, sm; cvta.shared.u64 %x3, %x3;")
    assert results(body) == [7] * 32


def test_each_cta_has_its_own_barriers():
    body = """
    setp.gt.u32 %p2, %r1, %r4; @%p2 bra TELL; mbarrier.arrive.shared::cta.b64 _, [%r3];
    TELL: bar.sync 0;
    """
    got = np.array(results(body + asks(0), count=3, grid=5)).reshape(5, 32)
    assert got.tolist() == [[0] * 32, [0] * 32, [1] * 32, [1] * 32, [1] * 32]


@pytest.mark.parametrize("declared", ["{ .reg .pred done;", ".reg .pred done; {"])
def test_a_wait_brings_the_same_whatever_scope_its_predicate_is_of(declared):
    body = f"""@%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 64;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%x1], 64, [%r3];
    WAIT: {declared} again: mbarrier.try_wait.parity.shared::cta.b64 done, [%r3], 0; @!done bra again; }}
    and.b32 %r5, %r1, 15; mad.lo.u32 %r6, %r5, 4, %r2; ld.shared.u32 %r10, [%r6]; bar.sync 0;"""
    assert results(body) == [0] * 32


@pytest.mark.parametrize("directives", ["", ".reqnctapercluster 2, 1, 1"])
def test_a_copy_to_the_own_cta_needs_no_fence_of_its_barrier(directives):
    body = START.format(count=1).replace("fence.mbarrier_init.release.cluster;", "") + """@%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 64;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%x1], 64, [%r3];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
    ret;"""
    report = launch(module(body, directives=directives), np.zeros(32, "u4"), block=32, grid=2, on_finding="collect")
    assert report.findings == ()


def test_spinning_threads_let_others_run():
    body = wait("W", "%r3", "0") + "mov.u32 %r10, 1; bra END;"
    late = "setp.ge.u32 %p2, %r1, 32; @!%p2 bra W; mbarrier.arrive.shared::cta.b64 _, [%r3];\n"
    late += "mov.u32 %r10, 2; bra END;\n"
    for seed in range(3):
        assert results(late + body, block=64, count=32, schedule=seed) == [1] * 32 + [2] * 32


def test_a_barrier_invalidated_may_be_initialised_again():
    body = """
    @%p1 bra TELL;
    mbarrier.arrive.shared::cta.b64 _, [%r3]; mbarrier.inval.shared::cta.b64 [%r3];
    mbarrier.init.shared::cta.b64 [%r3], 2;
    mbarrier.arrive.shared::cta.b64 _, [%r3];
    TELL: bar.sync 0;
    """
    assert results(body + asks(0)) == [0] * 32


def test_who_arrived_at_a_barrier_before_it_was_initialised_again_is_not_named():
    body = f"""
    mbarrier.arrive.shared::cta.b64 _, [%r3]; // of the first
    {wait("FIRST", "%r3", "0")}bar.sync 0;
    @%p1 bra MADE;
    mbarrier.inval.shared::cta.b64 [%r3]; mbarrier.init.shared::cta.b64 [%r3], 33;
    MADE: bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [%r3]; // of the second
    {wait("SECOND", "%r3", "0")}"""
    with pytest.raises(DeadlockError) as error:
        results(body, count=32, grid=2)
    assert "32 of 33 arrivals" in str(error.value) and "of the second" in str(error.value)
    assert "of the first" not in str(error.value)


MISUSES = {
    "use before init": ("mbarrier.arrive.shared::cta.b64 _, [%r3+8];", "is used but not initialized"),
    "wait before init": ("mbarrier.test_wait.parity.shared::cta.b64 %p9, [%r3+8], 0;", "is used but not initialized"),
    "init again": ("mbarrier.init.shared::cta.b64 [%r3], 1;", "is initialized again"),
    "init of none": ("mbarrier.init.shared::cta.b64 [%r3+8], 0;", "is initialized with a count of 0, not 1 to 1048575"),
    "too many bytes": ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], 1048576;", "count of 1048576"),
    "past the count": (
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16; mbarrier.arrive.shared::cta.b64 _, [%r3];",
        "gets more arrivals than the 1 of phase 0, which is still missing 16 bytes",
    ),
    "completes by noComplete": (
        "mbarrier.arrive.noComplete.shared::cta.b64 %x3, [%r3], 1;",
        "gets an arrival with .noComplete that completes the phase",
    ),
    "a phase that is over": (
        "mbarrier.arrive.shared::cta.b64 _, [%r3]; mbarrier.arrive.shared::cta.b64 _, [%r3]; mov.u32 %r5, 0;"
        "{ .reg .b32 p; and.b32 p, %r5, 1; mbarrier.test_wait.parity.shared::cta.b64 %p9, [%r3], p; }",
        "is in phase 2 when its phase 0 is waited for",
    ),
    "a phase that is far": (
        "mov.u32 %r5, 1; { .reg .b32 p; and.b32 p, %r5, 1; mbarrier.test_wait.parity.shared::cta.b64 %p9, [%r3], p; }",
        "is in phase 0 when its phase 1 is waited for",
    ),
}


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_is_an_error(name):
    text, message = MISUSES[name]
    body = f"@%p1 bra TELL;\n{text}\nTELL:"
    with pytest.raises(AsyncHazardError, match=message) as error:
        results(body, shared_map=[("b", "sm", 1024, 16)])
    assert "mbarrier b[" in str(error.value)
    assert "thread 0 (warp 0, lane 0) of CTA (0, 0, 0)" in str(error.value)


def test_the_pattern_tells_the_number_and_nothing_else_does():
    """Another compiler's parity may come from a number that is no phase's: only braces make it one."""
    far = "mov.u32 %r5, 2; and.b32 %r6, %r5, 1; mbarrier.test_wait.parity.shared::cta.b64 %p9, [%r3], %r6;"
    assert results(far + "selp.u32 %r10, 1, 0, %p9;") == [0] * 32


def test_addresses_are_checked():
    with pytest.raises(SimulationError, match="multiple of 8"):
        results("mbarrier.arrive.shared::cta.b64 _, [%r3+4];")
    with pytest.raises(SimulationError, match="out of bounds"):
        results("mbarrier.arrive.shared::cta.b64 _, [%r3+8192];")


def test_a_deadlock_reports_the_waiters_and_what_they_wait_for():
    body = """
    setp.ge.u32 %p2, %r1, 32; @%p2 bra OTHER;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 64;
    """ + wait("W", "%r3", "0") + "bra END;\nOTHER: mov.u32 %r10, 3; bra END;"
    with pytest.raises(DeadlockError) as error:
        results(body, block=96, count=33, shared_map=[("ring.full", "sm", 1024 - 8, 16)])
    text = str(error.value)
    assert "warp 0 of CTA (0, 0, 0) waits for phase 0 of mbarrier ring.full[1]" in text
    assert "it is in phase 0: 32 of 33 arrivals, 2,048 bytes missing; no operation in flight signals it" in text
    assert text.count("PTX line") == 2
    assert "64 of 96 threads have exited" in text


def test_a_wait_for_a_parity_says_so():
    loop = "W: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r3], 0; @!%p9 bra W;"
    with pytest.raises(DeadlockError, match=r"waits for a phase of parity 0 of mbarrier sm\+1024"):
        results(loop)


def test_unknown_forms_are_refused():
    for text in ("mbarrier.arrive.shared::cta.b32 _, [%r3];", "mbarrier.try_wait.acquire.shared::cta.b64 %p9, [%r3];"):
        with pytest.raises(UnsupportedInstructionError):
            results(text)


# elections


@pytest.mark.parametrize("seed", range(5))
def test_the_elected_lane_stays_the_same(seed):
    body = """
    elect.sync %r11|%p2, -1; elect.sync %r12|%p3, 0xFFFFFFFF;
    setp.ne.u32 %p4, %r11, %r12; selp.u32 %r10, 1000, %r11, %p4; @!%p2 bra END; add.u32 %r10, %r10, 100;
    """
    got = np.array(results(body, block=128, schedule=seed)).reshape(4, 32)
    for warp in got:
        leader = int(np.flatnonzero(warp >= 100)[0])
        assert (warp[warp < 100] == leader).all()
        assert np.count_nonzero(warp == leader + 100) == 1
    assert seed or (got >= 100).argmax(axis=1).tolist() == [0] * 4


def test_another_seed_elects_another_lane():
    body = "elect.sync %r10|%p2, -1;"
    assert len({tuple(results(body, block=128, schedule=seed)) for seed in range(5)}) == 5


def test_of_some_lanes_one_of_them_is_elected():
    body = """
    setp.lt.u32 %p2, %r1, 20; @%p2 bra OTHERS;
    elect.sync %r10|%p3, 0xFFF00000; @!%p3 bra END; add.u32 %r10, %r10, 100; bra END;
    OTHERS: mov.u32 %r10, 0;
    """
    for seed in range(6):
        got = np.array(results(body, schedule=seed))
        assert got[:20].tolist() == [0] * 20
        leader = int(got[20:].argmax()) + 20
        assert got[leader] == leader + 100


# arrivals whose phase depends on the order of threads


def by_warps(*bodies):
    """The body of each warp; {label} is different in each."""
    tests = "shr.u32 %r4, %r1, 5; and.b32 %r5, %r1, 31; setp.eq.u32 %p8, %r5, 0; mov.u32 %r6, 0; mov.u32 %r10, 0;\n"
    for i in range(len(bodies)):
        tests += f"setp.eq.u32 %p2, %r4, {i}; @%p2 bra W{i};\n"
    return tests + "".join(f"W{i}: {body.replace('LOOP', f'L{i}')} bra END;\n" for i, body in enumerate(bodies))


def repeat(body, times=3):
    return f"LOOP: {body} add.u32 %r6, %r6, 1; setp.lt.u32 %p7, %r6, {times}; @%p7 bra LOOP;"


ARRIVE = "@%p8 mbarrier.arrive.shared::cta.b64 _, [%r3];"
TWICE = "@%p8 mbarrier.arrive.shared::cta.b64 _, [%r3], 2;"


def waits(at="%r3", number="%r6"):
    """A wait for the phase of the step at a barrier."""
    return wait(f"LOOP{at.strip('%')}", at, number) + "bar.warp.sync -1;"


OTHER = "add.u32 %r9, %r3, 8;"
AT_OTHER = ARRIVE.replace("%r3", "%r9")
PONG = "mbarrier.init.shared::cta.b64 [%r2+1032], 1;\nfence.mbarrier_init"
#: name → (arrivals of a phase, each warp's body)
RIGHT_ARRIVALS = {
    "each waits for each phase": (2, [repeat(ARRIVE + waits())] * 2),
    "one thread arrives twice, as the phase expects": (
        3, [repeat(ARRIVE + ARRIVE + waits()), repeat(ARRIVE + waits())]),
    "one instruction arrives twice": (3, [repeat(TWICE + waits()), repeat(ARRIVE + waits())]),
    "one thread fills phase after phase": (1, [repeat(ARRIVE), ""]),
    "they arrive by turns": (2, [ARRIVE + ARRIVE, waits(number="0") + ARRIVE + ARRIVE]),
    "the one that waits answers at another barrier": (
        2, [OTHER + repeat(ARRIVE + waits("%r9")), OTHER + repeat(ARRIVE + waits() + AT_OTHER)]),
    "a barrier of the CTA orders the phases": (2, [repeat(ARRIVE + "bar.sync 0;")] * 2),
    "a named barrier does": (2, [repeat(ARRIVE + "bar.sync 1, 64;")] * 2),
    "all lanes arrive": (64, [repeat(ARRIVE.replace("@%p8 ", "") + waits())] * 2),
}
WRONG_ARRIVALS = {
    "no thread waits": (2, [repeat(ARRIVE)] * 2),
    "one of two doesn't wait": (2, [repeat(ARRIVE), repeat(ARRIVE + waits())]),
    "one arrives once too often": (2, [ARRIVE + ARRIVE, ARRIVE + waits(number="0")]),
    "one of three doesn't wait": (3, [repeat(ARRIVE + waits())] * 2 + [repeat(ARRIVE)]),
}


def arrivals(count, bodies, schedule):
    start = START.format(count=count).replace("fence.mbarrier_init", PONG)
    text = module(start + by_warps(*bodies) + END)
    block = 32 * len(bodies)
    return launch(text, np.zeros(block, "u4"), block=block, schedule=schedule)


@pytest.mark.parametrize("schedule", range(6))
@pytest.mark.parametrize("name", RIGHT_ARRIVALS)
def test_arrivals_that_know_of_the_phase_before_are_right(name, schedule):
    assert arrivals(*RIGHT_ARRIVALS[name], schedule).findings == ()


@pytest.mark.parametrize("schedule", range(8))
@pytest.mark.parametrize("name", WRONG_ARRIVALS)
def test_an_arrival_that_another_order_counts_for_another_phase_is_reported(name, schedule):
    with pytest.raises(AsyncHazardError, match=r"the arrival of .* at mbarrier sm\+1024\n(.|\n)*isn't ordered after"):
        arrivals(*WRONG_ARRIVALS[name], schedule)


MINE, THEIRS = "bar.arrive 1, 64;", "bar.arrive 2, 64;"
RIGHT_TURNS = {
    "they take turns": [
        repeat("bar.sync 2, 64;" + MINE) + "bar.sync 2, 64;", THEIRS + repeat("bar.sync 1, 64;" + THEIRS)],
    "both wait each time": [repeat("bar.sync 1, 64;")] * 2,
    "numbers by turns": [repeat("bar.sync 1, 64; bar.sync 2, 64;")] * 2,
    "one waits, then all": [repeat(MINE + "bar.sync 0;"), repeat("bar.sync 1, 64; bar.sync 0;")],
    "pairs one after the other": ["bar.sync 1, 64; bar.sync 2, 96;"] * 2 + ["bar.sync 2, 96; bar.sync 3, 64;"]
                                 + ["bar.sync 3, 64;"],
}
WRONG_TURNS = {
    "each arrives before it knows": [
        MINE + repeat("bar.sync 2, 64;" + MINE) + "bar.sync 2, 64;",
        THEIRS + repeat("bar.sync 1, 64;" + THEIRS) + "bar.sync 1, 64;"],
    "one doesn't wait": [repeat(MINE), repeat("bar.sync 1, 64;")],
    "two pairs at once": ["bar.sync 1, 64;"] * 4,
    "the next pair comes early": ["bar.sync 1, 64;"] * 2 + ["bar.arrive 1, 64;", "bar.sync 1, 64;"],
}


@pytest.mark.parametrize("schedule", range(6))
@pytest.mark.parametrize("name", RIGHT_TURNS)
def test_named_barriers_reused_after_their_phase_are_right(name, schedule):
    assert arrivals(1, RIGHT_TURNS[name], schedule).findings == ()


@pytest.mark.parametrize("schedule", range(10))
@pytest.mark.parametrize("name", WRONG_TURNS)
def test_a_named_barrier_reused_before_its_phase_is_known_to_be_over_is_reported(name, schedule):
    with pytest.raises(AsyncHazardError, match=r"at barrier \d( twice|, at which more|\n.*\nisn't ordered)"):
        arrivals(1, WRONG_TURNS[name], schedule)


# named barriers whose number is known only at run time


def test_named_barriers_take_numbers_at_run_time():
    """Each pair of warps has a barrier of its own; the first of a pair only arrives."""
    body = """
    shr.u32 %r4, %r1, 6; add.u32 %r4, %r4, 1; mov.u32 %r5, 64; and.b32 %r6, %r1, 32;
    shl.b32 %r7, %r1, 2; add.u32 %r7, %r7, %r2;
    setp.ne.u32 %p2, %r6, 0; @%p2 bra SECOND;
    st.shared.u32 [%r7], %r1; bar.arrive %r4, %r5; mov.u32 %r10, 0; bra END;
    SECOND: bar.sync %r4, %r5; ld.shared.u32 %r10, [%r7+-128];
    """
    expected = [0 if t % 64 < 32 else t - 32 for t in range(256)]
    for seed in range(4):
        assert results(body, block=256, schedule=seed) == expected


# setmaxnreg

ROLES = """
setp.lt.u32 %p2, %r1, 128; @%p2 bra PRODUCER;
setmaxnreg.inc.sync.aligned.u32 {more}; mov.u32 %r10, 1; bra END;
PRODUCER: setmaxnreg.dec.sync.aligned.u32 {less}; mov.u32 %r10, 2;
"""


def with_registers(body, directives=".maxntid 384", block=384, **options):
    out = np.zeros(block, "u4")
    text = module(START.format(count=1) + body + END, directives=directives)
    report = run(text, "k", (1,), (block,), [pointer(out, "out")], **options)
    return out, report


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("less", "more"), [(24, 240), (40, 232), (24, 168), (168, 168)])
def test_registers_move_from_one_warpgroup_to_others(less, more, seed):
    out, report = with_registers(ROLES.format(less=less, more=more), schedule=seed)
    assert out.tolist() == [2] * 128 + [1] * 256
    assert report.findings == ()


@pytest.mark.parametrize(
    "directives", [".maxntid 384", ".reqntid 384, 1, 1\n.maxnreg 168", ".maxntid 384\n.minnctapersm 1"]
)
def test_more_registers_than_there_are_is_a_deadlock(directives):
    """Measured on an H100: 32, 240 and 240 registers hang; 3 x 168 are there."""
    with pytest.raises(DeadlockError) as error:
        with_registers(ROLES.format(less=32, more=240), directives)
    text = str(error.value)
    assert "waits for 240 registers per thread, which takes 9,216 more; 8,192 are free" in text
    assert "request 32 + 240 + 240 registers per thread; a CTA of 384 threads starts with 3 x 168" in text


def test_two_ctas_on_an_sm_have_half_the_registers():
    with pytest.raises(DeadlockError, match="starts with 3 x 80"):
        with_registers(ROLES.format(less=24, more=168), ".maxntid 384\n.minnctapersm 2")


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("setp.ge.u32 %p2, %r1, 32; @%p2 bra END; setmaxnreg.dec.sync.aligned.u32 24;", DivergenceError,
         "all 128 threads of a warpgroup"),
        ("setp.ge.u32 %p2, %r1, 32; @%p2 bra A; setmaxnreg.dec.sync.aligned.u32 24; A: bar.sync 0;",
         DivergenceError, "lanes 0, 1, 2"),
        ("setmaxnreg.dec.sync.aligned.u32 48; setmaxnreg.dec.sync.aligned.u32 40;",
         SimulationError, "a second time"),
        ("setmaxnreg.inc.sync.aligned.u32 24;", SimulationError, "its registers from 168 to 24 with setmaxnreg.inc"),
        ("setmaxnreg.dec.sync.aligned.u32 240;", SimulationError, "its registers from 168 to 240 with setmaxnreg.dec"),
        ("setmaxnreg.dec.sync.aligned.u32 28;", UnsupportedInstructionError, "multiple of 8"),
    ],
)
def test_misuse_of_setmaxnreg(body, error, message):
    with pytest.raises(error, match=message):
        with_registers(body + "\nmov.u32 %r10, 0;")


def test_without_maxntid_ptxas_ignores_it():
    out, report = with_registers(ROLES.format(less=32, more=240), "")
    assert out.tolist() == [2] * 128 + [1] * 256
    assert [(x.rule, x.level) for x in report.findings] == [("registers", "warning")] * 2


GIVEN_BACK = """
mbarrier.arrive.shared::cta.b64 %x3, [%r3];
W: mbarrier.test_wait.shared::cta.b64 %p9, [%r3], %x3; @!%p9 bra W;
bar.sync 0; // used
@%p1 bra FREE; mbarrier.inval.shared::cta.b64 [%r3];
FREE: bar.sync 0; // free
mov.u32 %r10, %r1; setp.eq.u32 %p4, %r1, 64; @%p4 st.shared.u32 [%r3], %r1;
"""


@pytest.mark.parametrize("schedule", range(3))
def test_the_bytes_of_a_barrier_are_given_back_between_its_uses_and_the_next(schedule):
    assert results(GIVEN_BACK, block=128, count=128, schedule=schedule) == list(range(128))
    with pytest.raises(RaceError, match=r"(?s)invalidated without being ordered after its uses.*inval.*after.*wait"):
        results(GIVEN_BACK.replace("bar.sync 0; // used\n", ""), block=128, count=128, schedule=schedule)
    with pytest.raises(RaceError, match=r"(?s)thread 64 .*writes 4 bytes.*thread 0 .*mbarrier\.inval"):
        results(GIVEN_BACK.replace("bar.sync 0; // free\n", ""), block=128, count=128, schedule=schedule)
