"""What the asynchronous proxy sees, by HappensBefore's clocks and by an event for every pair of threads."""

import dataclasses
from collections import defaultdict

import numpy as np
import pytest

from tilejit.simulator.checks.order import HappensBefore
from tilejit.simulator.decode.ordering import Ordering
from tilejit.simulator.machine.lanes import Lanes

CTAS, THREADS, WARP = 2, 80, 32
TOTAL = CTAS * THREADS
CTA = np.arange(TOTAL) // THREADS
WARPS = CTA * 3 + np.arange(TOTAL) % THREADS // WARP
SPACES = ("shared", "global")


class Both:
    """The same steps for both and for naive views: [plane, thread, other] is the last event of the other it sees.

    Plane 0 is what ordinary accesses see; the others what the proxy does of shared and of global memory.
    """

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.lanes = Lanes((CTAS, 1, 1), (THREADS, 1, 1), 0, CTAS)
        facts = dataclasses.replace(Ordering.of([], []), clocks=True, proxies=True, partial=True)
        self.order = HappensBefore(CTAS, self.lanes, True, facts)
        self.order.cta_barrier(np.arange(CTAS), True)
        self.views = np.zeros((3, TOTAL, TOTAL), np.int64)
        self.messages = {}
        self.released = defaultdict(lambda: np.zeros((3, TOTAL), np.int64))
        self.accesses = []

    def some(self):
        if self.rng.random() < 0.4:
            return np.flatnonzero(self.rng.integers(CTAS * 3) == WARPS)
        return np.sort(self.rng.choice(TOTAL, self.rng.integers(1, 6), replace=False))

    def access(self):
        threads = self.some()
        now = self.order.tick(1)
        self.views[0, threads, threads] = now
        self.accesses.extend((t, now) for t in threads)

    def synchronize(self, members):
        self.views[:, members] = self.views[:, members].max(axis=1, keepdims=True)

    def cta_barrier(self):
        cta = int(self.rng.integers(CTAS))
        self.order.cta_barrier(np.array([cta]), False)
        self.synchronize(np.flatnonzero(cta == CTA))

    def warp_barrier(self):
        members = np.flatnonzero(self.rng.integers(CTAS * 3) == WARPS)
        self.order.warp_barrier(members)
        self.synchronize(members)

    def fence(self):
        threads = self.some()
        space = str(self.rng.choice(["", *SPACES]))
        self.order.fence_proxy(threads, space)
        for plane, name in enumerate(SPACES, 1):
            if space in ("", name):
                self.views[plane, threads] = np.maximum(self.views[plane, threads], self.views[0, threads])

    def arrive(self):
        threads, barrier = self.some(), int(self.rng.integers(2))
        message = self.order.release(threads)
        before = self.messages.get(barrier)
        self.messages[barrier] = message if before is None else self.order.joined([before, message])
        for t in threads:
            key = barrier, int(CTA[t])
            self.released[key] = np.maximum(self.released[key], self.views[:, t])

    def wait(self):
        threads, barrier = self.some(), int(self.rng.integers(2))
        if barrier in self.messages:
            self.order.learn(threads, self.messages[barrier])
            for t in threads:
                self.views[:, t] = np.maximum(self.views[:, t], self.released[barrier, int(CTA[t])])

    def compare(self):
        """Asynchronous accesses are in order where both views say so; returns how often only the proxy's says no."""
        who, event = np.array(self.accesses[-40:]).T
        pair, by = (x.reshape(-1) for x in np.meshgrid(np.arange(who.size), np.arange(TOTAL)))
        pair, by = (x[CTA[who[pair]] == CTA[by]] for x in (pair, by))
        thread, other = who[pair], event[pair]
        happened = self.order.ordered(thread + 1, other, by + 1) | (thread == by)
        denied = 0
        for plane, space in enumerate(SPACES, 1):
            answer = happened & self.order.seen_by_proxy(space, thread + 1, other, by + 1)
            wanted = (other <= self.views[0, by, thread]) & (other <= self.views[plane, by, thread])
            # a fence of a whole warp is not kept lane by lane
            lenient = answer & (WARPS[thread] == WARPS[by])
            wrong = np.flatnonzero((answer != wanted) & ~lenient)
            assert not wrong.size, [
                (space, int(thread[i]), int(other[i]), int(by[i]), bool(answer[i])) for i in wrong[:5]
            ]
            denied += int(np.count_nonzero(happened & ~answer))
        return denied


STEPS = {"access": 4, "cta_barrier": 0.5, "warp_barrier": 2, "fence": 3, "arrive": 3, "wait": 3}


@pytest.mark.parametrize("seed", range(60))
def test_the_proxy_sees_what_fences_and_barriers_passed_on(seed):
    both = Both(seed)
    weights = np.array(list(STEPS.values()))
    denied = 0
    for i in range(60):
        getattr(both, str(both.rng.choice(list(STEPS), p=weights / weights.sum())))()
        if i % 6 == 5 and both.accesses:
            denied += both.compare()
    assert denied
