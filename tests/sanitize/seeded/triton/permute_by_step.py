"""Permute a vector by a step that has no common divisor with its length."""

import torch
import triton
import triton.language as tl


@triton.jit
def permute_kernel(x_ptr, out_ptr, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    source = (i.to(tl.int64) * step) % n
    tl.store(out_ptr + i, tl.load(x_ptr + source, mask=mask), mask=mask)


def main():
    torch.manual_seed(0)
    n, step = 5000, 1000003
    x = torch.randn(n, device="cuda")
    out = torch.empty_like(x)
    permute_kernel[(triton.cdiv(n, 512),)](x, out, n, step, BLOCK=512)
    expected = x[(torch.arange(n, device="cuda") * step) % n]
    torch.testing.assert_close(out, expected, rtol=0, atol=0)


if __name__ == "__main__":
    main()
