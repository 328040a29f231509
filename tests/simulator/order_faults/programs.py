"""Kernels with faults in the order of their events, with arguments and the contents that they should leave."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import tilejit as tj

F32, I32 = np.float32, np.int32


class Fault(NamedTuple):
    """line: part of a source line that the story names. expected: by parameter; {} if each order has a finding."""

    kernel: Any
    grid: int
    args: tuple[Any, ...]
    line: str
    expected: dict[str, Any] = {}


@tj.kernel(threads=64)
def arrives_twice(A: tj.Tensor, n: tj.int32):
    s = tj.alloc_shared((2, 2, 32), tj.float32)
    w = tj.warp_id()
    tj.warp.fill(s[0, w], 1.0)
    tj.named_barrier(1 + w, 64).arrive()
    for i in range(n):
        tj.named_barrier(2 - w, 64).sync()
        x = tj.warp.load(s[i % 2, 1 - w])
        tj.warp.store(s[(i + 1) % 2, w], x + 1.0)
        tj.named_barrier(1 + w, 64).arrive()
    tj.named_barrier(2 - w, 64).sync()
    tj.warp.store(A[w, 0:32], tj.warp.load(s[n % 2, 1 - w]))


@tj.kernel(threads=32)
def tested_then_set(lock: tj.Tensor, inside: tj.Tensor, most: tj.Tensor):
    if tj.thread_id() == 0:
        while tj.load_acquire(lock[0]) != 0:
            pass
        tj.store_release(lock[0], 1)
        tj.atomic.max(most[0], tj.atomic.add(inside[0], 1) + 1)
        tj.atomic.sub(inside[0], 1)
        tj.store_release(lock[0], 0)


@tj.kernel(threads=32)
def look_back_with_one_word(flags: tj.Tensor, values: tj.Tensor, out: tj.Tensor):
    if tj.thread_id() == 0:
        c = tj.cta_id(0)
        tj.store_release(values[c], c + 1)
        tj.store_release(flags[c], 1)
        before = 0
        j = c - 1
        while j >= 0:
            f = tj.load_acquire(flags[j])
            if f > 0:
                before += tj.load_acquire(values[j])
            if f == 1:
                j -= 1
            elif f == 2:
                j = -1
        tj.store_release(values[c], before + c + 1)
        tj.store_release(flags[c], 2)
        out[c] = before + c + 1


@tj.kernel(threads=32)
def two_locks_in_two_orders(locks: tj.Tensor, data: tj.Tensor):
    if tj.thread_id() == 0:
        c = tj.cta_id(0)
        while tj.atomic.cas(locks[c], 0, 1, order="acquire") != 0:
            pass
        while tj.atomic.cas(locks[1 - c], 0, 1, order="acquire") != 0:
            pass
        data[0] = data[0] + 1
        tj.atomic.exch(locks[1 - c], 0, order="release")
        tj.atomic.exch(locks[c], 0, order="release")


@tj.kernel(threads=32)
def ticket_by_a_second_look(counter: tj.Tensor, last: tj.Tensor):
    if tj.thread_id() == 0:
        tj.atomic.add(counter[0], 1, order="acq_rel")
        if tj.load_acquire(counter[0]) == tj.num_ctas(0):
            tj.atomic.add(last[0], 1)


@tj.kernel(threads=96, target="sm_90a")
def a_lost_arrival(A: tj.Tensor, n: tj.int32):
    s = tj.alloc_shared((2, 32), tj.float32)
    ring = tj.alloc_ring(2, consumers=2)
    w = tj.warp_id()
    if w == 0:
        for i in range(n):
            ring[i].acquire()
            tj.warp.fill(s[ring[i].stage], tj.float32(i))
            tj.warp.commit(ring[i])
    else:
        total = tj.warp.full((32,), 0.0, tj.float32)
        for i in range(n - 3 * (w - 1)):
            ring[i].wait()
            total = total + tj.warp.load(s[ring[i].stage])
            tj.warp.release(ring[i])
        tj.warp.store(A[w - 1, 0:32], total)


@tj.kernel(threads=64, target="sm_90a")
def a_phase_that_may_be_missed(A: tj.Tensor):
    b = tj.alloc_barrier(arrivals=1)
    if tj.warp_id() == 0:
        tj.warp.arrive(b)
        tj.warp.arrive(b)
    else:
        b.wait(0)
        b.wait(1)
        tj.warp.fill(A[0, 0:32], 1.0)


@tj.kernel(threads=96, target="sm_90a")
def a_wrong_phase(A: tj.Tensor, n: tj.int32):
    s = tj.alloc_shared((32,), tj.float32)
    full = tj.alloc_barrier(arrivals=1)
    empty = tj.alloc_barrier(arrivals=2)
    w = tj.warp_id()
    if w == 0:
        for i in range(n):
            if i > 0:
                empty.wait(i - 2)
            tj.warp.fill(s, tj.float32(i))
            tj.warp.arrive(full)
    else:
        total = tj.warp.full((32,), 0.0, tj.float32)
        for i in range(n):
            full.wait(i)
            total = total + tj.warp.load(s)
            tj.warp.arrive(empty)
        tj.warp.store(A[w - 1, 0:32], total)


@tj.kernel(threads=96, target="sm_90a")
def consumers_miscounted(A: tj.Tensor, n: tj.int32):
    s = tj.alloc_shared((32,), tj.float32)
    full = tj.alloc_barrier(arrivals=1)
    empty = tj.alloc_barrier(arrivals=1)
    w = tj.warp_id()
    if w == 0:
        for i in range(n):
            if i > 0:
                empty.wait(2 * i - 1)
            tj.warp.fill(s, tj.float32(i))
            tj.warp.arrive(full)
    else:
        total = tj.warp.full((32,), 0.0, tj.float32)
        for i in range(n):
            full.wait(i)
            total = total + tj.warp.load(s)
            tj.warp.arrive(empty)
        tj.warp.store(A[w - 1, 0:32], total)


@tj.kernel(threads=32)
def a_flag_without_release(data: tj.Tensor, flag: tj.Tensor, out: tj.Tensor):
    if tj.thread_id() == 0:
        if tj.cta_id(0) == 0:
            data[0] = 42
            tj.atomic.exch(flag[0], 1)
        else:
            while tj.load_acquire(flag[0]) == 0:
                pass
            out[0] = data[0]


@tj.kernel(threads=64, target="sm_90a")
def a_ring_one_stage_short(A: tj.Tensor, n: tj.int32):
    s = tj.alloc_shared((2, 32), tj.float32)
    ring = tj.alloc_ring(3)
    if tj.warp_id() == 0:
        for i in range(n):
            ring[i].acquire()
            tj.warp.fill(s[i % 2], tj.float32(i))
            tj.warp.commit(ring[i])
    else:
        total = tj.warp.full((32,), 0.0, tj.float32)
        for i in range(n):
            ring[i].wait()
            total = total + tj.warp.load(s[i % 2])
            tj.warp.release(ring[i])
        tj.warp.store(A[0, 0:32], total)


@tj.kernel(threads=32)
def the_last_one_by_a_relaxed_count(parts: tj.Tensor, counter: tj.Tensor, out: tj.Tensor):
    if tj.thread_id() == 0:
        parts[tj.cta_id(0)] = tj.float32(tj.cta_id(0) + 1)
        if tj.atomic.add(counter[0], 1) == tj.num_ctas(0) - 1:
            total = tj.float32(0)
            for i in range(tj.num_ctas(0)):
                total = total + parts[i]
            out[0] = total


def ints(*values: int) -> np.ndarray:
    return np.array(values, I32)


ROWS = np.zeros((2, 32), F32)
FAULTS = {
    "arrives twice": Fault(arrives_twice, 1, (ROWS, 3), "tj.named_barrier("),
    "tests, then sets": Fault(
        tested_then_set, 2, (ints(0), ints(0), ints(0)), "while tj.load_acquire(lock[0]) != 0:",
        {"lock": ints(0), "inside": ints(0), "most": ints(1)}),
    "look-back with one word": Fault(
        look_back_with_one_word, 3, (ints(0, 0, 0), ints(0, 0, 0), ints(0, 0, 0)), "tj.load_acquire(values[j])",
        {"flags": ints(2, 2, 2), "values": ints(1, 3, 6), "out": ints(1, 3, 6)}),
    "two locks in two orders": Fault(two_locks_in_two_orders, 2, (ints(0, 0), ints(0)), "tj.atomic.cas(locks["),
    "a ticket by a second look": Fault(
        ticket_by_a_second_look, 2, (ints(0), ints(0)), "tj.load_acquire(counter[0])",
        {"counter": ints(2), "last": ints(1)}),
    "a lost arrival": Fault(a_lost_arrival, 1, (ROWS, 5), "ring[i]"),
    "a phase that may be missed": Fault(a_phase_that_may_be_missed, 1, (ROWS,), "tj.warp.arrive(b)"),
    "a wrong phase": Fault(a_wrong_phase, 1, (ROWS, 4), "tj.warp.arrive("),
    "consumers miscounted": Fault(consumers_miscounted, 1, (ROWS, 4), "tj.warp.arrive(empty)"),
    "a flag without release": Fault(
        a_flag_without_release, 2, (ints(0), ints(0), ints(0)), "tj.atomic.exch(flag[0], 1)"),
    "a ring one stage short": Fault(a_ring_one_stage_short, 1, (ROWS, 6), "ring[i]"),
    "the last one by a relaxed count": Fault(
        the_last_one_by_a_relaxed_count, 2, (np.zeros(2, F32), ints(0), np.zeros(1, F32)),
        "tj.atomic.add(counter[0], 1)"),
}
