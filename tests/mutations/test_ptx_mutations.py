"""Bugs that the compiler refuses or never makes, seeded into its PTX: each is reported with the Python line."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilejit as tj
from tests.mutations.edits import Program, names_lines, run_edited
from tests.mutations.programs import PIPELINE, RELAY, ROWS, STENCIL, SUM, TRANSPOSE, numbers
from tilejit.ir.params import (
    ExtentParam,
    PointerParam,
    StrideParam,
)
from tilejit.simulator import Pointer, run


@pytest.fixture(autouse=True)
def simulator(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


THREADS = {PIPELINE: 128, SUM: 128, STENCIL: 64, TRANSPOSE: 256, RELAY: 64, ROWS: 32}


def arrays(program):
    """Inputs and outputs for a launch of two CTAs."""
    shapes = {
        PIPELINE: ((16, 128), (16, 128)), SUM: ((2, 128), (2,)), STENCIL: ((128,), (128,)),
        TRANSPOSE: ((64, 32), (32, 64)), RELAY: ((2, 32), (2, 32)), ROWS: ((2, 32), (2, 32)),
    }[program]
    return [numbers(*shapes[0]), np.zeros(shapes[1], np.float32)]


def replaced(old, new, count=1):
    """An edit of PTX: the first `count` matches of a pattern."""
    return lambda ptx: re.sub(old, new, ptx, count=count)


def in_branch(condition):
    """The first barrier after a branch: only threads for which `condition` of their number holds reach it."""
    head = f"{{ .reg .pred %q; .reg .b32 %w; mov.u32 %w, %tid.x; {condition} @!%q bra PAST;"
    return replaced(r"bar\.sync 0;", f"{head} bar.sync 0; }}\nPAST:")


def reported(program: Program, edit, kind, labels) -> str:
    with pytest.raises(tj.SimulationError) as caught:
        run_edited(program.kernel(), edit, 2, arrays(program), THREADS[program])
    names_lines(caught.value, kind, program.file, {program.line(label) for label in labels})
    return caught.value.message


DROPPED = [(SUM, ("fill", "fold")), (STENCIL, ("middle", "sum")), (TRANSPOSE, ("in", "out")),
           (RELAY, ("produce", "consume")), (PIPELINE, ("load", "read"))]


@pytest.mark.parametrize(("program", "labels"), DROPPED, ids=["sum", "stencil", "transpose", "relay", "pipeline"])
def test_a_dropped_barrier_is_a_race(program, labels):
    assert "race in shared memory" in reported(program, replaced(r"bar\.sync 0;", ""), tj.RaceError, labels)


SYNCED = ROWS.replaced(("    B[row, t] =", "    tj.cta_sync()  # sync\n    B[row, t] ="))
DIVERGENT = [
    ("setp.lt.u32 %q, %w, 16;", "half a warp"),
    ("and.b32 %w, %w, 1; setp.eq.u32 %q, %w, 0;", "every other thread"),
]


@pytest.mark.parametrize(("condition", "who"), DIVERGENT, ids=[d[1] for d in DIVERGENT])
def test_a_barrier_in_a_divergent_branch_is_reported(condition, who):
    with pytest.raises(tj.DivergenceError, match="bar.sync") as caught:
        run_edited(SYNCED.kernel(), in_branch(condition), 2, arrays(ROWS), 32)
    names_lines(caught.value, tj.DivergenceError, SYNCED.file, {SYNCED.line("sync")})


def test_a_barrier_that_one_warp_skips_never_opens():
    with pytest.raises((tj.DeadlockError, tj.DivergenceError, tj.RaceError)) as caught:
        run_edited(SUM.kernel(), in_branch("setp.lt.u32 %q, %w, 32;"), 2, arrays(SUM), THREADS[SUM])
    assert f"{SUM.file}:" in caught.value.message


def test_a_warp_barrier_in_place_of_one_of_the_cta_is_a_race():
    edit = replaced(r"bar\.sync 0;", "bar.warp.sync 0xffffffff;", count=0)
    assert "race in shared memory" in reported(SUM, edit, tj.RaceError, ("fill", "fold"))


OUT, BENT = tj.OutOfBoundsError, tj.MisalignedError
# the program, an instruction's pattern, its replacement, the report, its line
SHIFTED = [
    (ROWS, r"(st\.global\.b32 \t?\[%rd\d+)\]", r"\1+128]", OUT, "store"),
    (ROWS, r"(st\.global\.b32 \t?\[%rd\d+)\]", r"\1+-4096]", OUT, "store"),
    (ROWS, r"(st\.global\.b32 \t?\[%rd\d+)\]", r"\1+2]", BENT, "store"),
    (ROWS, r"(ld\.global\.b32 .*\[%rd\d+)\]", r"\1+128]", OUT, "load"),
    (ROWS, r"(ld\.global\.b32 .*\[%rd\d+)\]", r"\1+1]", BENT, "load"),
    (PIPELINE, r"(ld\.global\.v4\.b32 .*\[%rd\d+)\]", r"\1+4]", BENT, "load"),
    (PIPELINE, r"(st\.shared\.v4\.b32 .*\[%rd\d+)\]", r"\1+8]", BENT, "load"),
    (PIPELINE, r"(st\.shared\.v4\.b32 .*\[%rd\d+)\]", r"\1+4096]", OUT, "load"),
    (SUM, r"(st\.shared\.b32 \t?\[%rd\d+)\]", r"\1+4]", OUT, "fill"),
    (SUM, r"(st\.shared\.b32 \t?\[%rd\d+)\]", r"\1+-4]", OUT, "fill"),
]


@pytest.mark.parametrize(("program", "old", "new", "kind", "label"), SHIFTED, ids=[f"{s[2]}-{s[4]}" for s in SHIFTED])
def test_a_shifted_address_is_reported_at_its_line(program, old, new, kind, label):
    reported(program, replaced(old, new), kind, (label,))


def test_an_array_that_breaks_the_promised_alignment_is_reported():
    kernel = PIPELINE.kernel()
    compiled = kernel.compile(tj.spec((8, 128), tj.float32), tj.spec((8, 128), tj.float32))
    memory = np.zeros(8 * 128 * 4 + 16, np.uint8)
    values = {"A": Pointer(memory, offset_bytes=4, name="A"), "B": Pointer(np.zeros(8 * 128 * 4, np.uint8), name="B")}
    sizes = {(ExtentParam, 0): np.int64(8), (ExtentParam, 1): np.int64(128), (StrideParam, 0): np.int64(128)}
    args = [values[p.of] if isinstance(p, PointerParam) else sizes[type(p), p.axis] for p in compiled.executable.params]
    words = r"accesses 16 bytes at address 0x\w+4, which is not a multiple of 16: A"
    with pytest.raises(BENT, match=words):
        run(compiled.ptx, compiled.executable.entry, (1,), (128,), args)


LOST = [
    (SUM, r"st\.shared\.b32 .*", ("result",)),
    (TRANSPOSE, r"st\.shared\.b32 .*", ("out",)),
    (STENCIL, r"st\.shared\.b32 .*", ("sum", "store")),
    (RELAY, r"st\.shared\.b32 .*", ("consume",)),
]


@pytest.mark.parametrize(("program", "pattern", "lines"), LOST, ids=["sum", "transpose", "stencil", "relay"])
def test_a_dropped_store_leaves_memory_that_nothing_has_written(program, pattern, lines):
    message = reported(program, replaced(pattern, "", count=0), tj.UninitializedReadError, lines)
    assert "which nothing has written" in message


def test_a_register_that_nothing_has_set_is_reported():
    edit = replaced(r"(ld\.global\.b32|mov\.b32) .*", "", count=0)
    message = reported(ROWS, edit, tj.UninitializedReadError, ("scale",))
    assert re.search(r"uses register %r\d+, which nothing has written", message)


def test_an_instruction_that_the_simulator_does_not_know_is_named_with_its_line():
    with pytest.raises(tj.UnsupportedInstructionError, match=r"frobnicate") as caught:
        run_edited(ROWS.kernel(), replaced(r"st\.global\.b32", "frobnicate.b32"), 2, arrays(ROWS), 32)
    assert re.search(r"PTX line \d+", caught.value.message)
