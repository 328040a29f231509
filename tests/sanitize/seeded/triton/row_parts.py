"""Sums of rows: one part for each block of columns, then one sum over the parts."""

import torch
import triton
import triton.language as tl


@triton.jit
def parts_kernel(x_ptr, part_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    block = tl.program_id(1)
    c = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0)
    tl.store(part_ptr + row * tl.num_programs(1) + block, tl.sum(x, axis=0))


def main():
    torch.manual_seed(0)
    x = torch.randint(-100, 100, (6, 500), dtype=torch.int32, device="cuda")
    blocks = triton.cdiv(500, 128)
    parts = torch.zeros(6, blocks, dtype=torch.int32, device="cuda")
    parts_kernel[(6, blocks)](x, parts, 500, BLOCK=128)
    torch.testing.assert_close(parts.sum(1), x.sum(1))


if __name__ == "__main__":
    main()
