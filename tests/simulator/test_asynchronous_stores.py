"""st.async and red.async: stores to a CTA of the cluster that an mbarrier counts, and their misuses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.cluster_kernels import module
from tests.simulator.small_kernels import aligned, pointer
from tests.simulator.test_bulk_reductions import INNER, OUTER, drawn, reduced
from tilejit.errors import (
    AsyncHazardError,
    DeadlockError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    SimulationError,
    UnsupportedInstructionError,
)
from tilejit.simulator import run

THREADS = 32
ORDERS = [{"delivery": x, "schedule": s} for s in range(2) for x in ("late", "early", "random:1", "random:2")]
SIGNAL = "shared::cluster.mbarrier::complete_tx::bytes"
# In each CTA `inbox` is filled with sevens, and `bar` expects BYTES. %r10: this thread's place in the inbox of the
# other CTA, where the thread at the other end of the warp finds it at its %r11. %r12, %r13: the barriers there, here.
START = """
mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1; mov.u32 %r4, inbox; mov.u32 %r13, bar;
setp.ne.u32 %p1, %r1, 0; sub.u32 %r5, 31, %r1; mad.lo.u32 %r10, %r5, SIZE, %r4; mad.lo.u32 %r11, %r1, SIZE, %r4;
mov.u32 %r6, 7; mad.lo.u32 %r7, %r1, 16, %r4; st.shared.v4.b32 [%r7], {%r6, %r6, %r6, %r6};
@!%p1 mbarrier.init.shared.b64 [%r13], 1; @!%p1 fence.mbarrier_init.release.cluster;
@!%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r13], BYTES; barrier.cluster.arrive; barrier.cluster.wait;
mapa.shared::cluster.u32 %r10, %r10, %r3; mapa.shared::cluster.u32 %r12, %r13, %r3;
ld.param.u64 %x1, [values]; ld.param.u64 %x2, [out]; mov.u32 %r8, %ctaid.x; mad.lo.u32 %r8, %r8, 32, %r1;
mad.wide.u32 %x3, %r8, SIZE, %x1; mad.wide.u32 %x4, %r8, SIZE, %x2;
"""
WAIT = "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r13], 0; @!%p2 bra WAIT;\n"
LEAVE = "barrier.cluster.arrive; barrier.cluster.wait;\n"


def launch(body, values, size, **options):
    out = aligned(np.zeros_like(values))
    start = START.replace("SIZE", str(size)).replace("BYTES", str(THREADS * size))
    params = ".param .u64 values, .param .u64 out"
    text = module(f"{start}{body}DONE: ret;", params, (2, 1, 1))
    inbox = ".shared .align 16 .b8 inbox[512];\n.shared .align 8 .b64 bar;\n.shared .align 1024"
    text = text.replace(".shared .align 1024", inbox)
    run(text, "k", (4,), (THREADS,), [pointer(aligned(values), "values"), pointer(out, "out")], **options)
    return out


def registers(t, count):
    prefix = "x" if t[1:] == "64" else "r"
    names = [f"%{prefix}{20 + i}" for i in range(count)]
    return names[0] if count == 1 else "{" + ", ".join(names) + "}"


def moved(form, t, count=1, operation=None):
    """Load a value, send it by `form`, wait, and store what this CTA has got."""
    vec = f".v{count}" if count > 1 else ""
    value, bits = registers(t, count), t[1:]
    text = f"ld.global{vec}.b{bits} {value}, [%x3]; {form} [%r10], {value}, [%r12];\n" + WAIT
    return text + f"ld.shared{vec}.b{bits} {value}, [%r11]; st.global{vec}.b{bits} [%x4], {value};\n" + LEAVE


@pytest.mark.parametrize("order", [*ORDERS, {"checks": False}], ids=str)
@pytest.mark.parametrize(("t", "count"), [
    (t, n) for t in ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64") for n in (1, 2, 4)
    if (t[1:], n) != ("64", 4)
])
def test_stores(t, count, order):
    size = int(t[1:]) // 8 * count
    values = np.random.default_rng(size).integers(0, 256, (4, THREADS, size), "u1")
    weak = ".weak" if t in ("b32", "f64") else ""
    vec = f".v{count}" if count > 1 else ""
    out = launch(moved(f"st.async{weak}.{SIGNAL}{vec}.{t}", t, count), values, size, **order)
    assert (out == values[[1, 0, 3, 2]][:, ::-1]).all()


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(("op", "t"), [(op, t) for t, ops in INNER.items() for op in ops.split()])
def test_reductions(op, t, order):
    """All threads of a CTA reduce into the first element of the other's inbox, in an order that doesn't matter."""
    dtype = OUTER[t][0]
    values = drawn(dtype, (4, THREADS), 8)
    if op in ("inc", "dec"):
        values[:] = 20
    size = values.itemsize
    value = registers(t, 1)
    body = f"""mapa.shared::cluster.u32 %r10, %r4, %r3; ld.global.b{8 * size} {value}, [%x3];
    red.async.relaxed.cluster.{SIGNAL}.{op}.{t} [%r10], {value}, [%r12];
    {WAIT} ld.shared.b{8 * size} {value}, [%r4]; st.global.b{8 * size} [%x4], {value};
    {LEAVE}"""
    out = launch(body, values, size, **order)
    start = np.full(size // 4, 7, "u4").view(dtype)
    for cta in range(4):
        expected = reduced(op, start, values[cta ^ 1][:, None])
        assert (out[cta] == expected[0]).all()


SEND = f"ld.global.u32 %r20, [%x3]; st.async.{SIGNAL}.u32 [%r10], %r20, [%r12];\n"
READ = "ld.shared.u32 %r21, [%r11]; st.global.u32 [%x4], %r21;\n"
ADD = f"red.async.relaxed.cluster.{SIGNAL}.add.u32 [%r10], %r1, [%r12];\n"


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(("body", "error", "text"), [
    (SEND + READ + WAIT + LEAVE, (AsyncHazardError, RaceError), "before the copy that writes it|nothing that orders"),
    (ADD + READ + WAIT + LEAVE, (AsyncHazardError, RaceError), "before the copy that writes it|nothing that orders"),
    (SEND + "st.shared.u32 [%r11], 3;" + WAIT + LEAVE, (AsyncHazardError, RaceError),
     "before the copy|nothing that orders"),
    ("setp.lt.u32 %p3, %r1, 9; @%p3 bra LESS;" + SEND + "LESS:" + WAIT + LEAVE, DeadlockError, "36 bytes missing"),
    (SEND.replace("[%r12]", "[%r13]") + LEAVE, SimulationError, "both must be in the same CTA"),
    (SEND.replace("[%r10]", "[%r10+2]") + LEAVE, MisalignedError, "not a multiple of 4"),
    (SEND.replace("[%r10]", "[%r10+2048000]") + LEAVE, OutOfBoundsError, "writes 4 bytes out of bounds"),
    (SEND.replace("[%r12]", "[%r12+8]") + LEAVE, AsyncHazardError, "not initialized"),
    ("mapa.shared::cluster.u32 %r10, %r10, 7; mapa.shared::cluster.u32 %r12, %r12, 7;" + SEND + LEAVE, OutOfBoundsError,
     "writes to the CTA of rank 255, in a cluster of 2"),
])
def test_faults_are_reported_in_every_order(body, error, text, order):
    with pytest.raises(error, match=f"(?s){text}"):
        launch(body, np.arange(4 * THREADS, dtype="u4").reshape(4, THREADS), 4, **order)


@pytest.mark.parametrize("schedule", range(4))
def test_a_cta_must_not_exit_before_it_receives(schedule):
    body = "setp.eq.u32 %p3, %r2, 0; @%p3 bra DONE;" + SEND
    with pytest.raises(AsyncHazardError, match="which has exited|exits while a remote store to"):
        launch(body, np.zeros((4, THREADS), "u4"), 4, schedule=schedule)


@pytest.mark.parametrize("form", [
    f"st.async.{SIGNAL}.v4.b64", f"st.async.{SIGNAL}.b16", "st.async.shared::cta.mbarrier::complete_tx::bytes.b32",
    f"red.async.relaxed.cluster.{SIGNAL}.max.s64", f"red.async.relaxed.cluster.{SIGNAL}.min.u64",
    f"red.async.relaxed.gpu.{SIGNAL}.add.u32", f"red.async.relaxed.cluster.{SIGNAL}.and.u32",
])
def test_other_forms_are_refused(form):
    t = form.rpartition(".")[2]
    value = registers(t if t[1:] in ("32", "64") else "b32", 4 if ".v4" in form else 1)
    with pytest.raises(UnsupportedInstructionError):
        launch(f"{form} [%r10], {value}, [%r12];", np.zeros((4, THREADS), "u4"), 4)
