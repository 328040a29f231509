"""Sums of rows, whose tiles are loaded by a tensor descriptor."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def descriptor_sum_kernel(x_desc, out_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    r = tl.program_id(0) * BLOCK_R
    acc = tl.zeros((BLOCK_R,), dtype=tl.float32)
    for c in range(0, cols, BLOCK_C):
        tile = x_desc.load([r, c])
        acc += tl.sum(tile, axis=1)
    i = r + tl.arange(0, BLOCK_R)
    tl.store(out_ptr + i, acc, mask=i < rows)


def main():
    torch.manual_seed(0)
    rows, cols = 40, 128
    x = torch.randn(rows, cols, device="cuda")
    out = torch.empty(rows, device="cuda")
    blocks = triton.cdiv(rows, 16)
    x_desc = TensorDescriptor(x, shape=[rows, cols], strides=[cols, 1], block_shape=[16, 32])
    descriptor_sum_kernel[(blocks,)](x_desc, out, rows, cols, BLOCK_R=16, BLOCK_C=32)
    torch.testing.assert_close(out, x.sum(1), rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
