"""Programs that copy boxes by TMA, one thread each, and longhand oracles of where a box's elements lie."""

from __future__ import annotations

import itertools

import numpy as np

from tests.simulator.small_kernels import aligned, pointer
from tilejit.simulator import TensorMap, run

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
WIDTH = {"none": 0, "128B": 128, "64B": 64, "32B": 32}
BITS = {"none": 0, "128B": 3, "64B": 2, "32B": 1}
SHARED = 1 << 15
BARRIER = SHARED - 64


def tensor_map(array, box, swizzle="none", name="t", **changes):
    """The map of a C-ordered view; box: innermost dimension first."""
    values = {
        "array": pointer(array if array.flags.c_contiguous else array.base, name), "dims": array.shape[::-1],
        "strides": tuple(array.strides[:-1][::-1]), "box": tuple(box), "element_bytes": array.itemsize,
        "element_type": str(array.dtype), "swizzle": swizzle,
    }
    return TensorMap(**{**values, **changes})


def box_bytes(array, box, swizzle, at):
    """What a load of a box leaves in shared memory: (byte → value) for each byte of the box; at: innermost first."""
    size = array.itemsize
    pitch = WIDTH[swizzle] or box[0] * size
    result = {}
    for inside in itertools.product(*(range(n) for n in box[::-1])):
        where = [c + i for c, i in zip(at[::-1], inside, strict=True)]
        real = all(0 <= w < n for w, n in zip(where, array.shape, strict=True))
        element = array[tuple(where)].tobytes() if real else bytes(size)
        row = 0
        for i, n in zip(inside[:-1], box[1:][::-1], strict=True):
            row = row * n + i
        address = row * pitch + inside[-1] * size
        address ^= (address >> 7 & ((1 << BITS[swizzle]) - 1)) << 4
        for b in range(size):
            result[address + b] = element[b]
    return result


START = """
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; add.u32 %r3, %r2, {barrier}; setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY; mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster; READY: bar.sync 0;
mov.b64 %x1, map; cvta.param.u64 %x2, %x1; prefetch.tensormap [%x2]; ld.param.u64 %x3, [out];
{coordinates}
"""
LOAD = """@%p1 bra WAIT;
cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%x2, {{{at}}}], [%r3];
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
"""
OUT = """
mov.u32 %r4, %r1;
COPY: mad.lo.u32 %r5, %r4, 16, %r2; ld.shared.v4.b32 {{%r6, %r7, %r8, %r9}}, [%r5];
mul.wide.u32 %x4, %r4, 16; add.u64 %x4, %x4, %x3; st.global.v4.b32 [%x4], {{%r6, %r7, %r8, %r9}};
add.u32 %r4, %r4, 32; setp.lt.u32 %p3, %r4, {chunks}; @%p3 bra COPY;
"""
IN = """
mov.u32 %r4, %r1;
COPY: mad.lo.u32 %r5, %r4, 16, %r2; mul.wide.u32 %x4, %r4, 16; add.u64 %x4, %x4, %x3;
ld.global.v4.b32 {{%r6, %r7, %r8, %r9}}, [%x4]; st.shared.v4.b32 [%r5], {{%r6, %r7, %r8, %r9}};
add.u32 %r4, %r4, 32; setp.lt.u32 %p3, %r4, {chunks}; @%p3 bra COPY;
fence.proxy.async.shared::cta; bar.sync 0;
"""
STORE = """@%p1 bra DONE;
cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%x2, {{{at}}}], [%r2];
cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
DONE:
"""


def kernel(body, registers=""):
    return (
        f"{HEADER}.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) {{\n"
        ".reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %x<16>;\n"
        f".shared .align 1024 .b8 sm[{SHARED}];\n{registers}\n{body}\nret;\n}}\n"
    )


def filled(text, box, at, size):
    """A program's text with its numbers; size: of an element."""
    coordinates = " ".join(f"mov.b32 %r{40 + i}, {c};" for i, c in enumerate(at))
    return text.format(
        barrier=BARRIER, rank=len(box), coordinates=coordinates, at=", ".join(f"%r{40 + i}" for i in range(len(at))),
        bytes=int(np.prod(box)) * size, chunks=BARRIER // 16,
    )


def load_text(box, at, size):
    return kernel(filled(START + LOAD + OUT, box, at, size))


def store_text(box, at, size):
    return kernel(filled(START + IN + STORE, box, at, size))


def load(array, box, swizzle, at, text=None, **options):
    """The bytes of shared memory that a load of a box leaves."""
    out = aligned(np.zeros(SHARED, np.uint8))
    text = text or load_text(box, at, array.itemsize)
    # what no copy writes is read, and only stored
    options.setdefault("checks", False)
    run(text, "k", (1,), (32,), [tensor_map(array, box, swizzle), pointer(out, "out")], **options)
    return out


def store(array, box, swizzle, at, memory, text=None, **options):
    """Store a box from shared memory that holds these bytes to an array, in place."""
    text = text or store_text(box, at, array.itemsize)
    run(text, "k", (1,), (32,), [tensor_map(array, box, swizzle), pointer(memory, "out")], **options)
