"""Wavefronts as lowering counts them, against the simulator's profile, which has no code in common with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.lower.moves.wavefronts import wavefronts
from tilejit.simulator.checks import profile


@given(st.integers(0, 2**32 - 1), st.sampled_from((1, 2, 4, 8, 16)), st.integers(1, 3), st.integers(1, 3))
def test_both_count_the_same(seed: int, width: int, issues: int, warps: int) -> None:
    address = np.random.default_rng(seed).integers(0, 64, (issues, warps, 32)) * width
    issue, thread = np.repeat(np.arange(issues), warps * 32), np.tile(np.arange(warps * 32), issues)
    expected = profile.wavefronts(address.reshape(-1, 32), width)[0].sum()
    assert wavefronts(issue, thread, address.ravel(), width) == expected


@pytest.mark.parametrize(("stride", "width", "expected"), [(1, 4, 1), (2, 4, 2), (32, 4, 32), (1, 16, 4), (0, 4, 1)])
def test_a_warp(stride: int, width: int, expected: int) -> None:
    lane = np.arange(32)
    assert wavefronts(lane * 0, lane, lane * stride * width, width) == expected
