"""Branches, loops, divergence, barriers, calls and special registers."""

import numpy as np
import pytest

from tests.simulator.small_kernels import aligned, evaluate, kernel, pointer, simulate
from tilejit.simulator import run

THREAD = "mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r1, 4, %x1;\n"
STORE = "st.global.u32 [%x2], %r2;\n"


def threads(body, n=64, **options):
    """Run a body that leaves its result in %r2; one result per thread of one CTA."""
    out = np.zeros(n, "u4")
    simulate(THREAD + body + "\nDONE:\n" + STORE + "ret;", out, block=n, **options)
    return out.tolist()


def test_nested_branches_reconverge():
    body = """
    mov.u32 %r2, 0;
    setp.lt.u32 %p1, %r1, 40; @!%p1 bra OUTER;
      setp.lt.u32 %p2, %r1, 20; @%p2 bra INNER;
        add.u32 %r2, %r2, 1; bra JOIN;
      INNER: add.u32 %r2, %r2, 2;
      JOIN: add.u32 %r2, %r2, 10; bra DONE;
    OUTER: add.u32 %r2, %r2, 100;
    """
    assert threads(body) == [12] * 20 + [11] * 20 + [100] * 24


def test_loops_run_a_different_number_of_times_per_thread():
    body = """
    mov.u32 %r2, 0; mov.u32 %r3, 0;
    LOOP: setp.ge.u32 %p1, %r3, %r1; @%p1 bra DONE;
    add.u32 %r2, %r2, %r3; add.u32 %r3, %r3, 1; bra LOOP;
    """
    assert threads(body) == [i * (i - 1) // 2 for i in range(64)]


def test_a_loop_left_early_by_some_threads():
    body = """
    mov.u32 %r2, 0;
    LOOP: add.u32 %r2, %r2, 1;
    rem.u32 %r3, %r2, 7; setp.eq.u32 %p1, %r3, 3; setp.gt.and.u32 %p2, %r2, %r1, %p1; @%p2 bra DONE;
    setp.lt.u32 %p3, %r2, 50; @%p3 bra LOOP;
    """
    expected = []
    for t in range(64):
        i = 0
        while True:
            i += 1
            if (i % 7 == 3 and i > t) or i >= 50:
                break
        expected.append(i)
    assert threads(body) == expected


def test_threads_that_return_early_write_nothing():
    out = np.full(64, 7, "u4")
    simulate(THREAD + "setp.gt.u32 %p1, %r1, 9; @%p1 ret; mov.u32 %r2, 1;" + STORE + "exit;", out, block=64)
    assert out.tolist() == [1] * 10 + [7] * 54


def test_any_instruction_may_be_predicated():
    body = """
    mov.u32 %r2, 5; setp.lt.u32 %p1, %r1, 3;
    @%p1 add.u32 %r2, %r2, 1;
    @!%p1 mov.u32 %r2, 9;
    """
    assert threads(body) == [6] * 3 + [9] * 61


def test_predicated_stores_leave_other_places_alone():
    out = np.zeros(32, "u4")
    simulate(THREAD + "setp.eq.u32 %p1, %r1, 4; mov.u32 %r2, 1; @%p1 st.global.u32 [%x2], %r2; ret;", out)
    assert out.tolist() == [0] * 4 + [1] + [0] * 27


def test_a_register_shared_by_mov_is_not_changed_by_a_partial_write():
    body = """
    mov.u32 %r2, %r1; mov.u32 %r3, %r2;
    setp.lt.u32 %p1, %r1, 8; @!%p1 bra SKIP;
    add.u32 %r3, %r3, 100;
    SKIP: mul.lo.u32 %r4, %r2, 1000; add.u32 %r2, %r4, %r3;
    """
    assert threads(body) == [1000 * i + i + (100 if i < 8 else 0) for i in range(64)]


def test_indexed_branches_choose_their_label():
    body = """
    and.b32 %r3, %r1, 3;
    TABLE: .branchtargets A, B, C, D;
    brx.idx %r3, TABLE;
    A: mov.u32 %r2, 10; bra DONE;
    C: mov.u32 %r2, 30; bra DONE;
    B: mov.u32 %r2, 20; bra DONE;
    D: mov.u32 %r2, 40;
    """
    assert threads(body) == [10, 20, 30, 40] * 16


def test_a_barrier_lets_threads_exchange_through_shared_memory():
    body = """
    mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r3;
    st.shared.u32 [%r4], %r1; bar.sync 0;
    xor.b32 %r5, %r1, 63; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3; ld.shared.u32 %r2, [%r5];
    """
    assert threads(body, registers=".shared .align 4 .b8 tile[256];") == list(range(63, -1, -1))


def test_barriers_in_a_loop_with_divergent_work_between():
    body = """
    mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r1;
    mov.u32 %r6, 32;
    LOOP: bar.sync 0;
    setp.ge.u32 %p1, %r1, %r6; @%p1 bra SKIP;
    shl.b32 %r7, %r6, 2; add.u32 %r8, %r4, %r7; ld.shared.u32 %r9, [%r8]; ld.shared.u32 %r10, [%r4];
    add.u32 %r10, %r10, %r9; st.shared.u32 [%r4], %r10;
    SKIP: shr.u32 %r6, %r6, 1; setp.ne.u32 %p2, %r6, 0; @%p2 bra LOOP;
    bar.sync 0; ld.shared.u32 %r2, [tile];
    """
    assert threads(body, registers=".shared .align 4 .b8 tile[256];") == [sum(range(64))] * 64


@pytest.mark.parametrize("barrier, expected", [("bar.sync 0", 3), ("barrier.cta.red.popc.aligned.u32 %r2, 0, %p1", 16)])
def test_a_warp_may_come_to_one_barrier_by_several_ways(barrier, expected):
    # the text has the barrier before the code that leads to it, as LLVM lays blocks out
    body = f"""
    mov.u32 %r2, 3; and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 1; setp.lt.u32 %p2, %r1, 999; @%p2 bra WORK;
    JOIN: {barrier}; bra DONE;
    WORK: @%p1 bra JOIN; mov.u32 %r4, 0;
    AGAIN: add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, %r1; @%p3 bra AGAIN; bra JOIN;
    """
    assert threads(body, n=32) == [expected] * 32


@pytest.mark.parametrize("op, expected", [("popc.u32", 20), ("and.pred", 0), ("or.pred", 1)])
def test_barrier_reductions_combine_the_ctas_predicates(op, expected):
    register = "%r2" if "popc" in op else "%p2"
    move = "" if "popc" in op else "selp.u32 %r2, 1, 0, %p2;"
    body = f"setp.lt.u32 %p1, %r1, 20; barrier.cta.red.{op.replace('.', '.aligned.', 1)} {register}, 0, %p1; {move}"
    assert threads(body) == [expected] * 64


def test_ctas_at_different_barrier_instructions_dont_mix():
    """CTA 1 waits for its second warp at one bar.red, or at a barrier of 32 threads, while CTA 0 passes another."""
    for first, expected in (("bar.red.popc.u32 %r5, 0, %p2;", 32), ("bar.sync 0, 96; mov.u32 %r5, 8;", 8)):
        out = np.zeros((2, 96), np.uint32)
        simulate(f"""
            mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 96, %r2; mul.wide.u32 %x2, %r3, 4;
            ld.param.u64 %x1, [p0]; add.u64 %x1, %x1, %x2;
            setp.lt.u32 %p2, %r2, 32; setp.ne.u32 %p3, %r2, 5;
            setp.eq.u32 %p1, %r1, 0; @%p1 bra SECOND;
            @!%p2 bra LATE;
            FIRST: {first} bra STORE;
            SECOND: bar.red.and.pred %p4, 0, %p3; selp.u32 %r5, 77, 44, %p4; bra STORE;
            LATE: bra FIRST;
            STORE: st.global.u32 [%x1], %r5; ret;
        """, out, grid=2, block=96)
        np.testing.assert_array_equal(out, np.repeat([[44], [expected]], 96, 1))


def test_named_barriers_join_a_part_of_the_cta():
    body = """
    mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r3;
    st.shared.u32 [%r4], %r1; mov.u32 %r2, 99;
    setp.ge.u32 %p1, %r1, 64; @%p1 bra DONE;
    bar.sync 1, 64;
    xor.b32 %r5, %r1, 32; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3; ld.shared.u32 %r2, [%r5];
    """
    got = threads(body, n=128, registers=".shared .align 4 .b8 tile[512];")
    assert got == [i ^ 32 for i in range(64)] + [99] * 64


def test_producers_arrive_and_consumers_wait():
    body = """
    mov.u32 %r3, tile; and.b32 %r4, %r1, 31; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r3; mov.u32 %r2, 0;
    setp.ge.u32 %p1, %r1, 32; @%p1 bra PRODUCE;
    bar.sync 2, 64; ld.shared.u32 %r2, [%r4]; bra DONE;
    PRODUCE: add.u32 %r5, %r1, 1000; st.shared.u32 [%r4], %r5; bar.arrive 2, 64;
    """
    got = threads(body, registers=".shared .align 4 .b8 tile[128];")
    assert got == [i + 1032 for i in range(32)] + [0] * 32


def test_special_registers_describe_a_three_dimensional_launch():
    body = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y;
    mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
    mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %ctaid.z;
    mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
    mad.lo.u32 %r12, %r9, %r11, %r8; mad.lo.u32 %r12, %r12, %r10, %r7;
    mov.u32 %r13, %ntid.z; mul.lo.u32 %r14, %r4, %r5; mul.lo.u32 %r14, %r14, %r13; mad.lo.u32 %r15, %r12, %r14, %r6;
    ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r15, 4, %x1; mov.u32 %r16, %laneid; mov.u32 %r17, %warpid;
    mad.lo.u32 %r18, %r17, 32, %r16; st.global.u32 [%x2], %r18; ret;
    """
    out = np.zeros(2 * 3 * 2 * 60, "u4")
    run(kernel(body, ".param .u64 p0"), "k", (2, 3, 2), (5, 4, 3), [pointer(out)])
    assert out.tolist() == list(range(60)) * 12


def test_lane_masks():
    got = np.array(threads("mov.u32 %r2, %lanemask_lt;"), "u4")
    assert got.tolist() == [(1 << i % 32) - 1 for i in range(64)]


def test_many_ctas_run_in_several_chunks():
    out = np.zeros(100_000, "u4")
    body = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
    setp.ge.u32 %p1, %r4, 100000; @%p1 bra END;
    ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r4, 4, %x1; st.global.u32 [%x2], %r4;
    END: ret;
    """
    report = simulate(body, out, grid=391, block=256)
    assert (out == np.arange(100_000)).all()
    assert report.instructions["st.global.u32"] == 100_000


def test_printing_formats_in_thread_order():
    text = []
    body = """
    .local .align 8 .b8 depot[32];
    mov.u32 %r1, %tid.x; mov.b64 %x1, depot; cvta.local.u64 %x2, %x1;
    st.local.u32 [%x1], %r1; cvt.rn.f64.u32 %x3, %r1; st.local.f64 [%x1+8], %x3;
    mov.u64 %x4, 123456789012; st.local.u64 [%x1+16], %x4;
    mov.u64 %x5, form; cvta.global.u64 %x6, %x5;
    { .param .b64 param0; .param .b64 param1; .param .b32 retval0;
    st.param.b64 [param0], %x6; st.param.b64 [param1], %x2;
    call.uni (retval0), vprintf, (param0, param1); ld.param.b32 %r2, [retval0]; }
    ret;
    """
    form = b"x=%d %5.1f %lld%%\n\0"
    module = kernel(body).replace(
        ".visible .entry",
        f".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
        f".global .align 1 .b8 form[{len(form)}] = {{{', '.join(map(str, form))}}};\n.visible .entry",
    )
    run(module, "k", (1,), (3,), [], write=text.append)
    assert "".join(text) == "".join(f"x={i} {i:5.1f} 123456789012%\n" for i in range(3))


def test_scalar_parameters_keep_their_bytes():
    body = """
    ld.param.u64 %x1, [p0]; ld.param.s8 %r1, [p1]; ld.param.f64 %x2, [p2]; ld.param.b16 %h1, [p3];
    st.global.u32 [%x1], %r1; st.global.b64 [%x1+8], %x2; st.global.b16 [%x1+16], %h1; ret;
    """
    out = np.zeros(24, "u1")
    params = ".param .u64 p0, .param .u8 p1, .param .f64 p2, .param .b16 p3"
    run(kernel(body, params), "k", (1,), (1,), [pointer(out), -3, np.float64(2.5), b"\x01\x80"])
    assert out[:4].view("i4")[0] == -3
    assert out[8:16].view("f8")[0] == 2.5
    assert out[16:18].tolist() == [1, 128]


@pytest.mark.parametrize("read", ["ld.param.b64 %x2, [%x3];", "cvta.param.u64 %x3, %x3; ld.b64 %x2, [%x3];"])
def test_a_parameters_address_may_be_chosen_at_run_time(read):
    body = f"""
    mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 1; mov.b64 %x3, p1; mov.b64 %x4, p2; selp.b64 %x3, %x4, %x3, %p1;
    {read}
    ld.param.u64 %x1, [p0]; mad.wide.u32 %x1, %r1, 8, %x1; st.global.u64 [%x1], %x2; ret;
    """
    out = np.zeros(2, "u8")
    params = ".param .u64 p0, .param .u64 p1, .param .u64 p2"
    run(kernel(body, params), "k", (1,), (2,), [pointer(out.view("u1")), np.uint64(5), np.uint64(7)])
    assert out.tolist() == [5, 7]


def test_inner_scopes_have_their_own_registers():
    text = "{{ .reg .u32 t; .reg .pred q; add.u32 t, {a}, 1; setp.gt.u32 q, t, 5; @q mov.u32 t, 0; mov.u32 {d}, t; }}"
    a = np.arange(10, dtype="u4")
    assert evaluate(text + text, a, out="u4").tolist() == [1, 2, 3, 4, 5, 0, 0, 0, 0, 0]


def test_constant_tables_and_addresses_of_variables():
    body = """
    mov.u32 %r1, %tid.x; mov.u64 %x1, table; mad.wide.u32 %x1, %r1, 4, %x1; ld.const.u32 %r2, [%x1];
    ld.global.u64 %x3, [where]; ld.u32 %r3, [%x3+4]; add.u32 %r2, %r2, %r3;
    ld.param.u64 %x2, [p0]; mad.wide.u32 %x2, %r1, 4, %x2; st.global.u32 [%x2], %r2; ret;
    """
    module = kernel(body, ".param .u64 p0").replace(
        ".visible .entry",
        ".const .align 4 .b32 table[4] = {10, 20, 30, 0x28};\n"
        ".global .align 8 .u64 where[1] = {generic(table)};\n.visible .entry",
    )
    out = np.zeros(4, "u4")
    run(module, "k", (1,), (4,), [pointer(out)])
    assert out.tolist() == [30, 40, 50, 60]


def test_local_memory_belongs_to_each_thread():
    body = """
    mov.b64 %x3, depot; cvta.local.u64 %x4, %x3; st.local.u32 [%x3+4], %r1; cvta.to.local.u64 %x5, %x4;
    ld.u32 %r2, [%x4+4]; ld.local.u32 %r3, [%x5+4]; add.u32 %r2, %r2, %r3;
    """
    assert threads(body, registers=".local .align 16 .b8 depot[16];") == [2 * i for i in range(64)]


def test_vector_accesses_move_whole_elements():
    a, out = aligned(np.arange(256, dtype="u4")), aligned(np.zeros(256, "u4"))
    body = """
    mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1];
    mad.wide.u32 %x1, %r1, 32, %x1; mad.wide.u32 %x2, %r1, 32, %x2;
    ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%x1]; ld.global.v2.u64 {%x3, %x4}, [%x1+16];
    st.global.v2.u64 [%x2], {%x4, %x3}; st.global.v4.u32 [%x2+16], {%r5, %r4, %r3, %r2}; ret;
    """
    simulate(body, a, out)
    rows = a.reshape(32, 8)
    assert (out.reshape(32, 8) == rows[:, [6, 7, 4, 5, 3, 2, 1, 0]]).all()


def test_eight_element_vectors_of_32_bytes():
    a, out = aligned(np.arange(256, dtype="u4")), aligned(np.zeros(256, "u4"))
    body = """
    mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1];
    mad.wide.u32 %x1, %r1, 32, %x1; mad.wide.u32 %x2, %r1, 32, %x2;
    ld.global.v8.b32 {%r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9}, [%x1];
    st.global.v8.b32 [%x2], {%r9, %r8, %r7, %r6, %r5, %r4, %r3, %r2}; ret;
    """
    simulate(body, a, out)
    assert (out.reshape(32, 8) == a.reshape(32, 8)[:, ::-1]).all()


def test_loads_extend_into_wide_registers_and_stores_truncate():
    a = np.array([-1, 5, -128, 127], "i1")
    assert evaluate("mov.b16 {d}, {a};", a, out="u2").tolist() == [0xFF, 5, 0x80, 0x7F]
    body = """
    mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; cvt.u64.u32 %x3, %r1; add.u64 %x1, %x1, %x3;
    ld.global.s8 %x4, [%x1]; mad.lo.u64 %x2, %x3, 4, %x2; st.global.b32 [%x2], %x4; ret;
    """
    out = np.zeros(4, "i4")
    simulate(body, a, out, block=4)
    assert out.tolist() == a.tolist()


def test_generic_addresses_reach_every_state_space_in_one_instruction():
    body = """
    mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r3; add.u32 %r5, %r1, 500; st.shared.u32 [%r4], %r5;
    cvt.u64.u32 %x3, %r4; cvta.shared.u64 %x3, %x3; st.global.u32 [%x2], %r1;
    and.b32 %r6, %r1, 1; setp.eq.u32 %p1, %r6, 0; selp.b64 %x4, %x3, %x2, %p1;
    ld.u32 %r2, [%x4]; add.u32 %r2, %r2, 1; st.u32 [%x4], %r2;
    """
    got = threads(body, registers=".shared .align 4 .b8 tile[256];")
    assert got == [i + 501 if i % 2 == 0 else i + 1 for i in range(64)]


def test_dynamic_shared_memory_has_the_launchs_size():
    body = "mov.u32 %r3, dyn; mad.lo.u32 %r3, %r1, 4, %r3; st.shared.u32 [%r3], %r1; ld.shared.u32 %r2, [%r3];"
    module = kernel(THREAD + body + STORE + "ret;", ".param .u64 p0").replace(
        ".visible .entry", ".extern .shared .align 16 .b8 dyn[];\n.visible .entry"
    )
    out = np.zeros(64, "u4")
    run(module, "k", (1,), (64,), [pointer(out)], dynamic_shared_bytes=256)
    assert out.tolist() == list(range(64))
