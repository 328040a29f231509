"""`tj.mma.layout_a/b/c` against the PTX ISA's fragments, element by element."""

from __future__ import annotations

import pytest

import tilejit as tj
from tests.reference.products import A_PLACES, B_PLACES, c_place
from tilejit.dtypes import DType, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, int8, int32, uint8
from tilejit.errors import LayoutError
from tilejit.layout import TileLayout, layout_a, layout_b, layout_c

FORMS = [
    (8, float16), (8, bfloat16), (16, float16), (16, bfloat16), (8, float32), (32, int8), (32, uint8),
    (32, float8_e4m3fn), (32, float8_e5m2),
]


@pytest.mark.parametrize(("k", "dtype"), FORMS, ids=str)
def test_a_single_tile_lies_in_the_instructions_registers_in_order(k: int, dtype: DType) -> None:
    a, b, c = layout_a((16, k), dtype), layout_b((k, 8), dtype), layout_c((16, 8))
    a_count, a_place = A_PLACES[k, dtype.bits]
    b_count, b_place = B_PLACES[k, dtype.bits]
    for layout, count, place, shape in ((a, a_count, a_place, (16, k)), (b, b_count, b_place, (k, 8)),
                                        (c, 4, c_place, (16, 8))):
        assert layout.storage().span() == count
        for lane in range(32):
            for i in range(count):
                assert layout.owners(*place(lane // 4, lane % 4, i), shape=shape) == [(lane, i)]


@pytest.mark.parametrize("scope", ["cta", "warpgroup"])
def test_warps_own_blocks_and_share_the_fragments_that_they_have_in_common(scope: str) -> None:
    a = layout_a((64, 32), float16, warps=(2, 2), scope=scope)
    b = layout_b((32, 32), float16, warps=(2, 2), scope=scope)
    c = layout_c((64, 32), float32, warps=(2, 2), scope=scope)
    assert {a.scope, b.scope, c.scope} == {("thread", scope)}
    for row in (0, 9, 31, 32, 63):
        assert sorted(t // 32 for t, _ in a.owners(row, 5, shape=(64, 32))) == ([0, 1] if row < 32 else [2, 3])
    for column in (0, 15, 16, 31):
        assert sorted(t // 32 for t, _ in b.owners(7, column, shape=(32, 32))) == ([0, 2] if column < 16 else [1, 3])
        ((thread, _),) = c.owners(40, column, shape=(64, 32))
        assert thread // 32 == (2 if column < 16 else 3)
    assert c.is_bijective()


def test_more_tiles_are_more_registers_and_each_element_has_its_own() -> None:
    for layout, count in ((layout_a((64, 48), bfloat16), 96), (layout_b((64, 24), int8), 48),
                          (layout_c((32, 40), int32), 40)):
        assert layout.is_bijective() and layout.storage().span() == count


def test_layouts_are_ordinary_data() -> None:
    made = tj.mma.layout_a((32, 16), tj.float16)
    assert isinstance(made, TileLayout) and eval(repr(made), {"S": tj.S, "laneid": tj.laneid}) == made  # noqa: S307 - our own text


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: layout_a((24, 16), float16), "M is 24; a fragment needs a positive multiple of 16"),
        (lambda: layout_a((32, 16), float16, warps=(4, 1)), "needs a positive multiple of 16 for each of 4"),
        (lambda: layout_a((16, 12), float16), "K is 12; a fragment needs a positive multiple of 8"),
        (lambda: layout_b((16, 8), int8), "K is 16; a fragment needs a positive multiple of 32"),
        (lambda: layout_b((16, 12), float16), "N is 12; a fragment needs a positive multiple of 8"),
        (lambda: layout_c((16, 0)), "N is 0"),
        (lambda: layout_a((16, 16), int32), "tensor cores multiply int8, uint8, float16"),
        (lambda: layout_c((16, 8), bfloat16), "accumulate in float32, float16, float64 or int32; got bfloat16"),
        (lambda: layout_a((16,), float16), r"A has shape \(M, K\)"),
        (lambda: layout_a((16, 16), float16, warps=2), "warps is"),
        (lambda: layout_a((16, 16), float16, scope="warp"), "scope='warp'"),
        (lambda: layout_a((32, 16), float16, warps=(0, 1)), "warps is"),
        (lambda: layout_b((32, 16), "float15"), "got 'float15'"),
        (lambda: layout_c("ab"), "the accumulator has shape"),
        (lambda: layout_a((128, 16), float16, warps=(8, 1), scope="warpgroup"), "a warpgroup has 4 warps"),
        (lambda: layout_c((32, 16), float32, warps=(2, 1), scope="warpgroup"), "a warpgroup has 4 warps"),
    ],
)
def test_what_has_no_fragment_is_refused_with_numbers_and_what_to_do(make: object, reason: str) -> None:
    with pytest.raises(LayoutError, match=reason) as refused:
        make()  # type: ignore[operator]
    assert refused.value.hint
