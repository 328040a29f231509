"""Owners of elements in two layouts, compared with the layouts element by element."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.errors import LayoutError
from tilejit.layout import R, S, TileLayout, laneid, tx, warpid
from tilejit.layout.transfer import Holding, renaming
from tilejit.scopes import CTA, WARP
from tilejit.testing import register_layouts


def whole(layout: TileLayout, shape: tuple[int, ...]) -> Holding:
    return Holding.of(layout, shape, [(0, n) for n in shape], CTA.steps)


@given(register_layouts("cta", threads=64))
def test_every_element_is_where_the_layout_says(drawn: tuple[TileLayout, tuple[int, ...]]) -> None:
    layout, shape = drawn
    holding = whole(layout, shape)
    assert holding.elements == prod(shape)
    for element in range(0, prod(shape), 7):
        pairs = zip(holding.thread[:, element].tolist(), holding.register[:, element].tolist(), strict=True)
        coordinate = [element // prod(shape[d + 1 :]) % n for d, n in enumerate(shape)]
        assert sorted(pairs) == sorted(layout.owners(*coordinate, shape=shape))


@given(register_layouts("cta", threads=64), st.data())
def test_a_renaming_gives_every_owner_what_it_needs(
    drawn: tuple[TileLayout, tuple[int, ...]], data: st.DataObject
) -> None:
    src, shape = drawn
    registers = [k for k, it in enumerate(src.shard) if not it.axis.is_thread]
    order = data.draw(st.permutations(registers))
    step, strides = 1, {}
    for k in order:
        strides[k], step = step, step * src.shard[k].extent
    shard = [(it.extent, strides.get(k, it.stride), it.axis.name) for k, it in enumerate(src.shard)]
    dst = TileLayout.from_iters(shard, [(it.extent, it.stride, it.axis.name) for it in src.replica])
    pairs = renaming(whole(src, shape), whole(dst, shape))
    assert not isinstance(pairs, str), pairs
    source_of = dict(pairs)
    held = {(t, r): e for e in range(prod(shape)) for t, r in _owners(src, shape, e)}
    for element in range(prod(shape)):
        for thread, register in _owners(dst, shape, element):
            assert held[thread, source_of[register]] == element


def _owners(layout: TileLayout, shape: tuple[int, ...], element: int) -> list[tuple[int, int]]:
    return layout.owners(*(element // prod(shape[d + 1 :]) % n for d, n in enumerate(shape)), shape=shape)


def test_what_other_threads_hold_is_no_renaming() -> None:
    rows, columns = S[(32, 32) : (1 @ laneid, 1)], S[(32, 32) : (1, 1 @ laneid)]
    assert "992 of 1024 values aren't held by the threads" in str(
        renaming(*(Holding.of(x, (32, 32), [(0, 32)] * 2, WARP.steps) for x in (rows, columns)))
    )


def test_a_register_that_depends_on_the_thread_is_no_renaming() -> None:
    src = S[(2, 16, 2) : (16 @ laneid, 1 @ laneid, 1)]
    replicated = S[(2, 16, 2) : (1, 1 @ laneid, 2)] + R[2 : 16 @ laneid]
    spread = Holding.of(src, (64,), [(0, 64)], WARP.steps)
    both = Holding.of(replicated, (64,), [(0, 64)], WARP.steps)
    assert renaming(both, spread) == "the renaming of registers depends on the thread"
    assert "aren't held by the threads" in str(renaming(spread, both))


def test_a_box_and_padding_count_in_the_slots() -> None:
    layout = S[(8, 4, 4) : (4 @ laneid, 1 @ laneid, 1)]
    box = Holding.of(layout, (8, 16), [(0, 7), (8, 4)], WARP.steps)
    assert box.thread[0, :4].tolist() == [2, 2, 2, 2] and box.register[0, :4].tolist() == [0, 1, 2, 3]
    assert box.thread[0, 4] == 6


def test_threads_beyond_the_scope_are_refused() -> None:
    with pytest.raises(LayoutError, match="uses axis tx"):
        Holding.of(S[64 : 1 @ tx], (64,), [(0, 64)], WARP.steps)
    assert Holding.of(S[2 : 1 @ warpid], (2,), [(0, 2)], CTA.steps).thread.tolist() == [[0, 32]]
