"""Gradient of the weight of an RMS norm: each program adds up its rows into a row of its own."""

import torch
import triton
import triton.language as tl


@triton.jit
def weight_grad_kernel(x_ptr, dy_ptr, part_ptr, rows, cols, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < cols
    part_ptrs = part_ptr + pid * cols + c
    for row in range(pid, rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * cols + c, mask=mask, other=0.0)
        dy = tl.load(dy_ptr + row * cols + c, mask=mask, other=0.0)
        scale = tl.rsqrt(tl.sum(x * x, axis=0) / cols + 1e-6)
        part = tl.load(part_ptrs, mask=mask)
        tl.store(part_ptrs, part + dy * x * scale, mask=mask)


def main():
    torch.manual_seed(0)
    rows, cols, programs = 12, 100, 4
    x = torch.randn(rows, cols, device="cuda")
    dy = torch.randn(rows, cols, device="cuda")
    parts = torch.zeros(programs, cols, device="cuda")
    weight_grad_kernel[(programs,)](x, dy, parts, rows, cols, BLOCK=128)
    normed = x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6)
    torch.testing.assert_close(parts.sum(0), (dy * normed).sum(0), rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
