"""Dropout that stores no mask: a seed and an element's number give its random number, by Philox, each time anew."""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def masked_dropout_kernel(x_ptr, keep_ptr, out_ptr, n, p, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    keep = tl.load(keep_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=inside)


@triton.jit
def seeded_dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=inside)


@triton.jit
def random_kernel(uniform_ptr, integer_ptr, n, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(uniform_ptr + offsets, tl.rand(seed, offsets), mask=inside)
    a, b, c, d = tl.randint4x(seed, offsets)
    tl.store(integer_ptr + offsets * 4, a.to(tl.int32, bitcast=True), mask=inside)
    tl.store(integer_ptr + offsets * 4 + 1, b.to(tl.int32, bitcast=True), mask=inside)
    tl.store(integer_ptr + offsets * 4 + 2, c.to(tl.int32, bitcast=True), mask=inside)
    tl.store(integer_ptr + offsets * 4 + 3, d.to(tl.int32, bitcast=True), mask=inside)


def philox(seed, counters):
    """Return Philox 4x32 with 10 rounds (Salmon et al., 2011) of counters (i, 0, 0, 0), as integers below 2**32."""
    low = 2**32 - 1
    k0, k1 = seed & low, seed >> 32
    out = []
    for i in counters:
        c0, c1, c2, c3, a, b = i, 0, 0, 0, k0, k1
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
            c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ a, p1 & low, (p0 >> 32) ^ c3 ^ b, p0 & low
            a, b = (a + 0x9E3779B9) & low, (b + 0xBB67AE85) & low
        out.append((c0, c1, c2, c3))
    return torch.tensor(out)


def uniform(integers):
    """Return 31 of 32 bits, the sign folded in, as a number in [0, 1)."""
    signed = torch.where(integers >= 2**31, integers - 2**32, integers)
    return torch.where(signed < 0, -signed - 1, signed).float() * torch.tensor(4.6566127342e-10)


def test_dropout_by_a_mask():
    torch.manual_seed(0)
    x, keep = torch.randn(600).to(DEVICE), (torch.rand(600) > 0.3).to(torch.int32).to(DEVICE)
    out = torch.empty_like(x)
    masked_dropout_kernel[(3,)](x, keep, out, 600, 0.25, BLOCK=256)
    # 1 - p and the quotient are rounded once or, by an approximate division, to within 2 units of 2^-24
    torch.testing.assert_close(out, torch.where(keep.bool(), x / 0.75, 0.0), rtol=2**-21, atol=0)


@pytest.mark.parametrize("seed", [123, 2**31 - 2], ids=str)
def test_random_numbers_are_philox(seed):
    n = 150
    uniforms, integers = torch.empty(n).to(DEVICE), torch.empty(n, 4, dtype=torch.int32).to(DEVICE)
    random_kernel[(triton.cdiv(n, 64),)](uniforms, integers, n, seed, BLOCK=64)
    expected = philox(seed, range(n))
    assert torch.equal(integers.cpu().long() & (2**32 - 1), expected)
    assert torch.equal(uniforms.cpu(), uniform(expected[:, 0]))


def test_dropout_by_a_seed_is_reproducible():
    torch.manual_seed(1)
    x = torch.randn(700).to(DEVICE)
    out = [torch.empty_like(x) for _ in range(3)]
    for block, seed, y in zip((256, 128, 256), (9, 9, 10), out, strict=True):
        seeded_dropout_kernel[(triton.cdiv(700, block),)](x, y, 700, 0.5, seed, BLOCK=block)
    keep = (uniform(philox(9, range(700))[:, 0]) > 0.5).to(DEVICE)
    assert torch.equal(out[0] != 0, keep)
    torch.testing.assert_close(out[0], torch.where(keep, x * 2, 0.0), rtol=2**-21, atol=0)
    assert torch.equal(out[0], out[1])
    assert not torch.equal(out[0], out[2])
