"""Wavefronts as lowering counts them, against the simulator's profile, which has no code in common with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.layout import Swizzle
from tilejit.lower.moves.wavefronts import SharedAccesses
from tilejit.simulator.checks import profile

_AS_IT_IS = Swizzle(0, 0, 0)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(width, size) for width in (1, 2, 4, 8, 16) for size in (1, 2, 4, 8) if width * size <= 16]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([(1, 1), (2, 3), (3, 3)]),
)
def test_both_count_the_same(seed: int, each: tuple[int, int], issues: int, warps: int, bits: tuple[int, int]) -> None:
    width, size = each
    address = np.random.default_rng(seed).integers(0, 64, (issues, warps, 32)) * width
    issue, thread = np.repeat(np.arange(issues), warps * 32), np.tile(np.arange(warps * 32), issues)
    swizzles = [_AS_IT_IS, Swizzle(bits[0], max(width, 4 // size).bit_length() - 1, bits[1])]
    accesses = SharedAccesses.of(issue, thread, address.ravel(), width, size)
    expected = [profile.wavefronts(s.apply(address).reshape(-1, 32) * size, width * size)[0].sum() for s in swizzles]
    assert accesses.wavefronts(swizzles).tolist() == expected
    assert accesses.least <= accesses.costs(swizzles).min()


@pytest.mark.parametrize(("stride", "width", "expected"), [(1, 1, 1), (2, 1, 2), (32, 1, 32), (1, 4, 4), (0, 1, 1)])
def test_a_warp(stride: int, width: int, expected: int) -> None:
    lane = np.arange(32)
    accesses = SharedAccesses.of(lane * 0, lane, lane * stride * width, width, 4)
    assert accesses.wavefronts([_AS_IT_IS]) == [expected]
