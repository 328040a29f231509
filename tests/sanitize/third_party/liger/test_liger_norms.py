"""Normalizations of liger-kernel against torch's and against their formulas in float64."""

import os

import pytest
import torch
from liger_kernel.transformers import functional as liger

DEVICE = os.environ.get("DEVICE", "cuda")
# float32 has 24 bits of mantissa: four of them are left to sums of a few hundred elements and to approximate functions
FLOAT32 = 2.0**-20
# half an ulp is 2**-11 for 11 bits of mantissa and 2**-8 for 8 bits; the two parts of a bound allow four of them for
# the largest elements, and the kernels round three times in a row or less
TOLERANCE = {torch.float32: FLOAT32, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


def rows(*shape, dtype=torch.float32):
    """Return normally distributed numbers, the same on each device."""
    return torch.randn(shape).to(DEVICE, dtype)


def rms(x, eps):
    """Divide rows by the root of their mean square."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


@pytest.mark.parametrize(
    ("columns", "dtype"), [(64, torch.float32), (100, torch.float32), (384, torch.float16), (129, torch.bfloat16)]
)
def test_rms_norm(compare, columns, dtype):
    torch.manual_seed(1)
    inputs = [rows(2, 3, columns, dtype=dtype), rows(columns, dtype=dtype)]
    compare(
        lambda x, w: liger.liger_rms_norm(x, w, 1e-6),
        lambda x, w: torch.nn.functional.rms_norm(x, (columns,), w, eps=1e-6),
        inputs,
        TOLERANCE[dtype],
    )


def test_rms_norm_with_offset(compare):
    torch.manual_seed(2)
    inputs = [rows(5, 200, dtype=torch.bfloat16), rows(200, dtype=torch.bfloat16)]
    compare(
        lambda x, w: liger.liger_rms_norm(x, w, 1e-5, offset=1.0, casting_mode="gemma", in_place=False),
        lambda x, w: rms(x, 1e-5) * (1 + w),
        inputs,
        TOLERANCE[torch.bfloat16],
    )


def test_rms_norm_without_weight(compare):
    torch.manual_seed(3)
    compare(
        lambda x: liger.liger_rms_norm(x, None, 1e-6, casting_mode="none"),
        lambda x: rms(x, 1e-6),
        [rows(7, 48)],
        FLOAT32,
    )


@pytest.mark.parametrize(("columns", "dtype"), [(100, torch.float32), (256, torch.float16)])
def test_layer_norm(compare, columns, dtype):
    torch.manual_seed(4)
    inputs = [rows(6, columns, dtype=dtype), rows(columns, dtype=dtype), rows(columns, dtype=dtype)]
    compare(
        lambda x, w, b: liger.liger_layer_norm(x, w, b, 1e-5),
        lambda x, w, b: torch.nn.functional.layer_norm(x, (columns,), w, b, 1e-5),
        inputs,
        TOLERANCE[dtype],
    )


def test_group_norm(compare):
    torch.manual_seed(5)
    inputs = [rows(3, 6, 37), rows(6), rows(6)]
    compare(
        lambda x, w, b: liger.liger_group_norm(x, w, b, 6, 2, 1e-5),
        lambda x, w, b: torch.nn.functional.group_norm(x, 2, w, b, 1e-5),
        inputs,
        FLOAT32,
    )


def test_group_norm_of_images(compare):
    torch.manual_seed(6)
    inputs = [rows(2, 4, 5, 9), rows(4), rows(4)]
    compare(
        lambda x, w, b: liger.liger_group_norm(x, w, b, 4, 4, 1e-6),
        lambda x, w, b: torch.nn.functional.group_norm(x, 4, w, b, 1e-6),
        inputs,
        FLOAT32,
    )


@pytest.mark.parametrize(("columns", "dtype"), [(130, torch.float32), (96, torch.bfloat16)])
def test_fused_add_rms_norm(compare, columns, dtype):
    torch.manual_seed(7)
    inputs = [rows(4, columns, dtype=dtype), rows(4, columns, dtype=dtype), rows(columns, dtype=dtype)]

    def reference(x, residual, w):
        # the sum is rounded before it is normalized
        total = x + residual
        total = total + ((total.to(dtype).double() - total).detach())
        return rms(total, 1e-6) * w, total

    compare(
        lambda x, residual, w: liger.liger_fused_add_rms_norm(x, residual, w, 1e-6),
        reference,
        inputs,
        TOLERANCE[dtype],
    )


def test_poly_norm(compare):
    torch.manual_seed(8)
    inputs = [rows(5, 90), rows(3), rows()]
    compare(
        lambda x, w, b: liger.liger_poly_norm(x, w, b, 1e-6),
        lambda x, w, b: sum(w[2 - n] * rms(x ** (n + 1), 1e-6) for n in range(3)) + b,
        inputs,
        FLOAT32,
    )


@pytest.mark.parametrize("shifted", [False, True])
def test_modulated_rms_norm(compare, shifted):
    torch.manual_seed(9)
    inputs = [rows(2, 4, 72), rows(72), rows(2, 1, 72)] + [rows(2, 1, 72)] * shifted
    compare(
        lambda x, w, scale, shift=None: liger.liger_modulated_rms_norm(x, w, scale, shift),
        lambda x, w, scale, shift=0.0: (1 + scale) * (rms(x, 1e-6) * w) + shift,
        inputs,
        FLOAT32,
    )
