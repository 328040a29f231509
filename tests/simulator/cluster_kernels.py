"""Kernels of clusters, as PTX text: rings whose stages all CTAs of a cluster fill together, by multicast.

In each CTA thread 0 copies: of each step the share of its rank, to all CTAs. Warp 1 consumes a step and releases its
stage in all of them. Shared memory holds the stages, then `full` and `empty` with a barrier per stage each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from tests.simulator.ring_kernels import HEADER, wait
from tests.simulator.small_kernels import aligned, pointer
from tests.simulator.tma_programs import tensor_map
from tilejit.simulator import Share, run
from tilejit.simulator.checks.report import Report

BLOCK = 64
#: a share of a step: rows of 128 bytes
ROWS, COLUMNS = 8, 32
SHARE = 4 * ROWS * COLUMNS
ENTRY = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
EXIT = "barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n"
FENCE = "fence.mbarrier_init.release.cluster;\n"
READS_DONE = "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;\n"


def module(body: str, params: str, cluster: tuple[int, int, int] | None, size: int = 4096) -> str:
    directive = "" if cluster is None else f".reqnctapercluster {', '.join(map(str, cluster))}\n"
    return (
        f"{HEADER}.visible .entry k({params})\n{directive}{{\n.reg .pred %p<32>;\n.reg .b16 %h<8>;\n"
        f".reg .b32 %r<64>;\n.reg .b64 %x<32>;\n.shared .align 1024 .b8 sm[{size}];\n{body}\n}}\n"
    )


@dataclass(frozen=True)
class ClusterRing:
    """ordinary: consumers read stages by loads, not by copies; then arrivals and waits are of the cluster's scope."""

    cluster: tuple[int, int, int] = (2, 1, 1)
    stages: int = 2
    steps: int = 7
    ordinary: bool = False

    @property
    def ranks(self) -> int:
        return prod(self.cluster)

    @property
    def stage(self) -> int:
        """Bytes of a stage."""
        return self.ranks * SHARE

    @property
    def full(self) -> int:
        return self.stages * self.stage

    @property
    def empty(self) -> int:
        return self.full + 8 * self.stages

    def text(self) -> str:
        consume = self.loads() if self.ordinary else self.copies()
        body = self.setup() + self.produce() + consume + f"DONE:\n{EXIT}ret;"
        return module(body, ".param .align 64 .b8 map[128], .param .u64 out", self.cluster, self.empty + 64)

    def setup(self) -> str:
        """%r5: rank; %r6: cluster; %r7: CTA, cluster by cluster; %x3: what it writes."""
        inits = "".join(
            f"mbarrier.init.shared::cta.b64 [%r2+{self.full + 8 * s}], 1;\n"
            f"mbarrier.init.shared::cta.b64 [%r2+{self.empty + 8 * s}], {self.ranks};\n"
            for s in range(self.stages)
        )
        return f"""
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.u32 %r5, %cluster_ctarank;
mov.u32 %r6, %clusterid.y; mov.u32 %r7, %nclusterid.x; mul.lo.u32 %r6, %r6, %r7; mov.u32 %r7, %clusterid.x;
add.u32 %r6, %r6, %r7; mad.lo.u32 %r7, %r6, {self.ranks}, %r5;
mov.b64 %x1, map; cvta.param.u64 %x2, %x1; ld.param.u64 %x3, [out];
mul.lo.u32 %r8, %r7, {self.steps * self.stage}; cvt.u64.u32 %x4, %r8; add.u64 %x3, %x3, %x4;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
{inits}{FENCE}READY: bar.sync 0;
{ENTRY}mov.u32 %r10, 0;
setp.ge.u32 %p2, %r1, 32; @%p2 bra CONSUMER;
@%p1 bra DONE;
"""

    def step(self) -> str:
        """%r11: stage; %r12: round; %r13, %r14: its full and empty barrier; %r15: where it begins."""
        return f"""rem.u32 %r11, %r10, {self.stages}; div.u32 %r12, %r10, {self.stages};
shl.b32 %r13, %r11, 3; add.u32 %r13, %r13, %r2; add.u32 %r14, %r13, {self.empty}; add.u32 %r13, %r13, {self.full};
mad.lo.u32 %r15, %r11, {self.stage}, %r2;
"""

    def wait(self, name: str, address: str, number: str) -> str:
        text = wait(name, address, number)
        return text.replace(".parity.shared", ".parity.acquire.cluster.shared") if self.ordinary else text

    def produce(self) -> str:
        return f"""
mov.u16 %h1, {(1 << self.ranks) - 1};
PRODUCE: setp.ge.u32 %p3, %r10, {self.steps}; @%p3 bra DONE;
{self.step()}
add.s32 %r16, %r12, -1; setp.lt.s32 %p4, %r16, 0; @%p4 bra FREE;
{self.wait("ACQUIRE", "%r14", "%r16")}FREE:
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], {self.stage};
mad.lo.u32 %r20, %r6, {self.steps}, %r10; mad.lo.u32 %r20, %r20, {self.ranks}, %r5; mul.lo.u32 %r20, %r20, {ROWS};
mad.lo.u32 %r21, %r5, {SHARE}, %r15; mov.u32 %r22, 0;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r21], \
[%x2, {{%r22, %r20}}], [%r13], %h1;
add.u32 %r10, %r10, 1; bra PRODUCE;
"""

    def release(self) -> str:
        """%r14: the barrier; to each rank, also the own one."""
        scope = ".release.cluster" if self.ordinary else ""
        return "".join(
            f"mapa.shared::cluster.u32 %r30, %r14, {rank}; mbarrier.arrive{scope}.shared::cluster.b64 _, [%r30];\n"
            for rank in range(self.ranks)
        )

    def copies(self) -> str:
        """One thread copies each stage to `out`."""
        return f"""
CONSUMER: setp.ne.u32 %p5, %r1, 32; @%p5 bra DONE;
CONSUME: setp.ge.u32 %p3, %r10, {self.steps}; @%p3 bra STORED;
{self.step()}{self.wait("WAIT", "%r13", "%r12")}
cp.async.bulk.global.shared::cta.bulk_group [%x3], [%r15], {self.stage};
{READS_DONE}{self.release()}
add.u64 %x3, %x3, {self.stage}; add.u32 %r10, %r10, 1; bra CONSUME;
STORED: cp.async.bulk.wait_group 0;
"""

    def loads(self) -> str:
        """Each lane copies its column of each stage to `out`."""
        moves = "".join(
            f"ld.shared.u32 %r31, [%r23+{128 * row}]; st.global.u32 [%x5+{128 * row}], %r31;\n"
            for row in range(self.ranks * ROWS)
        )
        return f"""
CONSUMER: and.b32 %r4, %r1, 31; shl.b32 %r4, %r4, 2;
CONSUME: setp.ge.u32 %p3, %r10, {self.steps}; @%p3 bra DONE;
{self.step()}{self.wait("WAIT", "%r13", "%r12")}
add.u32 %r23, %r15, %r4; cvt.u64.u32 %x5, %r4; add.u64 %x5, %x5, %x3;
{moves}fence.proxy.async;
bar.warp.sync -1;
elect.sync _|%p6, -1;
@!%p6 bra NEXT;
{self.release()}NEXT:
add.u64 %x3, %x3, {self.stage}; add.u32 %r10, %r10, 1; bra CONSUME;
"""


def play(ring: ClusterRing, text: str, clusters: tuple[int, int, int] = (2, 1, 1), **options: object) -> Report:
    """Run a ring in a grid of clusters; every CTA must get all that its cluster loads."""
    count = prod(clusters)
    draw = np.random.default_rng(ring.steps)
    src = aligned(draw.integers(0, 1000, (count * ring.steps * ring.ranks * ROWS, COLUMNS), np.uint32))
    out = aligned(np.zeros((count, ring.ranks, ring.steps, ring.ranks * ROWS, COLUMNS), np.uint32))
    grid = tuple(a * b for a, b in zip(clusters, ring.cluster, strict=True))
    names = [("stages", "sm", 0, ring.full), ("full", "sm", ring.full, 8 * ring.stages),
             ("empty", "sm", ring.empty, 8 * ring.stages)]
    share = Share((0, ROWS), SHARE)
    args = [tensor_map(src, (COLUMNS, ROWS), name="src", share=share), pointer(out, "out")]
    report = run(text, "k", grid, (BLOCK,), args, shared_map=names, **options)
    wanted = np.broadcast_to(src.reshape(count, 1, *out.shape[2:]), out.shape)
    assert np.array_equal(out, wanted)
    return report
