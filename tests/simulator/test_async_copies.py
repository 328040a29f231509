"""cp.async: what lands and when, and every hazard on the way."""

import numpy as np
import pytest

from tests.simulator.small_kernels import aligned, pointer, simulate
from tilejit.errors import (
    AsyncHazardError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    SimulationError,
    UninitializedReadError,
    UnsupportedInstructionError,
)

TILE = ".shared .align 16 .b8 tile[4096];"
# Thread i has 16 bytes of p0 at %x1, 16 bytes of the tile at %r3, and 16 bytes of p1 at %x2.
START = """
mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 16, %r2;
ld.param.u64 %x9, [p0]; mad.wide.u32 %x1, %r1, 16, %x9; ld.param.u64 %x8, [p1]; mad.wide.u32 %x2, %r1, 16, %x8;
"""
COPY = "cp.async.cg.shared.global [%r3], [%x1], 16;\n"
COMMIT = "cp.async.commit_group;\n"
WAIT = "cp.async.wait_group 0;\n"
OUT = "ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r3]; st.global.v4.b32 [%x2], {%r10, %r11, %r12, %r13};\n"
# The copy of the thread beside.
NEIGHBOUR = "xor.b32 %r4, %r1, 33; mad.lo.u32 %r3, %r4, 16, %r2;\n"


def attempt(body, n=64, source=None, grid=1, block=None, registers=TILE, **options):
    source = aligned(np.arange(1, 4 * n + 1, dtype=np.uint32)) if source is None else source
    out = aligned(np.zeros(4 * n, np.uint32))
    simulate(START + body + "\nret;", source, out, grid=grid, block=block or n, registers=registers, **options)
    return out


# -- values


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("size, cache", [(16, "cg"), (16, "ca"), (8, "ca"), (4, "ca")])
def test_bytes_arrive_after_the_wait(size, cache, checks):
    zero = "mov.u32 %r5, 0; st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5};"
    copy = f"cp.async.{cache}.shared.global.L2::128B [%r3], [%x1], {size};"
    got = attempt(zero + copy + COMMIT + WAIT + OUT, checks=checks).reshape(64, 4)
    expected = np.arange(1, 257).reshape(64, 4)
    expected[:, size // 4 :] = 0
    assert (got == expected).all()


def test_nothing_arrives_before_the_wait():
    zero = "mov.u32 %r5, 0; st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5};"
    assert (attempt(zero + COPY + COMMIT + OUT, checks=False) == 0).all()
    assert (attempt(zero + COPY + COMMIT + "cp.async.wait_group 1;" + OUT, checks=False) == 0).all()
    assert (attempt(zero + COPY + WAIT + OUT, checks=False) == 0).all()
    assert (attempt(zero + COPY + "cp.async.wait_all;" + OUT, checks=False) != 0).all()


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("checks", [True, False])
def test_bytes_past_the_source_size_are_zeros(size, checks):
    source = aligned(np.random.default_rng(0).integers(1, 256, 16 * 64).astype(np.uint8))
    zero = "mov.u32 %r5, 0; st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5};"
    body = f"rem.u32 %r4, %r1, {size + 1}; cp.async.ca.shared.global [%r3], [%x1], {size}, %r4; {COMMIT} {WAIT} {OUT}"
    got = attempt(zero + body, source=source, checks=checks).view(np.uint8).reshape(64, 16)
    for thread in range(64):
        kept = thread % (size + 1)
        expected = np.zeros(16, np.uint8)
        expected[:kept] = source[16 * thread :][:kept]
        assert got[thread].tolist() == expected.tolist()


def test_a_constant_source_size():
    got = attempt(f"cp.async.cg.shared.global [%r3], [%x1], 16, 4; {COMMIT} {WAIT} {OUT}").reshape(64, 4)
    assert (got[:, 0] == np.arange(1, 257, 4)).all() and (got[:, 1:] == 0).all()


@pytest.mark.parametrize("sign", ["", "!"])
def test_sources_can_be_ignored(sign):
    copy = f"setp.lt.u32 %p1, %r1, 10; cp.async.cg.shared.global [%r3], [%x1], 16, {sign}%p1;"
    got = attempt(copy + COMMIT + WAIT + OUT).reshape(64, 4)
    ignored = (np.arange(64) < 10) != (sign == "!")
    assert ((got == 0).all(axis=1) == ignored).all()


def test_cache_policies_are_hints():
    copy = "mov.u64 %x5, 1; cp.async.cg.shared.global.L2::cache_hint [%r3], [%x1], 16, %x5;"
    assert attempt(copy + COMMIT + WAIT + OUT)[0] == 1
    copy = "mov.u64 %x5, 1; cp.async.cg.shared.global.L2::cache_hint [%r3], [%x1], 16, 0, %x5;"
    assert attempt(copy + COMMIT + WAIT + OUT)[0] == 0


def test_sources_that_are_not_copied_may_lie_anywhere():
    copy = "mov.u64 %x1, 16; mov.u32 %r4, 0; cp.async.cg.shared.global [%r3], [%x1], 16, %r4;"
    assert (attempt(copy + COMMIT + WAIT + OUT) == 0).all()


def test_the_last_bytes_of_an_array_can_be_copied_alone():
    source = aligned(np.arange(64 * 4, dtype=np.uint32))[:-2]
    copy = "setp.eq.u32 %p1, %r1, 63; selp.b32 %r4, {}, 16, %p1; cp.async.cg.shared.global [%r3], [%x1], 16, %r4;"
    got = attempt(copy.format(8) + COMMIT + WAIT + OUT, source=source)
    assert (got == [*range(254), 0, 0]).all()
    with pytest.raises(OutOfBoundsError, match="thread 63 .* reads 1 byte out"):
        attempt(copy.format(9) + COMMIT + WAIT + OUT, source=source)


def test_groups_complete_in_order():
    first = "cp.async.ca.shared.global [%r3], [%x1], 4;" + COMMIT
    second = "cp.async.ca.shared.global [%r3+4], [%x1+4], 4;" + COMMIT
    third = "cp.async.ca.shared.global [%r3+8], [%x1+8], 8;" + COMMIT
    for newest in range(4):
        body = "mov.u32 %r5, 0; st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5};" + first + second + third
        got = attempt(f"{body} cp.async.wait_group {newest}; {OUT}", checks=False).reshape(64, 4)
        words = (4, 2, 1, 0)[newest]
        assert (got[:, :words] != 0).all() and (got[:, words:] == 0).all()


def test_threads_count_their_own_groups():
    # Threads below 32 commit an empty group after the copy, so that waiting for all but one covers it.
    body = COPY + COMMIT + "setp.ge.u32 %p1, %r1, 32; @%p1 bra ONE;" + COMMIT + "ONE: cp.async.wait_group 1;\n"
    zero = "mov.u32 %r5, 0; st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5};"
    got = attempt(zero + body + OUT, checks=False).reshape(64, 4)
    assert (got[:32] != 0).all() and (got[32:] == 0).all()
    with pytest.raises(AsyncHazardError, match="thread 32 "):
        attempt(body + OUT)


def test_a_pipeline_of_stages_over_several_ctas():
    # Three stages of one row each; CTA c sums rows c, c+1, … of 16 bytes per thread.
    source = aligned(np.arange(8 * 128, dtype=np.uint32))
    body = """
    mov.u32 %r20, %ctaid.x; mul.wide.u32 %x3, %r20, 512; add.u64 %x1, %x1, %x3; mov.u32 %r21, 0; mov.u32 %r22, 0;
    cp.async.cg.shared.global [%r3], [%x1], 16; cp.async.commit_group;
    cp.async.cg.shared.global [%r3+512], [%x1+512], 16; cp.async.commit_group;
    LOOP:
    setp.ge.u32 %p1, %r21, 4; add.u64 %x1, %x1, 512; @%p1 bra SKIP;
    add.u32 %r23, %r21, 2; rem.u32 %r23, %r23, 3; mad.lo.u32 %r24, %r23, 512, %r3;
    cp.async.cg.shared.global [%r24], [%x1+512], 16;
    SKIP: cp.async.commit_group; cp.async.wait_group 2; bar.sync 0;
    rem.u32 %r25, %r21, 3; xor.b32 %r26, %r1, 31; mad.lo.u32 %r27, %r26, 16, %r2; mad.lo.u32 %r27, %r25, 512, %r27;
    ld.shared.b32 %r28, [%r27]; add.u32 %r22, %r22, %r28; BARRIER
    add.u32 %r21, %r21, 1; setp.lt.u32 %p2, %r21, 6; @%p2 bra LOOP;
    mad.lo.u32 %r29, %r20, 32, %r1; mad.wide.u32 %x2, %r29, 4, %x8; st.global.b32 [%x2], %r22;
    """
    got = attempt(body.replace("BARRIER", "bar.sync 0;"), n=32, source=source, grid=3)
    rows = source.reshape(8, 32, 4)[:, ::-1, 0]
    assert (got[:96].reshape(3, 32) == [rows[c : c + 6].sum(axis=0) for c in range(3)]).all()
    with pytest.raises(RaceError, match="cp.async"):
        attempt(body.replace("BARRIER", ""), n=32, source=source, grid=3)


# -- hazards


def test_reading_the_target_before_the_wait_names_both_lines():
    with pytest.raises(AsyncHazardError) as e:
        attempt(".loc 1 5 1\n" + COPY + COMMIT + ".loc 1 6 1\n" + OUT)
    text = str(e.value)
    assert "thread 0 (warp 0, lane 0) of CTA (0, 0, 0) reads 16 bytes at tile+0 bytes" in text
    assert "cp.async.cg.shared.global [%r3], [%x1], 16;" in text and "ld.shared.v4.b32" in text
    assert ":5" in text and ":6" in text


@pytest.mark.parametrize("touch", [
    "st.shared.b32 [%r3], %r1;", "red.shared.add.u32 [%r3+4], 1;", "ld.shared.b32 %r9, [%r3+12];", COPY,
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r3];",
    "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {%r1, %r1, %r1, %r1};",
])
@pytest.mark.parametrize("wait", ["", WAIT, COMMIT + "cp.async.wait_group 1;", COMMIT + "bar.sync 0;" + NEIGHBOUR])
def test_touching_the_target_before_the_wait_is_a_hazard(touch, wait):
    with pytest.raises(AsyncHazardError, match="wait for the copy"):
        attempt(COPY + wait + touch)


def test_touching_the_target_after_the_wait_is_none():
    for touch in ("st.shared.b32 [%r3], %r1;", "red.shared.add.u32 [%r3+4], 1;", COPY):
        attempt(COPY + COMMIT + WAIT + touch)
    attempt(COPY + "st.shared.b32 [%r3+1024], %r1;" + COMMIT)


def test_changing_the_source_before_the_wait_is_a_hazard():
    for change in ("st.global.b32 [%x1+4], %r1;", "red.global.add.u32 [%x1], 1;"):
        with pytest.raises(AsyncHazardError, match="(?s)of global memory.*still reads it"):
            attempt(COPY + COMMIT + change)
        with pytest.raises(AsyncHazardError):
            attempt(f"cp.async.cg.shared.global [%r3], [%x1], 16, 5; {COMMIT} {change}")
        attempt(COPY + COMMIT + WAIT + change)
        attempt(f"cp.async.cg.shared.global [%r3], [%x1], 16, 0; {COMMIT} {change}")
    attempt(COPY + COMMIT + "st.global.b32 [%x2], %r1;")


def test_another_threads_source_needs_a_barrier_after_the_wait():
    other = "xor.b32 %r4, %r1, 33; mad.wide.u32 %x1, %r4, 16, %x9; st.global.b32 [%x1], %r1;"
    with pytest.raises(RaceError):
        attempt(COPY + COMMIT + "bar.sync 0;" + WAIT + other)
    attempt(COPY + COMMIT + WAIT + "bar.sync 0;" + other)


def test_other_threads_see_the_target_only_with_a_barrier_after_the_wait():
    with pytest.raises(RaceError, match="(?s)ld.shared.*cp.async"):
        attempt(COPY + COMMIT + WAIT + NEIGHBOUR + OUT)
    with pytest.raises(RaceError):
        attempt(COPY + COMMIT + "bar.sync 0;" + WAIT + NEIGHBOUR + OUT)
    assert attempt(COPY + COMMIT + WAIT + "bar.sync 0;" + NEIGHBOUR + OUT)[0] == 33 * 4 + 1


def test_the_target_must_be_free_when_the_copy_starts():
    read = "mov.u32 %r5, 0; st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5}; bar.sync 0; ld.shared.b32 %r9, [%r3];"
    with pytest.raises(RaceError, match="(?s)cp.async.*ld.shared"):
        attempt(read + NEIGHBOUR + COPY)
    attempt(read + "bar.sync 0;" + NEIGHBOUR + COPY)


def test_copies_of_different_bytes_to_one_place_race():
    with pytest.raises(RaceError):
        attempt("mov.u32 %r3, tile;" + COPY)
    source = aligned(np.full(256, 7, np.uint32))
    assert (attempt("mov.u32 %r3, tile;" + COPY + COMMIT + WAIT + "bar.sync 0;" + OUT, source=source) == 7).all()


def test_copies_without_a_wait_leave_their_target_closed():
    body = "setp.lt.u32 %p1, %r1, 32; @!%p1 bra REST;" + COPY + COMMIT + "ret; REST: bar.sync 0;"
    body += "sub.u32 %r4, %r1, 32; mad.lo.u32 %r3, %r4, 16, %r2;" + OUT
    with pytest.raises(AsyncHazardError, match="thread 32 .* reads"):
        attempt(body)


def test_sources_must_have_been_written():
    source = pointer(aligned(np.zeros(256, np.uint32)), "p0", initialized=False)
    with pytest.raises(UninitializedReadError, match="p0"):
        attempt(COPY, source=source)
    with pytest.raises(UninitializedReadError, match="p0"):
        attempt("cp.async.cg.shared.global [%r3], [%x1], 16, 3;", source=source)
    attempt("cp.async.cg.shared.global [%r3], [%x1], 16, 0;", source=source)


def test_both_sides_have_bounds_and_alignment():
    with pytest.raises(OutOfBoundsError, match="thread 60 .* reads 16 bytes .*p0"):
        attempt(COPY, source=aligned(np.zeros(240, np.uint32)))
    with pytest.raises(OutOfBoundsError, match=r"thread 32 .* writes 16 bytes .*tile"):
        attempt(COPY, registers=".shared .align 16 .b8 tile[512];")
    with pytest.raises(MisalignedError, match="not a multiple of 16"):
        attempt("cp.async.cg.shared.global [%r3], [%x1+8], 16;")
    with pytest.raises(MisalignedError, match="not a multiple of 8"):
        attempt("cp.async.ca.shared.global [%r3+4], [%x1], 8;")
    with pytest.raises(MisalignedError, match="not a multiple of 16"):
        attempt("cp.async.cg.shared.global [%r3], [%x1+8], 16, 5;")


def test_a_source_larger_than_the_copy_is_an_error():
    with pytest.raises(SimulationError, match="copies 20 bytes to a target of 16"):
        attempt("cp.async.cg.shared.global [%r3], [%x1], 16, 20;")


@pytest.mark.parametrize("text", [
    "cp.async.cg.shared.global [%r3], [%x1], 8;", "cp.async.ca.shared.global [%r3], [%x1], 12;",
    "cp.async.ca.shared.global [%r3], [%x1];", "cp.async.wait_group %r3;", "cp.async.wait_group;",
    "cp.async.wait_group -1;",
    "cp.async.cs.shared.global [%r3], [%x1], 4;", "cp.async.ca.shared.global [%r3], [%x1], %r4;",
])
def test_forms_that_dont_exist_are_refused(text):
    with pytest.raises(UnsupportedInstructionError, match="PTX line"):
        attempt(text)


def test_the_profile_counts_both_sides():
    out = aligned(np.zeros(256, np.uint32))
    body = START + ".loc 1 4 1\n" + COPY + ".loc 1 5 1\nmad.lo.u32 %r3, %r1, 64, %r2;" + COPY + "ret;"
    source = aligned(np.zeros(256, np.uint32))
    report = simulate(body, source, out, block=32, registers=TILE, profile=True, checks=False)
    assert (report.line(4).traffic.wavefronts, report.line(4).traffic.sectors) == (4, 16)
    assert report.line(5).traffic.wavefronts == 4 * 4 and report.line(5).bank_conflicts == 12
