"""Bugs seeded into the programs for Hopper: what changes in the text, and what is said of it.

Bugs are numbered, and a test asks whether each number has one here: of those before 21 and after 27 each must be
reported, the others be reported or change the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.mutations import hopper_programs as programs
from tests.mutations.hopper_programs import (
    PRODUCT,
    PRODUCT_ACQUIRE,
    PRODUCT_WAIT,
    RELAY,
    RING,
    RING_ACQUIRE,
    RING_WAIT,
    Maps,
    copy,
    double,
    multiply,
    wait,
)
from tests.simulator.wgmma_programs import Product
from tilejit.errors import (
    AsyncHazardError,
    DeadlockError,
    DivergenceError,
    RaceError,
    SimulationError,
    UninitializedReadError,
)

HAZARD, RACE, DEADLOCK, UNWRITTEN = AsyncHazardError, RaceError, DeadlockError, UninitializedReadError
Kinds = type[SimulationError] | tuple[type[SimulationError], ...]

#: whose factor A comes from registers
FROM_REGISTERS = Product("f16", "f16", "f32", 8, 16, a_registers=True)


def edited(text: str, old: str, new: str, count: int = 1) -> str:
    """The text with its first places changed, or with 0 all; they must be there."""
    assert old in text, old
    return text.replace(old, new, count or -1)


def several(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        text = edited(text, old, new)
    return text


def without(text: str, old: str) -> str:
    return edited(text, old, "")


@dataclass(frozen=True)
class Bug:
    """An edited program. kinds: the errors it may be; says: what is said, as a pattern; sizes: of the launch."""

    text: str
    kinds: Kinds
    says: str
    sizes: Mapping[str, int] = field(default_factory=dict)

    def run(self, **options: object) -> None:
        if "entry product(" in self.text:
            multiply(self.text, **{"m": 128, "n": 128, "k": 320, "grid": 1, **self.sizes}, **options)
        elif "entry ring(" in self.text:
            double(self.text, **options)
        elif "entry relay(" in self.text:
            copy(self.text, **options)
        else:
            FROM_REGISTERS.run(text=self.text, **options)


#: two tiles for one CTA
TILES = {"m": 256, "k": 448}

BYTES = f"_, [%r17], {programs.A_BYTES + programs.B_BYTES};"
A_LOAD, B_LOAD = "[%x1, {%r15, %r13}], [%r17]; // A", "[%x2, {%r22, %r15}], [%r17]; // B"
A_STAGE = f"mad.lo.u32 %r20, %r16, {programs.A_BYTES}, %r2;"
EARLIER = f"mbarrier.arrive.shared::cta.b64 _, [%r21+{programs.EMPTY_AT}]; // before"
LAST = f"mbarrier.arrive.shared::cta.b64 _, [%r17+{programs.EMPTY_AT - programs.FULL_AT}]; // last"
RING_RELEASE = f"mbarrier.arrive.shared::cta.b64 _, [%r17+{programs.RING_FULL + 16}]; // release"
ADVANCE = "add.u32 %r10, %r10, 1; add.u32 %r14, %r14, 1;"
FENCE_OUT, BARRIER_OUT = "fence.proxy.async.shared::cta; // out 0", "bar.sync %r41, 128; // written 0"
FENCE_READ, FENCE_STORED = "fence.proxy.async.shared::cta; // read", "fence.proxy.async.shared::cta; // out"
READ, EXIT = "cp.async.bulk.wait_group.read 0; // free", "cp.async.bulk.wait_group.read 0; // exit"
HALF = "cp.async.bulk.wait_group.read 0; // half 1"
#: the address of the other stage's `full` in %r30, before what the producer does with its own
OTHER_FULL = (
    "mul.lo.u32 %r15, %r14,",
    f"xor.b32 %r30, %r18, 8; add.u32 %r30, %r30, %r2; add.u32 %r30, %r30, {programs.FULL_AT};\nmul.lo.u32 %r15, %r14,",
)


def shifted(waits: str, label: str, address: str, by: int) -> tuple[str, str]:
    """An edit: a wait asks for the phase `by` later."""
    return waits, f"add.u32 %r30, %r19, {by};\n" + wait(label, address, "%r30")


def by_some(condition: str, text: str, label: str) -> str:
    """Only threads for which %p23 is false after `condition` reach a text."""
    return f"{condition}\n@%p23 bra {label};\n{text}\n{label}:\n"


LEADER, FIRST_WARP = "mov.pred %p23, %p3;", "setp.ge.u32 %p23, %r7, 32;"
UNREAD_STAGE = "(?s)starts a TMA load that writes.*before the (product|copy) that reads it"

REPORTED = {
    "1 no wait": Bug(without(PRODUCT, PRODUCT_WAIT), (HAZARD, UNWRITTEN), "wgmma.mma_async"),
    "1 no wait before loads": Bug(without(RING, RING_WAIT), (HAZARD, RACE), "ld.shared"),
    "1 no wait before a store": Bug(without(RELAY, wait(
        "ARRIVED", f"%r17+{programs.RELAY_BARRIERS}", "%r19")), (HAZARD, UNWRITTEN), "bulk"),
    "1 the result of a wait is ignored": Bug(without(RING, "@!%p31 bra ARRIVED;"), (HAZARD, UNWRITTEN), "ld.shared"),
    "2 no acquire": Bug(without(PRODUCT, PRODUCT_ACQUIRE), HAZARD, "cp.async.bulk.tensor"),
    "2 no acquire after loads": Bug(without(RING, RING_ACQUIRE), (HAZARD, RACE), "cp.async.bulk.tensor"),
    "2 the result of an acquire is ignored": Bug(
        without(RING, "@!%p31 bra ACQUIRE;"), (HAZARD, RACE), "cp.async.bulk.tensor"),
    "3 no release": Bug(without(PRODUCT, EARLIER), DEADLOCK, "waits for phase 0 of mbarrier"),
    "3 no release of the last stage": Bug(without(PRODUCT, LAST), DEADLOCK, "waits for phase", TILES),
    "3 no release after loads": Bug(without(RING, RING_RELEASE), DEADLOCK, "waits for phase 0 of mbarrier"),
    "4 release before the product's wait": Bug(
        edited(PRODUCT, "wait_group.sync.aligned 1; // one", "wait_group.sync.aligned 2;"), HAZARD, UNREAD_STAGE),
    "4 release before the loads": Bug(several(
        RING, (RING_RELEASE, ""), ("ld.shared.v4.b32 {%r30", f"@%p3 bra EARLY;\n{RING_RELEASE}\nEARLY:\n"
                                  "ld.shared.v4.b32 {%r30")), (HAZARD, RACE), "TMA load that writes"),
    "5 release twice": Bug(edited(PRODUCT, EARLIER, f"{EARLIER}\n{EARLIER}"), HAZARD,
                           f"{UNREAD_STAGE}|waited for in phase|a late (waiter|thread) would hang"),
    "5 release of the last stage twice": Bug(edited(PRODUCT, LAST, f"{LAST}\n{LAST}"), HAZARD, "mbarrier|TMA", TILES),
    "6 one consumer where there are two": Bug(edited(PRODUCT, "], 2;\n", "], 1;\n", 0), HAZARD, "mbarrier|TMA load"),
    "7 copy to another stage": Bug(edited(
        PRODUCT, A_STAGE + "\ncp", "xor.b32 %r30, %r16, 1; " + A_STAGE.replace("%r16", "%r30") + "\ncp"),
        (HAZARD, UNWRITTEN), "wgmma.mma_async|TMA load"),
    "8 product of another stage": Bug(edited(
        PRODUCT, A_STAGE + " mad", "xor.b32 %r30, %r16, 1; " + A_STAGE.replace("%r16", "%r30") + " mad"),
        (HAZARD, UNWRITTEN), "wgmma.mma_async"),
    "8 loads of another stage": Bug(edited(
        RING, f"mad.lo.u32 %r20, %r16, {programs.BOX_BYTES}, %r2; shl",
        f"xor.b32 %r40, %r16, 1; mad.lo.u32 %r20, %r40, {programs.BOX_BYTES}, %r2; shl"),
        (HAZARD, RACE, UNWRITTEN), "ld.shared|st.shared|cp.async.bulk.tensor"),
    "9 the producer stays at a step": Bug(edited(
        PRODUCT, ADVANCE, "setp.ne.u32 %p22, %r14, 2;\n@%p22 add.u32 %r10, %r10, 1;\nadd.u32 %r14, %r14, 1;"),
        HAZARD, "mbarrier|TMA load"),
    "9 a consumer stays at a step": Bug(edited(
        PRODUCT, f"KEPT:\n{ADVANCE}", "KEPT:\nsetp.ne.u32 %p22, %r14, 2; setp.ne.or.u32 %p22, %r8, 0, %p22;\n"
        "@%p22 add.u32 %r10, %r10, 1;\nadd.u32 %r14, %r14, 1;"), HAZARD, "mbarrier|TMA load", TILES),
    "10 fewer bytes are expected": Bug(
        edited(PRODUCT, BYTES, f"_, [%r17], {programs.A_BYTES + programs.B_BYTES - 16};"), (HAZARD, DEADLOCK),
        "16 bytes more than were expected"),
    "11 more bytes are expected": Bug(
        edited(PRODUCT, BYTES, f"_, [%r17], {programs.A_BYTES + programs.B_BYTES + 16};"), DEADLOCK,
        "16 bytes missing; no operation in flight signals it"),
    "12 barrier of another stage": Bug(several(
        PRODUCT, (A_LOAD, A_LOAD.replace("[%r17]", "[%r30]")), OTHER_FULL), HAZARD, "TMA load|mbarrier"),
    "12 barrier of another stage for a part": Bug(several(
        PRODUCT, (B_LOAD, B_LOAD.replace("[%r17]", "[%r30]")), OTHER_FULL), HAZARD, "TMA load|mbarrier"),
    "13 wait for the next phase": Bug(edited(PRODUCT, *shifted(PRODUCT_WAIT, "ARRIVED", "%r17", 1)),
                                      (HAZARD, DEADLOCK), r"phase 1\b"),
    "13 wait for the last phase": Bug(edited(PRODUCT, *shifted(PRODUCT_WAIT, "ARRIVED", "%r17", -1)), HAZARD,
                                      "wgmma.mma_async|phase -1|a late waiter would hang"),
    "13 acquire of the next phase": Bug(edited(PRODUCT, *shifted(
        PRODUCT_ACQUIRE, "ACQUIRE", f"%r17+{programs.EMPTY_AT - programs.FULL_AT}", 1)), (HAZARD, DEADLOCK), "phase 1"),
    "13 acquire of the last phase": Bug(edited(PRODUCT, *shifted(
        PRODUCT_ACQUIRE, "ACQUIRE", f"%r17+{programs.EMPTY_AT - programs.FULL_AT}", -1)), HAZARD,
        "cp.async.bulk.tensor|is waited for"),
    "14 one product more may run on": Bug(edited(PRODUCT, "0; // all", "1; // all"), HAZARD,
                                          "(?s)not waited for.*wgmma.mma_async"),
    "15 no wait for products": Bug(without(PRODUCT, "wgmma.wait_group.sync.aligned 0; // all"), HAZARD,
                                   "(?s)not waited for.*wgmma.mma_async"),
    "16 a factor in registers is written before the wait": Bug(
        edited(FROM_REGISTERS.text, "wgmma.wait_group.sync.aligned 0;",
               "mov.b32 %a2, 0;\nwgmma.wait_group.sync.aligned 0;"), HAZARD,
        "(?s)writes register %a2.*wgmma.mma_async"),
    "17 no proxy fence": Bug(without(PRODUCT, FENCE_OUT), HAZARD, "(?s)TMA store that reads.*st.shared"),
    "17 no proxy fence in a ring": Bug(without(RING, FENCE_STORED), HAZARD,
                                       "(?s)TMA store that reads.*wrote it, with no fence"),
    "18 no barrier after the fence": Bug(without(PRODUCT, BARRIER_OUT), (RACE, UNWRITTEN),
                                          "(?s)TMA store that reads.*st.shared|nothing has written"),
    "18 no synchronisation after the fence": Bug(without(RING, "bar.warp.sync -1; // out"), RACE,
                                                  "TMA store that reads"),
    "19 store buffer overwritten": Bug(without(PRODUCT, HALF), HAZARD,
                                         "(?s)st.shared.*before the copy that reads it was waited for"),
    "19 store buffer overwritten by the next tile": Bug(
        without(PRODUCT, "cp.async.bulk.wait_group.read 0; // half 0"), HAZARD,
        "(?s)st.shared.*before the copy that reads it was waited for", TILES),
    "19 only the leader knows that it is read": Bug(without(PRODUCT, "bar.sync %r41, 128; // free 1"), (HAZARD, RACE),
                                                    "st.shared"),
    "19 store buffer of a ring overwritten": Bug(without(RING, READ), HAZARD, "(?s)st.shared.*copy that reads it"),
    "20 no wgmma.fence": Bug(without(PRODUCT, "wgmma.fence.sync.aligned;"), HAZARD, "wgmma.fence"),
    "28 no entry barrier": Bug(without(PRODUCT, "bar.sync 0; // entry"), (HAZARD, RACE, SimulationError), "mbarrier"),
    "32 one warp sets registers": Bug(edited(
        PRODUCT, "setmaxnreg.dec.sync.aligned.u32 24;", by_some(
            FIRST_WARP, "setmaxnreg.dec.sync.aligned.u32 24;", "SOME")), DivergenceError, "all 128 threads|lanes 0, 1"),
    "34 one lane waits, all load": Bug(edited(RING, RING_WAIT, by_some(LEADER, RING_WAIT, "SOME")), (HAZARD, RACE),
                                       "ld.shared"),
    "34 one thread waits, all multiply": Bug(edited(PRODUCT, PRODUCT_WAIT, by_some(LEADER, PRODUCT_WAIT, "SOME")),
                                             HAZARD, "wgmma.mma_async"),
    "34 one warp waits, all multiply": Bug(edited(PRODUCT, PRODUCT_WAIT, by_some(FIRST_WARP, PRODUCT_WAIT, "SOME")),
                                           HAZARD, "wgmma.mma_async"),
    "35 release without synchronisation": Bug(without(RING, "bar.warp.sync -1; // read"), RACE,
                                              "(?s)TMA load that writes.*ld.shared"),
    "36 the leader alone fences": Bug(edited(PRODUCT, FENCE_OUT, by_some(LEADER, FENCE_OUT, "SOME")), HAZARD,
                                      "fence.proxy.async"),
    "36 the leader alone fences what was read": Bug(edited(RING, FENCE_READ, by_some(LEADER, FENCE_READ, "SOME")),
                                                    HAZARD, "fence.proxy.async"),
    "36 others fence after the barrier": Bug(several(
        PRODUCT, (FENCE_OUT, ""), (BARRIER_OUT, BARRIER_OUT + "\n" + by_some(
            "setp.lt.u32 %p23, %r7, 32;", FENCE_OUT, "SOME"))), HAZARD, "fence.proxy.async"),
    "36 fence after the release": Bug(several(RING, (FENCE_READ, ""), (READ, f"{FENCE_READ}\n{READ}")), HAZARD,
                                       "fence.proxy.async"),
    "37 no fence between reads and the release": Bug(without(RING, FENCE_READ), HAZARD,
                                                     "(?s)TMA load that writes.*read it, with no fence"),
    "38 another thread waits": Bug(edited(
        PRODUCT, "@%p3 bra FREE1;\n", "setp.ne.u32 %p21, %r7, 64;\n@%p21 bra FREE1;\n"), HAZARD,
        "before the copy that reads it was waited for"),
    "38 another lane waits": Bug(edited(RING, f"{READ}\nKEPT:\n", "KEPT:\n" + by_some(
        "setp.ne.u32 %p23, %r3, 7;", READ, "SOME")), HAZARD, "before the copy that reads it was waited for"),
    "39 wait for all stores but one": Bug(edited(PRODUCT, "read 0; // half 1", "read 1;"), HAZARD,
                                          "before the copy that reads it was waited for"),
    "39 wait for all stores of a ring but one": Bug(edited(RING, "read 0; // free", "read 1;"), HAZARD,
                                                    "before the copy that reads it was waited for"),
    "40 exit with an unread store": Bug(without(PRODUCT, EXIT), HAZARD, "exits before its TMA store"),
    "40 exit where one store may be unread": Bug(edited(RING, EXIT, EXIT.replace("read 0", "read 1")), HAZARD,
                                                 "exits before its TMA store"),
    "41 release before the store has read": Bug(several(
        RELAY, ("cp.async.bulk.wait_group.read 0; // stored\n", ""),
        ("// release", "// release\ncp.async.bulk.wait_group.read 0;")), HAZARD, UNREAD_STAGE),
    "42 release where a warp may lag": Bug(without(RELAY, "bar.sync 1, 128; // waited"), HAZARD,
                                           "(?s)passed the wait for phase.*a late waiter would hang.*mbarrier.arrive"),
    "44 more registers than there are": Bug(edited(
        PRODUCT, "setmaxnreg.dec.sync.aligned.u32 24;", "setmaxnreg.dec.sync.aligned.u32 32;"), DEADLOCK,
        r"request 32 \+ 240 \+ 240 registers per thread; a CTA of 384 threads starts with 3 x 168"),
}

K_MAJOR, MN_MAJOR = str(programs.K_MAJOR), str(programs.MN_MAJOR)

#: of wrong places: what differs from a launch that is right
SEEN = {
    "21 stride byte offset of 512": {"text": edited(PRODUCT, K_MAJOR, str(programs.K_MAJOR ^ (1024 ^ 512) >> 4 << 32))},
    "22 leading byte offset halved": {
        "text": edited(PRODUCT, MN_MAJOR, str(programs.MN_MAJOR ^ (8192 ^ 4096) >> 4 << 16))},
    "23 mode of 64 bytes": {"text": edited(PRODUCT, K_MAJOR, str(programs.K_MAJOR ^ 3 << 62))},
    "24 K-steps of 16 bytes": {"text": edited(PRODUCT, "add.u64 %x11, %x8, 2;", "add.u64 %x11, %x8, 1;")},
    "25 box of 32": {"maps": Maps(boxes=((32, 128), (64, 64), (64, 64)))},
    "26 swizzle of the map": {"maps": Maps(swizzles=("64B", "128B", "128B"), boxes=((32, 128), (64, 64), (64, 64)))},
    "26 swizzle of the result's map": {"maps": Maps(swizzles=("128B", "128B", "none"))},
    "27 coordinates exchanged": {"text": edited(PRODUCT, "[%x1, {%r15, %r13}]", "[%x1, {%r13, %r15}]")},
}

FENCE_LATE = f"{BARRIER_OUT}\n{FENCE_OUT}"
#: programs that look wrong and are right
RIGHT: dict[str, tuple[str, Callable[..., tuple[object, object]]]] = {
    "no fence of barriers that no other CTA uses": (
        without(PRODUCT, "fence.mbarrier_init.release.cluster;"), multiply),
    "the reader fences, after the barrier": (several(PRODUCT, (FENCE_OUT, ""), (BARRIER_OUT, FENCE_LATE)), multiply),
    "the releasing thread fences, after the synchronisation": (several(
        RING, (FENCE_READ + "\n", ""), (RING_RELEASE, f"{FENCE_READ}\n{RING_RELEASE}")), double),
    "one thread waits, then a barrier": (edited(
        PRODUCT, PRODUCT_WAIT, by_some(LEADER, PRODUCT_WAIT, "SOME") + "add.u32 %r31, %r8, 1;\nbar.sync %r31, 128;\n"),
        multiply),
    "bytes are expected before the copies": (several(
        PRODUCT, (f"mbarrier.arrive.expect_tx.shared::cta.b64 {BYTES}\n", ""),
        ("mul.lo.u32 %r15, %r14,", f"mbarrier.arrive.expect_tx.shared::cta.b64 {BYTES}\nmul.lo.u32 %r15, %r14,")),
        multiply),
    "bytes are expected by themselves": (edited(
        PRODUCT, f"mbarrier.arrive.expect_tx.shared::cta.b64 {BYTES}\n",
        f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 {BYTES[3:]}\nmbarrier.arrive.shared::cta.b64 _, [%r17];\n"),
        multiply),
    "a group more to wait for": (edited(PRODUCT, "1; // one", "0; // one"), multiply),
    "stores are waited for until they land": (edited(PRODUCT, EXIT, "cp.async.bulk.wait_group 0;"), multiply),
}
