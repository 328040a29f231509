"""Wavefronts as lowering counts them, against the simulator's profile, which has no code in common with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.dtypes import float32
from tilejit.ir.nodes import TileOp
from tilejit.layout import S, Swizzle, tx
from tilejit.lower import DispatchContext
from tilejit.lower.ask import operand
from tilejit.lower.moves.wavefronts import SharedAccesses
from tilejit.lower.variants import copy_through_shared
from tilejit.simulator.checks import profile
from tilejit.target import target

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


def test_the_memory_of_a_conversion_is_chosen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []
    costs = copy_through_shared.round_costs
    monkeypatch.setattr(copy_through_shared, "round_costs", lambda *args: counted.append(args) or costs(*args))
    rows, columns = S[(2, 64, 28) : (28, 1 @ tx, 1)], S[(64, 2, 28) : (1 @ tx, 28, 1)]
    context = DispatchContext(target("sm_90a"), 64)
    for names in (("dst", "src"), ("y", "x")):
        sides = (operand("local", (128, 28), float32, layout=layout) for layout in (rows, columns))
        regions = tuple(side.named(name) for side, name in zip(sides, names, strict=True))
        copy_through_shared.cost(TileOp("copy", "cta", regions), context)
        # two orders of memory, of each what is stored and what is loaded
        assert len(counted) == 4
