"""Sums of blocks of each row, which asynchronous copies bring into a ring of stages (Gluon)."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

# its name before Triton 3.9
async_load = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared


@gluon.jit
def block_sum_kernel(x_ptr, out_ptr, blocks, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    ring = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK], shared)
    i = gl.arange(0, BLOCK, layout=layout)
    x_ptrs = x_ptr + gl.program_id(0) * blocks * BLOCK + i
    for b in gl.static_range(2):
        async_load(ring.index(b), x_ptrs + b * BLOCK)
        async_copy.commit_group()
    acc = gl.zeros([BLOCK], gl.float32, layout)
    for b in range(blocks):
        async_load(ring.index((b + 2) % STAGES), x_ptrs + (b + 2) * BLOCK, mask=b + 2 < blocks)
        async_copy.commit_group()
        async_copy.wait_group(2)
        acc += ring.index(b % STAGES).load(layout)
    gl.store(out_ptr + gl.program_id(0) * BLOCK + i, acc)


def main():
    torch.manual_seed(0)
    rows, blocks, block = 3, 7, 512
    x = torch.randn(rows, blocks, block, device="cuda")
    out = torch.empty(rows, block, device="cuda")
    block_sum_kernel[(rows,)](x, out, blocks, BLOCK=block, STAGES=3)
    torch.testing.assert_close(out, x.sum(1), rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
