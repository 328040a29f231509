"""Mean of each element and its two neighbours; the first and the last element stay."""

import torch
import triton
import triton.language as tl


@triton.jit
def smooth_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + i - 1, mask=(i > 0) & (i < n), other=0.0)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    right = tl.load(x_ptr + i + 1, mask=i < n - 1, other=0.0)
    inner = (i > 0) & (i < n - 1)
    tl.store(out_ptr + i, tl.where(inner, (left + x + right) / 3.0, x), mask=i < n)


def smooth(x):
    out = torch.empty_like(x)
    smooth_kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
    return out


def main():
    torch.manual_seed(0)
    x = torch.randn(500, device="cuda")
    expected = x.clone()
    expected[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3.0
    torch.testing.assert_close(smooth(x), expected)


if __name__ == "__main__":
    main()
