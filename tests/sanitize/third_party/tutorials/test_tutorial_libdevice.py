"""Functions of CUDA's libdevice that Triton's language hasn't: asin and others, in float32 and float64."""

import os

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def asin_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(y_ptr + offsets, libdevice.asin(x), mask=inside)


@triton.jit
def several_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=1.0)
    tl.store(y_ptr + offsets, libdevice.tanh(x), mask=inside)
    tl.store(y_ptr + n + offsets, libdevice.log1p(x * x), mask=inside)
    tl.store(y_ptr + 2 * n + offsets, libdevice.pow(tl.abs(x), 1.5), mask=inside)
    tl.store(y_ptr + 3 * n + offsets, libdevice.expm1(x), mask=inside)


@pytest.mark.parametrize(("dtype", "ulp"), [(torch.float32, 2**-23), (torch.float64, 2**-52)], ids=["fp32", "fp64"])
def test_asin(dtype, ulp):
    """CUDA's guide lists errors of 2 to 4 units in the last place, by precision and version."""
    torch.manual_seed(0)
    x = (2 * torch.rand(700, dtype=torch.float64) - 1).to(dtype).to(DEVICE)
    y = torch.empty_like(x)
    asin_kernel[(triton.cdiv(700, 256),)](x, y, 700, BLOCK=256)
    torch.testing.assert_close(y, torch.asin(x.double()).to(dtype), rtol=5 * ulp, atol=0)


def test_asin_outside_its_domain_is_nan():
    x = torch.tensor([-1.5, -1.0, 0.0, 1.0, 2.0]).to(DEVICE)
    y = torch.empty_like(x)
    asin_kernel[(1,)](x, y, 5, BLOCK=16)
    assert y.isnan().tolist() == [True, False, False, False, True]
    torch.testing.assert_close(y[1:4], torch.asin(x[1:4]), rtol=2**-22, atol=0)


def test_tanh_log1p_pow_and_expm1():
    """CUDA's guide lists errors of at most 2, 1, 4 and 1 units in the last place."""
    torch.manual_seed(1)
    n = 130
    x = (2 * torch.randn(n)).to(DEVICE)
    y = torch.empty(4, n).to(DEVICE)
    several_kernel[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
    d = x.double()
    expected = torch.stack([d.tanh(), (d * d).log1p(), d.abs() ** 1.5, d.expm1()])
    # x * x is rounded before log1p sees it: half a unit more
    torch.testing.assert_close(y, expected.float(), rtol=5 * 2**-23, atol=0)
