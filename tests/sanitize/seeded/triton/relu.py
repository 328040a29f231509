"""ReLU of a vector whose length is a multiple of the block."""

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0))


def main():
    torch.manual_seed(0)
    block = 256
    x = torch.randn(8 * block, device="cuda")
    out = torch.empty_like(x)
    relu_kernel[(x.numel() // block,)](x, out, BLOCK=block)
    torch.testing.assert_close(out, torch.relu(x), rtol=0, atol=0)


if __name__ == "__main__":
    main()
