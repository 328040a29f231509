"""Kernels for Hopper as PTX text, right as they are: a product of matrices by roles, and two copies through rings.

Every instruction that a mutation changes has a line of its own.
"""

from __future__ import annotations

import numpy as np

from tests.simulator.small_kernels import aligned
from tests.simulator.tma_programs import tensor_map
from tilejit.simulator import run

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
STAGES, BM, BN, BK = 2, 128, 128, 64
A_BYTES, B_BYTES = BM * BK * 2, BK * BN * 2
A_AT, B_AT = 0, STAGES * A_BYTES
OUT_AT = B_AT + STAGES * B_BYTES
OUT_BYTES = 64 * 64 * 2
FULL_AT = OUT_AT + 2 * OUT_BYTES
EMPTY_AT = FULL_AT + 8 * STAGES
SHARED = EMPTY_AT + 8 * STAGES

K_MAJOR = 1 << 62 | (1024 >> 4) << 32 | 1 << 16
MN_MAJOR = 1 << 62 | (1024 >> 4) << 32 | (64 * 128 >> 4) << 16


def wait(label: str, address: str, number: str) -> str:
    return (
        f"{label}: {{ .reg .b32 parity; and.b32 parity, {number}, 1;\n"
        f"mbarrier.try_wait.parity.shared::cta.b64 %p31, [{address}], parity; }}\n@!%p31 bra {label};\n"
    )


PRODUCT_WAIT = wait("ARRIVED", "%r17", "%r19")
PRODUCT_ACQUIRE = wait("ACQUIRE", f"%r17+{EMPTY_AT - FULL_AT}", "%r19")


def registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"%d{first + i}" for i in range(count)) + "}"


def product_text() -> str:
    """C = A · B: a producer warp, two consumer warpgroups of 64 × 128, a ring of stages, results by TMA store."""
    boxes = "".join(
        f"add.u32 %r21, %r20, {B_AT - A_AT + 64 * 128 * j};\nadd.u32 %r22, %r12, {64 * j};\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%r21], [%x2, {%r22, %r15}], [%r17]; // B\n"
        for j in range(BN // 64)
    )
    steps = "".join(
        f"add.u64 %x11, %x8, {2 * k};\nadd.u64 %x12, %x9, {128 * k};\n"
        f"wgmma.mma_async.sync.aligned.m64n{BN}k16.f32.f16.f16 {registers(0, BN // 2)}, %x11, %x12, "
        f"{'%p5' if k == 0 else '1'}, 1, 1, 0, 1;\n"
        for k in range(BK // 16)
    )
    halves = "".join(half_text(h) for h in range(BN // 64))
    return f"""{HEADER}.visible .entry product(.param .align 64 .b8 map_a[128], .param .align 64 .b8 map_b[128],
.param .align 64 .b8 map_c[128], .param .u32 columns, .param .u32 tiles, .param .u32 steps)
.maxntid 384
.minnctapersm 1
{{
.reg .pred %p<32>; .reg .b32 %r<64>; .reg .b64 %x<32>; .reg .f32 %d<{BN // 2}>;
.shared .align 1024 .b8 sm[{SHARED}];
mov.u32 %r1, %tid.x;
mov.u32 %r2, sm;
mov.b64 %x1, map_a; cvta.param.u64 %x1, %x1; mov.b64 %x2, map_b; cvta.param.u64 %x2, %x2;
mov.b64 %x3, map_c; cvta.param.u64 %x3, %x3;
ld.param.u32 %r3, [columns]; ld.param.u32 %r4, [tiles]; ld.param.u32 %r5, [steps];
shr.u32 %r6, %r1, 7; and.b32 %r7, %r1, 127;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
{"".join(f'''mbarrier.init.shared::cta.b64 [%r2+{FULL_AT + 8 * i}], 1;
mbarrier.init.shared::cta.b64 [%r2+{EMPTY_AT + 8 * i}], 2;
''' for i in range(STAGES))}fence.mbarrier_init.release.cluster;
READY:
bar.sync 0; // entry
mov.u32 %r10, 0;
mov.u32 %r11, %ctaid.x; mov.u32 %r9, %nctaid.x;
setp.ne.u32 %p2, %r6, 0;
@%p2 bra CONSUMER;
setmaxnreg.dec.sync.aligned.u32 24;
setp.ne.u32 %p3, %r1, 0;
@%p3 bra DONE;
PRODUCE:
setp.ge.u32 %p4, %r11, %r4;
@%p4 bra DONE;
div.u32 %r13, %r11, %r3; rem.u32 %r12, %r11, %r3; mul.lo.u32 %r13, %r13, {BM}; mul.lo.u32 %r12, %r12, {BN};
mov.u32 %r14, 0;
LOADS:
rem.u32 %r16, %r10, {STAGES}; shl.b32 %r18, %r16, 3; add.u32 %r17, %r2, %r18; add.u32 %r17, %r17, {FULL_AT};
div.u32 %r19, %r10, {STAGES}; sub.u32 %r19, %r19, 1; setp.lt.s32 %p6, %r19, 0;
@%p6 bra FREE;
{PRODUCT_ACQUIRE}FREE:
mul.lo.u32 %r15, %r14, {BK};
mad.lo.u32 %r20, %r16, {A_BYTES}, %r2;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
[%r20], [%x1, {{%r15, %r13}}], [%r17]; // A
mad.lo.u32 %r20, %r16, {B_BYTES}, %r2;
{boxes}mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r17], {A_BYTES + B_BYTES};
add.u32 %r10, %r10, 1; add.u32 %r14, %r14, 1; setp.lt.u32 %p7, %r14, %r5;
@%p7 bra LOADS;
add.u32 %r11, %r11, %r9;
bra PRODUCE;
CONSUMER:
setmaxnreg.inc.sync.aligned.u32 240;
sub.u32 %r8, %r6, 1;
setp.ne.u32 %p3, %r7, 0;
mad.lo.u32 %r40, %r8, {OUT_BYTES}, %r2; add.u32 %r40, %r40, {OUT_AT};
TILE:
setp.ge.u32 %p4, %r11, %r4;
@%p4 bra END;
div.u32 %r13, %r11, %r3; rem.u32 %r12, %r11, %r3; mul.lo.u32 %r13, %r13, {BM}; mul.lo.u32 %r12, %r12, {BN};
mad.lo.u32 %r13, %r8, 64, %r13;
mov.u32 %r14, 0;
{"".join(f"mov.f32 %d{i}, 0f00000000; " for i in range(BN // 2))}
STEPS:
rem.u32 %r16, %r10, {STAGES}; shl.b32 %r18, %r16, 3; add.u32 %r17, %r2, %r18; add.u32 %r17, %r17, {FULL_AT};
div.u32 %r19, %r10, {STAGES};
{PRODUCT_WAIT}mad.lo.u32 %r20, %r16, {A_BYTES}, %r2; mad.lo.u32 %r20, %r8, {64 * 128}, %r20;
bfe.u32 %r21, %r20, 4, 14; cvt.u64.u32 %x8, %r21; or.b64 %x8, %x8, {K_MAJOR}; // descriptor of A
mad.lo.u32 %r20, %r16, {B_BYTES}, %r2; add.u32 %r20, %r20, {B_AT};
bfe.u32 %r21, %r20, 4, 14; cvt.u64.u32 %x9, %r21; or.b64 %x9, %x9, {MN_MAJOR}; // descriptor of B
setp.ne.u32 %p5, %r14, 0;
wgmma.fence.sync.aligned;
{steps}wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 1; // one
setp.eq.u32 %p8, %r14, 0; or.pred %p8, %p8, %p3;
@%p8 bra KEPT;
sub.u32 %r21, %r10, 1; rem.u32 %r21, %r21, {STAGES}; shl.b32 %r21, %r21, 3; add.u32 %r21, %r21, %r2;
mbarrier.arrive.shared::cta.b64 _, [%r21+{EMPTY_AT}]; // before
KEPT:
add.u32 %r10, %r10, 1; add.u32 %r14, %r14, 1; setp.lt.u32 %p7, %r14, %r5;
@%p7 bra STEPS;
wgmma.wait_group.sync.aligned 0; // all
@%p3 bra RELEASED;
mbarrier.arrive.shared::cta.b64 _, [%r17+{EMPTY_AT - FULL_AT}]; // last
RELEASED:
{halves}add.u32 %r11, %r11, %r9;
bra TILE;
END:
@%p3 bra DONE;
cp.async.bulk.wait_group.read 0; // exit
DONE:
ret;
}}
"""


def half_text(h: int) -> str:
    """64 columns of a result to shared memory, from there by TMA. A row of 128 bytes for each row of the tile."""
    lines = [
        f"@%p3 bra FREE{h};\ncp.async.bulk.wait_group.read 0; // half {h}\nFREE{h}:\n"
        f"add.u32 %r41, %r8, 1;\nbar.sync %r41, 128; // free {h}\n"
        # row 16·warp + 8·i + lane/4 of the tile; the chunk of a row is changed by the row mod 8, which is lane/4
        "and.b32 %r42, %r1, 31; shr.u32 %r43, %r42, 2; shr.u32 %r44, %r7, 5; mad.lo.u32 %r45, %r44, 16, %r43;\n"
        "mad.lo.u32 %r46, %r45, 128, %r40; and.b32 %r47, %r42, 3; shl.b32 %r47, %r47, 2;\n"
    ]
    for c in range(8):
        for i in range(2):
            d = 4 * (8 * h + c) + 2 * i
            lines.append(
                f"xor.b32 %r48, %r43, {c}; shl.b32 %r48, %r48, 4; add.u32 %r48, %r48, %r46; add.u32 %r48, %r48, %r47;\n"
                f"cvt.rn.f16x2.f32 %r49, %d{d + 1}, %d{d};\nst.shared.b32 [%r48+{1024 * i}], %r49; // out {h}\n"
            )
    lines.append(
        f"fence.proxy.async.shared::cta; // out {h}\nbar.sync %r41, 128; // written {h}\n@%p3 bra STORED{h};\n"
        f"add.u32 %r50, %r12, {64 * h};\n"
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%x3, {%r50, %r13}], [%r40];\n"
        f"cp.async.bulk.commit_group;\nSTORED{h}:\n"
    )
    return "".join(lines)


PRODUCT = product_text()


class Maps:
    """What a launch's maps may differ by: boxes and swizzles, of A, B and C."""

    def __init__(self, boxes=((64, 128), (64, 64), (64, 64)), swizzles=("128B",) * 3) -> None:
        self.boxes = boxes
        self.swizzles = swizzles


def multiply(text: str = PRODUCT, m=256, n=256, k=256, grid=2, maps: Maps | None = None, **options):
    """(result, what it should be) of a launch."""
    maps = maps or Maps()
    rng = np.random.default_rng(m + n + k)
    a, b = (aligned(rng.integers(-3, 4, shape).astype(np.float16)) for shape in ((m, k), (k, n)))
    c = aligned(np.zeros((m, n), np.float16))
    arrays = zip((a, b, c), maps.boxes, maps.swizzles, "abc", strict=True)
    args = [tensor_map(x, box, swizzle, name) for x, box, swizzle, name in arrays]
    rows, columns = -(-m // BM), -(-n // BN)
    sizes = [np.uint32(columns), np.uint32(rows * columns), np.uint32(-(-k // BK))]
    run(text, "product", (grid,), (384,), [*args, *sizes], **options)
    return c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)


ROWS, WIDTH = 8, 64
BOX_BYTES = ROWS * WIDTH * 2
RING_OUT = 2 * BOX_BYTES
RING_FULL = RING_OUT + BOX_BYTES
RING_WAIT = wait("ARRIVED", f"%r17+{RING_FULL}", "%r19")
RING_ACQUIRE = wait("ACQUIRE", f"%r17+{RING_FULL + 16}", "%r19")


def ring_text() -> str:
    """Rows go through a ring of two stages: TMA load, doubled by a warp, TMA store.

    Warp 0 loads; warp 1 reads a stage by ordinary loads, releases it, writes what it stores.
    """
    return f"""{HEADER}.visible .entry ring(.param .align 64 .b8 map_a[128], .param .align 64 .b8 map_c[128],
.param .u32 count)
{{
.reg .pred %p<32>; .reg .b32 %r<64>; .reg .b64 %x<32>; .reg .b16 %h<8>;
.shared .align 1024 .b8 sm[{RING_FULL + 32}];
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; ld.param.u32 %r5, [count];
mov.b64 %x1, map_a; cvta.param.u64 %x1, %x1; mov.b64 %x3, map_c; cvta.param.u64 %x3, %x3;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
{"".join(f"mbarrier.init.shared::cta.b64 [%r2+{RING_FULL + 8 * i}], 1;" + chr(10) for i in range(4))}\
fence.mbarrier_init.release.cluster;
READY:
bar.sync 0; // entry
mov.u32 %r10, 0;
setp.ge.u32 %p2, %r1, 32;
@%p2 bra CONSUMER;
@%p1 bra DONE;
LOADS:
and.b32 %r16, %r10, 1; mad.lo.u32 %r17, %r16, 8, %r2; shr.u32 %r19, %r10, 1; sub.u32 %r19, %r19, 1;
setp.lt.s32 %p6, %r19, 0;
@%p6 bra FREE;
{RING_ACQUIRE}FREE:
add.u32 %r17, %r17, {RING_FULL}; mad.lo.u32 %r20, %r16, {BOX_BYTES}, %r2; mul.lo.u32 %r15, %r10, {ROWS};
mov.u32 %r14, 0;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r20], [%x1, {{%r14, %r15}}], [%r17];
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r17], {BOX_BYTES};
add.u32 %r10, %r10, 1; setp.lt.u32 %p7, %r10, %r5;
@%p7 bra LOADS;
bra DONE;
CONSUMER:
and.b32 %r3, %r1, 31; setp.ne.u32 %p3, %r3, 0;
STEPS:
and.b32 %r16, %r10, 1; mad.lo.u32 %r17, %r16, 8, %r2; shr.u32 %r19, %r10, 1;
{RING_WAIT}mad.lo.u32 %r20, %r16, {BOX_BYTES}, %r2; shl.b32 %r21, %r3, 4;
add.u32 %r20, %r20, %r21;
ld.shared.v4.b32 {{%r30, %r31, %r32, %r33}}, [%r20];
ld.shared.v4.b32 {{%r34, %r35, %r36, %r37}}, [%r20+512];
fence.proxy.async.shared::cta; // read
bar.warp.sync -1; // read
@%p3 bra KEPT;
mbarrier.arrive.shared::cta.b64 _, [%r17+{RING_FULL + 16}]; // release
cp.async.bulk.wait_group.read 0; // free
KEPT:
bar.warp.sync -1; // free
{"".join(f"add.rn.f16x2 %r{30 + i}, %r{30 + i}, %r{30 + i}; " for i in range(8))}
add.u32 %r22, %r2, {RING_OUT}; add.u32 %r22, %r22, %r21;
st.shared.v4.b32 [%r22], {{%r30, %r31, %r32, %r33}}; // out
st.shared.v4.b32 [%r22+512], {{%r34, %r35, %r36, %r37}}; // out
fence.proxy.async.shared::cta; // out
bar.warp.sync -1; // out
@%p3 bra NEXT;
add.u32 %r23, %r2, {RING_OUT}; mul.lo.u32 %r15, %r10, {ROWS}; mov.u32 %r14, 0;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%x3, {{%r14, %r15}}], [%r23];
cp.async.bulk.commit_group;
NEXT:
add.u32 %r10, %r10, 1; setp.lt.u32 %p7, %r10, %r5;
@%p7 bra STEPS;
@%p3 bra DONE;
cp.async.bulk.wait_group.read 0; // exit
DONE:
ret;
}}
"""


RING = ring_text()


def of_boxes(text: str, entry: str, threads: int, boxes: int, **options):
    """(what was loaded, what was stored) of a launch over `boxes` boxes, the last one clipped."""
    a = aligned(np.random.default_rng(boxes).integers(-9, 9, (boxes * ROWS - 3, WIDTH)).astype(np.float16))
    c = aligned(np.zeros_like(a))
    maps = [tensor_map(x, (WIDTH, ROWS), "none", name) for x, name in ((a, "a"), (c, "c"))]
    run(text, entry, (1,), (threads,), [*maps, np.uint32(boxes)], **options)
    return a, c


def double(text: str = RING, boxes=5, **options):
    """(result, what it should be)."""
    a, c = of_boxes(text, "ring", 64, boxes, **options)
    return c, a * 2


GROUP = 128
RELAY_BARRIERS = 2 * BOX_BYTES


def relay_text() -> str:
    """Rows go through a ring of two stages: TMA load, and TMA store of the same stage.

    Warp 0 loads. A group of four warps waits for a stage; its first thread stores it, and releases it when it is read.
    """
    return f"""{HEADER}.visible .entry relay(.param .align 64 .b8 map_a[128], .param .align 64 .b8 map_c[128],
.param .u32 count)
{{
.reg .pred %p<32>; .reg .b32 %r<64>; .reg .b64 %x<32>;
.shared .align 1024 .b8 sm[{RELAY_BARRIERS + 32}];
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; ld.param.u32 %r5, [count];
mov.b64 %x1, map_a; cvta.param.u64 %x1, %x1; mov.b64 %x3, map_c; cvta.param.u64 %x3, %x3;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
{"".join(f"mbarrier.init.shared::cta.b64 [%r2+{RELAY_BARRIERS + 8 * i}], 1;" + chr(10) for i in range(4))}\
fence.mbarrier_init.release.cluster;
READY:
bar.sync 0; // entry
mov.u32 %r10, 0; mov.u32 %r14, 0;
setp.ge.u32 %p2, %r1, 32;
@%p2 bra CONSUMER;
@%p1 bra DONE;
LOADS:
and.b32 %r16, %r10, 1; mad.lo.u32 %r17, %r16, 8, %r2; shr.u32 %r19, %r10, 1; sub.u32 %r19, %r19, 1;
setp.lt.s32 %p6, %r19, 0;
@%p6 bra FREE;
{wait("ACQUIRE", f"%r17+{RELAY_BARRIERS + 16}", "%r19")}FREE:
add.u32 %r17, %r17, {RELAY_BARRIERS}; mad.lo.u32 %r20, %r16, {BOX_BYTES}, %r2; mul.lo.u32 %r15, %r10, {ROWS};
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r20], [%x1, {{%r14, %r15}}], [%r17];
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r17], {BOX_BYTES};
add.u32 %r10, %r10, 1; setp.lt.u32 %p7, %r10, %r5;
@%p7 bra LOADS;
bra DONE;
CONSUMER:
setp.ne.u32 %p3, %r1, 32;
STEPS:
and.b32 %r16, %r10, 1; mad.lo.u32 %r17, %r16, 8, %r2; shr.u32 %r19, %r10, 1;
{wait("ARRIVED", f"%r17+{RELAY_BARRIERS}", "%r19")}bar.sync 1, {GROUP}; // waited
@%p3 bra NEXT;
mad.lo.u32 %r20, %r16, {BOX_BYTES}, %r2; mul.lo.u32 %r15, %r10, {ROWS};
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%x3, {{%r14, %r15}}], [%r20];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0; // stored
mbarrier.arrive.shared::cta.b64 _, [%r17+{RELAY_BARRIERS + 16}]; // release
NEXT:
add.u32 %r10, %r10, 1; setp.lt.u32 %p7, %r10, %r5;
@%p7 bra STEPS;
DONE:
ret;
}}
"""


RELAY = relay_text()


def copy(text: str = RELAY, boxes=5, **options):
    """(result, what it should be)."""
    a, c = of_boxes(text, "relay", 32 + GROUP, boxes, **options)
    return c, a
