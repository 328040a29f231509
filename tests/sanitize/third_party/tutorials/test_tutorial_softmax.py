"""Softmax of rows that fit into a block; each program takes every n-th row, with loads of later rows in flight."""

import os

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import driver

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def softmax_kernel(out_ptr, x_ptr, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    first, step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(first, rows, step, num_stages=STAGES):
        offsets = tl.arange(0, BLOCK)
        inside = offsets < columns
        x = tl.load(x_ptr + row * x_stride + offsets, mask=inside, other=-float("inf"))
        weights = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + offsets, weights / tl.sum(weights, axis=0), mask=inside)


def softmax(x, programs=None, stages=2, num_warps=4):
    """Return the softmax of each row, by a program for each multiprocessor unless their number is given."""
    rows, columns = x.shape
    if programs is None:
        programs = driver.active.utils.get_device_properties(0)["multiprocessor_count"]
    out = torch.empty_like(x)
    softmax_kernel[(min(programs, rows),)](
        out, x, x.stride(0), out.stride(0), rows, columns,
        BLOCK=triton.next_power_of_2(columns), STAGES=stages, num_warps=num_warps,
    )
    return out


@pytest.mark.parametrize("columns", [1, 100, 128, 781])
def test_rows(columns):
    torch.manual_seed(columns)
    x = (3 * torch.randn(5, columns)).to(DEVICE)
    # float32: an exponential by exp2.approx (2^-22) of a rounded difference, and a sum of up to 781 of them
    torch.testing.assert_close(softmax(x), x.double().softmax(1).float(), rtol=2**-18, atol=1e-12)


@pytest.mark.parametrize("stages", [1, 3])
def test_programs_that_take_several_rows(stages):
    torch.manual_seed(2)
    x = torch.randn(11, 190).to(DEVICE)
    actual = softmax(x, programs=3, stages=stages, num_warps=2)
    torch.testing.assert_close(actual, x.double().softmax(1).float(), rtol=2**-18, atol=1e-12)


def test_large_numbers_and_minus_infinity():
    x = torch.tensor([[1e30, -1e30, 1e30], [-torch.inf, 0.0, -torch.inf], [88.0, 89.0, 90.0]]).to(DEVICE)
    torch.testing.assert_close(softmax(x), x.double().softmax(1).float(), rtol=2**-18, atol=0)
