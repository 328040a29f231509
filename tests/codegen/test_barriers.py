"""Barriers in PTX: how they are set up, and what a wait is."""

from __future__ import annotations

import re

import tilejit as tj
from tests.support.programs import tile_ir
from tests.support.ptxas import notes_of
from tilejit import pipeline
from tilejit.dtypes import int32
from tilejit.ir.types import Signature
from tilejit.target import target


def ptx(*lines: str, threads: int = 64) -> str:
    text = "def k(n):\n    many = tj.alloc_barrier(3, stages=2)\n" + "".join(f"    {line}\n" for line in lines)
    kernel = tile_ir(text, int32, threads=threads)
    made = pipeline.compile(kernel, Signature(()), target("sm_90a")).executable.ptx
    return "\n".join(line.strip() for line in made.splitlines() if not line.strip().startswith(("//", ".loc")))


def test_one_thread_makes_the_barriers_and_all_wait_for_it() -> None:
    made = ptx("many[0].wait(n)")
    order = [
        "setp.ne.b32", "mbarrier.init.shared::cta.b64 [", "+8], ", "fence.mbarrier_init.release.cluster;",
        "bar.sync 0;", "mbarrier.try_wait",
    ]
    assert [made.index(text) for text in order] == sorted(made.index(text) for text in order)
    assert made.count("mbarrier.init") == 2 and "mov.b32 \t%r" in made


WAIT = (
    r"\{ \.reg \.b32 p; and\.b32 p, (%r\d+|\d+), 1; "
    r"mbarrier\.(try|test)_wait\.parity\.shared::cta\.b64 %p\d+, \[.*\], p; \}"
)


def test_a_wait_compares_unless_the_phase_is_known_not_to_be_below_zero() -> None:
    assert len(re.findall(WAIT, ptx("many[0].wait(n)"))) == 1
    assert "setp.lt.s32" in ptx("many[0].wait(n)")
    assert "setp.lt.s32" not in ptx("many[0].wait(tj.cta_id(0) // 2)")


def test_waiters_for_a_failed_thread_end() -> None:
    def k(n: tj.int32) -> None:
        many = tj.alloc_barrier(3)
        assert n > 0
        many.wait(n)

    plain, checked = (tj.kernel(threads=64, debug=d)(k).compile(1, target="sm_90a").ptx for d in (False, True))
    assert (len(re.findall(WAIT, plain)), plain.count("ld.volatile")) == (1, 0)
    assert (len(re.findall(WAIT, checked)), checked.count("ld.volatile.global.b32")) == (2, 1)
    again = checked[checked.index("ld.volatile.global.b32") :]
    assert notes_of(checked, "sm_90a") == [] and "ret;" in again[again.index("mbarrier.try_wait") :]


def test_a_question_is_asked_once() -> None:
    made = ptx("if many[1].test(n):", "    many[0].wait(3)")
    assert len(re.findall(WAIT, made)) == 2 and made.count("mbarrier.test_wait") == 1


def test_barriers_are_placed_after_other_buffers() -> None:
    @tj.kernel(threads=128)
    def k(A: tj.Tensor) -> None:
        ring = tj.alloc_ring(4)
        x = tj.alloc_shared((64, 64), tj.float16, swizzle="128B")
        y = tj.alloc_shared((64, 512), tj.float16, swizzle="128B")
        tj.cta.copy(x, A[0:64, 0:64])
        tj.cta.copy(y, A[0:64, 0:512])
        ring[0].wait()

    made = k.compile(tj.spec((64, 512), tj.float16), target="sm_90a")
    assert made.executable.dynamic_shared and made.executable.shared_bytes == 64 * 64 * 2 + 64 * 512 * 2 + 2 * 4 * 8


def test_ptxas_knows_how_many_registers_a_thread_starts_with() -> None:
    made = ptx(
        "if tj.warpgroup_id() == 0:", "    tj.set_registers(24)", "else:", "    tj.set_registers(240)", threads=384
    )
    assert notes_of(made, "sm_90a") == []
    (note,) = notes_of(made.replace(".minnctapersm 1", ""), "sm_90a")
    assert "C7508" in note
