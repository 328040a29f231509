"""Loops: endless ones are found and named, and a warp instruction in a loop doesn't take progress for a standstill."""

import re
import signal
import threading

import numpy as np
import pytest

import tilejit as tj
from tests.simulator.small_kernels import kernel, simulate
from tilejit.errors import DeadlockError, SimulationError
from tilejit.simulator.decode.ptx import PtxInstruction
from tilejit.simulator.decode.roles import roles_of
from tilejit.simulator.decode.translate import translate
from tilejit.simulator.machine.access import Access

THREAD = "mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r1, 4, %x1;\n"


@tj.kernel(threads=32)
def product(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
    acc = tj.alloc_local((16, 8), tj.float32, layout=tj.mma.layout_c((16, 8), tj.float32))
    a = tj.alloc_local((16, 16), A.dtype, layout=tj.mma.layout_a((16, 16), A.dtype))
    b = tj.alloc_local((16, 8), B.dtype, layout=tj.mma.layout_b((16, 8), B.dtype))
    tj.warp.fill(acc, 0)
    for k in range(A.shape[1] // 16):
        tj.warp.copy(a, A[0:16, k * 16 : k * 16 + 16])
        tj.warp.copy(b, B[k * 16 : k * 16 + 16, 0:8])
        tj.warp.gemm(acc, a, b)
    tj.warp.copy(C[0:16, 0:8], acc)


def test_a_warp_instruction_in_a_loop_waits_for_lanes_that_come_in_groups():
    # the edge of B, 5 columns wide, sends the lanes through different blocks in every iteration
    a = np.ones((16, 32), np.float16)
    b = np.arange(160, dtype=np.float16).reshape(32, 5) % 7
    c = np.zeros((16, 8), np.float32)
    product[1](a, b, c)
    np.testing.assert_array_equal(c[:, :5], a.astype(np.float32) @ b)
    assert not c[:, 5:].any()


@pytest.mark.parametrize("together", [
    "shfl.sync.bfly.b32 %r5, %r5, 1, 31, -1;", "bar.warp.sync -1;", "vote.sync.any.pred %p4, %p1, -1;",
])
def test_lanes_that_diverge_in_every_iteration_reconverge_in_each(together):
    body = THREAD + f"""
    mov.u32 %r5, 0; mov.u32 %r3, 0; and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0;
    LOOP: @%p1 bra EVEN;
    JOIN: {together} add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 5; @%p2 bra LOOP; bra DONE;
    EVEN: add.u32 %r6, %r3, 1; bra JOIN;
    DONE: st.global.u32 [%x2], %r3; ret;
    """
    out = np.zeros(32, "u4")
    simulate(body, out)
    assert (out == 5).all()


@tj.kernel(threads=32)
def waits_forever(Y: tj.Tensor):
    while Y[0] < 1:
        pass


@tj.kernel(threads=32)
def does_nothing(Y: tj.Tensor):
    while True:
        pass


@tj.kernel(threads=32)
def stores_the_same(Y: tj.Tensor):
    while True:
        Y[0] = 1


@tj.kernel(threads=32)
def counts_in_a_register(Y: tj.Tensor):
    i = 0
    while True:
        i += 1


@tj.kernel(threads=32)
def counts_in_memory(Y: tj.Tensor):
    if tj.thread_id() == 0:
        while Y[0] == 0:
            Y[1] = Y[1] + 1


@tj.kernel(threads=32)
def stores_a_count_in_an_inner_loop(Y: tj.Tensor):
    i = 0
    if tj.thread_id() == 0:
        while Y[0] == 0:
            i += 1
            for j in range(3):
                Y[1 + j] = i


@tj.kernel(threads=64)
def counts_between_barriers(Y: tj.Tensor):
    s = tj.alloc_shared((64,), tj.int32)
    s[tj.thread_id()] = 0
    while Y[0] == 0:
        s[tj.thread_id()] = s[tj.thread_id()] + 1
        tj.cta_sync()


@tj.kernel(threads=64)
def two_that_wait_for_each_other(Y: tj.Tensor):
    i = 0
    if tj.thread_id() == 0:
        while Y[0] == 0:
            i += 1
            Y[2] = i
    if tj.thread_id() == 32:
        while Y[1] == 0:
            i += 3
            Y[3] = i


@pytest.mark.parametrize("endless, line", [
    (waits_forever, "while Y"), (does_nothing, "while True"), (stores_the_same, r"Y\[0\] = 1"),
    (counts_in_a_register, r"i \+= 1"), (counts_in_memory, r"while Y|Y\[1\] ="),
    (stores_a_count_in_an_inner_loop, r"while Y|i \+= 1"), (counts_between_barriers, r"while Y|s\[tj"),
    (two_that_wait_for_each_other, r"while Y|i \+= 1"),
])
@pytest.mark.parametrize("checks", [True, False])
def test_a_loop_that_comes_back_to_its_state_is_a_deadlock_that_names_its_line(endless, line, checks):
    with pytest.raises(DeadlockError, match=line):
        tj.simulate(endless, 1, np.zeros(4, "i4"), checks=checks)


# Loops that end after long: what ends them is changed by the loop itself, or by another thread after a while.
ENDS = {
    "a place that a store reaches at last": """
        mov.u32 %r3, 3000;
        LOOP: sub.u32 %r3, %r3, 1; mad.wide.u32 %x3, %r3, 4, %x1; st.global.u32 [%x3], 1; ld.global.u32 %r2, [%x1];
        setp.eq.u32 %p1, %r2, 0; @%p1 bra LOOP; ret;""",
    "a value that is another at last": """
        mov.u32 %r3, 0;
        LOOP: add.u32 %r3, %r3, 1; shr.u32 %r4, %r3, 12; st.global.u32 [%x1], %r4; ld.global.u32 %r2, [%x1];
        setp.eq.u32 %p1, %r2, 0; @%p1 bra LOOP; ret;""",
    "a sum in memory": """
        LOOP: red.global.add.u32 [%x1], 1; ld.global.u32 %r2, [%x1]; setp.lt.u32 %p1, %r2, 3000; @%p1 bra LOOP; ret;""",
    "the old value of an update": """
        LOOP: atom.global.inc.u32 %r2, [%x1], 3000; setp.lt.u32 %p1, %r2, 3000; @%p1 bra LOOP;
        st.global.u32 [%x1], 1; ret;""",
    "a carry": """
        mov.u32 %r3, 0; mov.u32 %r4, 0;
        LOOP: add.cc.u32 %r3, %r3, 1500000; addc.u32 %r4, %r4, 0; setp.eq.u32 %p1, %r4, 0; @%p1 bra LOOP;
        st.global.u32 [%x1], 1; ret;""",
    "what another lane computes": """
        mov.u32 %r3, 0;
        LOOP: add.u32 %r3, %r3, 1; shfl.sync.idx.b32 %r2, %r3, 0, 31, 1; setp.lt.u32 %p1, %r2, 3000; @%p1 bra LOOP;
        st.global.u32 [%x1], 1; ret;""",
    "a number on the stack": """
        mov.u32 %r3, 0; mov.u32 %r2, 0; st.local.u32 [kept], %r2;
        LOOP: ld.local.u32 %r2, [kept]; add.u32 %r2, %r2, 1; st.local.u32 [kept], %r2; setp.lt.u32 %p1, %r2, 3000;
        @%p1 bra LOOP; st.global.u32 [%x1], 1; ret;""",
    "a copy that has arrived": """
        mov.u32 %r3, 0;
        LOOP: add.u32 %r3, %r3, 1; shr.u32 %r4, %r3, 12; st.global.u32 [%x1+4], %r4;
        cp.async.ca.shared.global [tile], [%x1+4], 4; cp.async.wait_all; ld.shared.u32 %r2, [tile];
        setp.eq.u32 %p1, %r2, 0; @%p1 bra LOOP; st.global.u32 [%x1], 1; ret;""",
}


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("what", ENDS)
def test_a_loop_that_ends_after_long_is_not_called_endless(what, checks):
    buffers = ".shared .align 4 .b8 tile[4]; .local .align 4 .b8 kept[4];"
    out = np.zeros(3000, "u4")
    simulate(THREAD + ENDS[what], out, block=1, registers=buffers, checks=checks)
    assert out[0]


def test_a_loop_waits_for_another_that_is_long():
    body = THREAD + """
    mov.u32 %r3, 0; setp.ge.u32 %p3, %r1, 32; @%p3 bra LONG;
    LOOP: add.u32 %r3, %r3, 1; st.global.u32 [%x2+4], %r3; ld.relaxed.gpu.global.u32 %r2, [%x1];
    setp.eq.u32 %p1, %r2, 0; @%p1 bra LOOP; ret;
    LONG: ld.relaxed.gpu.global.u32 %r4, [%x2+4]; add.u32 %r4, %r4, 1; st.relaxed.gpu.global.u32 [%x2+4], %r4;
    setp.lt.u32 %p1, %r4, 2500; @%p1 bra LONG; st.relaxed.gpu.global.u32 [%x1], %r4; ret;
    """
    out = np.zeros(66, "u4")
    simulate(body, out, block=64)
    assert out[0] == 2500


@pytest.mark.parametrize("checks", [True, False])
def test_memory_is_not_watched_while_threads_still_leave(monkeypatch, checks):
    # warp by warp: each waits for the sum of the one in front
    body = THREAD + """
    and.b32 %r3, %r1, 31; setp.ne.u32 %p1, %r3, 0; @%p1 bra END; setp.eq.u32 %p2, %r1, 0; mov.u32 %r4, 1;
    @%p2 bra LAST;
    LOOP: ld.acquire.gpu.global.u32 %r4, [%x2+-128]; setp.eq.u32 %p1, %r4, 0; @%p1 bra LOOP; add.u32 %r4, %r4, 1;
    LAST: st.release.gpu.global.u32 [%x2], %r4; END: ret;
    """
    monkeypatch.setattr(Access, "watch", lambda self, loads: pytest.fail("no thread is stalled"))
    out = np.zeros(256, "u4")
    simulate(body, out, block=256, checks=checks)
    np.testing.assert_array_equal(out[::32], np.arange(1, 9))


def test_a_plain_loop_lets_others_run_before_it_is_called_endless():
    # the compiler's loads don't look like this any more; those of others do
    body = THREAD + """
    setp.ge.u32 %p3, %r1, 32; @%p3 bra SET;
    LOOP: ld.global.u32 %r2, [%x1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra LOOP; ret;
    SET: mov.u32 %r2, 1; st.global.u32 [%x1], %r2; ret;
    """
    simulate(body, np.zeros(64, "u4"), block=64, checks=False)


def test_a_long_loop_is_not_endless():
    body = THREAD + """
    mov.u32 %r3, 0; mov.u32 %r5, 7;
    LOOP: st.global.u32 [%x2], %r5; ld.global.u32 %r4, [%x2]; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 5000;
    @%p1 bra LOOP; st.global.u32 [%x2], %r3; ret;
    """
    out = np.zeros(32, "u4")
    simulate(body, out)
    assert (out == 5000).all()


def test_a_loop_whose_state_is_in_memory_is_not_endless():
    body = THREAD + """
    LOOP: ld.global.u32 %r4, [%x2]; add.u32 %r4, %r4, 1; st.global.u32 [%x2], %r4; mov.u32 %r4, 0; mov.u32 %r5, 0;
    ld.global.u32 %r4, [%x2]; setp.lt.u32 %p1, %r4, 9000; mov.u32 %r4, 0; @%p1 bra LOOP; ret;
    """
    out = np.zeros(32, "u4")
    simulate(body, out)
    assert (out == 9000).all()


@pytest.mark.parametrize("ends_by", ["raise", "collect"])
def test_a_loop_that_no_path_leaves_is_endless_whatever_it_counts(ends_by):
    # the others still run to their end, and what they do wrong is found before
    body = THREAD + """
    mov.u32 %r3, 0; setp.ge.u32 %p1, %r1, 32; @%p1 bra OTHERS;
    LOOP: and.b32 %r4, %r3, 1023; mad.wide.u32 %x3, %r4, 4, %x1; st.relaxed.gpu.global.u32 [%x3], 1;
    add.u32 %r3, %r3, 1; bra LOOP;
    OTHERS: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 2000; @%p2 bra OTHERS;
    ld.param.u64 %x4, [p1]; st.global.u32 [%x4], %r1; ret;
    """
    arrays = np.zeros(1024, "u4"), np.zeros(1, "u4")
    if ends_by == "collect":
        report = simulate(body, *arrays, block=64, on_finding="collect")
        assert [x.rule for x in report.findings] == ["race", "deadlock"]
        return
    body = body.replace("st.global.u32 [%x4], %r1;", "")
    with pytest.raises(DeadlockError, match="endless loop: it has no exit\nthread 0 .* and 31 more run at"):
        simulate(body, *arrays, block=64)


def test_the_limit_of_thread_instructions_ends_a_loop_that_counts(monkeypatch):
    monkeypatch.setenv("TILEJIT_SIM_LIMIT", "1e6")
    body = THREAD + "mov.u32 %r2, 0; LOOP: add.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra LOOP; ret;"
    with pytest.raises(SimulationError, match="more than 1000000 thread instructions") as e:
        simulate(body, np.zeros(4, "u4"))
    assert "add.u32 %r2, %r2, 1;" in str(e.value) and "TILEJIT_SIM_LIMIT" in str(e.value)


def test_the_error_names_the_limit_of_the_launch_in_each_chunk(monkeypatch):
    monkeypatch.setenv("TILEJIT_SIM_LIMIT", "2e5")
    body = "mov.u32 %r2, 0; add.u32 %r2, %r2, 1; add.u32 %r2, %r2, 1; ret;"
    with pytest.raises(SimulationError, match="more than 200000 thread instructions"):
        simulate(body, np.zeros(4, "u4"), grid=100_000, checks=False)


@pytest.fixture
def interruptible():
    """SIGINT raises KeyboardInterrupt, which it doesn't in a process that a shell started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_says_where_every_group_is(interruptible):
    body = THREAD + """
    setp.ge.u32 %p3, %r1, 32; @%p3 bra WAIT; mov.u32 %r2, 0;
    .loc 1 12 1
    LOOP: add.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra LOOP; ret;
    .loc 1 77 1
    WAIT: bar.sync 0; ret;
    """
    threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt) as e:
        simulate(body, np.zeros(64, "u4"), block=64)
    assert ":12" in str(e.value)
    assert ":77" in str(e.value) and "thread 32" in str(e.value)


WAITS = {
    "the flag decides": "LOOP: ld.acquire.gpu.global.u32 %r2, [%x1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra LOOP;",
    "through a register": """
    LOOP: ld.relaxed.gpu.global.u32 %r2, [%x1]; add.u32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, 1; not.pred %p2, %p1;
    @!%p2 bra LOOP;""",
    "through memory": """
    LOOP: ld.relaxed.gpu.global.u32 %r2, [%x1]; st.shared.u32 [s], %r2; ld.shared.u32 %r3, [s];
    setp.eq.u32 %p1, %r3, 0; @%p1 bra LOOP;""",
    "a branch inside": """
    LOOP: atom.global.add.u32 %r2, [%x1], 0; setp.ne.u32 %p1, %r2, 0; @%p1 bra OUT; bra LOOP; OUT:""",
    "the test after the jump back": """
    LOOP: ld.relaxed.gpu.global.u32 %r2, [%x1]; bra TEST; BACK: bra LOOP;
    TEST: setp.eq.u32 %p1, %r2, 0; @%p1 bra BACK;""",
}
COUNTS = {
    "a reduction": "LOOP: red.global.add.u32 [%x1], 1; {count}",
    "the old value is ignored": "LOOP: atom.global.add.u32 %r2, [%x1], 1; st.global.u32 [%x2], %r2; {count}",
    "it leaves by a jump back": """
    bra LOOP; OUT: ret; LOOP: setp.lt.u32 %p2, %r4, 3; @%p2 bra STAY; atom.global.cas.b32 %r2, [%x1], 0, 1;
    setp.ne.u32 %p1, %r2, 0; @%p1 bra OUT; st.global.u32 [%x2], 1; bra OUT; STAY: {count}""",
    "it looks at a constant": "ld.global.nc.u32 %r4, [%x2]; LOOP: atom.global.max.u32 %r2, [%x1], 1; {count}",
}


@pytest.mark.parametrize("name", WAITS)
def test_a_loop_waits_whose_branches_depend_on_what_others_write(name):
    control_flow = control_flow_of(WAITS[name])
    assert control_flow.waits_for_ctas
    assert control_flow.waiting_loops


@pytest.mark.parametrize("name", COUNTS)
def test_a_loop_whose_branches_only_count_does_not_wait(name):
    count = "add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 5; @%p1 bra LOOP;"
    assert not control_flow_of(COUNTS[name].format(count=count)).waiting_loops


def control_flow_of(loop):
    body = f"mov.u32 %r4, 0; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; {loop} ret;"
    text = kernel(body, ".param .u64 p0, .param .u64 p1", ".shared .align 4 .b8 s[4];")
    return translate(text, "k", 0).control_flow


def test_a_flag_in_shared_memory_is_set_by_the_own_cta():
    loop = "LOOP: ld.volatile.shared.u32 %r2, [s]; setp.eq.u32 %p1, %r2, 0; @%p1 bra LOOP;"
    assert control_flow_of(loop).waiting_loops
    assert not control_flow_of(loop).waits_for_ctas


ROLES = {
    "mad.lo.s32 %r1, %r2, %r3, 0x1F": (["%r1"], ["%r2", "%r3"], []),
    "setp.lt.and.u32 p|q, %r1, 0f3F800000, !%p2": (["p", "q"], ["%r1", "%p2"], []),
    "addc.cc.u32 %r1, %r2, %tid.x": (["%r1", "%carry"], ["%carry", "%r2", "%tid.x"], []),
    "ld.global.v2.u32 {%r1, _}, [%x1+8]": (["%r1", "_"], [], ["%x1"]),
    "st.global.v2.u32 [%x1], {%r1, %r2}": ([], ["%r1", "%r2"], ["%x1"]),
    "red.global.add.u32 [%x1], %r1": ([], ["%r1"], ["%x1"]),
    "bar.sync %r1, 64": ([], ["%r1"], []),
    "bar.red.popc.u32 %r1, 0, %p1": (["%r1"], ["%p1"], []),
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, %r2": ([], ["%r1", "%r2"], []),
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r2}": ([], ["%r2"], ["%r1"]),
}


@pytest.mark.parametrize("text", ROLES)
def test_the_registers_that_an_instruction_reads_and_writes(text):
    opcode, _, operands = text.partition(" ")
    root, _, suffix = opcode.partition(".")
    each = [x.strip() for x in re.split(r",(?![^{]*\})", operands)]
    got = roles_of(0, PtxInstruction(root, "." + suffix, tuple(each), 1, None))
    assert (list(got.writes), list(got.reads), list(got.addresses)) == ROLES[text]


def test_a_loop_that_counts_does_not_wait_inside_one_that_does():
    loop = """
    OUTER: ld.acquire.gpu.global.u32 %r2, [%x1]; mov.u32 %r4, 0;
    INNER: red.global.add.u32 [%x2], 1; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 5; @%p1 bra INNER;
    setp.eq.u32 %p2, %r2, 0; @%p2 bra OUTER;"""
    control_flow = control_flow_of(loop)
    assert len(control_flow.back_edges) == 2 and len(control_flow.waiting_loops) == 1
