"""Square a vector, then add up the squares."""

import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * x, mask=mask)


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.store(out_ptr, tl.sum(acc, axis=0))


def main():
    torch.manual_seed(0)
    n, block = 1100, 256
    x = torch.randint(-100, 100, (n,), dtype=torch.int32, device="cuda")
    squares = torch.empty_like(x)
    out = torch.empty(1, dtype=torch.int32, device="cuda")
    square_kernel[(triton.cdiv(n, block),)](x, squares, n, BLOCK=block)
    sum_kernel[(1,)](squares, out, n, BLOCK=block)
    assert out.item() == (x * x).sum().item()


if __name__ == "__main__":
    main()
