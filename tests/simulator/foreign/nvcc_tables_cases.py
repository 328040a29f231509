"""nvcc's kernels that call through tables of functions: launches and references."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f4, i4 = np.float32, np.int32


@kernel("tables", (2,), (64,))
def constant_table(device: Any) -> Launch:
    n = 100
    which = rng().integers(0, 5, n).astype(i4)
    x = rng().normal(size=n).astype(f4)
    y = np.choose(which, [-x, x * x, f4(1) / x, np.maximum(x, f4(0)), x])
    return Launch([which, x, np.zeros(n, f4), i4(n)], {2: y})


@kernel("tables", (2,), (64,))
def table_of_layers(device: Any) -> Launch:
    n = 100
    x = rng().normal(size=n).astype(f4)
    v = x
    for layer in (lambda a: a * a, lambda a: np.maximum(a, f4(0)), np.negative, np.negative, np.reciprocal, np.square):
        v = layer(v) + f4(1)
    return Launch([x, np.zeros(n, f4), i4(n)], {1: v})


@kernel("tables", (2,), (64,))
def table_of_structures(device: Any) -> Launch:
    n = 100
    x = rng().integers(-1000, 1000, n).astype(i4)
    rule = x >> 3 & 3
    y = np.choose(rule, [x & 0xFF0, x | 5, ~x, x << 3])
    names = [b"and", b"or", b"xor", b"shift"]
    letters = np.array([names[r][i & 1] for i, r in enumerate(rule)], np.uint8)
    return Launch([x, np.zeros(n, i4), np.zeros(n, np.uint8), i4(n)], {1: y, 2: letters})


@kernel("tables", (2,), (16,))
def table_of_states(device: Any) -> Launch:
    """A word begins with a letter and goes on with letters and digits."""
    text = rng().choice(list(b"ab12 "), (32, 20)).astype(np.uint8)
    out = np.zeros((32, 4), i4)
    for i, line in enumerate(text):
        tokens = re.findall(rb"([a-z][a-z0-9]*)|(\d+)", line.tobytes())
        state = 0 if line[-1] == ord(" ") else 2 if tokens[-1][0] else 1
        numbers = [int(number) for _, number in tokens if number]
        out[i] = state, len(numbers), len(tokens) - len(numbers), numbers[-1] if numbers else 0
    return Launch([text, i4(20), np.zeros_like(out)], {2: out})


@kernel("tables", (2,), (64,))
def table_in_shared(device: Any) -> Launch:
    x = rng().integers(0, 1000, 128).astype(i4)
    return Launch([x, np.zeros(128, i4)], {1: np.choose(x % 3, [x & 0x55, x | 0x55, x ^ 0x55])})


@kernel("tables", (1,), (64,))
def table_of_templates(device: Any) -> Launch:
    x = rng().integers(0, 10**7, 60).astype(i4)
    which = rng().integers(0, 5, 60).astype(i4)
    y = [100 * int(f"{v:09}"[-1 - k]) + int(f"{v:09}"[k - 5]) for v, k in zip(x, which, strict=True)]
    return Launch([x, which, np.zeros(60, i4), i4(60)], {2: np.array(y, i4)})


@kernel("tables", (2,), (64,))
def stack_machine(device: Any) -> Launch:
    """(x + 1) * 3 - (7 - (x + 0)) * x."""
    push, read, add, multiply, swap, subtract = range(6)
    code = np.array([
        (push, 1), (read, 0), (add, 0), (push, 3), (multiply, 0), (read, 0), (push, 7), (swap, 0), (subtract, 0),
        (read, 0), (multiply, 0), (subtract, 0),
    ], i4)
    x = rng().integers(-100, 100, 100).astype(i4)
    return Launch([code, i4(len(code)), x, np.zeros(100, i4), i4(100)], {3: (x + 1) * 3 - (7 - x) * x})


@kernel("tables", (1,), (32,), launches=2)
def table_turned(device: Any) -> Launch:
    n = 30
    sizes = rng().uniform(1, 9, (n, 2))
    w, h = sizes.T
    measures = [w * h, 2 * (w + h), np.sqrt(w * w + h * h)]
    which = np.arange(n) % 3
    return Launch([sizes, np.zeros(n), i4(n)], {1: np.choose(which, measures) + np.choose((which + 1) % 3, measures)})


@kernel("tables", (1,), (32,))
def table_of_tables(device: Any) -> Launch:
    x = rng().normal(size=30).astype(f4)
    layers = [x * x, np.maximum(x, f4(0)), -x, -x, f4(1) / x, x * x]
    y = np.array([layers[(3 if i & 1 else 1) + i % 3][i] for i in range(30)])
    return Launch([x, np.zeros(30, f4), i4(30)], {1: y})
