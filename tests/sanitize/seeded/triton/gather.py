"""Gather elements of a vector by an index list."""

import torch
import triton
import triton.language as tl


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + i)
    x = tl.load(x_ptr + index)
    tl.store(out_ptr + i, x)


def main():
    torch.manual_seed(0)
    x = torch.randn(4097, device="cuda")
    index = 4 * torch.randint(0, 1025, (1024,), dtype=torch.int32, device="cuda")
    index[1000] = 4096
    out = torch.empty(1024, device="cuda")
    gather_kernel[(2,)](x, index, out, BLOCK=512)
    torch.testing.assert_close(out, x[index.long()], rtol=0, atol=0)


if __name__ == "__main__":
    main()
