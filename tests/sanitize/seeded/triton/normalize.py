"""Divide a vector by its largest element: one maximum for each block, then a division."""

import torch
import triton
import triton.language as tl


@triton.jit
def block_max_kernel(x_ptr, max_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(max_ptr + tl.program_id(0), tl.max(x, axis=0))


@triton.jit
def divide_kernel(x_ptr, max_ptr, out_ptr, n, blocks, BLOCK: tl.constexpr, BLOCKS: tl.constexpr):
    b = tl.arange(0, BLOCKS)
    maxima = tl.load(max_ptr + b, mask=b < blocks, other=0.0)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x / tl.max(maxima, axis=0), mask=offsets < n)


def main():
    torch.manual_seed(0)
    n, block = 1400, 256
    x = torch.rand(n, device="cuda") + 1.0
    blocks = triton.cdiv(n, block)
    maxima = torch.empty(triton.next_power_of_2(blocks), device="cuda")
    out = torch.empty_like(x)
    block_max_kernel[(blocks,)](x, maxima, n, BLOCK=block)
    divide_kernel[(blocks,)](x, maxima, out, n, blocks, BLOCK=block, BLOCKS=maxima.numel())
    torch.testing.assert_close(out, x / x.max())


if __name__ == "__main__":
    main()
