"""nvcc's kernels that call device functions: launches and references.

On a GPU the recursive ones may need a larger stack than the driver's default of 1 KiB: 16 KiB suffice.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f4, i4, u4 = np.float32, np.int32, np.uint32


@kernel("calls", (2,), (64,))
def local_array_by_pointer(device: Any) -> Launch:
    n = 100
    seeds = rng().integers(-(2**31), 2**31, n).astype(i4)
    sums = np.zeros(n, i4)
    state = seeds.astype(np.int64)
    for k in range(10):
        state = (state * 1103 + 12345) % 2**32
        sums = np.where(4 + np.arange(n) % 7 > k, sums + state.astype(u4).view(i4) * i4(k + 1), sums)
    return Launch([seeds, np.zeros(n, i4), i4(n)], {1: sums})


@kernel("calls", (1,), (64,))
def structures_by_value(device: Any) -> Launch:
    n = 50
    a, b = rng().integers(-9, 9, (2, n, 3)).astype(f4)
    first = np.cross(a, b)
    tag = 3 * np.arange(n)
    tags = tag + 1000 * (tag & 255) - tag
    return Launch(
        [a, b, np.zeros_like(a), np.zeros(n), np.zeros(n, i4), i4(n)],
        {2: np.cross(first, np.array([1, 2, 3], f4)), 3: first.sum(1, dtype=np.float64), 4: tags.astype(i4)},
    )


@kernel("calls", (1,), (32,))
def factorials(device: Any) -> Launch:
    out = np.zeros(25, np.uint64)
    out[:21] = [math.factorial(i) for i in range(21)]
    return Launch([np.zeros(25, np.uint64), i4(21)], {0: out})


@kernel("calls", (1,), (32,))
def fibonacci_numbers(device: Any) -> Launch:
    numbers = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
    return Launch([np.zeros(30, i4), i4(30)], {0: np.array([numbers[i % 12] for i in range(30)], i4)})


@kernel("calls", (1,), (32,))
def ackermann_numbers(device: Any) -> Launch:
    """A(0, n) = n + 1, A(1, n) = n + 2, A(2, n) = 2n + 3, A(3, n) = 2**(n + 3) - 3."""
    arguments = np.array([(0, 5), (1, 0), (1, 6), (2, 0), (2, 3), (2, 5), (3, 0), (3, 1), (3, 2)] * 3, i4)
    closed = [lambda n: n + 1, lambda n: n + 2, lambda n: 2 * n + 3, lambda n: 2 ** (n + 3) - 3]
    out = np.array([closed[m](n) for m, n in arguments.tolist()], i4)
    return Launch([arguments, np.zeros(27, i4), i4(27)], {1: out})


@kernel("calls", (1,), (32,))
def tree_walk(device: Any) -> Launch:
    """Each node's parent has a smaller number."""
    count = 40
    nodes = np.full((count, 3), -1, i4)
    nodes[:, 2] = rng().integers(-99, 99, count)
    free = [(0, 0), (0, 1)]
    random = rng()
    for at in range(1, count):
        parent, side = free.pop(int(random.integers(len(free))))
        nodes[parent, side] = at
        free += [(at, 0), (at, 1)]
    sums, depths = nodes[:, 2].copy(), np.ones(count, i4)
    for at in range(count - 1, -1, -1):
        for child in nodes[at, :2][nodes[at, :2] >= 0]:
            sums[at] += sums[child]
            depths[at] = max(depths[at], depths[child] + 1)
    roots = np.concatenate([random.permutation(count)[:24], [-1]]).astype(i4)
    expected = {2: np.append(sums[roots[:-1]], i4(0)), 3: np.append(depths[roots[:-1]], i4(0))}
    return Launch([nodes, roots, np.zeros(25, i4), np.zeros(25, i4), i4(25)], expected)


@kernel("calls", (2,), (32,))
def quicksort_rows(device: Any) -> Launch:
    x = rng().integers(-50, 50, (60, 14)).astype(i4)
    x[3], x[4] = 7, np.arange(14)
    return Launch([x, np.zeros_like(x), i4(60)], {1: np.sort(x, 1)})


@kernel("calls", (1,), (5,))
def towers_of_hanoi(device: Any) -> Launch:
    """Plays the moves: no disk comes upon a smaller one, all disks end on peg 2."""
    moves = np.zeros((5, 32), np.uint8)

    def solve(disks: int, start: int, to: int, other: int) -> list[int]:
        if not disks:
            return []
        return [*solve(disks - 1, start, other, to), start * 10 + to, *solve(disks - 1, other, to, start)]

    for t in range(5):
        made = solve(t + 1, 0, 2, 1)
        pegs: list[list[int]] = [list(range(t + 1, 0, -1)), [], []]
        for move in made:
            disk = pegs[move // 10].pop()
            assert not pegs[move % 10] or pegs[move % 10][-1] > disk
            pegs[move % 10].append(disk)
        assert len(pegs[2]) == t + 1
        moves[t, : len(made)] = made
    counts = np.array([1, 3, 7, 15, 31], i4)
    return Launch([np.zeros_like(moves), np.zeros(5, i4)], {0: moves, 1: counts})


@kernel("calls", (1,), (64,))
def mutual_recursion(device: Any) -> Launch:
    n = 40
    x = rng().integers(0, 30, n).astype(u4)
    # Hofstadter's female sequence, OEIS A005378
    female = [1, 1, 2, 2, 3, 3, 4, 5, 5]
    return Launch(
        [x, np.full(n, 9, np.uint8), np.zeros(n, i4), i4(n)],
        {1: (x % 2 == 0).astype(np.uint8), 2: np.array([female[i % 9] for i in range(n)], i4)},
    )


@kernel("calls", (2,), (64,))
def bezout(device: Any) -> Launch:
    """Written with a loop; the recursion makes the same coefficients."""
    n = 100
    a, b = rng().integers(0, 100000, (2, n)).astype(i4)
    b[:3] = 0, 1, a[2]
    out = np.zeros((n, 3), i4)
    for i, (p, q) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        old, new = (p, 1, 0), (q, 0, 1)
        while new[0]:
            k = old[0] // new[0]
            old, new = new, (old[0] - k * new[0], old[1] - k * new[1], old[2] - k * new[2])
        assert old[0] == math.gcd(p, q) and p * old[1] + q * old[2] == old[0]
        out[i] = old
    return Launch([a, b, np.zeros_like(out), i4(n)], {2: out})


@kernel("calls", (1,), (32,))
def matrix_powers(device: Any) -> Launch:
    n = 30
    a = rng().integers(0, 2**32, (n, 2, 2), np.uint64)
    exponents = rng().integers(0, 300, n).astype(u4)
    exponents[:4] = 0, 1, 2, 3
    out = np.zeros((n, 2, 2), u4)
    for i in range(n):
        power = np.eye(2, dtype=object)
        for _ in range(int(exponents[i])):
            power = power.dot(a[i].astype(object)) % 2**32
        out[i] = power.astype(np.uint64).astype(u4)
    return Launch([a.astype(u4), exponents, np.zeros_like(out), i4(n)], {2: out})


@kernel("calls", (1,), (32,))
def count_queens(device: Any) -> Launch:
    """By trying all permutations."""
    out = [
        sum(len({c + r for r, c in enumerate(p)}) == len({c - r for r, c in enumerate(p)}) == n
            for p in permutations(range(n)))
        for n in range(1, 7)
    ]
    assert out == [1, 0, 0, 2, 10, 4]
    return Launch([np.zeros(6, i4), i4(6)], {0: np.array(out, i4)})


@kernel("calls", (2,), (32,))
def expression_tree(device: Any) -> Launch:
    """(x * x + 0.5) / -(x + 3), its nodes in no order."""
    layout = np.dtype([("op", "S1"), ("value", "f8"), ("left", "i4"), ("right", "i4")], align=True)
    terms = np.array([
        (b"x", 0, -1, -1), (b"*", 0, 0, 0), (b"/", 0, 3, 6), (b"+", 0, 1, 4), (b"c", 0.5, -1, -1), (b"+", 0, 0, 7),
        (b"-", 0, 5, -1), (b"c", 3, -1, -1),
    ], layout)
    x = rng().normal(size=50) * 10
    return Launch([terms.view(np.uint8), i4(2), x, np.zeros(50), i4(50)], {3: (x * x + 0.5) / -(x + 3)})


@kernel("calls", (1,), (32,))
def wide_call(device: Any) -> Launch:
    """All terms are multiples of 1/4 and less than 2**50."""
    n = 30
    x = rng().integers(-(2**20), 2**20, n).astype(i4)
    v = x.astype(np.int64)
    i = np.arange(n)
    narrow = x.astype(np.int8).astype(np.int64)
    y = (
        narrow + 2.0 * x.astype(np.uint8) + 3.0 * x.astype(np.int16) + 4.0 * (v & 0xFFFF) - 5.0 * v + 3.0 * v
        + 1.75 * v + np.where(v & 1, 8, -8) + 9.0 * v[::-1] + 10.0 * (v - i)
        + 11.0 * (narrow + (-x).astype(np.int8) - i + 3) + 12.0 * (i << 33)
    )
    return Launch([x, np.zeros(n), i4(n)], {1: y})


@kernel("calls", (3,), (64,))
def function_with_barriers(device: Any) -> Launch:
    x = rng().integers(-9, 9, (3, 64)).astype(f4)
    return Launch([x, np.zeros_like(x)], {1: (x * x).sum(1, keepdims=True) - x * x.sum(1, keepdims=True)})


@kernel("calls", (2,), (128,))
def function_with_shuffles(device: Any) -> Launch:
    x = rng().integers(-99, 99, (8, 32)).astype(i4)
    sums = x.sum(1, dtype=i4)
    odd = np.arange(8) % 2 == 1
    y = np.repeat(np.where(odd, sums - 1, 1 - sums), 32).reshape(8, 32)
    return Launch([x, np.zeros_like(x)], {1: y.astype(i4)})


@kernel("pointers", (2,), (64,))
def chosen_operation(device: Any) -> Launch:
    n = 100
    k = rng().integers(0, 5, n).astype(i4)
    a, b = rng().integers(-1000, 1000, (2, n)).astype(i4)
    out = np.choose(np.minimum(k, 3), [a + b, a - b, a * b, np.maximum(a, b)])
    return Launch([k, a, b, np.zeros(n, i4), i4(n)], {3: out})


@kernel("pointers", (2,), (16,))
def fold_rows(device: Any) -> Launch:
    x = rng().integers(-99, 99, (32, 5)).astype(i4)
    t = np.arange(32) % 16
    first = np.where(t % 3 == 0, 1 + x.sum(1), np.maximum(x.max(1), 1))
    second = np.where(t % 2, -x.sum(1), x.sum(1))
    return Launch([x, np.zeros(32, i4), i4(5)], {1: (first - second).astype(i4)})


@kernel("pointers", (2,), (32,))
def virtual_functions(device: Any) -> Launch:
    n = 60
    kind = rng().integers(0, 3, n).astype(i4)
    size = rng().integers(1, 9, (n, 2)).astype(f4)
    w, h = size.T
    area = np.choose(kind, [3 * w * w, w * h, w * h / 2]).astype(f4)
    corners = np.array([0, 4, 3], i4)[kind]
    return Launch([kind, size, np.zeros(n, f4), np.zeros(n, i4), i4(n)], {2: area, 3: corners})


@kernel("pointers", (1,), (64,))
def virtual_functions_in_shared(device: Any) -> Launch:
    x = rng().integers(-9, 9, 8).astype(f4)
    k = np.arange(8)
    area = np.where(k % 2, 3 * k * k, 2 * k).astype(f4)
    corners = np.where(k % 2, 0, 3)
    y = np.array([(area[(t + k) % 8] * x).sum() + corners[t % 8] for t in range(64)], f4)
    return Launch([x, np.zeros(64, f4)], {1: y})


@kernel("pointers", (1,), (32,))
def two_base_classes(device: Any) -> Launch:
    seeds = rng().integers(-99, 99, 30).astype(i4)
    lengths = 3 + np.arange(30) % 4
    rows = [[int(s) * (i + 1) for i in range(n)] for s, n in zip(seeds, lengths, strict=True)]
    out = [sum(v << i for i, v in enumerate(row)) for row in rows]
    return Launch(
        [seeds, np.zeros(30, i4), np.zeros(30, i4), i4(30)],
        {1: np.array(out, i4), 2: np.array([sum(row) for row in rows], i4)},
    )


@lru_cache
def collatz_steps(x: int) -> int:
    return 0 if x == 1 else 1 + collatz_steps(3 * x + 1 if x % 2 else x // 2)


@kernel("pointers", (1,), (32,))
def pointer_in_a_loop(device: Any) -> Launch:
    start = np.arange(1, 27, dtype=i4)
    steps = np.array([collatz_steps(x) for x in start.tolist()], i4)
    return Launch([start, np.zeros(26, i4), i4(26)], {1: steps})


@kernel("pointers", (1,), (32,))
def functors(device: Any) -> Launch:
    x = rng().integers(-9, 9, 30).astype(f4)
    i = np.arange(30)
    square, cube = 2 * x + 2, 3 * x * x + 1  # the differences over an interval of 2, divided by 2
    y = np.where(i % 2, square, cube)
    return Launch([x, np.zeros(30, f4), i4(30)], {1: y})


@kernel("pointers", (1,), (32,))
def states_as_functions(device: Any) -> Launch:
    words = rng().choice(list(b"aabcd"), (24, 8)).astype(np.uint8)
    match = np.array([b"ab" in w.tobytes() for w in words])
    assert match.any() and not match.all()
    return Launch([words, np.full(24, 7, np.uint8), i4(24)], {1: match.astype(np.uint8)})
