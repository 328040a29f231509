"""The table of tile operations."""

from __future__ import annotations

from tilejit.ops.elementwise import ELEMENTWISE
from tilejit.ops.tile import TILE_OPERATIONS


def test_every_elementwise_operation_is_a_tile_operation_with_a_destination() -> None:
    for name, op in ELEMENTWISE.items():
        tile = TILE_OPERATIONS[name]
        assert tile.arity == (op.arity + 1, op.arity + 1)
        assert tile.operands[0].name == "dst" and not tile.operands[0].value
        assert all(o.region and o.value for o in tile.operands[1:])


def test_copies_take_an_optional_fill() -> None:
    for name in ("copy", "copy_async"):
        assert TILE_OPERATIONS[name].arity == (2, 3)
        assert [a.name for a in TILE_OPERATIONS[name].attrs] == ["variant", "require_bits"]


def test_names_are_keys_and_meanings_one_line() -> None:
    for name, op in TILE_OPERATIONS.items():
        assert op.name == name
        assert op.meaning and "\n" not in op.meaning
