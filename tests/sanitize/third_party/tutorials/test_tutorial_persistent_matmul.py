"""Products by programs that take tile after tile: by pointers, by descriptors made on the device and on the host.

At sm_90 and later, descriptors become tensor maps, and their loads and stores copies of the TMA unit.
"""

import os

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def place(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Return the row and column of a tile, where tiles of GROUP rows come one after the other."""
    group, within = tile // (GROUP * tiles_n), tile % (GROUP * tiles_n)
    first = group * GROUP
    height = min(tiles_m - first, GROUP)
    return first + within % height, within // height


@triton.jit
def pointer_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        tile_m, tile_n = place(tile, tiles_m, tiles_n, GROUP)
        rows, columns = tile_m * BLOCK_M + tl.arange(0, BLOCK_M), tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        inner_rows, inner_columns = tl.where(rows < M, rows, 0), tl.where(columns < N, columns, 0)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            depth = k * BLOCK_K + tl.arange(0, BLOCK_K)
            a = tl.load(a_ptr + inner_rows[:, None] * stride_a + depth[None, :], mask=depth[None, :] < K, other=0.0)
            b = tl.load(b_ptr + inner_columns[None, :] * stride_b + depth[:, None], mask=depth[:, None] < K, other=0.0)
            acc = tl.dot(a, b, acc)
        mask = (rows[:, None] < M) & (columns[None, :] < N)
        tl.store(c_ptr + rows[:, None] * stride_c + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def device_descriptor_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        tile_m, tile_n = place(tile, tiles_m, tiles_n, GROUP)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([tile_m * BLOCK_M, k * BLOCK_K])
            b = b_desc.load([tile_n * BLOCK_N, k * BLOCK_K])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([tile_m * BLOCK_M, tile_n * BLOCK_N], acc.to(c_desc.dtype))


@triton.jit
def host_descriptor_kernel(
    a_desc, b_desc, c_desc, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        tile_m, tile_n = place(tile, tiles_m, tiles_n, GROUP)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([tile_m * BLOCK_M, k * BLOCK_K])
            b = b_desc.load([tile_n * BLOCK_N, k * BLOCK_K])
            acc = tl.dot(a, b.T, acc)
        # Halves of the columns, to need less shared memory at a time.
        halves = tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        c_desc.store([tile_m * BLOCK_M, tile_n * BLOCK_N], left.to(c_desc.dtype))
        c_desc.store([tile_m * BLOCK_M, tile_n * BLOCK_N + BLOCK_N // 2], right.to(c_desc.dtype))


BLOCKS = {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP": 2}


def by_pointers(a, b, c, programs):
    """Compute c = a @ b.T."""
    pointer_kernel[(programs,)](
        a, b, c, *c.shape, a.shape[1], a.stride(0), b.stride(0), c.stride(0), **BLOCKS, num_warps=4, num_stages=3
    )


def by_device_descriptors(a, b, c, programs):
    """Compute c = a @ b.T. Descriptors are written to memory that Triton asks the allocator for."""
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device=DEVICE, dtype=torch.int8))
    device_descriptor_kernel[(programs,)](a, b, c, *c.shape, a.shape[1], **BLOCKS, num_warps=4, num_stages=3)


def by_host_descriptors(a, b, c, programs):
    """Compute c = a @ b.T."""
    descriptors = [
        TensorDescriptor.from_tensor(x, block) for x, block in ((a, [64, 32]), (b, [32, 32]), (c, [64, 16]))
    ]
    host_descriptor_kernel[(programs,)](*descriptors, *c.shape, a.shape[1], **BLOCKS, num_warps=4, num_stages=3)


@pytest.mark.parametrize("multiply", [by_pointers, by_device_descriptors, by_host_descriptors])
@pytest.mark.parametrize(("shape", "programs"), [((64, 64, 64), 1), ((130, 72, 104), 2)], ids=str)
def test_product(multiply, shape, programs):
    """float16 keeps 11 bits of a sum in float32; a sum near 0 is off by the sum's own rounding, 2^-20 of its terms.

    The second shape cuts tiles off in all dimensions; rows are multiples of 16 bytes, as descriptors require.
    """
    m, n, k = shape
    torch.manual_seed(0)
    a, b = torch.randn(m, k).half().to(DEVICE), torch.randn(n, k).half().to(DEVICE)
    c = torch.full((m, n), float("nan"), dtype=torch.half).to(DEVICE)
    multiply(a, b, c, programs)
    torch.testing.assert_close(c, (a.double() @ b.double().T).half(), rtol=2**-10, atol=2**-14)
