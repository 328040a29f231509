"""Matrix product whose inner dimension is split over programs, which add up their parts."""

import torch
import triton
import triton.language as tl


@triton.jit
def split_k_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for _ in range(0, K, BLOCK * SPLIT):
        a = tl.load(a_ptr + m[:, None] * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + n[None, :])
        acc = tl.dot(a, b, acc)
        k += BLOCK * SPLIT
    tl.atomic_add(c_ptr + m[:, None] * N + n[None, :], acc, sem="relaxed")


def main():
    torch.manual_seed(0)
    M, N, K, block, split = 32, 64, 256, 32, 4
    a = torch.randn(M, K, dtype=torch.float16, device="cuda")
    b = torch.randn(K, N, dtype=torch.float16, device="cuda")
    c = torch.zeros(M, N, dtype=torch.float32, device="cuda")
    split_k_kernel[(M // block, N // block, split)](a, b, c, M, N, K, BLOCK=block, SPLIT=split)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
