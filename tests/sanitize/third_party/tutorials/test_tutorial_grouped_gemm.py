"""Products of several pairs of matrices in one launch: tables of addresses and sizes; programs take tiles in turn."""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def grouped_kernel(
    a_table, b_table, c_table, sizes_ptr, strides_ptr, groups,
    PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    tile = tl.program_id(0)
    before = 0  # tiles of the groups before this one
    for group in range(groups):
        m = tl.load(sizes_ptr + group * 3)
        n = tl.load(sizes_ptr + group * 3 + 1)
        k = tl.load(sizes_ptr + group * 3 + 2)
        tiles_n = tl.cdiv(n, BLOCK_N)
        tiles = tl.cdiv(m, BLOCK_M) * tiles_n
        while tile >= before and tile < before + tiles:
            stride_a = tl.load(strides_ptr + group * 3)
            stride_b = tl.load(strides_ptr + group * 3 + 1)
            stride_c = tl.load(strides_ptr + group * 3 + 2)
            a_ptr = tl.load(a_table + group).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(b_table + group).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(c_table + group).to(tl.pointer_type(tl.float16))
            rows = (tile - before) // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            columns = (tile - before) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            depth = tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + rows[:, None] * stride_a + depth[None, :]
            b_ptrs = b_ptr + depth[:, None] * stride_b + columns[None, :]
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for start in range(0, k, BLOCK_K):
                left = k - start
                a = tl.load(a_ptrs, mask=(rows[:, None] < m) & (depth[None, :] < left), other=0.0)
                b = tl.load(b_ptrs, mask=(depth[:, None] < left) & (columns[None, :] < n), other=0.0)
                acc = tl.dot(a, b, acc)
                a_ptrs += BLOCK_K
                b_ptrs += BLOCK_K * stride_b
            c_ptrs = c_ptr + rows[:, None] * stride_c + columns[None, :]
            tl.store(c_ptrs, acc.to(tl.float16), mask=(rows[:, None] < m) & (columns[None, :] < n))
            tile += PROGRAMS
        before += tiles


def grouped_matmul(pairs, programs):
    """Return the products of pairs of matrices with rows that lie close together."""
    results = [torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device) for a, b in pairs]
    triples = [(a, b, c) for (a, b), c in zip(pairs, results, strict=True)]
    tables = [torch.tensor([t[i].data_ptr() for t in triples], device=DEVICE) for i in range(3)]
    sizes = torch.tensor([[a.shape[0], b.shape[1], a.shape[1]] for a, b, _ in triples], dtype=torch.int32)
    strides = torch.tensor([[x.stride(0) for x in t] for t in triples], dtype=torch.int32)
    grouped_kernel[(programs,)](
        *tables, sizes.to(DEVICE), strides.to(DEVICE), len(pairs),
        PROGRAMS=programs, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, num_warps=4,
    )
    return results


@pytest.mark.parametrize("programs", [1, 3, 16])
def test_products_of_several_sizes(programs):
    """float16 keeps 11 bits of a sum in float32; a sum near 0 is off by the sum's own rounding, 2^-20 of its terms."""
    torch.manual_seed(programs)
    sizes = [(64, 32, 64), (17, 50, 40), (1, 33, 8), (40, 40, 96)]
    pairs = [(torch.randn(m, k).half().to(DEVICE), torch.randn(k, n).half().to(DEVICE)) for m, n, k in sizes]
    for (a, b), c in zip(pairs, grouped_matmul(pairs, programs), strict=True):
        torch.testing.assert_close(c, (a.double() @ b.double()).half(), rtol=2**-10, atol=2**-14)
