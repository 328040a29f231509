"""Products of any size over any layouts that are fragments up to the order of rows, columns and registers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.lower.test_gemm import factors, following, multiplied
from tilejit.errors import DispatchError
from tilejit.isa.mma import MMA, Mma
from tilejit.layout import TileLayout
from tilejit.lower.ask import OperandSpec, dispatch, operand

WARPS = [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (3, 1), (1, 4)]


@dataclass(frozen=True)
class Digit:
    """One digit of a dimension: its extent, and its axis: lanes, warps, or registers (stride None: to be set)."""

    extent: int
    stride: int | None = None
    axis: str = "m"


def tiles_for(warps: tuple[int, int]) -> st.SearchStrategy[tuple[int, int, int]]:
    """Up to three tiles a warp along m, n and k, few enough to be worked out longhand."""
    every = ((m, n, k) for m in (1, 2, 3) for n in (1, 2, 3) for k in (1, 2, 3))
    return st.sampled_from([t for t in every if prod(t) * prod(warps) <= 12])


@st.composite
def products(draw: st.DrawFn) -> tuple[Mma, list[OperandSpec], tuple[int, int], tuple[int, int, int]]:
    """A form, its three operands, the warps and the tiles of each along m, n and k."""
    form = draw(st.sampled_from(MMA.forms()))
    warps = draw(st.sampled_from(WARPS))
    m, n, k = draw(tiles_for(warps))
    wm, wn = warps
    pack, acc_pack = form.pack, form.acc_pack
    rows = draw(st.permutations([Digit(wm, wn, "warpid"), Digit(m), Digit(2), Digit(8, 4, "laneid")]))
    columns = draw(st.permutations([("warps", wn), ("tiles", n), ("g", 8)]))
    depth = draw(st.permutations([Digit(k * form.halves), Digit(4, 1, "laneid"), Digit(pack, 1)]))
    acc_columns = [d for name, extent in columns for d in _along_n(name, extent, acc_pack)]
    b_columns = [_along_n_of_b(name, extent) for name, extent in columns]
    shapes = ((16 * wm * m, 8 * wn * n), (16 * wm * m, form.k * k), (form.k * k, 8 * wn * n))
    shared = ([], [(wn, 1, "warpid")], [(wm, wn, "warpid")])
    digits = ([*rows, *acc_columns], [*rows, *depth], [*depth, *b_columns])
    packs = (acc_pack, pack, pack)
    layouts = [
        _layout(draw, own, first, [r for r in extra if r[0] > 1])
        for own, first, extra in zip(digits, packs, shared, strict=True)
    ]
    types = (form.acc, form.a, form.b)
    return form, [operand("local", *x) for x in zip(shapes, types, layouts, strict=True)], warps, (m, n, k)


def _along_n(name: str, extent: int, acc_pack: int) -> list[Digit]:
    if name == "g":
        return [Digit(4, 1, "laneid"), Digit(2, 1 if acc_pack == 2 else None)]
    return [Digit(extent, 1, "warpid") if name == "warps" else Digit(extent)]


def _along_n_of_b(name: str, extent: int) -> Digit:
    if name == "g":
        return Digit(8, 4, "laneid")
    return Digit(extent, 1, "warpid") if name == "warps" else Digit(extent)


def _layout(draw: st.DrawFn, digits: list[Digit], first: int, replica: list[tuple[int, int, str]]) -> TileLayout:
    """The digits as iterators, those of registers in any order from stride `first` on."""
    free = [i for i, d in enumerate(digits) if d.stride is None]
    strides = {}
    for i in draw(st.permutations(free)):
        strides[i] = first
        first *= digits[i].extent
    listed = [(d.extent, strides.get(i, d.stride), d.axis) for i, d in enumerate(digits) if d.extent > 1]
    return TileLayout.from_iters([(e, s, a) for e, s, a in listed if s is not None], replica)


def _ask(form: Mma, given: list[OperandSpec], warps: tuple[int, int]) -> object:
    precision = "tf32" if form.a.bits == 32 else None
    threads = 32 * prod(warps)
    scope = "warp" if threads == 32 else "cta"
    return multiplied(*given, scope, threads, precision=precision)


@given(products())
def test_any_order_of_rows_columns_and_registers_multiplies_right(
    made: tuple[Mma, list[OperandSpec], tuple[int, int], tuple[int, int, int]]
) -> None:
    form, given, warps, tiles = made
    found = _ask(form, given, warps)
    plan = found.plan  # type: ignore[attr-defined]
    assert (plan.form.a, plan.form.b, plan.form.acc) == (form.a, form.b, form.acc)
    assert plan.tiles[:2] == tiles[:2] and plan.tiles[2] * plan.form.k == tiles[2] * form.k


@st.composite
def canonical(draw: st.DrawFn) -> tuple[Mma, list[OperandSpec], str, int]:
    """A form, operands in the layouts of `tj.mma`, the scope, and the threads of one or two instances of it."""
    form, warps = draw(st.sampled_from(MMA.forms())), draw(st.sampled_from(WARPS))
    m, n, k = draw(tiles_for(warps))
    scopes = {1: ["warp", "cta"], 4: ["warpgroup", "cta"]}
    scope = draw(st.sampled_from(scopes.get(prod(warps), ["cta"])))
    instances = 1 if scope == "cta" else draw(st.integers(1, 2))
    within = "warpgroup" if scope == "warpgroup" else "cta"
    given = factors(16 * m * warps[0], 8 * n * warps[1], form.k * k, form, warps, within)
    return form, given, scope, 32 * prod(warps) * instances


@given(canonical())
def test_the_layouts_of_tj_mma_multiply_right_at_any_size(made: tuple[Mma, list[OperandSpec], str, int]) -> None:
    form, given, scope, threads = made
    multiplied(*given, scope, threads, precision="tf32" if form.a.bits == 32 else None)


@given(st.data(), canonical())
def test_following_the_hints_leads_to_a_product(
    data: st.DataObject, made: tuple[Mma, list[OperandSpec], str, int]
) -> None:
    form, given, scope, threads = made
    given = list(given)
    for column in data.draw(st.sets(st.integers(0, 2), min_size=1)):
        layout = given[column].layout
        assert layout is not None
        shard = [(it.extent, it.stride, it.axis.name) for it in layout.shard]
        places = data.draw(st.permutations([place[1:] for place in shard]))
        changed = [(extent, *place) for (extent, _, _), place in zip(shard, places, strict=True)]
        replica = [(it.extent, it.stride, it.axis.name) for it in layout.replica]
        given[column] = replace(given[column], layout=TileLayout.from_iters(changed, replica))
    precision = "tf32" if form.a.bits == 32 else None
    for _ in range(4):
        try:
            dispatch("gemm", scope, *given, threads=threads, precision=precision)
        except DispatchError as refused:
            given = following(refused, given)
        else:
            return
    raise AssertionError("the layouts that fit were refused again")


@given(st.data(), products())
def test_a_layout_with_one_changed_iterator_is_refused_with_a_reason_or_multiplies_right(
    data: st.DataObject, made: tuple[Mma, list[OperandSpec], tuple[int, int], tuple[int, int, int]]
) -> None:
    form, given, warps, _ = made
    column = data.draw(st.integers(0, 2))
    layout = given[column].layout
    assert layout is not None
    shard = [(it.extent, it.stride, it.axis.name) for it in layout.shard]
    at = data.draw(st.integers(0, len(shard) - 1))
    other = data.draw(st.integers(0, len(shard) - 1))
    how = data.draw(st.sampled_from(["stride", "swap", "double"]))
    extent, stride, axis = shard[at]
    if how == "stride":
        shard[at] = (extent, stride + 1, axis)
    elif how == "double":
        shard[at] = (extent, 2 * stride, axis)
    else:
        shard[at], shard[other] = (extent, *shard[other][1:]), (shard[other][0], stride, axis)
    changed = TileLayout.from_iters(shard, [(it.extent, it.stride, it.axis.name) for it in layout.replica])
    assume(changed.is_injective())
    given[column] = replace(given[column], layout=changed)
    try:
        _ask(form, given, warps)
    except DispatchError as refused:
        (reason,) = refused.declines["mma"]
        assert len(reason) > 10 and refused.hint
