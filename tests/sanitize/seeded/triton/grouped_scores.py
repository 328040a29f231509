"""Scores of grouped-query attention: several heads of queries share a head of keys."""

import torch
import triton
import triton.language as tl


@triton.jit
def scores_kernel(q_ptr, k_ptr, out_ptr, length, group, D: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(0)
    kv_head = head // group
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head * D + d)
    for start in range(0, length, BLOCK):
        n = start + tl.arange(0, BLOCK)
        k = tl.load(k_ptr + (kv_head * length + n[:, None]) * D + d[None, :], mask=n[:, None] < length, other=0.0)
        tl.store(out_ptr + head * length + n, tl.sum(k * q[None, :], axis=1), mask=n < length)


def main():
    torch.manual_seed(0)
    heads, group, length, size = 8, 4, 50, 32
    q = torch.randn(heads, size, device="cuda")
    k = torch.randn(heads // group, length, size, device="cuda")
    out = torch.empty(heads, length, device="cuda")
    scores_kernel[(heads,)](q, k, out, length, group, D=size, BLOCK=32)
    expected = (k.repeat_interleave(group, dim=0) * q[:, None, :]).sum(2)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
