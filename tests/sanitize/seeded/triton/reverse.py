"""Reverse blocks of a vector through a workspace in global memory."""

import torch
import triton
import triton.language as tl


@triton.jit
def reverse_kernel(x_ptr, work_ptr, out_ptr, BLOCK: tl.constexpr):
    base = tl.program_id(0) * BLOCK
    i = tl.arange(0, BLOCK)
    work = work_ptr + base
    x = tl.load(x_ptr + base + i)
    tl.store(work + i, x)
    tl.debug_barrier()
    back = tl.load(work + BLOCK - 1 - i)
    tl.store(out_ptr + base + i, back)


def main():
    torch.manual_seed(0)
    x = torch.randn(4 * 512, device="cuda")
    work = torch.empty_like(x)
    out = torch.empty_like(x)
    reverse_kernel[(4,)](x, work, out, BLOCK=512)
    expected = x.view(4, 512).flip(1).flatten()
    torch.testing.assert_close(out, expected, rtol=0, atol=0)


if __name__ == "__main__":
    main()
