"""Add up a vector by all programs into one number."""

import torch
import triton
import triton.language as tl


@triton.jit
def total_kernel(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0), axis=0)
    tl.atomic_add(total_ptr, part, sem="relaxed")


def total(x):
    out = torch.zeros(1, dtype=torch.int32, device=x.device)
    n = x.numel()
    total_kernel[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)
    return out


def main():
    torch.manual_seed(0)
    x = torch.randint(0, 100, (2000,), dtype=torch.int32, device="cuda")
    assert total(x).item() == x.sum().item()


if __name__ == "__main__":
    main()
