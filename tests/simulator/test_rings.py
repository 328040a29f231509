"""Rings between warps: right programs give the same bits in every order and no report; each seeded bug is reported."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from tests.simulator.ring_kernels import BARRIERS, Ring, launch, wait
from tilejit.errors import AsyncHazardError, DeadlockError, RaceError, SimulationError, UninitializedReadError

SEEDS = range(5)
RINGS = [
    *(Ring(stages) for stages in range(1, 6)),
    Ring(2, producers=2), Ring(3, producers=2, consumers=3), Ring(2, width=2), Ring(3, width=4, consumers=2),
    Ring(3, uneven=2), Ring(5, steps=3),
]


def played(ring: Ring, text: str, grid: int = 1, **options: object) -> np.ndarray:
    src, out = ring.arrays(grid)
    launch(text, src, out, block=ring.block, grid=grid, shared_map=ring.shared_map, **options)
    assert np.array_equal(out, ring.expected(src))
    return out


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_rings_are_right_in_every_order(ring):
    for seed in SEEDS:
        for delivery in ("late", "early", f"random:{seed}"):
            played(ring, ring.text(), 1 + 2 * (ring.uneven > 0), schedule=seed, delivery=delivery)


@pytest.mark.parametrize("number", range(12))
def test_rings_drawn_by_chance(number):
    draw = np.random.default_rng(number)
    ring = Ring(
        stages=int(draw.integers(1, 6)), steps=int(draw.integers(1, 12)), producers=int(draw.integers(1, 4)),
        consumers=int(draw.integers(1, 4)), width=int(draw.integers(1, 4)), uneven=int(draw.integers(2)),
    )
    for seed in SEEDS:
        played(ring, ring.text(), 1 + number % 3, schedule=seed, delivery=f"random:{seed}")


def changed(text: str, before: str, after: str) -> str:
    assert before in text, before
    return text.replace(before, after, 1)


def without(text: str, pattern: str) -> str:
    """A text without the first match of a pattern."""
    result, count = re.subn(pattern, "", text, count=1)
    assert count, pattern
    return result


ARRIVE_FULL = "@%p6 mbarrier.arrive.shared::cta.b64 _, [%r13];"
ARRIVE_EMPTY = "@%p6 mbarrier.arrive.shared::cta.b64 _, [%r14];"
LOAD = "ld.shared.u32 %r30, [%r23+0]; add.u32 %r31, %r31, %r30;\n"
ONE_LANE_WAITS = "setp.ne.u32 %p8, %r4, 0; @%p8 bra WAITED;\n{wait}WAITED:\n{sync}"


def consumer_wait(ring: Ring) -> str:
    return wait("WAIT", "%r13", "%r12")


def one_lane_waits(text: str, ring: Ring, sync: str) -> str:
    waits = consumer_wait(ring)
    return changed(text, waits, ONE_LANE_WAITS.format(wait=waits, sync=sync))


def early_release(text: str, ring: Ring) -> str:
    """The consumer arrives before its loads."""
    text = without(text, re.escape(ARRIVE_EMPTY))
    return changed(text, LOAD, ARRIVE_EMPTY.replace("@%p6", "elect.sync _|%p6, -1;\n@%p6") + "\n" + LOAD)


def stuck_counter(text: str, ring: Ring) -> str:
    """One consumer stays at step 3 once."""
    return changed(
        text, "NEXT: add.u32 %r10, %r10, 1;",
        "NEXT: setp.eq.u32 %p9, %r10, 3; setp.eq.and.u32 %p9, %r24, 0, %p9; setp.eq.and.u32 %p9, %r50, 0, %p9;\n"
        "selp.u32 %r51, 0, 1, %p9; @%p9 mov.u32 %r50, 1; add.u32 %r10, %r10, %r51;",
    ).replace("mov.u32 %r10, 0;", "mov.u32 %r10, 0; mov.u32 %r50, 0;", 1)


Mutation = Callable[[str, Ring], str]
WIDE = Ring(2, width=2)
#: name → (the ring, what changes, errors of which one is raised, what the message or the lines say)
MUTATIONS: dict[str, tuple[Ring, Mutation, type[SimulationError] | tuple[type[SimulationError], ...], str]] = {
    "1 no wait": (Ring(), lambda text, ring: changed(text, consumer_wait(ring), ""),
                  (RaceError, SimulationError), "buffer"),
    "2 no acquire": (Ring(), lambda text, ring: changed(text, wait("ACQUIRE", "%r14", "%r16"), ""),
                     (RaceError, AsyncHazardError), "st.shared|ring.full"),
    "3 no release": (Ring(), lambda text, ring: without(text, re.escape(ARRIVE_EMPTY)),
                     DeadlockError, r"waits for phase 0 of mbarrier ring.empty\[0\]"),
    "3b one consumer releases nothing": (
        Ring(), lambda text, ring: changed(text, ARRIVE_EMPTY, "setp.eq.and.u32 %p6, %r24, 1, %p6;\n" + ARRIVE_EMPTY),
        DeadlockError, r"1 of 2 arrivals\n  thread \d+ \(warp 2"),
    "4 release before the reads": (Ring(), early_release, RaceError, "ld.shared"),
    "5 release twice": (Ring(), lambda text, ring: changed(text, ARRIVE_EMPTY, ARRIVE_EMPTY + "\n" + ARRIVE_EMPTY),
                        (RaceError, AsyncHazardError), "mbarrier.arrive|ld.shared"),
    "6 one consumer instead of two": (
        Ring(), lambda text, ring: text.replace("], 2;", "], 1;"), (RaceError, AsyncHazardError),
        "mbarrier.arrive|ld.shared"),
    "7 wrong stage in the copy": (
        Ring(), lambda text, ring: changed(text, "st.shared.u32 [%r23], %r22;",
                                           f"xor.b32 %r23, %r23, {4 * ring.row}; st.shared.u32 [%r23], %r22;"),
        SimulationError, "buffer"),
    "8 wrong stage in the read": (
        Ring(), lambda text, ring: changed(text, LOAD, f"xor.b32 %r23, %r23, {4 * ring.row};\n" + LOAD),
        SimulationError, "buffer"),
    "9 counter not raised on one path": (
        Ring(), stuck_counter, (RaceError, AsyncHazardError, DeadlockError), "ring|buffer"),
    "13 wait number one too high": (
        Ring(), lambda text, ring: changed(text, consumer_wait(ring),
                                           "add.u32 %r45, %r12, 1;\n" + wait("WAIT", "%r13", "%r45")),
        (AsyncHazardError, DeadlockError),
        r"ring.full\[0\] is in phase 0 when its phase 1 is waited for|wait for phase 1 of mbarrier ring.full\[0\]"),
    "13b wait number one too low": (
        Ring(), lambda text, ring: changed(text, consumer_wait(ring),
                                           "add.u32 %r45, %r12, -1;\n" + wait("WAIT", "%r13", "%r45")),
        (RaceError, AsyncHazardError, SimulationError), "buffer|its phase -1 is waited for"),
    "34 one lane waits, all read": (
        Ring(), lambda text, ring: one_lane_waits(text, ring, ""),
        (RaceError, UninitializedReadError), "ld.shared"),
    "35 release without the warp's synchronisation": (
        Ring(), lambda text, ring: without(text, r"bar\.warp\.sync -1; // release\n"), RaceError, "ld.shared"),
    "35b commit without the warp's synchronisation": (
        Ring(), lambda text, ring: without(text, r"bar\.warp\.sync -1; // commit\n"), RaceError, "st.shared"),
    "35c release without the group's synchronisation": (
        WIDE, lambda text, ring: changed(text, "bar.sync %r40, 64; // release\n", ""), RaceError, "ld.shared"),
    "38 another warp waits": (
        WIDE, lambda text, ring: changed(text, consumer_wait(ring), "setp.ne.u32 %p8, %r25, 0; @%p8 bra WAITED;\n"
                                         + consumer_wait(ring) + "WAITED:\n"),
        RaceError, "ld.shared"),
    "42 a group releases that hasn't synchronised after its wait": (
        WIDE, lambda text, ring: changed(
            changed(text, "bar.sync %r40, 64; // release\n", ""),
            LOAD, f"mov.u32 %r31, 0; @%p30 bra SKIP;\n{LOAD}SKIP:\n",
        ).replace("mov.u32 %r10, 0;", "mov.u32 %r10, 0; setp.eq.u32 %p30, %r10, 0;", 1),
        AsyncHazardError,
        r"warp(s|group)? \d.* passed the wait for phase 0 of mbarrier ring.full\[\d\](.|\n)*a late waiter would hang"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_seeded_bug_is_reported(name):
    """In all orders; a race names both lines."""
    base, mutate, kinds, said = MUTATIONS[name]
    for seed in SEEDS:
        for stages in (2, 3):
            ring = Ring(stages, base.steps, base.producers, base.consumers, base.width)
            if "xor" in mutate(ring.text(), ring) and stages & 1:
                continue
            with pytest.raises(kinds) as error:
                played(ring, mutate(ring.text(), ring), schedule=seed)
            text = str(error.value)
            assert re.search(said, text), text
            assert text.count("PTX line") >= 1 + (type(error.value) is RaceError), text


RIGHT: dict[str, tuple[Ring, Mutation]] = {
    "one lane waits, then its warp synchronises": (
        Ring(), lambda text, ring: one_lane_waits(text, ring, "bar.warp.sync -1;\n")),
    "one warp waits, then its group synchronises": (
        WIDE, lambda text, ring: changed(
            text, consumer_wait(ring), "setp.ne.u32 %p8, %r25, 0; @%p8 bra WAITED;\n" + consumer_wait(ring)
            + f"WAITED: add.u32 %r41, %r24, 3; bar.sync %r41, {32 * ring.width};\n")),
    "all lanes arrive": (
        Ring(), lambda text, ring: without(
            without(text, r"bar\.warp\.sync -1; // release\n"), r"elect\.sync _\|%p6, -1;\n(?=@%p6 mbarrier.*%r14)"
        ).replace("@%p6 mbarrier.arrive.shared::cta.b64 _, [%r14]", "mbarrier.arrive.shared::cta.b64 _, [%r14]")
        .replace(f"], {ring.consumers};\n", f"], {32 * ring.consumers};\n")),
    "expect before, bytes by hand": (
        Ring(), lambda text, ring: changed(
            text, ARRIVE_FULL, "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], 128;\n"
            "@%p6 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r13], 128;")),
    "the reader fences": (
        Ring(), lambda text, ring: changed(text, LOAD, "fence.proxy.async.shared::cta;\n" + LOAD)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_stay_silent(name):
    base, change = RIGHT[name]
    for stages in (1, 2, 3):
        ring = Ring(stages, base.steps, base.producers, base.consumers, base.width)
        for seed in SEEDS:
            played(ring, change(ring.text(), ring), schedule=seed)


def test_a_race_names_the_stage():
    ring = Ring()
    with pytest.raises(RaceError) as error:
        played(ring, without(ring.text(), r"bar\.warp\.sync -1; // release\n"))
    text = str(error.value)
    assert "buffer+" in text
    assert "ld.shared" in text
    assert "st.shared" in text
    assert "put a barrier between them" in text


@pytest.mark.parametrize("access", ["ld.shared.u32 %r45, [%r13];", "st.shared.u32 [%r13+4], %r10;",
                                    "atom.shared.add.u32 %r45, [%r13], 1;"])
def test_a_barriers_bytes_are_its_own(access):
    ring = Ring()
    with pytest.raises(AsyncHazardError, match="memory, part of an mbarrier") as error:
        played(ring, changed(ring.text(), LOAD, access + LOAD))
    assert "ring.full+" in str(error.value)
    assert str(error.value).count("PTX line") == 2


def test_barriers_are_used_after_their_initialisation():
    ring = Ring()
    with pytest.raises(RaceError, match="is used without being ordered after its initialization") as error:
        played(ring, changed(ring.text(), "READY: bar.sync 0;", "READY:"))
    assert "mbarrier.init" in str(error.value)


def test_a_barrier_over_data_that_others_still_read():
    ring = Ring()
    early = f"mad.lo.u32 %r46, %r1, 4, %r2; st.shared.u32 [%r46+{BARRIERS}], %r1;\n"
    with pytest.raises(RaceError, match="initializes an mbarrier in"):
        played(ring, changed(ring.text(), "setp.ne.u32 %p1, %r1, 0;", early + "setp.ne.u32 %p1, %r1, 0;"))


def tokens(ring: Ring, leader: str) -> str:
    """A ring that carries nothing: warps wait, and the lane that `leader` finds arrives, without a synchronisation."""
    text = changed(ring.text(), LOAD, "")
    store = r"st\.shared\.u32 \[%r23\], %r22;"
    for what in (store, r"bar\.warp\.sync -1; // release", r"bar\.warp\.sync -1; // commit"):
        text = without(text, what)
    return text.replace("elect.sync _|%p6, -1;", leader)


def played_tokens(leader: str, seed: int) -> None:
    ring = Ring(2)
    src, out = ring.arrays()
    launch(tokens(ring, leader), src, out, block=ring.block, shared_map=ring.shared_map, schedule=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_that_elect_one_have_passed_what_they_waited_for(seed):
    played_tokens("elect.sync _|%p6, -1;", seed)
    with pytest.raises(AsyncHazardError, match=r"passed the wait for phase 0 of (.|\n)*a late waiter would hang"):
        played_tokens("setp.eq.u32 %p6, %r4, 0;", seed)
    with pytest.raises(AsyncHazardError, match="a late waiter would hang"):
        played_tokens("mov.u32 %r50, 1; setp.ne.u32 %p6, %r4, 0; @%p6 mov.u32 %r50, 0xfffffffe; "
                      "elect.sync _|%p7, %r50; setp.eq.u32 %p6, %r4, 0;", seed)
