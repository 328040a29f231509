"""Arrivals as instructions: who synchronises, and who arrives."""

from __future__ import annotations

import pytest

from tests.support.programs import statements, tile_ir
from tilejit.dtypes import int32
from tilejit.ir import nodes as ir
from tilejit.ir.text.printer import to_text
from tilejit.ir.verify import verify
from tilejit.lower import arrivals, lower
from tilejit.target import target


def expanded(*lines: str, threads: int) -> ir.Kernel:
    text = "def k(n):\n    b = tj.alloc_barrier()\n    many = tj.alloc_barrier(stages=4)\n    ring = tj.alloc_ring(3)\n"
    text += "    x = tj.alloc_shared((1024,), tj.float32)\n" + "".join(f"    {line}\n" for line in lines)
    made = arrivals.expand(lower(tile_ir(text, int32, threads=threads), target("sm_90a")).kernel)
    assert verify(made, "lane") == []
    return made


WROTE = "x[tj.thread_id()] = 1.0"


def meetings(*lines: str, threads: int = 256) -> list[str]:
    """The barriers in front of the arrivals of a kernel, of its own ones as well."""
    return [stmt.scope for stmt in statements(expanded(*lines, threads=threads).body, ir.Sync)]


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
    made = expanded(WROTE, f"tj.{scope}.arrive(many[2])", threads=threads)
    assert [stmt.scope for stmt in statements(made.body, ir.Sync)] == barriers
    text = to_text(made).replace("leads.0", "leads")
    assert "instruction mbarrier.arrive <- many[2 +: 1]" in text
    assert leader is None or f"if {leader}\n" in text
    assert ("instruction elect" in text) == (leader is not None and "leads" in leader)


def test_a_number_of_bytes_goes_with_the_arrival() -> None:
    made = expanded("tj.warp.arrive(b)", threads=32)
    (alloc,) = (s for s in made.body if isinstance(s, ir.Alloc) and s.buffer.name == "b")
    place = ir.Vector(alloc.buffer, ir.Const(0, ir.Special("lane_id").dtype))
    announced = ir.Arrive(place, "warp", ir.Const(512, place.offset.dtype))
    kernel = ir.Kernel("k", (), 32, "sm_90a", (alloc, announced))
    assert "instruction mbarrier.arrive.expect_tx <- b[0 +: 1], 512" in to_text(arrivals.expand(kernel))


def test_what_threads_did_on_their_own_makes_them_meet() -> None:
    for act in (WROTE, "y = x[tj.thread_id()]", "tj.atomic.add(x[0], 1.0)", 'tj.fence("cta")'):
        for scope in ("warp", "warpgroup", "cta"):
            assert meetings(act, f"tj.{scope}.arrive(b)") == [scope], act
    # what they computed is nobody else's
    assert meetings("y = tj.alloc_local((4,), tj.float32)", "tj.thread.fill(y, n * 1.0)", "tj.warp.arrive(b)") == []


def test_who_has_met_since_needs_not_meet_again() -> None:
    arrive = "tj.warp.arrive(b)", "tj.warpgroup.arrive(b)", "tj.cta.arrive(b)"
    assert meetings(WROTE, "tj.cta_sync()", *arrive) == ["cta"]
    assert meetings(WROTE, "tj.warp_sync()", "tj.warp.arrive(b)", "tj.warpgroup.arrive(b)") == ["warp", "warpgroup"]
    assert meetings(WROTE, "tj.named_barrier(1, 256).sync()", "tj.warp.arrive(b)") == []
    assert meetings(WROTE, "tj.cta.arrive(b)", "tj.warp.arrive(b)", "tj.cta.arrive(b)") == ["cta"]


def test_a_wait_that_a_warp_may_not_have_passed_yet_makes_more_than_one_warp_meet() -> None:
    assert meetings("ring[n].acquire()", "tj.warp.commit(ring[n])") == []
    assert meetings("b.wait(n)", "tj.warpgroup.arrive(b)") == ["warpgroup"]
    assert meetings("b.wait(n)", "tj.cta.arrive(b)") == ["cta"]
    assert meetings("b.wait(n)", "tj.cta_sync()", "tj.cta.arrive(b)") == ["cta"]
    # of a CTA whose last warp isn't whole, no lane is elected
    assert meetings("b.wait(n)", "if tj.warp_id() == 0:", "    tj.warp.arrive(b)", threads=48) == ["warp"]


def test_what_a_path_or_an_earlier_turn_did_counts() -> None:
    branch = ("if n > 3:", f"    {WROTE}", "tj.warp.arrive(b)")
    assert meetings(*branch) == ["warp"]
    assert meetings("for i in range(n):", "    tj.warp.arrive(b)", f"    {WROTE}") == ["warp"]
    assert meetings("for i in range(n):", "    tj.warp.arrive(b)", f"    {WROTE}", "    tj.cta_sync()") == ["cta"]
    assert meetings("while n > 3:", "    tj.warp.arrive(b)") == []
