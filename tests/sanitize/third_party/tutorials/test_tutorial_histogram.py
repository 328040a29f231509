"""Histograms: an atomic addition for each element, and a histogram of each block that is then added to the total."""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def element_kernel(x_ptr, bins_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0)
    tl.atomic_add(bins_ptr + x, 1, mask=inside, sem="relaxed")


@triton.jit
def block_kernel(x_ptr, bins_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr):
    numbers = tl.arange(0, BINS)
    counts = tl.zeros([BINS], dtype=tl.int32)
    first = tl.program_id(0) * BLOCKS
    for i in range(first, first + BLOCKS):
        offsets = i * BLOCK + tl.arange(0, BLOCK)
        # Elements past the end are counted in the last bin, which no element of x is in.
        x = tl.load(x_ptr + offsets, mask=offsets < n, other=BINS - 1)
        counts += tl.histogram(x, BINS)
    tl.atomic_add(bins_ptr + numbers, counts, mask=(counts > 0) & (numbers < BINS - 1))


@triton.jit
def digit_kernel(x_ptr, counts_ptr, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    """Count 4-bit digits: a row of counters for each program, as a radix sort needs them."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    digit = (tl.load(x_ptr + offsets, mask=inside, other=0) >> SHIFT) & 15
    same = (digit[:, None] == tl.arange(0, 16)[None, :]) & inside[:, None]
    counts = tl.sum(same.to(tl.int32), axis=0)
    tl.store(counts_ptr + tl.program_id(0) * 16 + tl.arange(0, 16), counts)


@pytest.mark.parametrize("n", [1, 500, 1024])
def test_elements(n):
    torch.manual_seed(n)
    x = torch.randint(40, (n,), dtype=torch.int32).to(DEVICE)
    bins = torch.zeros(40, dtype=torch.int32).to(DEVICE)
    element_kernel[(triton.cdiv(n, 256),)](x, bins, n, BLOCK=256)
    assert torch.equal(bins.cpu(), torch.bincount(x.cpu(), minlength=40).int())


def test_elements_that_are_all_the_same():
    x = torch.full((300,), 3, dtype=torch.int32).to(DEVICE)
    bins = torch.zeros(4, dtype=torch.int32).to(DEVICE)
    element_kernel[(3,)](x, bins, 300, BLOCK=128)
    assert bins.tolist() == [0, 0, 0, 300]


@pytest.mark.parametrize(("n", "bins"), [(1024, 32), (1500, 64)], ids=str)
def test_blocks(n, bins):
    torch.manual_seed(n)
    x = torch.randint(bins - 1, (n,), dtype=torch.int32).to(DEVICE)
    out = torch.zeros(bins, dtype=torch.int32).to(DEVICE)
    block_kernel[(triton.cdiv(n, 512),)](x, out, n, BINS=bins, BLOCK=256, BLOCKS=2)
    assert torch.equal(out.cpu(), torch.bincount(x.cpu(), minlength=bins).int())


@pytest.mark.parametrize("shift", [0, 8])
def test_digits(shift):
    torch.manual_seed(shift)
    x = torch.randint(2**16, (300,), dtype=torch.int32)
    counts = torch.empty(3, 16, dtype=torch.int32).to(DEVICE)
    digit_kernel[(3,)](x.to(DEVICE), counts, 300, SHIFT=shift, BLOCK=128)
    expected = torch.stack([torch.bincount(part >> shift & 15, minlength=16) for part in x.split(128)])
    assert torch.equal(counts.cpu(), expected.int())
