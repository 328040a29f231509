"""Products by any matrix descriptors: the simulator and the hardware read the same elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.simulator.small_kernels import aligned, pointer
from tests.simulator.wgmma_programs import HEADER, MODES, TYPES, descriptor, small
from tilejit.simulator import run

Array = np.ndarray

#: shared memory, from which both factors are read
SHARED = 1 << 15
COLUMNS = 32
#: two descriptors each
PRODUCTS = 5_000
#: type of factors and of sums, instruction's depth, whether A and B have M and N together
FORMS = [
    *((t, "f32", 16, a, b) for t in ("f16", "bf16") for a in (False, True) for b in (False, True)),
    ("tf32", "f32", 8, False, False), ("s8", "s32", 32, False, False), ("e4m3", "f32", 32, False, False),
]


def text(dtype: str, acc: str, depth: int, *majors: bool) -> str:
    """CTA i multiplies by the i-th two descriptors, less the address of shared memory, what all CTAs have there."""
    sums = ", ".join(f"%d{i}" for i in range(COLUMNS // 2))
    flags = "" if acc == "s32" else ", 1, 1"
    flags += "".join(f", {int(m)}" for m in majors) if depth == 16 else ""
    stores = " ".join(f"st.global.b32 [%x4+{512 * i}], %d{i};" for i in range(COLUMNS // 2))
    return f"""{HEADER}
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)
.maxntid 128
{{
.reg .pred %g<8>; .reg .b32 %r<32>; .reg .b64 %x<32>; .reg .{"b32" if acc == "s32" else "f32"} %d<{COLUMNS // 2}>;
.shared .align 1024 .b8 sm[{SHARED}];
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.u32 %r9, %ctaid.x; ld.param.u64 %x1, [p0]; mov.u32 %r3, %r1;
FILL: mul.wide.u32 %x2, %r3, 16; add.u64 %x2, %x2, %x1; mad.lo.u32 %r4, %r3, 16, %r2;
ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%x2]; st.shared.v4.b32 [%r4], {{%r5, %r6, %r7, %r8}};
add.u32 %r3, %r3, 128; setp.lt.u32 %g1, %r3, {SHARED // 16}; @%g1 bra FILL;
fence.proxy.async.shared::cta; bar.sync 0;
ld.param.u64 %x3, [p1]; mad.wide.u32 %x3, %r9, 16, %x3; ld.global.v2.b64 {{%x10, %x11}}, [%x3];
shr.u32 %r10, %r2, 4; cvt.u64.u32 %x12, %r10; add.u64 %x10, %x10, %x12; add.u64 %x11, %x11, %x12;
ld.param.u64 %x4, [p2]; mad.wide.u32 %x4, %r9, {4 * 64 * COLUMNS}, %x4; mad.wide.u32 %x4, %r1, 4, %x4;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n{COLUMNS}k{depth}.{acc}.{dtype}.{dtype} {{{sums}}}, %x10, %x11, 0{flags};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{stores}
ret;
}}
"""


def drawn(draw: np.random.Generator, extent: int, *, is_mn_major: bool) -> int:
    """A descriptor of a factor whose chunks lie inside shared memory. extent: of it along M or N."""
    mode = str(draw.choice(list(MODES)))
    width = MODES[mode][0]
    period = 8 * width if mode != "none" else 16
    groups = extent // 8 - 1
    # how often each stride is taken
    if is_mn_major:
        by_leading, by_stride = (max(extent * 2 // width - 1, 0), 1) if mode != "none" else (1, groups)
    else:
        by_leading, by_stride = (0 if mode != "none" else 1), groups
    room = SHARED - 8 * max(width, 16)
    stride = int(draw.integers(1, max(2, min(room // 2 // max(by_stride, 1), 1 << 18) // period))) * period
    room -= by_stride * stride
    leading = int(draw.integers(1, max(2, min(room // max(by_leading, 1), 1 << 17) // period))) * period
    room -= by_leading * leading
    start = int(draw.integers(0, room // period + 1)) * period
    if mode != "none" and not is_mn_major:
        # a step of K inside the atom
        start += 32 * int(draw.integers(0, width // 32))
    return descriptor(start, leading, stride, mode)


def operands(form: tuple[str, str, int, bool, bool], count: int, seed: int) -> tuple[Array, Array, Array]:
    """Shared memory, descriptors, and room for the sums."""
    dtype, _, _, a, b = form
    draw = np.random.default_rng(seed)
    memory = small((SHARED // np.dtype(TYPES[dtype]).itemsize,), dtype, seed).view(np.uint8)
    pairs = [[drawn(draw, 64, is_mn_major=a), drawn(draw, COLUMNS, is_mn_major=b)] for _ in range(count)]
    sums = np.zeros((count, COLUMNS // 2, 128), np.uint32)
    return aligned(memory), aligned(np.array(pairs, np.uint64)), aligned(sums)


def longhand(form: tuple[str, str, int, bool, bool], memory: Array, a: int, b: int) -> Array:
    """The sums (64, COLUMNS) of one product, chunk by chunk from the figures of the PTX ISA."""
    dtype = np.dtype(TYPES[form[0]])
    per_chunk = 16 // dtype.itemsize
    factors = []
    for bits, extent, is_mn_major in ((a, 64, form[3]), (b, COLUMNS, form[4])):
        start, leading, stride = ((int(bits) >> at & 0x3FFF) << 4 for at in (0, 16, 32))
        width = {0: 0, 1: 128, 2: 64, 3: 32}[int(bits) >> 62]
        changed = {0: 0, 128: 7, 64: 3, 32: 1}[width]
        factor = np.zeros((extent, form[2]), np.float64)
        for mn in range(extent):
            for k in range(form[2]):
                along, across = (mn, k) if is_mn_major else (k, mn)
                chunk, within = divmod(along, per_chunk)
                group, row = divmod(across, 8)
                if width == 0:
                    first, second = (leading, stride) if is_mn_major else (stride, leading)
                    at = row * 16 + group * first + chunk * second
                else:
                    block, inside = divmod(chunk, width // 16)
                    at = row * width + group * stride + block * leading + inside * 16
                address = start + at + within * dtype.itemsize
                address ^= (address >> 7 & changed) << 4
                factor[mn, k] = memory[address : address + dtype.itemsize].view(dtype)[0]
        factors.append(factor)
    return factors[0] @ factors[1].T


def simulated(form: tuple[str, str, int, bool, bool], count: int, seed: int) -> tuple[Array, Array, Array]:
    memory, pairs, sums = operands(form, count, seed)
    arguments = [pointer(x, name) for x, name in zip((memory, pairs, sums), ("p0", "p1", "p2"), strict=True)]
    run(text(*form), "k", (count,), (128,), arguments, checks=False)
    return memory, pairs, sums


def called(form: tuple[str, str, int, bool, bool]) -> str:
    return f"{form[0]}.{'mn' if form[3] else 'k'}.{'mn' if form[4] else 'k'}"


@pytest.mark.parametrize("form", FORMS, ids=called)
def test_the_simulator_reads_what_any_descriptor_says(form: tuple[str, str, int, bool, bool]) -> None:
    memory, pairs, sums = simulated(form, 4, seed=1)
    values = sums.view(np.int32 if form[1] == "s32" else np.float32)
    thread = np.arange(128)
    for (a, b), got in zip(pairs, values, strict=True):
        wanted = longhand(form, memory, a, b)
        for register in range(COLUMNS // 2):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (register // 2 % 2)
            column = 8 * (register // 4) + thread % 4 * 2 + register % 2
            np.testing.assert_array_equal(got[register], wanted[row, column], f"{a:#x} {b:#x}")


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS, ids=called)
def test_the_hardware_reads_the_same(form: tuple[str, str, int, bool, bool], gpu: Callable[..., None]) -> None:
    count = -(-PRODUCTS // len(FORMS))
    memory, pairs, sums = simulated(form, count, seed=2)
    real = np.zeros_like(sums)
    gpu(text(*form), [memory, pairs, real], count, 128)
    wrong = np.flatnonzero((real != sums).any((1, 2)))
    assert not wrong.size, f"{wrong.size} of {count}; {[hex(int(d)) for d in pairs[wrong[0]]]}"
