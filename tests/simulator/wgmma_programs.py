"""Programs that multiply by wgmma, and longhand oracles of where their operands lie.

An operand's bytes are placed in shared memory by the host's tables: `place` says, element by element, where the PTX ISA
puts one of an atom layout. The kernel copies them there, fences, multiplies and stores every accumulator by its thread.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.simulator.small_kernels import aligned, pointer
from tilejit.simulator import run

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
#: bytes of an atom's row, and its code in a descriptor
MODES = {"none": (16, 0), "128B": (128, 1), "64B": (64, 2), "32B": (32, 3)}
TYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8,
}
SHARED = 1 << 16


def place(mode, mn, k, size, row_blocks, transposed):
    """Byte offset of element (mn, k) of an operand; row_blocks: bytes from one column block to the next.

    K-major: rows of M or N, whose columns fall into blocks of an atom's width. MN-major: rows of K.
    """
    width = MODES[mode][0]
    row, column = (k, mn) if transposed else (mn, k)
    block, inside = divmod(column * size, width)
    at = block * row_blocks + row * width + inside
    bits = {"128B": 3, "64B": 2, "32B": 1, "none": 0}[mode]
    return at ^ ((at >> 7 & ((1 << bits) - 1)) << 4)


def descriptor(start, leading, stride, mode):
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | MODES[mode][1] << 62


def layout(mode, rows, transposed):
    """(leading, stride) byte offsets, with column blocks of `rows` rows one after the other."""
    width = MODES[mode][0]
    if mode == "none" and transposed:
        return 8 * width, rows * width
    return rows * width, 8 * width


def small(shape, element, seed):
    """Integers that every sum of products holds exactly."""
    low, high = (0, 4) if element == "u8" else (-3, 4)
    return np.random.default_rng(seed).integers(low, high, shape).astype(TYPES[element])


class Product:
    """One gemm of 64 × n × k by K-steps of 32 bytes. a: M × K, b: N × K."""

    def __init__(self, a_type, b_type, d_type, n, k, a_mode="128B", b_mode="128B", trans=(False, False), *, seed=0,
                 a_registers=False):
        self.a_type, self.b_type, self.d_type, self.n, self.k = a_type, b_type, d_type, n, k
        self.modes, self.trans, self.a_registers = (a_mode, b_mode), trans, a_registers
        self.size = np.dtype(TYPES[a_type]).itemsize
        self.a, self.b = small((64, k), a_type, seed), small((n, k), b_type, seed + 1)
        self.c = np.random.default_rng(seed + 2).integers(-9, 9, (64, n))
        self.signs = (1, 1)

    @property
    def starts(self):
        """Where A and B begin in shared memory."""
        return 0, SHARED // 2

    def shared(self):
        """The bytes of both operands in shared memory."""
        memory = np.zeros(SHARED, np.uint8)
        for start, matrix, mode, trans in zip(self.starts, (self.a, self.b), self.modes, self.trans, strict=True):
            raw = matrix.view(np.uint8).reshape(*matrix.shape, self.size)
            rows = matrix.shape[1] if trans else matrix.shape[0]
            for mn in range(matrix.shape[0]):
                for k in range(matrix.shape[1]):
                    at = start + place(mode, mn, k, self.size, rows * MODES[mode][0], trans)
                    memory[at : at + self.size] = raw[mn, k]
        return memory

    def operand(self, which, step):
        """The descriptor of A or B for a K-step, less the address of shared memory."""
        mode, trans = self.modes[which], self.trans[which]
        extent = 64 if which == 0 else self.n
        width = MODES[mode][0]
        rows = self.k if trans else extent
        leading, stride = layout(mode, rows, trans)
        if trans:
            start = 16 * step * width
        else:
            block, inside = divmod(32 * step, width)
            start = block * rows * width + inside
        return descriptor(self.starts[which] + start, leading & 0x3FFFF, stride, mode)

    @property
    def text(self):
        steps = self.k * self.size // 32
        half = self.d_type == "f16"
        count = self.n // 4 if half else self.n // 2
        accumulators = ", ".join(f"%d{i}" for i in range(count))
        kind = "f32" if self.d_type == "f32" else "b32"
        integer = self.d_type == "s32"
        majors = ""
        if self.a_type in ("f16", "bf16"):
            flags = (self.trans[1],) if self.a_registers else self.trans
            majors = "".join(f", {int(x)}" for x in flags)
        signs = "" if integer else f", {self.signs[0]}, {self.signs[1]}"
        depth = 32 // self.size
        lines = []
        for step in range(steps):
            a = "{" + ", ".join(f"%a{4 * step + i}" for i in range(4)) + "}"
            if not self.a_registers:
                lines.append(f"add.u64 %x20, %x11, {self.operand(0, step)};")
                a = "%x20"
            lines.append(f"add.u64 %x21, %x11, {self.operand(1, step)};")
            lines.append(
                f"wgmma.mma_async.sync.aligned.m64n{self.n}k{depth}.{self.d_type}.{self.a_type}.{self.b_type} "
                f"{{{accumulators}}}, {a}, %x21, {'1' if step else '%p2'}{signs}{majors};"
            )
        loads = "\n".join(f"ld.global.b32 %d{i}, [%x4+{512 * i}];" for i in range(count))
        stores = "\n".join(f"st.global.b32 [%x5+{512 * i}], %d{i};" for i in range(count))
        fragments = "\n".join(f"ld.global.b32 %a{i}, [%x6+{512 * i}];" for i in range(4 * steps))
        products = "\n".join(lines)
        return f"""{HEADER}
.extern .shared .align 1024 .b8 sm[];
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u32 p4) {{
.reg .pred %p<9>; .reg .b32 %r<32>; .reg .b64 %x<32>; .reg .{kind} %d<{count}>; .reg .b32 %a<{4 * steps + 4}>;
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; ld.param.u64 %x1, [p0]; mov.u32 %r3, %r1;
FILL: mul.wide.u32 %x2, %r3, 16; add.u64 %x2, %x2, %x1; mad.lo.u32 %r4, %r3, 16, %r2;
ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%x2]; st.shared.v4.b32 [%r4], {{%r5, %r6, %r7, %r8}};
add.u32 %r3, %r3, 128; setp.lt.u32 %p1, %r3, {SHARED // 16}; @%p1 bra FILL;
fence.proxy.async.shared::cta; bar.sync 0;
ld.param.u64 %x4, [p1]; mad.wide.u32 %x4, %r1, 4, %x4; ld.param.u64 %x5, [p2]; mad.wide.u32 %x5, %r1, 4, %x5;
ld.param.u64 %x6, [p3]; mad.wide.u32 %x6, %r1, 4, %x6; ld.param.u32 %r9, [p4]; setp.ne.u32 %p2, %r9, 0;
{loads}
{fragments if self.a_registers else ""}
shr.u32 %r10, %r2, 4; cvt.u64.u32 %x11, %r10;
wgmma.fence.sync.aligned;
{products}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{stores}
ret;
}}
"""

    def accumulator(self, register, thread):
        """Row and first column of what a register holds, from the ISA's figures: in whole words."""
        warp, lane = divmod(thread, 32)
        if self.d_type == "f16":
            return 16 * warp + lane // 4 + 8 * (register % 2), 8 * (register // 2) + lane % 4 * 2
        return 16 * warp + lane // 4 + 8 * (register // 2 % 2), 8 * (register // 4) + lane % 4 * 2 + register % 2

    def scattered(self, matrix):
        """A matrix as registers × threads of words."""
        if self.d_type == "f16":
            words = np.zeros((self.n // 4, 128, 2), np.float16)
            for register in range(self.n // 4):
                for thread in range(128):
                    row, column = self.accumulator(register, thread)
                    words[register, thread] = matrix[row, column : column + 2]
            return words.view(np.uint32)[..., 0]
        dtype = np.float32 if self.d_type == "f32" else np.int32
        words = np.zeros((self.n // 2, 128), dtype)
        matrix = matrix.astype(np.int64).astype(dtype) if self.d_type == "s32" else matrix
        for register in range(self.n // 2):
            for thread in range(128):
                row, column = self.accumulator(register, thread)
                words[register, thread] = matrix[row, column]
        return words.view(np.uint32)

    def fragments(self):
        """A as registers × threads, four a K-step."""
        e = 4 // self.size
        words = np.zeros((4 * (self.k * self.size // 32), 128, e), TYPES[self.a_type])
        for register in range(words.shape[0]):
            step, r = divmod(register, 4)
            for thread in range(128):
                warp, lane = divmod(thread, 32)
                row = 16 * warp + lane // 4 + 8 * (r % 2)
                column = step * 32 // self.size + (lane % 4 + 4 * (r // 2)) * e
                words[register, thread] = self.a[row, column : column + e]
        return words.view(np.uint32).reshape(-1, 128)

    def expected(self, adds=True):
        a, b = self.a.astype(np.float64), self.b.astype(np.float64)
        return self.signs[0] * self.signs[1] * (a @ b.T) + (self.c if adds else 0.0)

    def run(self, adds=True, text=None, **options):
        """The result as registers × threads, and what it should be."""
        out = np.zeros((self.n // (4 if self.d_type == "f16" else 2), 128), np.uint32)
        arrays = [aligned(self.shared()), self.scattered(self.c), out, self.fragments()]
        args = [*(pointer(x, f"p{i}") for i, x in enumerate(arrays)), np.uint32(adds)]
        run(text or self.text, "k", (1,), (128,), args, dynamic_shared_bytes=SHARED, **options)
        return out, self.scattered(self.expected(adds))
