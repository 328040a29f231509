"""Kernels with TMA and wgmma: right ones are silent under every delivery; each seeded bug is reported, or seen."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.mutations import hopper_programs as programs
from tests.mutations.hopper_programs import PRODUCT, RING, Maps, double, multiply
from tilejit.errors import AsyncHazardError, DeadlockError, RaceError, SimulationError, UninitializedReadError

DELIVERIES = ("late", "early", *(f"random:{seed}" for seed in range(5)))
LONG = pytest.mark.long
READ, EXIT = "cp.async.bulk.wait_group.read 0; // free", "cp.async.bulk.wait_group.read 0; // exit"


def edited(text: str, old: str, new: str, count: int = 1) -> str:
    """The text with its first places changed, or with 0 all; they must be there."""
    assert old in text, old
    return text.replace(old, new, count or -1)



@pytest.mark.parametrize("delivery", DELIVERIES)
def test_right_programs_are_silent_and_equal_whenever_operations_land(delivery):
    schedule = DELIVERIES.index(delivery)
    c, expected = multiply(m=72, n=136, k=136, grid=2, delivery=delivery, schedule=schedule)
    assert (c == expected).all()
    c, expected = double(delivery=delivery, schedule=schedule)
    assert (c == expected).all()


FENCE_OUT, BARRIER_OUT = "fence.proxy.async.shared::cta; // out 0", "bar.sync %r41, 128; // written 0"
ANY = (AsyncHazardError, RaceError, DeadlockError)
BYTES = f"_, [%r17], {programs.A_BYTES + programs.B_BYTES};"
A_LOAD = "[%x1, {%r15, %r13}], [%r17]; // A"

# name → (text, the errors it may be, a pattern of what the report must name)
REPORTED = {
    "expected bytes less": (edited(PRODUCT, BYTES, BYTES.replace(";", "-16;").replace(
        f"{programs.A_BYTES + programs.B_BYTES}-16", str(programs.A_BYTES + programs.B_BYTES - 16))), ANY, ""),
    "expected bytes more": (edited(PRODUCT, BYTES, f"_, [%r17], {programs.A_BYTES + programs.B_BYTES + 16};"),
                            DeadlockError, "16 bytes missing: no operation in flight names it"),
    "barrier of another stage": (
        edited(PRODUCT, A_LOAD, A_LOAD.replace("[%r17]", "[%r30]")).replace(
            "mul.lo.u32 %r15, %r14,", f"xor.b32 %r30, %r18, 8; add.u32 %r30, %r30, %r2; add.u32 %r30, %r30, "
            f"{programs.FULL_AT};\nmul.lo.u32 %r15, %r14,", 1), ANY, ""),
    "one product more may run on": (edited(PRODUCT, "0; // all", "1; // all"), AsyncHazardError, "wgmma.mma_async"),
    "no wait for products": (edited(PRODUCT, "wgmma.wait_group.sync.aligned 0; // all", ""), AsyncHazardError,
                             "not waited for"),
    "release before the wait": (
        edited(PRODUCT, "wgmma.wait_group.sync.aligned 1; // one", "wgmma.wait_group.sync.aligned 2;"),
        AsyncHazardError, "(?s)starts a TMA load that writes.*before the product that reads it"),
    "no proxy fence": (edited(PRODUCT, FENCE_OUT, ""), AsyncHazardError, "(?s)TMA store that reads.*st.shared"),
    "no barrier behind the fence": (edited(PRODUCT, BARRIER_OUT, ""), RaceError, "(?s)TMA store that reads.*st.shared"),
    "store buffer written again": (edited(PRODUCT, "cp.async.bulk.wait_group.read 0; // half 1", ""), AsyncHazardError,
                                   "(?s)st.shared.*before the copy that reads it was waited for"),
    "no wgmma.fence": (edited(PRODUCT, "wgmma.fence.sync.aligned;", ""), AsyncHazardError, "wgmma.fence"),
    "no fence of the barriers": (edited(PRODUCT, "fence.mbarrier_init.release.cluster;", ""), ANY,
                                 "fence.mbarrier_init"),
    "no entry barrier": (edited(PRODUCT, "bar.sync 0; // entry", ""), (*ANY, SimulationError), "mbarrier"),
    "fence by the leader only": (
        edited(PRODUCT, FENCE_OUT, f"@%p3 bra FENCED;\n{FENCE_OUT}\nFENCED:"), AsyncHazardError, "fence.proxy.async"),
    "fence behind the barrier, by others": (
        edited(edited(PRODUCT, FENCE_OUT, ""), BARRIER_OUT,
               f"{BARRIER_OUT}\nsetp.lt.u32 %p20, %r7, 32;\n@%p20 bra FENCED;\n{FENCE_OUT}\nFENCED:"),
        AsyncHazardError, "fence.proxy.async"),
    "no fence between reads and the release": (edited(RING, "fence.proxy.async.shared::cta; // read", ""),
                                               AsyncHazardError, "(?s)TMA load that writes.*read it, with no fence"),
    "wait by another thread": (
        edited(PRODUCT, "@%p3 bra FREE1;\n", "setp.ne.u32 %p21, %r7, 64;\n@%p21 bra FREE1;\n"),
        AsyncHazardError, "before the copy that reads it was waited for"),
    "wait for all stores but one": (edited(PRODUCT, "read 0; // half 1", "read 1;"), AsyncHazardError,
                                    "before the copy that reads it was waited for"),
    "exit with an unread store": (edited(PRODUCT, EXIT, ""), AsyncHazardError, "exits before its TMA store"),
    "ring: store buffer written again": (edited(RING, READ, ""), AsyncHazardError, "(?s)st.shared.*copy that reads it"),
    "ring: no fence of what is stored": (edited(RING, "fence.proxy.async.shared::cta; // out", ""), AsyncHazardError,
                                         "(?s)TMA store that reads.*wrote it, with no fence"),
    "ring: no synchronisation of what is stored": (edited(RING, "bar.warp.sync -1; // out", ""), RaceError,
                                                   "TMA store that reads"),
    "ring: no wait for the load": (edited(RING, "@!%p31 bra ARRIVED;", ""), (*ANY, UninitializedReadError), ""),
    "ring: no acquire": (edited(RING, "@!%p31 bra ACQUIRE;", ""), ANY, ""),
    "ring: release before the reads": (
        edited(edited(RING, f"mbarrier.arrive.shared::cta.b64 _, [%r17+{programs.RING_FULL + 16}]; // release", ""),
               "ld.shared.v4.b32 {%r30", f"@%p3 bra EARLY;\nmbarrier.arrive.shared::cta.b64 _, "
               f"[%r17+{programs.RING_FULL + 16}];\nEARLY:\nld.shared.v4.b32 {{%r30"), ANY, "TMA load that writes"),
}


@pytest.mark.parametrize("delivery", ["late", *(pytest.param(x, marks=LONG) for x in ("early", "random:0"))])
@pytest.mark.parametrize("name", REPORTED)
def test_each_bug_is_reported(name, delivery):
    text, kinds, pattern = REPORTED[name]
    with pytest.raises(kinds) as error:
        if "ring(" in text:
            double(text, delivery=delivery)
        else:
            multiply(text, m=64, n=128, k=256, grid=1, delivery=delivery)
    assert re.search(pattern, str(error.value)), str(error.value)


K_MAJOR, MN_MAJOR = str(programs.K_MAJOR), str(programs.MN_MAJOR)
SEEN = {
    "stride byte offset 512": {"text": edited(PRODUCT, K_MAJOR, str(programs.K_MAJOR ^ (1024 ^ 512) >> 4 << 32))},
    "leading byte offset halved": {"text": edited(PRODUCT, MN_MAJOR, str(
        programs.MN_MAJOR ^ (8192 ^ 4096) >> 4 << 16))},
    "mode of 64 bytes": {"text": edited(PRODUCT, K_MAJOR, str(programs.K_MAJOR ^ 3 << 62))},
    "K-steps of 16 bytes": {"text": edited(PRODUCT, "add.u64 %x11, %x8, 2;", "add.u64 %x11, %x8, 1;")},
    "box of 32": {"maps": Maps(boxes=((32, 128), (64, 64), (64, 64)))},
    "swizzle of the map": {"maps": Maps(swizzles=("64B", "128B", "128B"), boxes=((32, 128), (64, 64), (64, 64)))},
    "swizzle of the result's map": {"maps": Maps(swizzles=("128B", "128B", "none"))},
    "coordinates exchanged": {"text": edited(PRODUCT, "[%x1, {%r15, %r13}]", "[%x1, {%r13, %r15}]")},
}


@pytest.mark.parametrize("name", SEEN)
def test_a_wrong_layout_is_reported_or_changes_the_result(name):
    try:
        c, expected = multiply(**SEEN[name], m=128, n=128, k=128, grid=1)
    except SimulationError:
        return
    assert (c != expected).any()


# -- right programs that look alike

RIGHT = {
    "the reader fences, behind the barrier": edited(
        edited(PRODUCT, FENCE_OUT, ""), BARRIER_OUT, f"{BARRIER_OUT}\n{FENCE_OUT}"),
    "bytes are expected before the copies": edited(
        edited(PRODUCT, f"mbarrier.arrive.expect_tx.shared::cta.b64 {BYTES}\n", ""),
        "mul.lo.u32 %r15, %r14,", f"mbarrier.arrive.expect_tx.shared::cta.b64 {BYTES}\nmul.lo.u32 %r15, %r14,"),
    "bytes are expected by themselves": edited(
        PRODUCT, f"mbarrier.arrive.expect_tx.shared::cta.b64 {BYTES}\n",
        f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 {BYTES[3:]}\nmbarrier.arrive.shared::cta.b64 _, [%r17];\n"),
    "a group more to wait for": edited(PRODUCT, "1; // one", "0; // one"),
    "stores are waited for until they land": edited(PRODUCT, EXIT, "cp.async.bulk.wait_group 0;"),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("delivery", ["late", *(pytest.param(x, marks=LONG) for x in ("early", "random:3"))])
def test_right_programs_stay_silent(name, delivery):
    c, expected = multiply(RIGHT[name], m=64, n=256, k=192, grid=1, delivery=delivery)
    assert (c == expected).all()


@LONG
def test_a_product_takes_a_few_seconds_with_all_checks():
    c, expected = multiply(m=256, n=512, k=256)
    assert (c == expected).all()
    assert np.isfinite(c).all()
