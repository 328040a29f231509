"""Double a matrix whose tiles are loaded by bulk copies that complete on an mbarrier (Gluon, sm_90)."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

# its name before Triton 3.9
async_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared


@gluon.jit
def double_kernel(x_desc, out_ptr, cols, ROWS: gl.constexpr, COLS: gl.constexpr, BYTES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(x_desc.dtype, [ROWS, COLS], x_desc.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    r = gl.program_id(0) * ROWS
    c = gl.program_id(1) * COLS
    mbarrier.expect(bar, BYTES)
    async_load(x_desc, [r, c], bar, tile)
    mbarrier.wait(bar, 0)
    x = tile.load(layout)
    rows = r + gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    columns = c + gl.arange(0, COLS, layout=gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * cols + columns[None, :], x + x)
    mbarrier.invalidate(bar)


def main():
    torch.manual_seed(0)
    x = torch.randn(64, 128, dtype=torch.float16, device="cuda")
    out = torch.empty_like(x)
    rows, cols = 32, 64
    shared = gl.NVMMASharedLayout.get_default_for([rows, cols], gl.float16)
    x_desc = TensorDescriptor.from_tensor(x, [rows, cols], shared)
    count = rows * cols * x.element_size()
    double_kernel[(2, 2)](x_desc, out, 128, ROWS=rows, COLS=cols, BYTES=count)
    torch.testing.assert_close(out, x + x, rtol=0, atol=0)


if __name__ == "__main__":
    main()
