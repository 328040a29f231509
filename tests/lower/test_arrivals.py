"""Arrivals as instructions: who synchronises, and who arrives."""

from __future__ import annotations

import pytest

from tests.support.programs import statements, tile_ir
from tilejit.ir import nodes as ir
from tilejit.ir.text.printer import to_text
from tilejit.ir.verify import verify
from tilejit.lower import arrivals, lower
from tilejit.target import target


def expanded(line: str, threads: int) -> ir.Kernel:
    text = f"def k(n):\n    b = tj.alloc_barrier()\n    many = tj.alloc_barrier(stages=4)\n    {line}\n"
    made = arrivals.expand(lower(tile_ir(text, 3, threads=threads), target("sm_90a")).kernel)
    assert verify(made, "lane") == []
    return made


@pytest.mark.parametrize(
    ("scope", "threads", "barriers", "leader"),
    [
        ("thread", 64, [], None),
        ("warp", 64, ["warp"], "leads"),
        ("warpgroup", 256, ["warpgroup"], "%warp_id % 4 == 0 and leads"),
        ("cta", 256, ["cta"], "%warp_id == 0 and leads"),
        ("cta", 48, ["cta"], "%thread_id == 0"),
    ],
)
def test_the_instance_synchronises_and_its_leader_arrives(
    scope: str, threads: int, barriers: list[str], leader: str | None
) -> None:
    made = expanded(f"tj.{scope}.arrive(many[2])", threads)
    assert [stmt.scope for stmt in statements(made.body, ir.Sync)] == barriers
    text = to_text(made).replace("leads.0", "leads")
    assert "instruction mbarrier.arrive <- many[2 +: 1]" in text
    assert leader is None or f"if {leader}\n" in text
    assert ("instruction elect" in text) == (leader is not None and "leads" in leader)


def test_a_number_of_bytes_goes_with_the_arrival() -> None:
    made = expanded("tj.warp.arrive(b)", 32)
    (alloc,) = (s for s in made.body if isinstance(s, ir.Alloc) and s.buffer.name == "b")
    place = ir.Vector(alloc.buffer, ir.Const(0, ir.Special("lane_id").dtype))
    announced = ir.Arrive(place, "warp", ir.Const(512, place.offset.dtype))
    kernel = ir.Kernel("k", (), 32, "sm_90a", (alloc, announced))
    assert "instruction mbarrier.arrive.expect_tx <- b[0 +: 1], 512" in to_text(arrivals.expand(kernel))
