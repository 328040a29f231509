"""Scale each column of a matrix by a factor of its own."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_columns_kernel(x_ptr, scale_ptr, out_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    offsets = r[:, None] * cols + c[None, :]
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + offsets, mask=mask)
    scale = tl.load(scale_ptr + c, mask=c < cols)
    tl.store(out_ptr + offsets, x * scale[None, :], mask=mask)


def main():
    torch.manual_seed(0)
    x = torch.randn(40, 100, device="cuda")
    scale = torch.randn(100, device="cuda")
    out = torch.empty_like(x)
    rows, cols = x.shape
    grid = (triton.cdiv(rows, 32), triton.cdiv(cols, 64))
    scale_columns_kernel[grid](x, scale, out, rows, cols, BLOCK_R=32, BLOCK_C=64)
    torch.testing.assert_close(out, x * scale)


if __name__ == "__main__":
    main()
