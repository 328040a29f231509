"""Bulk reductions, bulk copies to other CTAs, multicast and prefetches, against NumPy, and their misuses."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.simulator.cluster_kernels import module
from tests.simulator.small_kernels import aligned, pointer, same_bits
from tilejit.errors import (
    AsyncHazardError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    SimulationError,
    UninitializedReadError,
    UnsupportedInstructionError,
)
from tilejit.simulator import run

BYTES = 512
ORDERS = [{"delivery": x, "schedule": s} for s in range(2) for x in ("late", "early", "random:1", "random:2")]
OUTER = {
    "s32": ("i4", "add min max"), "u32": ("u4", "add min max inc dec"), "u64": ("u8", "add min max"),
    "s64": ("i8", "min max"), "b32": ("u4", "and or xor"), "b64": ("u8", "and or xor"),
    "f16": ("f2", "add.noftz min max"), "bf16": (ml_dtypes.bfloat16, "add.noftz min max"), "f32": ("f4", "add"),
    "f64": ("f8", "add"),
}
INNER = {"s32": "add min max", "u32": "add min max inc dec", "u64": "add", "b32": "and or xor"}


def longhand(op, old, value):
    """Apply one reduction to Python or NumPy scalars."""
    name = op.partition(".")[0]
    if name == "add":
        return old + value
    if name in ("min", "max"):
        return min(old, value) if name == "min" else max(old, value)
    if name == "inc":
        return 0 if old >= value else old + 1
    if name == "dec":
        return value if old == 0 or old > value else old - 1
    return {"and": old & value, "or": old | value, "xor": old ^ value}[name]


def reduced(op, targets, values):
    """Reduce rows of `values` into `targets`, element by element."""
    result = targets.copy()
    for row in values:
        for i, value in enumerate(row):
            with np.errstate(over="ignore"):
                result[i] = longhand(op, result[i], value)
    return result


def drawn(dtype, shape, seed):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        small = rng.integers(0, 8, shape).astype(dtype)
        return np.where(rng.random(shape) < 0.5, small, rng.integers(0, 256, (*shape, dtype.itemsize), "u1").view(
            dtype)[..., 0])
    return (rng.integers(-64, 64, shape) / 8).astype(dtype)


# each CTA loads its row of p0 to shared memory, and reduces it to p1
FILL = """
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mad.lo.u32 %r3, %r1, 16, %r2; mov.u32 %r4, %ctaid.x; setp.ne.u32 %p1, %r1, 0;
ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; mad.wide.u32 %x3, %r4, 512, %x1; mad.wide.u32 %x4, %r1, 16, %x3;
ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%x4]; st.shared.v4.b32 [%r3], {%r5, %r6, %r7, %r8};
fence.proxy.async.shared::cta; bar.sync 0;
"""
DONE = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"


def reduce_text(form, size="512", at="%x2", origin="%r2"):
    return f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{form} [{at}], [{origin}], {size};\n"


def launch(body, *arrays, ctas=3, cluster=None, **options):
    params = ", ".join(f".param .u64 p{i}" for i in range(len(arrays)))
    args = [x if not isinstance(x, np.ndarray) else pointer(x, f"p{i}") for i, x in enumerate(arrays)]
    return run(module(body + "\nDONE: ret;", params, cluster), "k", (ctas,), (32,), args, **options)


@pytest.mark.parametrize(("op", "t"), [(op, t) for t, (_, ops) in OUTER.items() for op in ops.split()])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_reductions_in_global_memory(op, t, order):
    dtype, n = OUTER[t][0], BYTES // np.dtype(OUTER[t][0]).itemsize
    values, target = drawn(dtype, (3, n), 1), aligned(drawn(dtype, (n,), 2))
    if op in ("inc", "dec"):
        # in any order of the CTAs, if their bounds are equal
        values[:] = values[0]
    expected = reduced(op, target, values)
    launch(FILL + "@%p1 bra DONE;" + reduce_text(f"{op}.{t}") + DONE, aligned(values.view("u1")), target, **order)
    same_bits(target.view(f"u{target.itemsize}"), expected.view(f"u{target.itemsize}"))


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_a_part_with_offsets_and_a_cache_policy(order):
    values, target = aligned(np.arange(128, dtype="u4")), aligned(np.ones(256, "u4"))
    text = "mov.u64 %x9, 1; cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.u32 [%x2+32], " \
           "[%r2+16], 48, %x9;"
    launch(FILL + "@%p1 bra DONE;" + text + DONE, values, target, ctas=1, **order)
    expected = np.ones(256, "u4")
    expected[8:20] += values[4:16]
    assert (target == expected).all()


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_reductions_and_ordinary_atomics_mix(order):
    values, target = aligned(np.arange(3 * 128, dtype="u4")), aligned(np.zeros(128, "u4"))
    atomic = "mad.wide.u32 %x5, %r1, 4, %x2; red.global.add.u32 [%x5], 1000;"
    launch(FILL + atomic + "@%p1 bra DONE;" + reduce_text("add.u32") + DONE, values, target, **order)
    expected = values.reshape(3, 128).sum(0) + np.where(np.arange(128) < 32, 3000, 0)
    assert (target == expected).all()


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(("body", "error", "text"), [
    ("@%p1 bra DONE;" + reduce_text("add.u32") + DONE.replace("group 0", "group 1") + "ld.global.u32 %r9, [%x2];"
     "st.global.u32 [%x2+512], %r9; cp.async.bulk.wait_group 0;", (AsyncHazardError, RaceError),
     "before the copy that|nothing that orders"),
    ("@%p1 bra DONE;" + reduce_text("add.u32") + "st.shared.u32 [%r2], 5;" + DONE, AsyncHazardError,
     "before the copy that reads it was waited for"),
    ("@%p1 bra DONE;" + reduce_text("add.u32") + "cp.async.bulk.commit_group;", AsyncHazardError,
     "exits before its bulk"),
    ("st.global.u32 [%x2], %r4; @%p1 bra DONE;" + reduce_text("add.u32") + DONE, RaceError, "race in global memory|"),
    ("@%p1 bra DONE;" + reduce_text("add.u32", size="24") + DONE, MisalignedError, "copies 24 bytes"),
    ("@%p1 bra DONE;" + reduce_text("add.u32", at="%x2+8") + DONE, MisalignedError, "not a multiple of 16"),
    ("@%p1 bra DONE;" + reduce_text("add.u32", origin="%r2+4") + DONE, MisalignedError, "not a multiple of 16"),
    ("@%p1 bra DONE;" + reduce_text("add.u32", at="%x2+1024") + DONE, OutOfBoundsError,
     r"updates 4 bytes out.*p1\+1024"),
])
def test_faults_of_reductions(body, error, text, order):
    values, target = aligned(np.arange(3 * 128, dtype="u4")), aligned(np.zeros(256, "u4"))
    with pytest.raises(error, match=f"(?s){text}"):
        launch(FILL + body, values, target, **order)


def test_a_source_without_proxy_fence():
    values, target = aligned(np.arange(3 * 128, dtype="u4")), aligned(np.zeros(128, "u4"))
    body = FILL.replace("fence.proxy.async.shared::cta;", "") + "@%p1 bra DONE;" + reduce_text("add.u32") + DONE
    with pytest.raises(AsyncHazardError, match=r"no fence\.proxy\.async between"):
        launch(body, values, target)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_a_reduction_to_unwritten_memory(order):
    values = aligned(np.arange(3 * 128, dtype="u4"))
    target = pointer(aligned(np.zeros(128, "u4")), "p1", initialized=False)
    with pytest.raises(UninitializedReadError, match="which nothing has written"):
        launch(FILL + "@%p1 bra DONE;" + reduce_text("add.u32") + DONE, values, target, **order)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_an_unordered_reader_in_another_cta_is_a_race_in_every_order(order):
    values, target = aligned(np.arange(3 * 128, dtype="u4")), aligned(np.zeros(256, "u4"))
    read = "setp.eq.u32 %p2, %r4, 0; @%p2 bra REDUCE; mad.wide.u32 %x5, %r4, 4, %x2; ld.global.u32 %r9, [%x2];" \
           "st.global.u32 [%x5+512], %r9; bra DONE; REDUCE:"
    with pytest.raises((RaceError, AsyncHazardError)):
        launch(FILL + "@%p1 bra DONE;" + read + reduce_text("add.u32") + DONE, values, target, **order)


@pytest.mark.parametrize("form", ["add.s64", "inc.s32", "add.f16", "and.u32", "max.f32", "add.b32", "min.f64"])
def test_other_reductions_are_refused(form):
    values, target = aligned(np.arange(3 * 128, dtype="u4")), aligned(np.zeros(128, "u4"))
    with pytest.raises(UnsupportedInstructionError, match="is not supported"):
        launch(FILL + reduce_text(form), values, target)
    inner = f"cp.reduce.{COPY}.{form} [%r2], [%r2], 16, [%r2];"
    with pytest.raises(UnsupportedInstructionError, match="is not supported"):
        launch(FILL + inner, values, target)


# to other CTAs: a pair of CTAs sends its row to each other's `sm` at 1024, whose barrier is at 2048

SEND = """
mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1; mov.u32 %r10, 0; mov.u32 %r11, 0;
@!%p1 mbarrier.init.shared.b64 [%r2+2048], 1; st.shared.v4.b32 [%r3+1024], {%r22, %r23, %r24, %r25};
@!%p1 fence.mbarrier_init.release.cluster; fence.proxy.async; barrier.cluster.arrive; barrier.cluster.wait;
add.u32 %r26, %r2, 1024; mapa.shared::cluster.u32 %r27, %r26, %r21; add.u32 %r28, %r2, 2048;
mapa.shared::cluster.u32 %r29, %r28, %r21;
"""
FILLED = "mov.u32 %r22, 7; mov.u32 %r23, 7; mov.u32 %r24, 7; mov.u32 %r25, 7;"
EXPECT = "@!%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r28], 512;\n"
ISSUE = "@!%p1 cp.{form} [%r27], [%r2], 512, [%r29];\n"
COPY = "async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
WAIT = "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r28], 0; @!%p2 bra WAIT;\n"
OUT = "ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r3+1024]; mad.wide.u32 %x5, %r4, 512, %x2;" \
      "mad.wide.u32 %x6, %r1, 16, %x5; st.global.v4.b32 [%x6], {%r5, %r6, %r7, %r8};\n"
LEAVE = "barrier.cluster.arrive; barrier.cluster.wait;\n"
PAIR = (2, 1, 1)


def exchange(form=COPY, body=None, dtype="u4", **options):
    values = aligned(drawn(dtype, (4, BYTES // np.dtype(dtype).itemsize), 5))
    out = aligned(np.zeros_like(values))
    body = EXPECT + "ISSUE" + WAIT + OUT + LEAVE if body is None else body
    text = body.replace("ISSUE", ISSUE.format(form=form))
    launch(FILL + FILLED + SEND + text, values, out, ctas=4, cluster=PAIR, **options)
    return values, out


@pytest.mark.parametrize("order", [*ORDERS, {"checks": False}], ids=str)
def test_a_copy_to_another_cta(order):
    values, out = exchange(**order)
    assert (out == values[[1, 0, 3, 2]]).all()


@pytest.mark.parametrize(("op", "t"), [(op, t) for t, ops in INNER.items() for op in ops.split()])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_a_reduction_in_another_cta(op, t, order):
    dtype = OUTER[t][0]
    values, out = exchange(f"reduce.{COPY}.{op}.{t}", dtype=dtype, **order)
    start = np.full(BYTES // 4, 7, "u4").view(dtype)
    for cta in range(4):
        assert (out[cta] == reduced(op, start, values[[cta ^ 1]])).all()


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(("body", "error", "text"), [
    (EXPECT + "ISSUE" + OUT + LEAVE, (AsyncHazardError, RaceError),
     "before the copy that writes it|nothing that orders"),
    (EXPECT + "ISSUE" + "st.shared.u32 [%r3], 5;" + WAIT + LEAVE, (AsyncHazardError, RaceError),
     "writes 4 bytes|wrote it"),
    (EXPECT + "mapa.shared::cluster.u32 %r29, %r28, %r20;" + "ISSUE" + LEAVE, SimulationError,
     "both must be in the same"),
    (EXPECT + "mapa.shared::cluster.u32 %r27, %r26, 5; mapa.shared::cluster.u32 %r29, %r28, 5;" + "ISSUE" + LEAVE,
     OutOfBoundsError, "writes to the CTA of rank 255, in a cluster of 2"),
    (EXPECT + "add.u32 %r27, %r27, 8;" + "ISSUE" + LEAVE, MisalignedError, "not a multiple of 16"),
    (EXPECT + "add.u32 %r27, %r27, 2816;" + "ISSUE" + LEAVE, OutOfBoundsError,
     r"writes 16 bytes out of bounds.*sm\+4096"),
    (EXPECT + "add.u32 %r29, %r29, 64;" + "ISSUE" + LEAVE, AsyncHazardError, "which is not initialized"),
])
def test_faults_of_copies_to_other_ctas(body, error, text, order):
    with pytest.raises(error, match=f"(?s){text}") as caught:
        exchange(body=body, **order)
    assert caught.value.instructions


@pytest.mark.parametrize("schedule", range(4))
def test_a_cta_exits_while_its_copy_to_another_may_be_in_flight(schedule):
    leave = "setp.eq.u32 %p5, %r20, 1; @%p5 bra DONE;" + WAIT + OUT
    text = "(?s)exits while a bulk copy (to|from) its shared memory|which has exited"
    with pytest.raises(AsyncHazardError, match=text):
        exchange(body=EXPECT + "ISSUE" + leave, schedule=schedule)


# multicast, and prefetches

@pytest.mark.parametrize("order", [*ORDERS, {"checks": False}], ids=str)
@pytest.mark.parametrize("mask", [1, 2, 3])
def test_a_multicast_copy(mask, order):
    """Rank 0 copies its row of p0 to the CTAs of the mask; the others keep their sevens."""
    source = aligned(np.random.default_rng(6).integers(0, 2**32, (4, 128), "u4"))
    out = aligned(np.zeros_like(source))
    receives = f"mov.u32 %r30, {mask}; shr.u32 %r30, %r30, %r20; and.b32 %r30, %r30, 1; setp.eq.u32 %p4, %r30, 0;"
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r26], [%x3], 512, "
    issue = f"setp.ne.u32 %p3, %r20, 0; or.pred %p3, %p3, %p1; mov.u16 %h1, {mask}; @!%p3 {copy} [%r28], %h1;\n"
    body = receives + "@%p4 bra NONE;" + EXPECT + "NONE:" + issue + "@%p4 bra OVER;" + WAIT + "OVER:" + OUT + LEAVE
    launch(FILL + FILLED + SEND + body, source, out, ctas=4, cluster=PAIR, **order)
    expected = np.full_like(source, 7)
    for cta in range(4):
        if mask >> cta % 2 & 1:
            expected[cta] = source[cta // 2 * 2]
    assert (out == expected).all()


@pytest.mark.parametrize("mask", [0, 4, 7])
def test_a_multicast_needs_receivers(mask):
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r26], [%x3], 512, "
    with pytest.raises(SimulationError, match="copies to the CTAs of mask"):
        exchange(body=f"mov.u16 %h1, {mask}; @!%p1 {copy} [%r28], %h1;" + LEAVE)


@pytest.mark.parametrize(("operands", "text"), [
    ("[%x3], 512", None), ("[%x3+16], 32", None), ("[%x3+8], 32", "prefetches from address .* not a multiple of 16"),
    ("[%x3], 8", "copies 8 bytes"),
])
def test_prefetches_have_no_effect_but_checks(operands, text):
    values, out = aligned(np.arange(4 * 128, dtype="u4")), aligned(np.zeros(4 * 128, "u4"))
    body = FILL + f"cp.async.bulk.prefetch.L2.global {operands};\n" \
                  f"cp.async.bulk.prefetch.L2.global.L2::cache_hint {operands}, %x3;\n"
    if text is None:
        launch(body, values, out)
        return
    with pytest.raises(MisalignedError, match=text):
        launch(body, values, out)
