"""Kernels in which warps hand each other the stages of a ring, as PTX text: what rings of mbarriers compile to.

A producer copies a row of `src` into its part of a stage, a step at a time; each consumer reads the whole stage and
writes the sums to `out`. Shared memory holds the buffers, then `full` and `empty` with a barrier per stage each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.simulator.small_kernels import Pointer, pointer
from tilejit.simulator import run
from tilejit.simulator.checks.report import Report

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<32>;\n.reg .b32 %r<64>;\n.reg .b64 %x<32>;\n"
    ".shared .align 1024 .b8 sm[{size}];\n"
)
WARP = 32
BARRIERS = 3072
#: what the elected lane does
ELECTED = "elect.sync _|%p6, -1;\n@%p6 "


def wait(name: str, address: str, number: str, result: str = "%p31") -> str:
    """Wait for phase `number` of the barrier at `address`. name: of the loop's label."""
    return (
        f"{name}: {{ .reg .b32 p; and.b32 p, {number}, 1; "
        f"mbarrier.try_wait.parity.shared::cta.b64 {result}, [{address}], p; }}\n"
        f"@!{result} bra {name};\n"
    )


def module(body: str, params: str = ".param .u64 out", size: int = 4096, directives: str = "") -> str:
    return f"{HEADER}.visible .entry k({params})\n{directives}\n{{\n{REGISTERS.format(size=size)}{body}\n}}\n"


def launch(text: str, *arrays: np.ndarray | Pointer, block: int, grid: int = 1, **options: object) -> Report:
    args = [a if isinstance(a, Pointer) else pointer(a, f"p{i}") for i, a in enumerate(arrays)]
    return run(text, "k", (grid,), (block,), args, **options)


@dataclass(frozen=True)
class Ring:
    """A kernel of `producers` warps and `consumers` of `width` warps each, of which the first arrives for all.

    steps: of each consumer; those of CTA c are `uneven * c` fewer.
    """

    stages: int = 2
    steps: int = 7
    producers: int = 1
    consumers: int = 2
    width: int = 1
    uneven: int = 0

    @property
    def warps(self) -> int:
        return self.producers + self.consumers * self.width

    @property
    def block(self) -> int:
        return WARP * self.warps

    @property
    def row(self) -> int:
        """Elements of a stage."""
        return WARP * self.producers

    @property
    def empty(self) -> int:
        return BARRIERS + 8 * self.stages

    @property
    def shared_map(self) -> list[tuple[str, str, int, int]]:
        size = 8 * self.stages
        buffers = ("buffer", "sm", 0, self.stages * self.row * 4)
        return [buffers, ("ring.full", "sm", BARRIERS, size), ("ring.empty", "sm", self.empty, size)]

    def arrays(self, grid: int = 1) -> tuple[np.ndarray, np.ndarray]:
        src = np.random.default_rng(self.steps).integers(0, 1000, (grid, self.steps, self.row), np.uint32)
        return src, np.zeros((grid, self.consumers, self.steps, WARP * self.width), "u4")

    def expected(self, src: np.ndarray) -> np.ndarray:
        """What `out` holds: lane l of warp w sums the elements of its lane in all parts, and adds w."""
        grid = src.shape[0]
        sums = src.reshape(grid, 1, self.steps, self.producers, WARP).sum(axis=3, dtype=np.uint32)
        warps = np.arange(self.width, dtype="u4")[:, None]
        each = (sums[..., None, :] + warps).reshape(grid, 1, self.steps, -1)
        out = np.broadcast_to(each, (grid, self.consumers, *each.shape[2:])).copy()
        for cta in range(grid):
            out[cta, :, self.steps - self.uneven * cta :] = 0 if self.uneven * cta else out[cta, :, self.steps :]
        return out

    def text(self) -> str:
        return module(
            self.setup() + self.produce() + self.consume(), ".param .u64 src, .param .u64 out",
        )

    def setup(self) -> str:
        inits = "".join(
            f"mbarrier.init.shared::cta.b64 [%r2+{BARRIERS + 8 * s}], {self.producers};\n"
            f"mbarrier.init.shared::cta.b64 [%r2+{self.empty + 8 * s}], {self.consumers};\n"
            for s in range(self.stages)
        )
        return f"""
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.u32 %r5, %ctaid.x; ld.param.u64 %x1, [src]; ld.param.u64 %x2, [out];
shr.u32 %r3, %r1, 5; and.b32 %r4, %r1, 31;
mul.lo.u32 %r6, %r5, {self.uneven}; sub.u32 %r7, {self.steps}, %r6;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
{inits}fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
mov.u32 %r10, 0;
setp.ge.u32 %p2, %r3, {self.producers}; @%p2 bra CONSUMER;
"""

    def step(self) -> str:
        """%r11: stage; %r12: round; %r13, %r14: its full and empty barrier; %r15: its buffer."""
        return f"""rem.u32 %r11, %r10, {self.stages}; div.u32 %r12, %r10, {self.stages};
shl.b32 %r13, %r11, 3; add.u32 %r13, %r13, %r2; add.u32 %r14, %r13, {self.empty}; add.u32 %r13, %r13, {BARRIERS};
mad.lo.u32 %r15, %r11, {4 * self.row}, %r2;
"""

    def produce(self) -> str:
        return f"""
PRODUCE: setp.ge.u32 %p3, %r10, %r7; @%p3 bra DONE;
{self.step()}
add.s32 %r16, %r12, -1; setp.lt.s32 %p4, %r16, 0; @%p4 bra FREE;
{wait("ACQUIRE", "%r14", "%r16")}FREE:
mad.lo.u32 %r20, %r3, 32, %r4;
mad.lo.u32 %r21, %r5, {self.steps}, %r10; mad.lo.u32 %r21, %r21, {self.row}, %r20;
mad.wide.u32 %x3, %r21, 4, %x1; ld.global.u32 %r22, [%x3];
mad.lo.u32 %r23, %r20, 4, %r15; st.shared.u32 [%r23], %r22;
bar.warp.sync -1; // commit
{ELECTED}mbarrier.arrive.shared::cta.b64 _, [%r13];
add.u32 %r10, %r10, 1; bra PRODUCE;
"""

    def consume(self) -> str:
        loads = "".join(
            f"ld.shared.u32 %r30, [%r23+{128 * p}]; add.u32 %r31, %r31, %r30;\n" for p in range(self.producers)
        )
        sync = "bar.warp.sync -1; // release\n" if self.width == 1 else (
            f"add.u32 %r40, %r24, 1; bar.sync %r40, {32 * self.width}; // release\n"
            "setp.ne.u32 %p7, %r25, 0; @%p7 bra NEXT;\n"
        )
        return f"""
CONSUMER: sub.u32 %r24, %r3, {self.producers};
rem.u32 %r25, %r24, {self.width}; div.u32 %r24, %r24, {self.width};
CONSUME: setp.ge.u32 %p3, %r10, %r7; @%p3 bra DONE;
{self.step()}
{wait("WAIT", "%r13", "%r12")}
mad.lo.u32 %r23, %r4, 4, %r15; mov.u32 %r31, %r25;
{loads}
mad.lo.u32 %r26, %r5, {self.consumers}, %r24; mad.lo.u32 %r26, %r26, {self.steps}, %r10;
mad.lo.u32 %r26, %r26, {self.width}, %r25; mad.lo.u32 %r26, %r26, 32, %r4;
mad.wide.u32 %x3, %r26, 4, %x2; st.global.u32 [%x3], %r31;
{sync}{ELECTED}mbarrier.arrive.shared::cta.b64 _, [%r14];
NEXT: add.u32 %r10, %r10, 1; bra CONSUME;
DONE: ret;
"""
