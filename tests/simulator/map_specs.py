"""Copies of boxes by any maps, drawn by their number: what they leave, longhand, and a program that carries them out.

The program loads a box into shared memory, shows that memory, and stores the box into a second tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import prod

import numpy as np

from tests.simulator.small_kernels import aligned, pointer
from tilejit.simulator import TensorMap, run

__all__ = ["MEMORY", "Spec", "drawn", "program"]

Array = np.ndarray

#: bytes of an atom's row, and how many bits of an address its swizzle changes
WIDTH = {"none": 0, "128B": 128, "64B": 64, "32B": 32}
BITS = {"none": 0, "128B": 3, "64B": 2, "32B": 1}
#: elements of a map by their bytes, as NumPy has them and as the driver calls them
ELEMENTS = {1: "uint8", 2: "float16", 4: "float32", 8: "float64"}

#: bytes of both tensors' memory, and of the shared memory that is shown
MEMORY, SHOWN = 1 << 18, 1 << 15
#: what shared memory holds before, and the second tensor
BEFORE, OTHER = 0xEE, 7
_MOST_BOX = 256


@dataclass(frozen=True)
class Spec:
    """A box of a tensor and where it is put, innermost dimension first.

    dims, strides: of the tensor, strides in bytes from its second dimension on. box: its extents. at, to: where it
    begins in this tensor, and in the second one, of `target` elements, which is packed as far as maps allow.
    """

    size: int
    swizzle: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    at: tuple[int, ...]
    target: tuple[int, ...]
    to: tuple[int, ...]

    @property
    def packed(self) -> tuple[int, ...]:
        """Strides of the second tensor."""
        strides, step = [], self.target[0] * self.size
        for extent in self.target[1:]:
            step = -(-step // 16) * 16
            strides.append(step)
            step *= extent
        return tuple(strides)

    @property
    def box_bytes(self) -> int:
        return prod(self.box) * self.size

    @cached_property
    def _inside(self) -> Array:
        """Each element's place in the box, innermost dimension first."""
        return np.indices(self.box[::-1]).reshape(len(self.box), -1)[::-1]

    @cached_property
    def _shared(self) -> Array:
        """The first byte of each element in shared memory."""
        pitch = WIDTH[self.swizzle] or self.box[0] * self.size
        row = np.zeros(self._inside.shape[1], np.int64)
        for index, extent in zip(self._inside[:0:-1], self.box[:0:-1], strict=True):
            row = row * extent + index
        address = row * pitch + self._inside[0] * self.size
        return address ^ (address >> 7 & ((1 << BITS[self.swizzle]) - 1)) << 4

    def _places(self, at: tuple[int, ...], dims: tuple[int, ...], strides: tuple[int, ...]) -> tuple[Array, Array]:
        """Which elements of the box lie in a tensor, and the first byte of each that does."""
        where = self._inside.astype(np.int64) + np.array(at)[:, None]
        lies = ((where >= 0) & (where < np.array(dims)[:, None])).all(0)
        return lies, (where[:, lies] * np.array([self.size, *strides])[:, None]).sum(0)

    def left(self, memory: Array) -> tuple[Array, Array]:
        """(shared memory, the second tensor's memory) afterwards; memory: of the first."""
        shown, other = np.full(SHOWN, BEFORE, np.uint8), np.full(MEMORY, OTHER, np.uint8)
        each = np.arange(self.size)
        shown[self._shared[:, None] + each] = 0
        lies, places = self._places(self.at, self.dims, self.strides)
        shown[self._shared[lies, None] + each] = memory[places[:, None] + each]
        # what is stored is whole chunks of 16 bytes, as an H100 has it
        unit = 16 // self.size
        lies, places = self._places(self.to, (-(-self.target[0] // unit) * unit, *self.target[1:]), self.packed)
        other[places[:, None] + each] = shown[self._shared[lies, None] + each]
        return shown, other

    def simulated(self, memory: Array) -> tuple[Array, Array]:
        """The same by the simulator."""
        shown, other = aligned(np.zeros(SHOWN, np.uint8)), aligned(np.full(MEMORY, OTHER, np.uint8))
        sides = ((pointer(memory, "a"), self.dims, self.strides), (pointer(other, "b"), self.target, self.packed))
        maps = [TensorMap(*side, self.box, self.size, ELEMENTS[self.size], self.swizzle) for side in sides]
        numbers = [np.uint32(self.box_bytes), *(np.int32(c) for c in (*self.at, *self.to))]
        # what no copy writes is shown, too
        run(program(len(self.box)), "k", (1,), (32,), [*maps, pointer(shown, "out"), *numbers], checks=False)
        return shown, other


def drawn(number: int) -> Spec:
    """The copy of a number: of any rank, type and swizzle, over every edge."""
    draw = np.random.default_rng(number)
    size, rank, swizzle = int(draw.choice([1, 2, 4, 8])), int(draw.integers(2, 6)), str(draw.choice(list(WIDTH)))
    unit = 16 // size
    widest = min(WIDTH[swizzle] or 512, _MOST_BOX * size) // 16
    chunks = widest if swizzle != "none" and draw.random() < 0.8 else int(draw.integers(1, widest + 1))
    room = SHOWN // 2 // (WIDTH[swizzle] or 16 * chunks)
    box = [chunks * unit]
    for _ in range(rank - 1):
        box.append(int(draw.integers(1, min(_MOST_BOX, max(1, room)) + 1) if draw.random() < 0.4 else
                       min(room, int(draw.integers(1, 5)))))
        room //= box[-1]
    dims, strides, step = [int(draw.integers(1, 2 * box[0] + 9))], [], 0
    step = dims[0] * size
    for extent in box[1:]:
        most = max(1, min(extent + 4, MEMORY // 4 // max(step, 16)))
        dims.append(int(draw.integers(1, most + 1)))
        step = (-(-step // 16) + int(draw.choice([0, 0, 1, 2]))) * 16
        # rows that overlap, or are all one
        strides.append(step if draw.random() < 0.9 else int(draw.choice([0, 16])))
        step *= dims[-1]
    at, to = [], []
    for d, (extent, dim) in enumerate(zip(box, dims, strict=True)):
        grain = unit if d == 0 else 1
        far = draw.random() < 0.02
        first = int(draw.choice([-(1 << 31), (1 << 31) - 1])) if far else int(draw.integers(-extent - 1, dim + 2))
        at.append(first // grain * grain if draw.random() < 0.8 else 0)
        to.append(int(draw.integers(0, dim + 2)) // grain * grain if draw.random() < 0.6 else 0)
    return Spec(size, swizzle, tuple(dims), tuple(strides), tuple(box), tuple(at), tuple(dims), tuple(to))


@cache
def program(rank: int) -> str:
    """The PTX for boxes of a rank."""
    names = [f"{side}{d}" for side in "pq" for d in range(rank)]
    params = ", ".join(f".param .u32 {name}" for name in names)
    loads = " ".join(f"ld.param.u32 %{name}, [{name}];" for name in names)
    registers = f".reg .b32 {', '.join(f'%{name}' for name in names)};"
    at, to = (", ".join(f"%{side}{d}" for d in range(rank)) for side in "pq")
    return f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128],
.param .u64 out, .param .u32 bytes, {params})
.maxntid 32
{{
.reg .pred %g<8>; .reg .b32 %r<32>; .reg .b64 %x<16>; {registers}
.shared .align 1024 .b8 sm[{SHOWN + 8}];
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; add.u32 %r3, %r2, {SHOWN}; setp.ne.u32 %g1, %r1, 0;
@%g1 bra READY; mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster; READY:
mov.b64 %x1, a; cvta.param.u64 %x1, %x1; mov.b64 %x2, b; cvta.param.u64 %x2, %x2;
ld.param.u64 %x3, [out]; ld.param.u32 %r10, [bytes]; {loads}
mov.u32 %r6, {BEFORE * 0x01010101}; mov.u32 %r4, %r1;
FILL: mad.lo.u32 %r5, %r4, 16, %r2; st.shared.v4.b32 [%r5], {{%r6, %r6, %r6, %r6}};
add.u32 %r4, %r4, 32; setp.lt.u32 %g3, %r4, {SHOWN // 16}; @%g3 bra FILL;
fence.proxy.async.shared::cta; bar.sync 0;
@%g1 bra WAIT;
cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%x1, {{{at}}}], [%r3];
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], %r10;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %g2, [%r3], 0; @!%g2 bra WAIT;
mov.u32 %r4, %r1;
COPY: mad.lo.u32 %r5, %r4, 16, %r2; ld.shared.v4.b32 {{%r6, %r7, %r8, %r9}}, [%r5];
mul.wide.u32 %x4, %r4, 16; add.u64 %x4, %x4, %x3; st.global.v4.b32 [%x4], {{%r6, %r7, %r8, %r9}};
add.u32 %r4, %r4, 32; setp.lt.u32 %g3, %r4, {SHOWN // 16}; @%g3 bra COPY;
@%g1 bra DONE;
cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%x2, {{{to}}}], [%r2];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
DONE: ret;
}}
"""
