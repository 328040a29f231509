"""HappensBefore's frontiers against vector clocks that keep an event for every pair of threads."""

import dataclasses
from collections import defaultdict

import numpy as np
import pytest

from tilejit.simulator.checks import clock_sets, release_acquire
from tilejit.simulator.checks.order import HappensBefore
from tilejit.simulator.checks.records import Shadow
from tilejit.simulator.checks.release_acquire import ANY, CONSISTENT, WIDE
from tilejit.simulator.decode.ordering import Ordering
from tilejit.simulator.decode.parser import parse
from tilejit.simulator.decode.statements import parse_kernel
from tilejit.simulator.machine.lanes import Lanes
from tilejit.simulator.machine.memory import MemoryPart, MemoryRegion
from tilejit.simulator.opcodes.memory import Site

CTAS, THREADS, WARP = 2, 80, 32
TOTAL = CTAS * THREADS
CTA = np.arange(TOTAL) // THREADS
IN_CTA = np.arange(TOTAL) % THREADS // WARP
CELLS = 4


class Naive:
    """A clock of all threads for each thread, and lists of all that was released to each cell.

    clock[t, u]: the last event of thread u that has happened for thread t.
    """

    def __init__(self):
        self.clock = np.zeros((TOTAL, TOTAL), np.int64)
        self.seen = np.zeros((2, TOTAL, TOTAL), np.int64)
        self.spread = np.zeros((TOTAL, TOTAL), np.int64)
        self.awaited = np.zeros((TOTAL, TOTAL), np.int64)
        self.fenced = {}
        self.cells = defaultdict(list)
        self.messages = defaultdict(lambda: np.zeros(TOTAL, np.int64))

    def at(self, thread, event):
        past = self.clock[thread].copy()
        past[thread] = event
        return past

    def synchronize(self, members, now):
        for thread in members:
            self.clock[thread, thread] = now
        self.clock[members] = self.clock[members].max(axis=0)
        past = self.spread[members].max(axis=0)
        for thread in members:
            fence = self.fenced.pop((thread, CONSISTENT), None)
            past = past if fence is None else np.maximum(past, fence[1])
        self.spread[members] = past
        self.awaited[members] = np.maximum(self.awaited[members].max(axis=0), self.seen[1][members].max(axis=0))

    def fence(self, thread, sem, wide, now):
        if sem != "release":
            self.clock[thread] = np.maximum(self.clock[thread], self.seen[int(wide)][thread])
            if sem == "sc" and wide:
                self.clock[thread] = np.maximum(self.clock[thread], self.awaited[thread])
        if sem == "acquire":
            return
        for kind in [ANY, *([WIDE] if wide else []), *([CONSISTENT] if wide and sem == "sc" else [])]:
            self.fenced[thread, kind] = now, self.at(thread, now)

    def releases(self, thread, site, now):
        if site.release:
            yield self.at(thread, now), site.wide
        any_fence, wide_fence = (self.fenced.get((thread, kind), (0, None)) for kind in (ANY, WIDE))
        if wide_fence[0]:
            yield wide_fence[1], site.wide
        if any_fence[0] > wide_fence[0]:
            yield any_fence[1], False
        if self.spread[thread].any():
            yield self.spread[thread].copy(), site.wide

    def visible(self, cell, thread, wide):
        result = np.zeros(TOTAL, np.int64)
        for _, cta, reaches, past in self.cells[cell]:
            if cta == CTA[thread] or (reaches and wide):
                result = np.maximum(result, past)
        return result

    def read(self, cell, thread, site):
        for row, wide in ((0, False), (1, site.wide)):
            self.seen[row][thread] = np.maximum(self.seen[row][thread], self.visible(cell, thread, wide))
        if site.acquire:
            self.clock[thread] = np.maximum(self.clock[thread], self.visible(cell, thread, site.wide))

    def write(self, cell, thread, site, now):
        fresh = [(thread, CTA[thread], wide, past) for past, wide in self.releases(thread, site, now)]
        before = self.cells[cell]
        if site.kind == "atomic" and site.reads:
            self.read(cell, thread, site)
        if site.kind != "atomic" and before and before[-1][0] != thread:
            before = []
        self.cells[cell] = before + fresh


class Both:
    """The same steps for HappensBefore and for the naive clocks."""

    def __init__(self, rng, narrow):
        self.rng = rng
        self.narrow = narrow
        self.lanes = Lanes((CTAS, 1, 1), (THREADS, 1, 1), 0, CTAS)
        facts = dataclasses.replace(Ordering.of([], []), narrow=narrow, consistent=True, clocks=True, proxies=True)
        self.order = HappensBefore(CTAS, self.lanes, True, facts)
        self.order.begin(self.lanes)
        self.order.cta_barrier(np.arange(CTAS), True)
        self.naive = Naive()
        memory = np.zeros(4 * CELLS, np.uint8)
        self.shadow = Shadow(MemoryRegion("global", 0, memory.size, memory, [MemoryPart("m", 0, memory.size)]), 2, ())
        self.accesses = []
        self.messages = {}

    def some(self):
        """Up to a few threads, or a whole warp."""
        if self.rng.random() < 0.3:
            warp = self.rng.integers(CTAS * 3)
            return np.flatnonzero(warp == CTA * 3 + IN_CTA)
        return np.sort(self.rng.choice(TOTAL, self.rng.integers(1, 6), replace=False))

    def access(self):
        threads = self.some()
        now = self.order.tick(1)
        self.naive.clock[threads, threads] = now
        self.accesses.extend((t, now) for t in threads)

    def cta_barrier(self):
        ctas = np.flatnonzero(self.rng.random(CTAS) < 0.6)
        if ctas.size:
            self.order.cta_barrier(ctas, ctas.size == CTAS)
            for cta in ctas:
                self.naive.synchronize(np.flatnonzero(cta == CTA), self.order.event)

    def warp_barrier(self):
        warps = np.flatnonzero(self.rng.random(CTAS * 3) < 0.5)
        if warps.size:
            self.order.warp_barrier(np.flatnonzero(np.isin(CTA * 3 + IN_CTA, warps)))
            for warp in warps:
                self.naive.synchronize(np.flatnonzero(warp == CTA * 3 + IN_CTA), self.order.event)

    def lane_barrier(self):
        warps = self.rng.choice(CTAS * 3, 2, replace=False)
        groups = [self.rng.choice(np.flatnonzero(w == CTA * 3 + IN_CTA), self.rng.integers(2, 5), False) for w in warps]
        positions = np.sort(np.concatenate(groups))
        numbers = np.array([int(np.isin(p, groups[1])) for p in positions])
        self.order.lane_barrier(positions, numbers)
        for group in groups:
            self.naive.synchronize(np.sort(group), self.order.event)

    def named_barrier(self):
        """Two of three warps of a CTA; the second may only arrive."""
        cta = int(self.rng.integers(CTAS))
        first, second = self.rng.choice(3, 2, replace=False)
        both_wait = self.rng.random() < 0.5
        members = [np.flatnonzero((cta == CTA) & (w == IN_CTA)) for w in (first, second)]
        early = self.order.release(members[1])
        past = self.naive.clock[members[1]].max(axis=0)
        past[members[1]] = self.order.event
        together = self.order.joined([early, self.order.release(members[0])])
        now = self.order.event
        for threads in members[: 1 + both_wait]:
            self.order.learn(threads, together)
        clock = self.naive.clock
        joined = np.maximum(clock[members[0]].max(axis=0), past)
        joined[members[0]] = now
        for threads in members[: 1 + both_wait]:
            clock[threads] = np.maximum(clock[threads], joined)

    def arrive(self):
        """A few threads, or a warp, release to one of two barriers of their CTAs."""
        threads = self.some()
        barrier = int(self.rng.integers(2))
        message = self.order.release(threads)
        before = self.messages.get(barrier)
        self.messages[barrier] = message if before is None else self.order.joined([before, message])
        for t in threads:
            key = barrier, int(CTA[t])
            self.naive.messages[key] = np.maximum(self.naive.messages[key], self.naive.at(t, self.order.event))

    def wait(self):
        """A few threads, or a warp, learn what was released to a barrier."""
        threads = self.some()
        barrier = int(self.rng.integers(2))
        if barrier not in self.messages:
            return
        self.order.learn(threads, self.messages[barrier])
        for t in threads:
            past = self.naive.messages[barrier, int(CTA[t])]
            self.naive.clock[t] = np.maximum(self.naive.clock[t], past)

    def fence(self):
        threads = self.some()
        sem = str(self.rng.choice(["sc", "acq_rel", "acquire", "release"]))
        wide = not self.narrow or self.rng.random() < 0.6
        self.order.flags.fence(threads, sem, wide)
        for t in threads:
            self.naive.fence(t, sem, wide, self.order.event)

    def strong(self):
        threads = self.some()
        cells = self.rng.integers(CELLS, size=threads.size) if self.rng.random() < 0.5 else \
            np.full(threads.size, self.rng.integers(CELLS))
        kind = str(self.rng.choice(["load", "store", "atomic"]))
        acquire = kind != "store" and self.rng.random() < 0.5
        release = kind != "load" and self.rng.random() < 0.5
        wide = not self.narrow or self.rng.random() < 0.6
        reads = kind != "atomic" or acquire or self.rng.random() < 0.7
        site = Site(0, 1, "global", 0, 2, "u4", "u8", kind, True, acquire, release, wide, reads)
        now = self.order.tick(1)
        self.naive.clock[threads, threads] = now
        flags = self.order.flags
        (flags.strong_read if kind == "load" else flags.strong_write)(self.shadow, cells, threads, site)
        for t, cell in zip(threads, cells, strict=True):
            if kind == "load":
                self.naive.read(cell, t, site)
            else:
                self.naive.write(cell, t, site, now)

    def weak_write(self):
        cell = int(self.rng.integers(CELLS))
        self.order.flags.weak_write(self.shadow, np.array([cell]))
        self.naive.cells[cell] = []

    def compare(self):
        """Returns how many answers are no by-product of barriers of whole CTAs."""
        if not self.accesses:
            return 0
        who, event = np.array(self.accesses[-60:]).T
        pair = np.repeat(np.arange(who.size), TOTAL)
        by = np.tile(np.arange(TOTAL), who.size)
        pair, by = pair[by != who[pair]], by[by != who[pair]]
        answer = self.order.ordered(who[pair] + 1, event[pair], by + 1)
        wanted = event[pair] <= self.naive.clock[by, who[pair]]
        wrong = np.flatnonzero(answer != wanted)
        assert not wrong.size, [
            (int(who[pair[i]]), int(event[pair[i]]), int(by[i]), bool(answer[i])) for i in wrong[:5]
        ]
        return int(np.count_nonzero(wanted & (CTA[who[pair]] != CTA[by])))


STEPS = {"access": 5, "cta_barrier": 1, "warp_barrier": 1, "lane_barrier": 1, "named_barrier": 1, "fence": 4,
         "strong": 9, "weak_write": 0.3, "arrive": 3, "wait": 3}


def play(seed, narrow, steps=60):
    rng = np.random.default_rng(seed)
    both = Both(rng, narrow)
    weights = np.array(list(STEPS.values()))
    found = 0
    for i in range(steps):
        getattr(both, str(rng.choice(list(STEPS), p=weights / weights.sum())))()
        if i % 6 == 5:
            found += both.compare()
    return found


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_frontiers_order_as_clocks_of_all_pairs_do(seed, narrow):
    play(seed, narrow)


def test_the_programs_pass_knowledge_between_ctas():
    assert sum(play(seed, False) > 0 for seed in range(10)) >= 5


@pytest.mark.parametrize("seed", range(10))
def test_frontiers_that_are_swept_and_worked_out_in_steps(seed, monkeypatch):
    """One row a step, and the table swept as often as it can be."""
    monkeypatch.setattr(clock_sets, "STEP_ELEMENTS", 1)
    monkeypatch.setattr(release_acquire, "STEP_ELEMENTS", 1)
    monkeypatch.setattr(clock_sets.ClockSets, "needs_sweep", True)
    play(seed, seed % 2 == 0)


@pytest.mark.parametrize("seed", range(10))
def test_frontiers_in_pages(seed, monkeypatch):
    """All rows that can be are kept in pages."""
    monkeypatch.setattr(clock_sets, "WORTH_ELEMENTS", 1)
    monkeypatch.setattr(clock_sets, "STEP_ELEMENTS", 16)
    kept = []
    keep_page = clock_sets.ClockSets.keep_page
    monkeypatch.setattr(clock_sets.ClockSets, "keep_page", lambda *args: kept.append(1) or keep_page(*args))
    play(seed, seed % 2 == 0)
    assert kept


@pytest.mark.parametrize(("instruction", "is_relaxed"), [
    ("arrive.shared::cta.b64 _, [%r1]", False),
    ("arrive.relaxed.cta.shared::cta.b64 _, [%r1]", True),
    ("arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%r1], 64", True),
    ("arrive.expect_tx.shared::cta.b64 _, [%r1], 64", False),
    ("expect_tx.relaxed.cta.shared::cta.b64 [%r1], 64", False),
])
def test_barriers_of_relaxed_arrivals_order_no_accesses(instruction, is_relaxed):
    body = f".reg .b32 %r<2>; .shared .b64 bar; mov.u32 %r1, bar; mbarrier.{instruction}; ret;"
    module = parse(f".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry k() {{ {body} }}")
    assert Ordering.of(parse_kernel(module, module.kernels["k"]).body, []).relaxed == is_relaxed
