"""Products with few tiles: programs share the sums along K, by atomic additions or by a workspace and a counter."""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def partial_product(
    a_ptr, b_ptr, rows, columns, M, N, K, first, last,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """Return the sum over k in [first, last) of a tile of a @ b."""
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(first, last, BLOCK_K):
        depth = start + tl.arange(0, BLOCK_K)
        inside = depth < min(last, K)
        a = tl.load(
            a_ptr + rows[:, None] * K + depth[None, :], mask=(rows[:, None] < M) & inside[None, :], other=0.0
        )
        b = tl.load(
            b_ptr + depth[:, None] * N + columns[None, :], mask=inside[:, None] & (columns[None, :] < N), other=0.0
        )
        acc = tl.dot(a, b, acc)
    return acc


@triton.jit
def atomic_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, share,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = tl.program_id(2) * share
    acc = partial_product(a_ptr, b_ptr, rows, columns, M, N, K, first, first + share, BLOCK_M, BLOCK_N, BLOCK_K)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.atomic_add(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=mask, sem="relaxed")


@triton.jit
def counter_kernel(
    a_ptr, b_ptr, c_ptr, workspace_ptr, arrived_ptr, M, N, K, share,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLITS: tl.constexpr,
):
    tile = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    split = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = split * share
    acc = partial_product(a_ptr, b_ptr, rows, columns, M, N, K, first, first + share, BLOCK_M, BLOCK_N, BLOCK_K)
    within = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    slots = workspace_ptr + tile * SPLITS * BLOCK_M * BLOCK_N + within
    tl.store(slots + split * BLOCK_M * BLOCK_N, acc)
    # All threads have stored before one of them counts the program; the last program to arrive adds up, in order.
    tl.debug_barrier()
    if tl.atomic_add(arrived_ptr + tile, 1, sem="acq_rel") == SPLITS - 1:
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for i in range(SPLITS):
            total += tl.load(slots + i * BLOCK_M * BLOCK_N)
        mask = (rows[:, None] < M) & (columns[None, :] < N)
        tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(c_ptr.dtype.element_ty), mask=mask)


BLOCKS = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}


def by_atomics(a, b, splits):
    """Return a @ b in float32, summed in the order in which programs come."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.zeros((m, n), dtype=torch.float32, device=a.device)
    share = triton.cdiv(triton.cdiv(k, splits), 32) * 32
    atomic_kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32), splits)](a, b, c, m, n, k, share, **BLOCKS, num_warps=4)
    return c


def by_counters(a, b, splits):
    """Return a @ b in float32, summed in the same order each time."""
    (m, k), n = a.shape, b.shape[1]
    tiles = triton.cdiv(m, 32), triton.cdiv(n, 32)
    c = torch.empty((m, n), dtype=torch.float32, device=a.device)
    workspace = torch.empty((*tiles, splits, 32, 32), dtype=torch.float32, device=a.device)
    arrived = torch.zeros(tiles, dtype=torch.int32, device=a.device)
    share = triton.cdiv(triton.cdiv(k, splits), 32) * 32
    counter_kernel[(*tiles, splits)](
        a, b, c, workspace, arrived, m, n, k, share, **BLOCKS, SPLITS=splits, num_warps=4
    )
    assert (arrived == splits).all()
    return c


@pytest.mark.parametrize("multiply", [by_atomics, by_counters])
@pytest.mark.parametrize(("shape", "splits"), [((32, 32, 256), 4), ((20, 45, 300), 3)], ids=str)
def test_product(multiply, shape, splits):
    """Products of float16 are exact in float32, sums of 300 of them are off by some 2^-20 of the largest."""
    m, n, k = shape
    torch.manual_seed(splits)
    a, b = torch.randn(m, k).half().to(DEVICE), torch.randn(k, n).half().to(DEVICE)
    torch.testing.assert_close(multiply(a, b, splits), (a.double() @ b.double()).float(), rtol=2**-18, atol=2**-14)


def test_sums_of_integers_don_t_depend_on_the_order():
    torch.manual_seed(7)
    a, b = (torch.randint(-4, 5, s).half().to(DEVICE) for s in ((33, 128), (128, 31)))
    expected = (a.double() @ b.double()).float()
    assert torch.equal(by_atomics(a, b, 4), expected)
    assert torch.equal(by_counters(a, b, 4), expected)
