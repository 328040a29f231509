"""Dot product of rows, in which the next block is loaded before the present one is used."""

import torch
import triton
import triton.language as tl


@triton.jit
def dot_kernel(x_ptr, y_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x_ptrs = x_ptr + row * cols + i
    y_ptrs = y_ptr + row * cols + i
    x = tl.load(x_ptrs)
    y = tl.load(y_ptrs)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        more = start + BLOCK + i < cols
        next_x = tl.load(x_ptrs + start + BLOCK, mask=more, other=0.0)
        next_y = tl.load(y_ptrs + start + BLOCK, mask=more, other=0.0)
        acc += x * y
        x = next_x
        y = next_y
    tl.store(out_ptr + row, tl.sum(acc, axis=0))


def main():
    torch.manual_seed(0)
    x = torch.randn(6, 512, device="cuda")
    y = torch.randn(6, 512, device="cuda")
    out = torch.empty(6, device="cuda")
    dot_kernel[(6,)](x, y, out, 512, BLOCK=128)
    torch.testing.assert_close(out, (x * y).sum(1), rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
