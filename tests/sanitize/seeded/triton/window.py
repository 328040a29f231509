"""Copy a window of a signal."""

import torch
import triton
import triton.language as tl


@triton.jit
def window_kernel(x_ptr, out_ptr, start, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (start + i))
    tl.store(out_ptr + i, x)


def main():
    torch.manual_seed(0)
    x = torch.randn(5000, device="cuda")
    out = torch.empty(2048, device="cuda")
    start = 1003
    window_kernel[(4,)](x, out, start, BLOCK=512)
    torch.testing.assert_close(out, x[start:start + 2048], rtol=0, atol=0)


if __name__ == "__main__":
    main()
