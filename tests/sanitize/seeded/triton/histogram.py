"""Histogram of numbers from 0 to 1, both included."""

import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(x_ptr, count_ptr, n, bins, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0.0)
    b = tl.minimum((x * bins).to(tl.int32), bins - 1)
    tl.atomic_add(count_ptr + b, 1, mask=mask, sem="relaxed")


def main():
    torch.manual_seed(0)
    x = torch.randint(0, 17, (1000,), device="cuda") / 16
    count = torch.zeros(8, dtype=torch.int32, device="cuda")
    histogram_kernel[(triton.cdiv(1000, 256),)](x, count, 1000, 8, BLOCK=256)
    expected = torch.histc(x, bins=8, min=0.0, max=1.0)
    torch.testing.assert_close(count.float(), expected, rtol=0, atol=0)


if __name__ == "__main__":
    main()
