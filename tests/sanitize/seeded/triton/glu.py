"""Gated linear unit: the first half of a vector times the sigmoid of the second half."""

import torch
import triton
import triton.language as tl


@triton.jit
def glu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    value = tl.load(x_ptr + i, mask=mask)
    gate = tl.load(x_ptr + n + i, mask=mask)
    tl.store(out_ptr + i, value * tl.sigmoid(gate), mask=mask)


def main():
    torch.manual_seed(0)
    x = torch.randn(1200, device="cuda")
    out = torch.empty(x.numel() // 2, device="cuda")
    n = out.numel()
    glu_kernel[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)
    torch.testing.assert_close(out, torch.nn.functional.glu(x, dim=0))


if __name__ == "__main__":
    main()
