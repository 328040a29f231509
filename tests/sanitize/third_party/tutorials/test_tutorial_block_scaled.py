"""Products of numbers in microscaling formats: 32 numbers in a row share a scale, a power of 2.

Fewer than eight bits a number: fp4 (e2m1, two in a byte) and fp8 (e5m2). Targets without such tensor cores multiply
bfloat16, which holds each of these numbers, scaled, exactly.
"""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")

FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


@triton.jit
def scaled_kernel(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, N, K,
    A_FORMAT: tl.constexpr, B_FORMAT: tl.constexpr, A_PACK: tl.constexpr, B_PACK: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    a_depth, b_depth = tl.arange(0, BLOCK_K // A_PACK), tl.arange(0, BLOCK_K // B_PACK)
    scales = tl.arange(0, BLOCK_K // 32)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * (K // A_PACK) + (k // A_PACK + a_depth)[None, :])
        b = tl.load(b_ptr + columns[None, :] * (K // B_PACK) + (k // B_PACK + b_depth)[:, None])
        a_scale = tl.load(a_scale_ptr + rows[:, None] * (K // 32) + (k // 32 + scales)[None, :])
        b_scale = tl.load(b_scale_ptr + columns[:, None] * (K // 32) + (k // 32 + scales)[None, :])
        acc = tl.dot_scaled(a, a_scale, A_FORMAT, b, b_scale, B_FORMAT, acc)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


def numbers(kind, rows, k):
    """Return random numbers of a format as it stores them, and their values."""
    if kind == "e2m1":
        codes = torch.randint(16, (rows, k))
        values = torch.where(codes < 8, 1.0, -1.0) * FP4[codes % 8]
        return (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8).to(DEVICE), values
    stored = torch.randn(rows, k).to(torch.float8_e5m2)
    return stored.to(DEVICE), stored.float()


def scales(rows, k):
    """Return exponents from -3 to 3 with a bias of 127, and the scale of each number."""
    exponents = torch.randint(-3, 4, (rows, k // 32))
    return (exponents + 127).to(torch.uint8).to(DEVICE), (2.0**exponents).repeat_interleave(32, dim=1)


@pytest.mark.parametrize(
    ("a_kind", "b_kind"), [("e2m1", "e2m1"), ("e5m2", "e5m2"), ("e5m2", "e2m1")], ids=["fp4", "fp8", "mixed"]
)
def test_scaled_product(a_kind, b_kind):
    """fp4's products are multiples of 2^-8, their sums here below 2^15: float32 is exact; fp8's span more bits."""
    torch.manual_seed(3)
    m, n, k = 64, 32, 128
    (a, a_values), (b, b_values) = numbers(a_kind, m, k), numbers(b_kind, n, k)
    (a_scale, a_factor), (b_scale, b_factor) = scales(m, k), scales(n, k)
    c = torch.empty(m, n).to(DEVICE)
    scaled_kernel[(m // 32, n // 32)](
        a, a_scale, b, b_scale, c, n, k, A_FORMAT=a_kind, B_FORMAT=b_kind,
        A_PACK=2 if a_kind == "e2m1" else 1, B_PACK=2 if b_kind == "e2m1" else 1,
        BLOCK_M=32, BLOCK_N=32, BLOCK_K=64, num_warps=4,
    )
    expected = (a_values * a_factor).double() @ (b_values * b_factor).double().T
    if a_kind == b_kind == "e2m1":
        assert torch.equal(c.cpu().double(), expected)
    else:
        # a sum of 128 terms in float32, the largest near 2^10: tensor cores may align all to it, and lose 2^-20 of it
        torch.testing.assert_close(c.cpu(), expected.float(), rtol=2**-18, atol=2**-10)
