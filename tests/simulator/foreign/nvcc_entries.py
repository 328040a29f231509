"""Enters launches of nvcc's kernels: each file of cases calls `kernel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .case import Case, Launch

CASES: list[Case] = []


def kernel(
    file: str, grid: tuple[int, ...], block: tuple[int, ...], shared_bytes: int = 0, launches: int = 1,
    cooperative: bool = False,
) -> Callable[[Callable[[Any], Launch]], Callable[[Any], Launch]]:
    """Enter a function that makes a launch; it has the kernel's name."""

    def enter(make: Callable[[Any], Launch]) -> Callable[[Any], Launch]:
        CASES.append(Case("nvcc", file, make.__name__, grid, block, shared_bytes, make, launches, cooperative))
        return make

    return enter


def rng() -> np.random.Generator:
    return np.random.default_rng(7)
