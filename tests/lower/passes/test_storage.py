"""Where buffers live: the places that are chosen, and what is wrong with others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.goldens import ROOT, Golden, joined, read
from tests.support.ptxas import ptxas_accepts
from tilejit.codegen import generate
from tilejit.dtypes import barrier, float32, int64, uint8
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Alloc, Buffer, Const, Kernel, Let, Load, Special, Stmt, Store, Sync, Var, Vector
from tilejit.ir.params import PointerParam
from tilejit.ir.placements import BARRIER, DYNAMIC, SHARED, STATIC, TMEM, MemoryPlacement, total, within
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.ir.verify import verify
from tilejit.layout import TileLayout
from tilejit.lower import lower
from tilejit.lower.passes.storage import placed
from tilejit.target import target


@pytest.mark.parametrize("name", sorted(file.name for file in (ROOT / "storage").iterdir()))
def test_buffers_get_their_places(name: str, golden: Golden) -> None:
    arch, tile, _ = read(f"storage/{name}")
    lane = placed(lower(from_text(tile), target(arch)).kernel)
    assert verify(lane, "lane") == [] and from_text(to_text(lane)) == lane
    golden.check(f"storage/{name}", joined(arch, tile, to_text(lane)))


#: used often in the tables below
at = MemoryPlacement


def kernel(*buffers: Buffer, threads: int = 256, body: Iterable[Stmt] = ()) -> Kernel:
    allocs = (Alloc(b, arrivals=1 if b.dtype == barrier else 0) for b in buffers)
    return Kernel("k", (), threads, "sm_100a", (*allocs, *body))


def shared(name: str, count: int, align: int) -> Buffer:
    dtype = barrier if align < 16 else uint8
    return Buffer(name, "shared", dtype, (count,), TileLayout.row_major((count,)), align)


SIZES = st.lists(st.tuples(st.integers(1, 4000), st.sampled_from((8, 16, 128, 1024))), max_size=8)


@given(SIZES)
def test_places_are_sound_and_only_ends_that_are_no_multiples_leave_gaps(sizes: list[tuple[int, int]]) -> None:
    made = placed(kernel(*(shared(f"s{n}", count, align) for n, (count, align) in enumerate(sizes))))
    assert verify(made, "lane") == []
    for before, after in pairwise(made.memory):
        assert 0 <= after.first - before.end < after.align
        assert before.end % after.align or after.first == before.end


def test_the_widest_alignment_comes_first_and_wastes_nothing() -> None:
    made = placed(kernel(shared("full", 2, 8), shared("bias", 16, 16), shared("a", 2048, 1024), shared("c", 128, 128)))
    assert made.memory == (
        at("a", STATIC, 0, 2048, 1024),
        at("c", STATIC, 2048, 128, 128),
        at("bias", STATIC, 2176, 16, 16),
        at("full", STATIC, 2192, 16, 8),
    )


@pytest.mark.parametrize(("count", "where"), [(48 * 1024, STATIC), (48 * 1024 + 1, DYNAMIC)])
def test_more_than_48_kb_are_dynamic(count: int, where: str) -> None:
    (placement,) = placed(kernel(shared("s", count, 16))).memory
    assert placement.where == where


def test_each_instance_of_a_scope_has_a_barrier_and_a_partial_one_too() -> None:
    made = placed(kernel(threads=320, body=[Sync("warpgroup"), Sync("cta"), Sync("warp"), Sync("warpgroup")]))
    assert made.memory == (at("warpgroup", BARRIER, 8, 3),)


TMEM_LAYOUT = TileLayout.from_iters([(128, 1, "TLane"), (40, 1, "TCol")])
P, Q = (Buffer(name, "tmem", float32, (128, 40), TMEM_LAYOUT, 4) for name in "pq")
A, B = shared("a", 1024, 1024), shared("b", 100, 16)
SOUND = placed(kernel(A, B, P, Q, body=[Sync("warpgroup")]))
ASKED = "b needs alignment to 16 bytes"
BY_NAME = {p.name: p for p in SOUND.memory}


def broken(*changed: MemoryPlacement, without: str = "") -> list[str]:
    """What the verifier says where these are the places; those of other buffers stay, but for one."""
    memory = {**BY_NAME, **{p.name: p for p in changed}}
    memory.pop(without, None)
    return [v.message for v in verify(replace(SOUND, memory=tuple(memory.values())), "lane")]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (at("b", STATIC, 1008, 112, 16), "a and b overlap in static memory from 1008"),
        (at("b", STATIC, 1032, 100, 16), f"{ASKED}; its place is at byte 1032, aligned to 16"),
        (at("b", STATIC, 1024, 100, 8), f"{ASKED}; its place is at byte 1024, aligned to 8"),
        (at("b", STATIC, 1024, 100, 0), f"{ASKED}; its place is at byte 1024, aligned to 0"),
        (at("b", STATIC, 1024, 99, 16), "b needs 100 bytes; its place has 99"),
        (at("b", STATIC, -16, 16, 16), "a place starts before the start of its memory"),
        (at("b", DYNAMIC, 1024, 100, 16), "shared memory must be all static or all dynamic"),
        (at("b", STATIC, 49152, 100, 16), "49,252 bytes of shared memory are static; at most 49,152 can be"),
        (at("b", DYNAMIC, 232448, 100, 16),
         "the kernel needs 232,548 bytes of shared memory; sm_100a has 232,448 for a CTA"),
        (at("b", "global", 0, 100, 16), "b is in unknown place 'global'"),
        (at("b", TMEM, 80, 100), "b has a place in tmem memory, but isn't a buffer there"),
        (at("c", STATIC, 2048, 4, 16), "c has a place in static memory, but isn't a buffer there"),
        (at("q", TMEM, 39, 40), "p and q overlap in tmem memory from 39"),
        (at("q", TMEM, 40, 39), "q needs 40 columns; its place has 39"),
        (at("q", TMEM, 480, 40), "the kernel needs 520 columns of tensor memory; a CTA has 512"),
        (at("warpgroup", BARRIER, 7, 2), "barriers 7 to 8 of warpgroup: scopes can use 8 to 15"),
        (at("warpgroup", BARRIER, 15, 2), "barriers 15 to 16 of warpgroup: scopes can use 8 to 15"),
        (at("warp", BARRIER, 10, 2), "'warp' has no numbered barriers"),
        (at("none", BARRIER, 10, 2), "'none' has no numbered barriers"),
    ],
)
def test_what_is_wrong_with_a_place_is_said(changed: MemoryPlacement, message: str) -> None:
    assert broken() == [] and message in broken(changed)


@pytest.mark.parametrize("name", ["a", "b", "p", "q"])
def test_where_there_are_places_each_buffer_has_one(name: str) -> None:
    assert broken(without=name) == [f"{name} has no place"]


def test_places_are_no_matter_of_tile_level() -> None:
    (violation,) = verify(SOUND, "tile")
    assert violation.message == "buffers can be placed only at lane level"


def test_another_place_needs_no_other_statement() -> None:
    s, other = shared("s", 512, 128), shared("other", 512, 128)
    out, seen = Buffer("out", "global", uint8, (512,), TileLayout.row_major((512,)), 16), Var("seen", uint8)
    thread = Special("thread_id")
    body = (
        Alloc(s), Alloc(other), Store(Vector(other, thread), Const(1, uint8)), Sync("warpgroup"),
        Let(seen, Load(Vector(s, thread))), Store(Vector(out, build.cast(thread, int64)), seen),
    )
    made = placed(Kernel("k", (PointerParam("out", out, written=True),), 128, "sm_90", body))
    moved = (
        at("s", DYNAMIC, 4096, 512, 1024), at("other", DYNAMIC, 0, 512, 1024),
        at("warpgroup", BARRIER, 11, 1),
    )
    there = replace(made, memory=moved)
    assert verify(there, "lane") == [] and there.body is made.body
    generated = generate(there, target("sm_90"))
    ptxas_accepts(generated.ptx, "sm_90")
    assert [(p.name, p.variable, p.first) for p in generated.shared_map] == [
        ("s", "dynamic_shared", 4096), ("other", "dynamic_shared", 0)
    ]
    assert ".shared .align 1024 .b8 dynamic_shared[]" in generated.ptx and "+4096" in generated.ptx
    assert total(there.memory, *SHARED) == 4608 and within(there.memory, BARRIER)[0].first == 11
    assert "11" in next(line for line in generated.llvm_ir.splitlines() if "add i32" in line)
