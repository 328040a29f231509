"""Sums of vectors: one block of elements a program, the last block masked."""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


def add(x, y, out=None):
    """Return x + y, in out if given."""
    out = torch.empty_like(x) if out is None else out
    n = out.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=256)
    return out


@pytest.mark.parametrize("n", [1, 256, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32], ids=str)
def test_sum(n, dtype):
    """One sum is rounded as torch rounds it: results are equal."""
    torch.manual_seed(n)
    x, y = ((100 * torch.randn(n)).to(dtype).to(DEVICE) for _ in range(2))
    assert torch.equal(add(x, y), x + y)


def test_sum_in_place():
    torch.manual_seed(0)
    x, y = torch.randn(777).to(DEVICE), torch.randn(777).to(DEVICE)
    expected = x + y
    assert add(x, y, out=x) is x
    assert torch.equal(x, expected)


def test_sum_of_a_slice_leaves_its_neighbours():
    torch.manual_seed(1)
    x, y = torch.randn(500).to(DEVICE), torch.randn(300).to(DEVICE)
    expected = x.clone()
    expected[64:364] += y
    add(x[64:364], y, out=x[64:364])
    assert torch.equal(x, expected)
