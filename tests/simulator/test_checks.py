"""Every check on a wrong kernel, and on the correct kernel beside it."""

import numpy as np
import pytest

from tests.simulator.small_kernels import aligned, kernel, pointer, simulate
from tilejit.errors import (
    DeadlockError,
    DivergenceError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    SimulationError,
    UninitializedReadError,
)
from tilejit.simulator import run

THREAD = "mov.u32 %r1, %tid.x; mov.u32 %r9, %ctaid.x; ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r1, 4, %x1;\n"
TILE = ".shared .align 16 .b8 tile[512];"
MINE = "mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r3;\n"


def attempt(body, n=64, out=None, grid=1, registers=TILE, **options):
    out = np.zeros(n, "u4") if out is None else out
    simulate(THREAD + body + "\nret;", out, grid=grid, block=n, registers=registers, **options)
    return out


# -- bounds and alignment


def test_an_access_past_the_end_names_the_array_and_the_offset():
    with pytest.raises(OutOfBoundsError) as e:
        attempt("st.global.u32 [%x2], %r1;", n=64, out=np.zeros(60, "u4"))
    text = str(e.value)
    assert "thread 60 (warp 1, lane 28) of CTA (0, 0, 0) writes 4 bytes" in text
    assert "p0+240 bytes, element 60 of 4 bytes; p0 has 240 bytes" in text
    assert "st.global.u32 [%x2], %r1;" in text


def test_an_access_before_an_array_is_out_of_bounds():
    with pytest.raises(OutOfBoundsError, match=r"p0-4 bytes"):
        attempt("ld.global.u32 %r2, [%x2+-4];")


def test_arrays_lie_far_apart():
    with pytest.raises(OutOfBoundsError):
        simulate("ld.param.u64 %x1, [p0]; ld.global.u32 %r1, [%x1+64]; ret;", np.zeros(16, "u4"), np.zeros(16, "u4"))


def test_a_null_pointer_is_out_of_bounds():
    with pytest.raises(OutOfBoundsError):
        simulate("mov.u64 %x1, 0; ld.global.u32 %r1, [%x1]; ret;")


def test_an_address_cut_to_32_bits_is_out_of_bounds():
    with pytest.raises(OutOfBoundsError):
        attempt("cvt.u32.u64 %r5, %x2; cvt.u64.u32 %x5, %r5; ld.global.u32 %r2, [%x5];")


@pytest.mark.parametrize("access", ["st.shared.u32 [%r4+256], %r1;", "ld.shared.u32 %r2, [%r4+512];"])
def test_shared_memory_has_bounds(access):
    with pytest.raises(OutOfBoundsError, match="tile"):
        attempt(MINE + access, n=128)


def test_one_variable_cant_be_reached_from_its_neighbour():
    with pytest.raises(OutOfBoundsError, match="first"):
        attempt("st.shared.u32 [first+16], %r1;",
                registers=".shared .align 4 .b8 first[16]; .shared .align 4 .b8 second[16];")


def test_local_memory_has_bounds():
    with pytest.raises(OutOfBoundsError, match="depot"):
        attempt("mov.b64 %x3, depot; st.local.u32 [%x3+8], %r1;", registers=".local .align 8 .b8 depot[8];")


def test_misaligned_accesses_are_reported():
    with pytest.raises(MisalignedError, match="not a multiple of 4"):
        attempt("ld.global.u32 %r2, [%x1+2];")
    with pytest.raises(MisalignedError, match="not a multiple of 16"):
        attempt(MINE + "st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};")


def test_the_hosts_misalignment_carries_over():
    raw = np.zeros(80, "u1")
    start = -raw.__array_interface__["data"][0] % 16
    aligned, shifted = raw[start : start + 32], raw[start + 4 : start + 36]
    body = "ld.param.u64 %x1, [p0]; ld.global.v2.u32 {%r1, %r2}, [%x1]; ret;"
    simulate(body, pointer(aligned))
    with pytest.raises(MisalignedError):
        simulate(body, pointer(shifted))


def test_overlapping_arrays_share_memory():
    base = np.arange(32, dtype="u4")
    body = """
    ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; sub.u64 %x3, %x2, %x1; ld.param.u64 %x4, [p2];
    mov.u32 %r1, 77; st.global.u32 [%x1+32], %r1; ld.global.u32 %r2, [%x2]; cvt.u64.u32 %x5, %r2;
    st.global.u64 [%x4], %x3; st.global.u64 [%x4+8], %x5; ret;
    """
    out = np.zeros(2, "u8")
    simulate(body, base[:16], base[8:24], out, block=1)
    assert out.tolist() == [32, 77]


def test_writing_to_a_read_only_array_is_an_error():
    with pytest.raises(SimulationError, match="read-only"):
        attempt("st.global.u32 [%x2], %r1;", out=pointer(np.zeros(64, "u4"), "p0", writable=False))


# -- uninitialised reads


def test_shared_memory_must_be_written_before_it_is_read():
    with pytest.raises(UninitializedReadError, match="tile.*(\n.*)*help: write it first"):
        attempt(MINE + "ld.shared.u32 %r2, [%r4]; st.global.u32 [%x2], %r2;")
    attempt(MINE + "st.shared.u32 [%r4], %r1; ld.shared.u32 %r2, [%r4];")


def test_a_wide_read_needs_every_byte_written():
    body = "shl.b32 %r4, %r1, 3; mov.u32 %r3, tile; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r1;"
    with pytest.raises(UninitializedReadError):
        attempt(body + "ld.shared.u64 %x3, [%r4]; cvt.u32.u64 %r2, %x3; st.global.u32 [%x2], %r2;")
    attempt(body + "st.shared.u32 [%r4+4], %r1; ld.shared.u64 %x3, [%r4];")


def test_an_output_must_be_written_before_it_is_read():
    fresh = pointer(np.zeros(64, "u4"), "out", initialized=False)
    with pytest.raises(UninitializedReadError, match="out"):
        attempt("ld.global.u32 %r2, [%x2]; st.global.u32 [%x2], %r2;", out=fresh)
    attempt("st.global.u32 [%x2], %r1; ld.global.u32 %r2, [%x2];", out=fresh)


def test_local_memory_must_be_written_before_it_is_read():
    depot = ".local .align 8 .b8 depot[8];"
    with pytest.raises(UninitializedReadError, match="depot"):
        attempt("mov.b64 %x3, depot; ld.local.u32 %r2, [%x3]; st.global.u32 [%x2], %r2;", registers=depot)
    attempt("mov.b64 %x3, depot; st.local.u32 [%x3], %r1; ld.local.u32 %r2, [%x3];", registers=depot)


def test_a_register_that_nothing_writes_is_reported():
    with pytest.raises(UninitializedReadError, match="%r20"):
        attempt("add.u32 %r2, %r20, 1; st.global.u32 [%x2], %r2;")


@pytest.mark.parametrize("text", [
    "mov.b64 %x5, {%r1, %r20};", "selp.b32 %r2, %r20, %r1, %p1;", "prmt.b32 %r2, %r1, %r20, 0x3210;",
    "shl.b32 %r2, %r1, 3; mad.wide.u32 %x3, %r1, 4, %x2; st.global.v2.u32 [%x3], {%r1, %r20};",
])
def test_parts_of_vectors_that_llvm_leaves_undefined_are_no_reads(text):
    attempt("setp.eq.u32 %p1, %r1, 99;" + text, out=aligned(np.zeros(128, "u4")))


def test_an_address_register_left_unwritten_on_one_path_is_reported():
    body = "setp.lt.u32 %p1, %r1, 5; @%p1 bra SKIP; mov.u64 %x5, %x2;\nSKIP: st.global.u32 [%x5], %r1;"
    with pytest.raises(UninitializedReadError, match=r"thread 0 .* %x5"):
        attempt(body)
    attempt("mov.u64 %x5, %x1; " + body.replace("SKIP: st.global.u32 [%x5], %r1;", "SKIP: ld.global.u32 %r2, [%x5];"))


def test_a_value_that_llvm_left_undefined_on_purpose_may_be_read():
    attempt("// implicit-def: %r20\nadd.u32 %r2, %r20, 1;")


# -- races in shared memory


def test_a_missing_barrier_is_a_race_with_both_lines():
    exchange = "xor.b32 %r5, %r1, 63; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3;\nld.shared.u32 %r2, [%r5];"
    with pytest.raises(RaceError) as e:
        attempt(MINE + ".loc 1 12 3\nst.shared.u32 [%r4], %r1;\n.loc 1 14 5\n" + exchange)
    text = str(e.value)
    assert "thread 0 (warp 0, lane 0) of CTA (0, 0, 0) reads 4 bytes at tile+252 bytes, element 63" in text
    assert "thread 63 (warp 1, lane 31) of CTA (0, 0, 0) wrote it" in text
    assert "st.shared.u32 [%r4], %r1;" in text and "ld.shared.u32 %r2, [%r5];" in text
    assert ":12" in text and ":14" in text
    attempt(MINE + "st.shared.u32 [%r4], %r1; bar.sync 0;" + exchange)


def test_lines_are_named_by_locate():
    body = MINE + ".loc 1 12 3\nst.shared.u32 [tile], %r1;"
    with pytest.raises(RaceError, match="kernel.py:12 inlined 3"):
        attempt(body, locate=lambda file, line, column: f"kernel.py:{line} inlined {column}")


def test_what_has_no_line_of_the_source_names_none():
    body = MINE + ".loc 1 0 0\nst.shared.u32 [tile], %r1;"
    with pytest.raises(RaceError, match="PTX line") as caught:
        attempt(body, locate=lambda file, line, column: f"line {line}")
    assert "from line 0" not in str(caught.value)


def test_overwriting_what_others_still_read_is_a_race():
    body = MINE + """
    st.shared.u32 [%r4], %r1; bar.sync 0;
    xor.b32 %r5, %r1, 63; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3; ld.shared.u32 %r2, [%r5]; BARRIER
    add.u32 %r2, %r2, 1; st.shared.u32 [%r4], %r2;
    """
    with pytest.raises(RaceError, match="writes 4 bytes .*\n.*\n.*\n?.* read it"):
        attempt(body.replace("BARRIER", ""))
    attempt(body.replace("BARRIER", "bar.sync 0;"))


def test_one_writer_among_many_readers_is_a_race_even_if_it_read_last():
    body = """
    setp.ne.u32 %p1, %r1, 0; @%p1 bra SKIP; st.shared.u32 [tile], 5; SKIP: bar.sync 0;
    ld.shared.u32 %r2, [tile]; BARRIER
    setp.ne.u32 %p2, %r1, 63; @%p2 bra END; st.shared.u32 [tile], 6; END:
    """
    with pytest.raises(RaceError):
        attempt(body.replace("BARRIER", ""))
    attempt(body.replace("BARRIER", "bar.sync 0;"))


def test_different_values_stored_to_one_place_race():
    with pytest.raises(RaceError):
        attempt("st.shared.u32 [tile], %r1;")


def test_equal_values_stored_by_one_operation_dont_race():
    attempt("st.shared.u32 [tile], 7; bar.sync 0; ld.shared.u32 %r2, [tile];")


def test_warps_that_store_and_read_back_the_same_copy_dont_race():
    # Every warp stores the same 32 values, then reads them after a warp barrier of its own.
    body = """
    and.b32 %r5, %r1, 31; mov.u32 %r3, tile; mad.lo.u32 %r4, %r5, 4, %r3; st.shared.u32 [%r4], %r5; bar.warp.sync -1;
    xor.b32 %r6, %r5, 9; mad.lo.u32 %r4, %r6, 4, %r3; ld.shared.u32 %r2, [%r4];
    """
    attempt(body)


def test_copies_that_warps_repeat_at_different_times_dont_race():
    body = """
    shr.u32 %r7, %r1, 5; and.b32 %r5, %r1, 31; mov.u32 %r3, tile; mad.lo.u32 %r4, %r5, 4, %r3;
    setp.ne.u32 %p1, %r7, 0; @%p1 bra LATER;
    LATER2: .loc 1 5 1
    st.shared.u32 [%r4], %r5; bar.warp.sync -1;
    xor.b32 %r6, %r5, 9; mad.lo.u32 %r8, %r6, 4, %r3; ld.shared.u32 %r2, [%r8]; bra END;
    LATER: bar.warp.sync -1; mov.u32 %r10, 0;
    L: add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 5; @%p2 bra L; bra LATER2;
    END:
    """
    attempt(body)


def test_a_warp_reads_its_copy_after_another_warp_stored_it_again():
    # Warp 0 stores and waits in a loop while warp 1 stores the same values; then warp 0 reads.
    body = """
    shr.u32 %r7, %r1, 5; and.b32 %r5, %r1, 31; mov.u32 %r3, tile; mad.lo.u32 %r4, %r5, 4, %r3; mov.u32 %r10, 0;
    bra STORE;
    READ: bar.warp.sync -1; xor.b32 %r6, %r5, 9; mad.lo.u32 %r8, %r6, 4, %r3; ld.shared.u32 %r2, [%r8]; bra END;
    WAIT: add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 3; @%p2 bra WAIT;
    STORE: .loc 1 5 1
    setp.eq.u32 %p3, %r10, 0; setp.eq.and.u32 %p4, %r7, 1, %p3; @%p4 bra WAIT;
    st.shared.u32 [%r4], VALUE;
    setp.eq.u32 %p1, %r7, 1; @%p1 bra READ;
    mov.u32 %r10, 0; LATE: add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 9; @%p2 bra LATE; bra READ;
    END:
    """
    attempt(body.replace("VALUE", "%r5"))
    with pytest.raises(RaceError):
        attempt(body.replace("VALUE", "%r1"))


def test_a_different_value_after_equal_ones_is_a_race():
    body = """
    shr.u32 %r7, %r1, 5; st.shared.u32 [tile], 7; setp.ne.u32 %p1, %r7, 1; @%p1 bra END; st.shared.u32 [tile], 8; END:
    """
    with pytest.raises(RaceError):
        attempt(body)


def test_lanes_of_a_warp_need_a_warp_barrier():
    body = MINE + "st.shared.u32 [%r4], %r1; SYNC xor.b32 %r5, %r4, 4; ld.shared.u32 %r2, [%r5];"
    with pytest.raises(RaceError):
        attempt(body.replace("SYNC", ""), n=32)
    attempt(body.replace("SYNC", "bar.warp.sync -1;"), n=32)
    attempt(body.replace("SYNC", "shfl.sync.idx.b32 %r8, %r1, 0, 31, -1;"), n=32)


def test_a_warp_barrier_orders_no_other_warp():
    body = MINE + "st.shared.u32 [%r4], %r1; bar.warp.sync -1; xor.b32 %r5, %r4, 128; ld.shared.u32 %r2, [%r5];"
    with pytest.raises(RaceError):
        attempt(body)


def test_atomics_dont_race_with_each_other_but_with_plain_accesses():
    start = "setp.ne.u32 %p1, %r1, 0; @%p1 bra S; st.shared.u32 [tile], 0; S: bar.sync 0;"
    attempt(start + "red.shared.add.u32 [tile], 1; bar.sync 0; ld.shared.u32 %r2, [tile];")
    with pytest.raises(RaceError):
        attempt(start + "red.shared.add.u32 [tile], 1; ld.shared.u32 %r2, [tile];")
    with pytest.raises(RaceError):
        attempt(start.replace("bar.sync 0;", "") + "red.shared.add.u32 [tile], 1;")


def test_neighbouring_bytes_dont_race():
    attempt("mov.u32 %r3, tile; add.u32 %r4, %r3, %r1; st.shared.u8 [%r4], %r1;"
            " bar.sync 0; ld.shared.u8 %r2, [%r4];")


def test_named_barriers_order_their_threads():
    body = MINE + """
    st.shared.u32 [%r4], %r1; setp.ge.u32 %p1, %r1, 64; @%p1 bra END; bar.sync 1, 64;
    xor.b32 %r5, %r1, WHO; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3; ld.shared.u32 %r2, [%r5];
    END:
    """
    attempt(body.replace("WHO", "32"), n=128)
    with pytest.raises(RaceError):
        attempt(body.replace("WHO", "64"), n=128)


def test_a_flag_with_fences_orders_two_warps():
    body = """
    .shared .align 4 .b8 flag[4];
    setp.ne.u32 %p1, %r1, 0; @%p1 bra S; st.shared.u32 [flag], 0; S: bar.sync 0;
    setp.ge.u32 %p2, %r1, 32; @%p2 bra CONSUME;
    setp.ne.u32 %p3, %r1, 0; @%p3 bra END; st.shared.u32 [tile], 42; FENCE
    st.volatile.shared.u32 [flag], 1; bra END;
    CONSUME: setp.ne.u32 %p3, %r1, 32; @%p3 bra END;
    SPIN: ld.volatile.shared.u32 %r5, [flag]; setp.eq.u32 %p4, %r5, 0; @%p4 bra SPIN; FENCE
    ld.shared.u32 %r2, [tile]; st.global.u32 [%x1], %r2;
    END:
    """
    assert attempt(body.replace("FENCE", "membar.cta;"))[0] == 42
    with pytest.raises(RaceError):
        attempt(body.replace("FENCE", ""))


# -- races in global memory


def test_ctas_that_write_one_place_race():
    with pytest.raises(RaceError, match="global memory") as caught:
        attempt("st.global.u32 [%x2], %r9;", grid=2)
    assert "CTAs run in any order" in (caught.value.hint or "")
    attempt("mad.wide.u32 %x2, %r9, 256, %x2; st.global.u32 [%x2], %r9;", grid=2, out=np.zeros(128, "u4"), n=64)


def test_ctas_race_across_chunks():
    with pytest.raises(RaceError, match="global memory"):
        attempt("setp.lt.u32 %p1, %r9, 40; selp.u32 %r5, 1, 2, %p1; st.global.u32 [%x2], %r5;", n=1024, grid=48)


def test_reading_what_another_cta_writes_is_a_race():
    body = "setp.eq.u32 %p1, %r9, 0; @%p1 bra W; ld.global.u32 %r2, [%x1]; bra END; W: st.global.u32 [%x2], %r1; END:"
    with pytest.raises(RaceError):
        attempt(body, grid=2)


def test_threads_of_a_cta_race_in_global_memory_without_a_barrier():
    body = """
    st.global.u32 [%x2], %r1; BARRIER xor.b32 %r5, %r1, 63; mad.wide.u32 %x3, %r5, 4, %x1; ld.global.u32 %r2, [%x3];
    """
    with pytest.raises(RaceError):
        attempt(body.replace("BARRIER", ""))
    attempt(body.replace("BARRIER", "bar.sync 0;"))


def test_updating_ones_own_elements_in_place_is_no_race():
    attempt("ld.global.u32 %r2, [%x2]; add.u32 %r2, %r2, 1; st.global.u32 [%x2], %r2; ld.global.u32 %r5, [%x2];")


def test_equal_values_from_several_ctas_dont_race():
    attempt("st.global.u32 [%x2], %r1;", grid=3)


# -- barriers


def test_a_barrier_that_a_part_of_a_warp_skips_is_divergence():
    body = "setp.lt.u32 %p1, %r1, 16; @!%p1 bra SKIP; bar.sync 0;\nSKIP: st.global.u32 [%x2], %r1;"
    with pytest.raises(DivergenceError, match="thread 16 .* exited"):
        attempt(body)


def test_whole_warps_that_have_exited_dont_hold_up_a_barrier():
    attempt("setp.ge.u32 %p1, %r1, 32; @%p1 ret; bar.sync 0; st.global.u32 [%x2], %r1;")


def test_two_barriers_in_the_branches_of_a_warp_are_divergence():
    body = "setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; bra B; A: bar.sync 0; B: st.global.u32 [%x2], %r1;"
    with pytest.raises(DivergenceError, match="has arrived at another barrier"):
        attempt(body)
    attempt(body.replace("%r1, 16", "%r1, 32"))


def test_a_barrier_of_one_warp_that_a_part_of_another_reaches_is_divergence():
    body = "setp.ge.u32 %p1, %r1, 48; @%p1 bra LATE; bar.sync 1, 32;\nLATE: st.global.u32 [%x2], %r1;"
    with pytest.raises(DivergenceError, match="(?s)arrived at.*thread 48 .* has not arrived"):
        attempt(body)


@pytest.mark.parametrize("schedule", range(8))
def test_lanes_of_a_warp_may_come_to_an_arrival_in_turn(schedule):
    body = """
        setp.ne.u32 %p1, %r1, 0; @%p1 bra MERGED; st.global.u32 [%x1], %r1;
        MERGED: setp.ge.u32 %p2, %r1, 32; @%p2 bra WAITS; bar.arrive 1, 64; bra END;
        WAITS: bar.sync 1, 64; END:
    """
    attempt(body, schedule=schedule)


def test_unaligned_barriers_are_allowed_in_the_branches_of_a_warp():
    attempt("setp.lt.u32 %p1, %r1, 16; @%p1 bra A; barrier.sync 0; bra B; A: barrier.sync 0; B: mov.u32 %r2, 0;")


def test_a_barrier_that_never_gets_all_its_threads_is_a_deadlock():
    with pytest.raises(DeadlockError, match="barrier 1"):
        attempt("bar.sync 1, 128;")


def test_warps_that_wait_at_different_barriers_are_reported():
    body = "setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 0; bra B; A: bar.sync 1; B:"
    with pytest.raises(DivergenceError, match="wait at barrier"):
        attempt(body)


def test_spinning_on_a_flag_that_is_never_set_is_a_deadlock():
    body = "SPIN: ld.volatile.global.u32 %r2, [%x2]; setp.eq.u32 %p1, %r2, 0; @%p1 bra SPIN;"
    with pytest.raises(DeadlockError, match="spin"):
        attempt("setp.gt.u32 %p2, %r1, 5; @%p2 bra W;" + body + "W: bar.sync 0;")


def test_everybody_spinning_is_a_deadlock():
    with pytest.raises(DeadlockError, match="63 more spin") as caught:
        attempt("SPIN: ld.volatile.global.u32 %r2, [%x2]; setp.eq.u32 %p1, %r2, 0; @%p1 bra SPIN;")
    assert "must do so before it waits" in (caught.value.hint or "")


def test_a_loop_that_counts_its_polls_is_no_deadlock():
    attempt("""
    mov.u32 %r5, 0;
    SPIN: ld.volatile.global.u32 %r2, [%x2]; add.u32 %r5, %r5, 1; setp.ge.u32 %p2, %r5, 5000; @%p2 bra OUT;
    setp.eq.u32 %p1, %r2, 0; @%p1 bra SPIN;
    OUT:
    """)


def test_trap_is_an_error():
    with pytest.raises(SimulationError, match="trap"):
        attempt("setp.eq.u32 %p1, %r1, 3; @%p1 trap;")


def test_unchecked_runs_find_no_races_but_bounds():
    attempt("st.shared.u32 [tile], %r1;", checks=False)
    with pytest.raises(OutOfBoundsError):
        attempt("st.global.u32 [%x2+4096], %r1;", checks=False)


def test_a_failing_kernel_restores_numpys_settings():
    before = np.geterr()
    with pytest.raises(RaceError):
        attempt("st.shared.u32 [tile], %r1;")
    assert np.geterr() == before


def test_loads_from_a_module_with_files_name_them():
    module = kernel(".loc 1 7 0\nmov.u64 %x1, 0; ld.global.u32 %r1, [%x1]; ret;") + '.file 1 "dir/kernel.py"\n'
    with pytest.raises(OutOfBoundsError, match="dir/kernel.py:7"):
        run(module, "k", (1,), (1,), [])
