"""Small programs about order, each right and wrong way round.

A program is a PTX body with holes; `right` and `wrong` fill them. Registers at its start: %r1 thread, %r2 CTA,
%r3 lane, %r4 warp; %x1 `data` and %x2 `flags`, arrays of 256 words, initialised to 100 + i and 0; %x3 `data` at the
thread, %x4 `out` at the thread (in the grid); `s` is 1 KiB of shared memory, %r5 its address at the thread.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

_labels = itertools.count()

PROLOGUE = """
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; and.b32 %r3, %r1, 31; shr.u32 %r4, %r1, 5; mov.u32 %r6, %ntid.x;
ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; ld.param.u64 %x4, [p2]; mad.wide.u32 %x3, %r1, 4, %x1;
mad.lo.u32 %r7, %r2, %r6, %r1; mad.wide.u32 %x4, %r7, 4, %x4; mov.u32 %r8, s; mad.lo.u32 %r5, %r1, 4, %r8;
"""


@dataclass(frozen=True)
class Program:
    """rule: what is found wrong in the wrong one; checks: what both run with."""

    name: str
    body: str
    right: dict[str, str]
    wrong: dict[str, str]
    rule: str = "race"
    grid: int = 1
    block: int = 64
    checks: bool | str = True
    warned: frozenset[str] = field(default_factory=frozenset)

    def text(self, holes: dict[str, str]) -> str:
        body = self.body
        for name, text in holes.items():
            assert name in body, (self.name, name)
            body = body.replace(name, text)
        return PROLOGUE + body + "\nret;"


def when(register: str, value: object, body: str) -> str:
    """`body` for threads whose register holds a value."""
    end = f"W{next(_labels)}"
    return f"setp.ne.u32 %p1, {register}, {value}; @%p1 bra {end};\n{body}\n{end}:\n"


def spin(load: str, until: object = 1) -> str:
    """Repeat a load into %r20 until it gives a value."""
    head = f"S{next(_labels)}"
    return f"{head}: {load}; setp.ne.u32 %p2, %r20, {until}; @%p2 bra {head};\n"


PUT = "mov.u32 %r10, 7; st.global.u32 [%x1], %r10;"
GET = "ld.global.u32 %r11, [%x1]; st.global.u32 [%x4], %r11;"
SET = "mov.u32 %r12, 1; st.{}.global.u32 [%x2], %r12;"
LOOK = "ld.{}.global.u32 %r20, [%x2]"


def message(set_: str, look: str, before: str = "", after: str = "", cta: bool = True) -> str:
    """Thread 0 of CTA (or warp) 0 writes data and sets a flag, that of 1 waits for the flag and reads."""
    who = "%r2" if cta else "%r4"
    producer = when("%r3", 0, f"{PUT} {before} {set_}")
    consumer = when("%r3", 0, f"{spin(look)} {after} {GET}")
    return when(who, 0, producer) + when(who, 1, consumer)


def exchange(distance: int) -> str:
    """Each thread reads the word of shared memory that another wrote."""
    return f"xor.b32 %r13, %r5, {4 * distance}; ld.shared.u32 %r11, [%r13]; st.global.u32 [%x4], %r11;"


MINE = "st.shared.u32 [%r5], %r1;"
TWO = {"grid": 2, "block": 32}

LAST = """
ld.global.u32 %r10, [%x3]; mad.wide.u32 %x5, %r7, 4, %x1; st.global.u32 [%x5+512], %r10; SYNC
setp.ne.u32 %p3, %r1, 0; @%p3 bra JOIN; FENCE
atom.global.add.u32 %r12, [%x2], 1; FENCE st.shared.u32 [s], %r12;
JOIN: bar.sync 0; ld.shared.u32 %r12, [s]; setp.ne.u32 %p4, %r12, 1; @%p4 bra END;
ld.global.u32 %r10, [%x3+512]; mad.wide.u32 %x5, %r6, 4, %x3; ld.global.u32 %r11, [%x5+512];
add.u32 %r11, %r11, %r10; st.global.u32 [%x4], %r11;
END:
"""
GRID_BARRIER = """
mad.wide.u32 %x5, %r7, 4, %x1; st.global.u32 [%x5], %r7; ENTER
setp.ne.u32 %p3, %r1, 0; @%p3 bra JOIN;
FENCE atom.global.add.u32 %r12, [%x2], 1;
G: ld.volatile.global.u32 %r12, [%x2]; setp.ne.u32 %p2, %r12, 3; @%p2 bra G; FENCE
JOIN: LEAVE
mov.u32 %r13, %nctaid.x; mul.lo.u32 %r13, %r13, %r6; sub.u32 %r13, %r13, 1; sub.u32 %r13, %r13, %r7;
mad.wide.u32 %x5, %r13, 4, %x1; ld.global.u32 %r11, [%x5]; st.global.u32 [%x4], %r11;
"""
LOOK_BACK = """
setp.ne.u32 %p3, %r1, 0; @%p3 bra END;
mad.wide.u32 %x5, %r2, 4, %x1; mad.wide.u32 %x6, %r2, 4, %x2; ld.global.u32 %r10, [%x5];
setp.eq.u32 %p4, %r2, 0; @%p4 bra FIRST;
B: ld.acquire.gpu.global.u32 %r12, [%x6+-4]; setp.eq.u32 %p2, %r12, 0; @%p2 bra B;
ld.global.u32 %r11, [%x5+508]; add.u32 %r10, %r10, %r11;
FIRST: st.global.u32 [%x5+512], %r10; mov.u32 %r12, 1; STORE.global.u32 [%x6], %r12; st.global.u32 [%x4], %r10;
END:
"""


def lock(take: str, give: str, before: str = "", after: str = "") -> str:
    """Thread 0 of each CTA adds to a plain word under a lock."""
    return f"""
    setp.ne.u32 %p3, %r1, 0; @%p3 bra END;
    L: {take}.global.cas.b32 %r12, [%x2], 0, 1; setp.ne.u32 %p2, %r12, 0; @%p2 bra L; {after}
    ld.global.u32 %r10, [%x1]; add.u32 %r10, %r10, 1; st.global.u32 [%x1], %r10;
    {before} {give}.global.exch.b32 %r12, [%x2], 0;
    END:
    """


HALVES = """
setp.lt.u32 %p3, %r3, 16; @%p3 bra LOW;
st.shared.u32 [%r5], %r1; bar.warp.sync HIGH; READ
bra END;
LOW: st.shared.u32 [%r5], %r1; bar.warp.sync DEEP; READ
END:
"""
CHAIN = (
    when("%r2", 0, when("%r1", 0, f"{PUT} mov.u32 %r12, 1; st.release.gpu.global.u32 [%x2], %r12;"))
    + when("%r2", 1, when("%r1", 0, spin("ld.relaxed.gpu.global.u32 %r20, [%x2]") + "NEXT"))
    + when("%r2", 2, when(
        "%r1", 0, spin("ld.relaxed.gpu.global.u32 %r20, [%x2]", 2) + "ld.acquire.gpu.global.u32 %r20, [%x2];" + GET
    ))
)
RELAY = (
    when("%r2", 0, when("%r1", 0, f"{PUT} mov.u32 %r12, 1; st.release.gpu.global.u32 [%x2], %r12;"))
    + when("%r2", 1, when(
        "%r1", 0,
        spin("LOOK.gpu.global.u32 %r20, [%x2]") + "mov.u32 %r12, 1; st.release.gpu.global.u32 [%x2+64], %r12;",
    ))
    + when("%r2", 2, when("%r1", 0, spin("ld.acquire.gpu.global.u32 %r20, [%x2+64]") + GET))
)
FROM_THREAD_0 = (
    when("%r2", 0, "st.global.u32 [%x3], %r1; SYNC" + when(
        "%r1", 0, "mov.u32 %r12, 1; st.release.gpu.global.u32 [%x2], %r12;"
    ))
    + when("%r2", 1, when(
        "%r1", 0, spin("ld.acquire.gpu.global.u32 %r20, [%x2]") + "ld.global.u32 %r11, [%x1+LATE];"
        "st.global.u32 [%x4], %r11;",
    ))
)
TO_ALL = (
    when("%r2", 0, when("%r1", 0, PUT + "mov.u32 %r12, 1; st.release.gpu.global.u32 [%x2], %r12;"))
    + when("%r2", 1, when("%r1", 0, spin("ld.acquire.gpu.global.u32 %r20, [%x2]")) + f"SYNC {GET}")
)
# All threads fence, thread 0 sets the flag after a barrier. The flag is thread 0's, whose fence comes before it:
# only sequentially consistent fences are ordered among each other, so that the others' fences count too.
FENCE_THEN_BARRIER = (
    when("%r2", 0, "st.global.u32 [%x3], %r1; FENCE bar.sync 0;" + when(
        "%r1", 0, "atom.relaxed.gpu.global.add.u32 %r12, [%x2], 1;"
    ))
    + when("%r2", 1, when(
        "%r1", 0, spin("ld.relaxed.gpu.global.u32 %r20, [%x2]") + "FENCE ld.global.u32 %r11, [%x1+20];"
        "st.global.u32 [%x4], %r11;",
    ))
)
PIPELINE = """
setp.ge.u32 %p3, %r1, 32; @%p3 bra CONSUME;
PRODUCE bra END;
CONSUME: TAKE
END:
"""
ASYNC = "mad.wide.u32 %x5, %r1, 4, %x1; cp.async.ca.shared.global [%r5], [%x5], 4; cp.async.commit_group;"
FIRST_GUESS = """
ld.global.u32 %r10, [%x1];
C: add.u32 %r11, %r10, 1; atom.global.cas.b32 %r12, [%x1], %r10, %r11; setp.ne.u32 %p2, %r12, %r10;
mov.u32 %r10, %r12; @%p2 bra C;
"""

READ_MINE_AND_YOURS = f"{MINE} bar.sync 0; ld.shared.u32 %r10, [%r5]; {exchange(32)} BARRIER {MINE}"


def read_of(distance: int) -> str:
    """Each thread reads the word of `data` of another one, or its own."""
    return f"xor.b32 %r13, %r1, {distance}; mad.wide.u32 %x5, %r13, 4, %x1; ld.global.u32 %r10, [%x5];\n"


PROGRAMS = [
    # a thread's own accesses and those of others to one place
    Program("a store after another thread's read, which is after the writer's own", READ_MINE_AND_YOURS,
            {"BARRIER": "bar.sync 0;"}, {"BARRIER": ""}),
    Program("a store after another thread's store, which is after the writer's own",
            f"{MINE} bar.sync 0; xor.b32 %r13, %r5, 128; st.shared.u32 [%r13], %r2; BARRIER {MINE}",
            {"BARRIER": "bar.sync 0;"}, {"BARRIER": ""}),
    Program("a store after a read of the other warp, which is after a read before a barrier",
            read_of(1) + "bar.sync 0;" + read_of(32) + "BARRIER" + read_of(0) + "st.global.u32 [%x3], %r1;",
            {"BARRIER": "bar.sync 0;"}, {"BARRIER": ""}),
    Program("a strong store after an ordinary read that precedes a strong read of the other warp",
            when("%r2", 0, when("%r1", 0, "READ.global.u32 %r10, [%x1];") + "bar.sync 0;"
                 + when("%r1", 32, "ld.relaxed.gpu.global.u32 %r11, [%x1];"))
            + when("%r2", 1, when("%r1", 0, "mov.u32 %r12, 5; st.relaxed.gpu.global.u32 [%x1], %r12;")),
            {"READ": "ld.relaxed.gpu"}, {"READ": "ld"}, grid=2),
    Program("a store after a constant read that precedes an ordinary read of the other warp",
            when("%r1", 0, "READ.u32 %r10, [%x1];") + "bar.sync 0;"
            + when("%r1", 32, "ld.global.u32 %r11, [%x1]; st.global.u32 [%x1], %r11;"),
            {"READ": "ld.global"}, {"READ": "ld.global.nc"}, rule="read-only"),
    # messages through one flag
    Program("a flag by release and acquire", message("SET", LOOK.format("acquire.gpu")),
            {"SET": SET.format("release.gpu")}, {"SET": SET.format("relaxed.gpu")}, **TWO),
    Program("a compare-and-swap that fails releases nothing",
            message("atom.release.gpu.global.cas.b32 %r13, [%x2], WANTED, 1; " + SET.format("relaxed.gpu"),
                    LOOK.format("acquire.gpu")),
            {"WANTED": "0"}, {"WANTED": "5"}, **TWO),
    Program("the reader must acquire", message(SET.format("release.gpu"), "LOOK.gpu.global.u32 %r20, [%x2]"),
            {"LOOK": "ld.acquire"}, {"LOOK": "ld.relaxed"}, **TWO),
    Program("a fence before a volatile flag",
            message(SET.format("volatile"), LOOK.format("volatile"), "FENCE", "membar.gl;"),
            {"FENCE": "membar.gl;"}, {"FENCE": ""}, **TWO),
    Program("a fence after a volatile flag",
            message(SET.format("volatile"), LOOK.format("volatile"), "membar.gl;", "FENCE"),
            {"FENCE": "fence.acq_rel.gpu;"}, {"FENCE": ""}, **TWO),
    Program("the flag that was released",
            message("mov.u32 %r12, 1; st.release.gpu.global.u32 [%x2], %r12; st.relaxed.gpu.global.u32 [%x2+64], %r12;",
                    "ld.acquire.gpu.global.u32 %r20, [FLAG]"),
            {"FLAG": "%x2"}, {"FLAG": "%x2+64"}, **TWO),
    Program("an atomic on something else",
            message("mov.u32 %r12, 1; atom.release.gpu.global.exch.b32 %r13, [WHERE], %r12; "
                    "st.relaxed.gpu.global.u32 [%x2], %r12;", LOOK.format("acquire.gpu")),
            {"WHERE": "%x2"}, {"WHERE": "%x2+64"}, **TWO),
    Program("fences without a flag",
            MINE + "membar.cta; SYNC membar.cta;" + exchange(32), {"SYNC": "bar.sync 0;"}, {"SYNC": ""},
            rule="race undefined"),
    Program("a reduction without a result is no acquire",
            message(SET.format("release.gpu"), LOOK.format("relaxed.gpu"), "", "ACQUIRE"),
            {"ACQUIRE": "atom.acquire.gpu.global.add.u32 %r21, [%x2], 1;"},
            {"ACQUIRE": "red.relaxed.gpu.global.add.u32 [%x2], 1;"}, **TWO),
    # scopes
    Program("a release reaches the reader's CTA", message("SET", LOOK.format("acquire.gpu")),
            {"SET": SET.format("release.gpu")}, {"SET": SET.format("release.cta")}, rule="race scope", **TWO),
    Program("an acquire reaches the writer's CTA", message(SET.format("release.gpu"), "LOOK.global.u32 %r20, [%x2]"),
            {"LOOK": "ld.acquire.gpu"}, {"LOOK": "ld.acquire.cta"}, rule="race scope", **TWO),
    Program("a fence reaches the reader's CTA",
            message(SET.format("relaxed.gpu"), LOOK.format("relaxed.gpu"), "FENCE", "fence.acq_rel.gpu;"),
            {"FENCE": "fence.acq_rel.gpu;"}, {"FENCE": "fence.acq_rel.cta;"}, **TWO),
    Program("CTA scope within a CTA",
            message("SET", LOOK.format("acquire.cta"), cta=False),
            {"SET": SET.format("release.cta")}, {"SET": SET.format("relaxed.cta")}),
    Program("atomics reach each other's CTA", when("%r1", 0, "ADD.global.add.u32 %r12, [%x2], 1;"),
            {"ADD": "atom.relaxed.gpu"}, {"ADD": "atom.relaxed.cta"}, rule="scope", **TWO),
    # chains
    Program("an atomic continues what was released", CHAIN,
            {"NEXT": "atom.relaxed.gpu.global.add.u32 %r12, [%x2], 1;"},
            {"NEXT": "mov.u32 %r12, 2; st.relaxed.gpu.global.u32 [%x2], %r12;"}, grid=3, block=32),
    Program("a message that is passed on", RELAY, {"LOOK": "ld.acquire"}, {"LOOK": "ld.relaxed"}, grid=3, block=32),
    # messages of a whole CTA
    Program("thread 0 releases for all after a barrier", FROM_THREAD_0.replace("LATE", "200"),
            {"SYNC": "bar.sync 0;"}, {"SYNC": ""}, grid=2),
    Program("lane 0 releases for its warp after a warp barrier", FROM_THREAD_0.replace("LATE", "20"),
            {"SYNC": "bar.warp.sync -1;"}, {"SYNC": ""}, **TWO),
    Program("thread 0 acquires for all before a barrier", TO_ALL,
            {"SYNC": "bar.sync 0;"}, {"SYNC": ""}, grid=2),
    Program("all threads fence before a barrier", FENCE_THEN_BARRIER,
            {"FENCE": "fence.sc.gpu;"}, {"FENCE": "fence.acq_rel.gpu;"}, grid=2),
    Program("the last block sums up", LAST.replace("SYNC", "bar.sync 0;"),
            {"FENCE": "membar.gl;"}, {"FENCE": ""}, grid=2),
    Program("the last block waits for its threads", LAST.replace("FENCE", "membar.gl;"),
            {"SYNC": "bar.sync 0;"}, {"SYNC": ""}, grid=2),
    Program("decoupled look-back", LOOK_BACK, {"STORE": "st.release.gpu"}, {"STORE": "st.relaxed.gpu"},
            grid=6, block=32),
    Program("a barrier of the grid", GRID_BARRIER.replace("ENTER", "bar.sync 0;").replace("LEAVE", "bar.sync 0;"),
            {"FENCE": "membar.gl;"}, {"FENCE": ""}, grid=3),
    Program("a barrier of the grid gathers the CTA", GRID_BARRIER.replace("FENCE", "membar.gl;")
            .replace("LEAVE", "bar.sync 0;"), {"ENTER": "bar.sync 0;"}, {"ENTER": ""}, grid=3),
    Program("a barrier of the grid holds the CTA", GRID_BARRIER.replace("FENCE", "membar.gl;")
            .replace("ENTER", "bar.sync 0;"), {"LEAVE": "bar.sync 0;"}, {"LEAVE": ""}, grid=3),
    # locks
    Program("a lock by acquire and release", lock("atom.acquire.gpu", "GIVE"),
            {"GIVE": "atom.release.gpu"}, {"GIVE": "atom.relaxed.gpu"}, grid=4, block=32),
    Program("a lock with fences", lock("atom", "atom", "FENCE", "membar.gl;"),
            {"FENCE": "membar.gl;"}, {"FENCE": ""}, grid=4, block=32),
    Program("a lock needs an acquire", lock("TAKE", "atom.release.gpu"),
            {"TAKE": "atom.acquire.gpu"}, {"TAKE": "atom.relaxed.gpu"}, grid=4, block=32),
    # barriers of a part
    Program("a warp barrier orders its warp", MINE + "SYNC" + exchange(5),
            {"SYNC": "bar.warp.sync -1;"}, {"SYNC": ""}, block=32),
    Program("a warp barrier orders the lanes of its mask",
            HALVES.replace("HIGH", "0xffff0000").replace("DEEP", "0x0000ffff"),
            {"READ": exchange(5)}, {"READ": exchange(16)}, rule="race undefined", block=32),
    Program("a named barrier orders its participants",
            MINE + when("%r4", 3, "") + "setp.ge.u32 %p3, %r1, 64; @%p3 bra END; bar.sync 1, 64;" + "READ\nEND:",
            {"READ": exchange(32)}, {"READ": exchange(64)}, block=128),
    Program("two named barriers", MINE + "shr.u32 %r14, %r1, 6; add.u32 %r14, %r14, 1; bar.sync %r14, 64; READ",
            {"READ": exchange(32)}, {"READ": exchange(64)}, block=128),
    Program("a thread that only arrives may not read",
            PIPELINE.replace("PRODUCE", "bar.arrive 1, 64; AGAIN ld.shared.u32 %r11, [%r5+128];")
            .replace("TAKE", "st.shared.u32 [%r5], %r1; bar.sync 1, 64; bar.arrive 2, 64;"),
            {"AGAIN": "bar.sync 2, 64;"}, {"AGAIN": ""}, rule="race undefined"),
    Program("a thread that only arrives may not go on writing",
            PIPELINE.replace("PRODUCE", f"{MINE} bar.arrive 1, 64; MORE")
            .replace("TAKE", "bar.sync 1, 64; ld.shared.u32 %r11, [%r5+-128];"),
            {"MORE": ""}, {"MORE": "st.shared.u32 [%r5], %r2;"}),
    Program("a shuffle is no memory barrier by the letter", MINE + "SYNC" + exchange(5),
            {"SYNC": "bar.warp.sync -1;"}, {"SYNC": "shfl.sync.idx.b32 %r12, %r1, 0, 31, -1;"},
            block=32, checks="strict"),
    Program("a vote is no memory barrier by the letter", MINE + "SYNC" + exchange(5),
            {"SYNC": "bar.warp.sync -1;"},
            {"SYNC": "setp.eq.u32 %p4, %r1, 3; vote.sync.any.pred %p5, %p4, -1;"}, block=32, checks="strict"),
    # equal stores
    Program("who stored it may read it", "WHO st.shared.u32 [s], 42; R: ld.shared.u32 %r11, [s];",
            {"WHO": ""}, {"WHO": "setp.ne.u32 %p3, %r3, 0; @%p3 bra R;"}, rule="race undefined"),
    Program("one of the equal stores is ordered", when("%r3", 0, "st.shared.u32 [s], 42;")
            + "SYNC ld.shared.u32 %r11, [s]; st.global.u32 [%x4], %r11;",
            {"SYNC": "bar.warp.sync -1;"}, {"SYNC": ""}, rule="race undefined"),
    Program("equal values", "st.shared.u32 [s], VALUE; bar.sync 0; ld.shared.u32 %r11, [s];",
            {"VALUE": "9"}, {"VALUE": "%r1"}),
    Program("all the equal stores are ordered before another",
            "st.shared.u32 [s], 9; SYNC" + when("%r1", 40, "st.shared.u32 [s], 10;"),
            {"SYNC": "bar.sync 0;"}, {"SYNC": "bar.warp.sync -1;"}),
    Program("a reader may write it, long after equal stores",
            "st.shared.u32 [s], 9; bar.sync 0; st.shared.u32 [s+4], 9;"
            + when("%r1", 0, "ld.shared.u32 %r11, [s]; st.global.u32 [%x4], %r11;")
            + when("%r1", "WRITER", "st.shared.u32 [s], %r1;"),
            {"WRITER": "0"}, {"WRITER": "33"}),
    # accesses that are ordered by nothing, and that need nothing
    Program("atomics with atomics", "atom.global.add.u32 %r12, [%x2], 1; OTHER",
            {"OTHER": "red.global.max.u32 [%x2], 5;"}, {"OTHER": "st.global.u32 [%x2], %r1;"}),
    Program("relaxed flags carry themselves only",
            message("WRITE", LOOK.format("relaxed.gpu")).replace(PUT, "").replace(GET, "st.global.u32 [%x4], %r20;"),
            {"WRITE": SET.format("relaxed.gpu")}, {"WRITE": "mov.u32 %r12, 1; st.global.u32 [%x2], %r12;"}, **TWO),
    Program("a read-only load of what the kernel wrote",
            "ld.global.nc.u32 %r10, [%x3]; add.u32 %r10, %r10, 1; st.global.u32 [WHERE], %r10; bar.sync 0;",
            {"WHERE": "%x4"}, {"WHERE": "%x3"}, rule="read-only"),
    Program("a read-only load after a barrier",
            "st.global.u32 [%x3], %r1; bar.sync 0; LOAD.u32 %r10, [%x3]; st.global.u32 [%x4], %r10;",
            {"LOAD": "ld.global"}, {"LOAD": "ld.global.nc"}, rule="read-only"),
    Program("the first guess of an exchange loop", FIRST_GUESS + "AFTER", {"AFTER": ""},
            {"AFTER": "ld.global.u32 %r13, [%x1]; st.global.u32 [%x4], %r13;".replace("[%x1]", "[%x1+0]")},
            warned=frozenset({"race"}), grid=2),
    # asynchronous copies
    Program("a copy is waited for", ASYNC + "WAIT bar.sync 0;" + exchange(0),
            {"WAIT": "cp.async.wait_group 0;"}, {"WAIT": ""}, rule="in-flight"),
    Program("a copy is waited for by its number", ASYNC + "cp.async.wait_group NEWEST; bar.sync 0;" + exchange(32),
            {"NEWEST": "0"}, {"NEWEST": "1"}, rule="in-flight"),
    Program("who copied tells the others", ASYNC + "cp.async.wait_all; SYNC" + exchange(32),
            {"SYNC": "bar.sync 0;"}, {"SYNC": ""}, rule="race undefined"),
]
