"""Which dimensions of an operation's tiles are one axis."""

from __future__ import annotations

import pytest

from tilejit.ops.axes import COPY, ELEMENTWISE, GENERATED, PRODUCT, REDUCTION, RESHAPE
from tilejit.ops.tile import TILE_OPERATIONS


def test_elementwise_counts_from_the_right_and_a_scalar_relates_to_nothing() -> None:
    shapes = {"dst": (4, 32, 48), "a": (48,), "b": (32, 1), "c": None}
    assert ELEMENTWISE.labels(shapes, {}) == {"dst": (0, 1, 2), "a": (2,), "b": (1, None)}


def test_copy_leaves_dimensions_of_1_out_and_a_mask_broadcasts() -> None:
    shapes = {"dst": (32, 1, 48), "src": (1, 32, 48), "fill": None, "mask": (48,)}
    assert COPY.labels(shapes, {}) == {"dst": (0, None, 2), "src": (None, 0, 2), "mask": (2,)}


@pytest.mark.parametrize(
    ("dst", "axis", "labels"),
    [((4, 48), (1,), (0, 2)), ((4, 1, 48), (1,), (0, None, 2)), ((1,), (0, 1, 2), (None,)), ((), (0, 1, 2), ())],
)
def test_a_reduction_has_the_axes_that_it_keeps(dst, axis, labels) -> None:
    made = REDUCTION.labels({"dst": dst, "src": (4, 32, 48)}, {"axis": axis})
    assert made == {"dst": labels, "src": (0, 1, 2)}


def test_all_sources_of_a_reduction_have_the_same_axes() -> None:
    made = REDUCTION.labels({"dst": (4,), "src": (4, 32), "dst2": (4, 1), "src2": (4, 32)}, {"axis": (1,)})
    assert made == {"dst": (0,), "src": (0, 1), "dst2": (0, None), "src2": (0, 1)}


def test_a_product_has_three_axes_and_three_layouts() -> None:
    made = PRODUCT.labels({"acc": (64, 64), "a": (64, 32), "b": (32, 64)}, {})
    assert made == {"acc": (0, 1), "a": (0, 2), "b": (2, 1)}
    assert not PRODUCT.share_layouts


def test_a_reshape_keeps_the_dimensions_that_it_does_not_touch() -> None:
    made = RESHAPE.labels({"dst": (4, 8, 1, 6), "src": (32, 6)}, {})
    assert made == {"dst": (None, None, None, 1), "src": (0, 1)}


def test_what_is_generated_has_axes_of_its_own() -> None:
    assert GENERATED.labels({"dst": (4, 1, 8), "value": None}, {}) == {"dst": (0, None, 2)}


@pytest.mark.parametrize("record", TILE_OPERATIONS.values(), ids=lambda record: record.name)
def test_the_labels_of_a_record_are_of_its_tiles(record) -> None:
    reduces = record.relation is REDUCTION
    shapes = {o.name: (32,) if reduces and o.written else (32, 16) for o in record.operands}
    attrs = {"axis": (1,)} if reduces else {}
    labels = record.relation.labels(shapes, attrs)
    assert set(labels) <= set(shapes)
    assert all(len(each) == len(shapes[name]) for name, each in labels.items())
