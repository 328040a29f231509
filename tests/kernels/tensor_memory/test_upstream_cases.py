"""Upstream's accepted cases of copies between tensor memory and registers, run, every lane and register compared."""

from __future__ import annotations

import zlib
from math import prod
from typing import Any

import pytest

from tests.kernels.tensor_memory.moves import Move, Symbols, Tile, check
from tests.support.upstream import load

#: those that upstream moves to other rows than were named are refused here: see tests/lower/test_tcgen05_cases.py
CASES = [c for c in load("copy_async_tcgen05_ldst") if c["kind"] == "dispatch" and "quirk" not in c]


def test_all_accepted_cases_are_here() -> None:
    assert len(CASES) == 157
    assert {c["expect"]["result"] for c in CASES} == {"ok"}
    assert {c["expect"]["slabs"] for c in CASES} == {1, 2}
    assert any(issue["col"] for c in CASES for issue in c["expect"]["issues"]), "some start at a later column"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_a_case_moves_every_element_to_its_place_and_no_other(case: dict[str, Any]) -> None:
    dst, src = Tile("dst", case["dst"]), Tile("src", case["src"])
    move = Move(dst, case["dst"]["region"], src, case["src"]["region"])
    made = check([move], [dst, src], zlib.crc32(case["id"].encode()), last_starts(dst, src, move))
    for instruction in case["expect"]["instructions"]:
        assert instruction["op"] in made.ptx


def last_starts(dst: Tile, src: Tile, move: Move) -> Symbols:
    """Values for the run-time starts with which the regions end where the tiles do."""
    found: Symbols = {}
    for tile, window in ((dst, move.to), (src, move.at)):
        for (start, extent), whole in zip(window, tile.shape, strict=True):
            if isinstance(start, dict):
                name, *factors = start["sym"].split("*")
                room = (whole - extent) // prod(int(f) for f in factors)
                found[name] = min(found.get(name, room), room)
    return found
