"""Scalar control flow means what it means in Python: the same functions run both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import run


def both_ways(fn: Callable[..., Any], *scalars: Any, size: int = 8) -> np.ndarray:
    """What the function writes to its first argument, from Python; asserted to be what its tile IR writes."""
    expected, found = np.zeros(size, np.int32), np.zeros(size, np.int32)
    fn(expected, *scalars)
    run(fn, found, *scalars)
    np.testing.assert_array_equal(found, expected)
    return found


def sums(A, n):
    total = 0
    for i in range(n):
        total += i * i
    A[0] = total


def countdown(A, n):
    k = n
    steps = 0
    while k > 0:
        k -= 2
        steps += 1
    A[0] = k
    A[1] = steps


def branches(A, n):
    if n < 0:
        x = -1
    elif n == 0:
        x = 0
        A[1] = 7
    else:
        x = n * 10
    A[0] = x


def nested_loops(A, n):
    total = 0
    for i in range(n):
        row = 0
        for j in range(i, n):
            if j == 3:
                continue
            if row > 20:
                break
            row += i + j
        total = total + row
    A[0] = total


def breaks_out_of_while_true(A, n):
    i = 0
    while True:
        if i * i >= n:
            found = i
            break
        i += 1
    A[0] = found
    A[1] = i


def swaps(A, n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    A[0] = a
    A[1] = b


def returns_early(A, n):
    A[0] = 1
    if n > 3:
        A[0] = 2
        return
    y = n * 2
    A[1] = y


def returns_from_a_loop(A, n):
    for i in range(8):
        if i == n:
            return
        A[i] = i + 1


def short_circuits(A, n):
    # A[n] is only read where n is inside
    if n < 8 and A[n] == 0 and n != 3:
        A[1] = 5
    if n >= 8 or A[n] != 0:
        A[2] = 6


def conditional_expression(A, n):
    A[0] = n if n > 2 else -n
    A[1] = A[n] if n < 8 else 9
    A[2] = 1 if n == 0 else (2 if n == 1 else 3)


def chained_comparisons(A, n):
    A[0] = 1 if 0 < n < 5 else 0
    A[1] = 1 if 0 <= n - 1 < 2 <= n else 0
    if not 2 < n <= 4:
        A[2] = 1


def floors(A, n):
    A[0] = n // 3
    A[1] = n % 3
    A[2] = n // -3
    A[3] = n % -3
    A[4] = -n // 2
    A[5] = abs(-n)
    A[6] = min(n, 2) + max(n, 2, 1)
    A[7] = (n << 2) ^ (n >> 1) | (n & 5)


def a_flag(A, n):
    found = False
    for i in range(6):
        if i * i == n:
            found = True
            break
    A[0] = 1 if found else 2


def breaks_out_of_an_unrolled_loop(A, n):
    total = 0
    for i in tj.static_range(5):
        if i == n:
            break
        total += 10 + i
    A[0] = total


def continues_in_an_unrolled_loop(A, n):
    total = 0
    for i in tj.static_range(5):
        if i == n:
            continue
        if total > 25:
            break
        total += 10 + i
    A[0] = total


def loops_over_a_tuple(A, n):
    k = 0
    for weight in (3, 5, 7):
        A[k] = weight * n
        k += 2


def a_range_with_steps(A, n):
    total = 0
    for i in range(n, 20, 3):
        total += i
    for i in range(7, -1, -2):
        A[i] = i
    for _ in range(n, n):
        total = -1
    A[0] = total


def augmented_elements(A, n):
    for i in range(8):
        A[i] += n
        A[i] *= i
        A[i] -= 1


def a_name_of_two_types_that_is_not_read_afterwards(A, n):
    for i in range(n):
        t = i * 2
        A[0] = t
        t = i > 2
        A[1] = 1 if t else 0


def an_index_of_an_unrolled_loop_is_used_again(A, n):
    for i in tj.static_range(2):
        A[i] = n
    k = 0
    while k < n:
        k += 1
        for i in range(k):
            A[2] += i


def a_loop_in_a_branch_in_a_loop(A, n):
    best = -1
    for i in range(n):
        if i % 2 == 0:
            k = i
            while k < 10:
                k = k * 2 + 1
            if k > best:
                best = k
        else:
            best += 1
    A[0] = best


def a_number_that_becomes_a_bool(A, n):
    x = 3
    for _ in range(n):
        x = False
    A[0] = x


EVERY = [
    a_number_that_becomes_a_bool,
    sums, countdown, branches, nested_loops, breaks_out_of_while_true, swaps, returns_early, returns_from_a_loop,
    short_circuits, conditional_expression, chained_comparisons, floors, a_flag, breaks_out_of_an_unrolled_loop,
    continues_in_an_unrolled_loop, loops_over_a_tuple, a_range_with_steps, augmented_elements,
    a_name_of_two_types_that_is_not_read_afterwards, a_loop_in_a_branch_in_a_loop,
    an_index_of_an_unrolled_loop_is_used_again,
]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 7])
@pytest.mark.parametrize("fn", EVERY, ids=lambda f: f.__name__)
def test_a_kernel_does_what_python_does(fn, n, monkeypatch):
    monkeypatch.setattr(tj, "static_range", range)
    expected = np.zeros(8, np.int32)
    fn(expected, n)
    monkeypatch.undo()
    found = np.zeros(8, np.int32)
    run(fn, found, n)
    np.testing.assert_array_equal(found, expected)
