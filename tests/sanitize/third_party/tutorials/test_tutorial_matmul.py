"""A product of matrices in tiles, tiles in groups of rows that share columns in the cache, sizes of tiles tuned."""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")

CONFIGS = [
    triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP": 2}, num_stages=3, num_warps=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP": 4}, num_stages=2, num_warps=4),
    triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64, "GROUP": 1}, num_stages=1, num_warps=2),
]


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    # The tiles of GROUP rows of tiles come one after the other, column by column.
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group, within = pid // (GROUP * tiles_n), pid % (GROUP * tiles_n)
    first = group * GROUP
    height = min(tiles_m - first, GROUP)
    tile_m, tile_n = first + within % height, within // height

    # Rows and columns past the end wrap around: their results aren't stored.
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + depth[None, :] * stride_ak
    b_ptrs = b_ptr + depth[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=depth[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=depth[:, None] < left, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        acc = leaky_relu(acc)

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


def matmul(a, b, activation=""):
    """Return a @ b, with leaky_relu of it if asked for."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    matmul_kernel[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)](
        a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), ACTIVATION=activation
    )
    return c


def normal(*shape, dtype=torch.float16):
    """Return normal numbers."""
    return torch.randn(*shape).to(dtype).to(DEVICE)


@pytest.mark.parametrize("shape", [(64, 64, 64), (100, 72, 40), (33, 130, 70)], ids=str)
def test_product(shape):
    """float16 keeps 11 bits of a sum in float32; a sum near 0 is off by the sum's own rounding, 2^-20 of its terms."""
    m, n, k = shape
    torch.manual_seed(0)
    a, b = normal(m, k), normal(k, n)
    torch.testing.assert_close(matmul(a, b), (a.double() @ b.double()).half(), rtol=2**-10, atol=2**-14)


def test_product_with_activation_of_transposed_matrices():
    torch.manual_seed(1)
    a, b = normal(48, 60).T, normal(70, 48).T
    expected = torch.nn.functional.leaky_relu(a.double() @ b.double())
    torch.testing.assert_close(matmul(a, b, "leaky_relu"), expected.half(), rtol=2**-10, atol=2**-14)


def test_product_in_bfloat16():
    """bfloat16 keeps 8 bits."""
    torch.manual_seed(2)
    a, b = normal(40, 64, dtype=torch.bfloat16), normal(64, 56, dtype=torch.bfloat16)
    torch.testing.assert_close(matmul(a, b), (a.double() @ b.double()).bfloat16(), rtol=2**-7, atol=2**-14)
