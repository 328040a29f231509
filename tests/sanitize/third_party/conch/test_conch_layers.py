"""Activations, normalizations and rotations of conch-triton-kernels against their formulas in float64."""

import os

import pytest
import torch
from conch.ops.activation.gelu_tanh_and_mul import gelu_tanh_and_mul
from conch.ops.activation.silu_and_mul import silu_and_mul
from conch.ops.embedding.rotary_embedding import rotary_embedding
from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm
from conch.ops.normalization.rms_norm import fused_add_rms_norm, rms_norm

DEVICE = os.environ.get("DEVICE", "cuda")
# float32 has 24 bits of mantissa: four of them are left to sums of a few hundred elements and to approximate functions
# half an ulp is 2**-11 for 11 bits of mantissa and 2**-8 for 8 bits; the two parts of a bound allow four of them for
# the largest elements, and the kernels round three times in a row or less
TOLERANCE = {torch.float32: 2.0**-20, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def rows(*shape, dtype=torch.float32):
    """Return normally distributed numbers, the same on each device."""
    return torch.randn(shape).to(DEVICE, dtype)


@pytest.mark.parametrize("shape", [(5, 2 * 100), (2, 3, 2 * 300)])
def test_gelu_tanh_and_mul(near, shape):
    torch.manual_seed(101)
    x = rows(*shape)
    gate, up = x.double().chunk(2, -1)
    near(gelu_tanh_and_mul(x), torch.nn.functional.gelu(gate, approximate="tanh") * up, TOLERANCE[torch.float32])


@pytest.mark.parametrize("dtype", FLOATS)
def test_silu_and_mul(near, dtype):
    torch.manual_seed(102)
    x = rows(4, 2 * 77, dtype=dtype)
    gate, up = x.double().chunk(2, -1)
    near(silu_and_mul(x), torch.nn.functional.silu(gate) * up, TOLERANCE[dtype])


@pytest.mark.parametrize(("columns", "dtype"), [(64, torch.float32), (100, torch.float32), (257, torch.bfloat16)])
def test_rms_norm(near, columns, dtype):
    torch.manual_seed(103)
    x, weight = rows(3, 2, columns, dtype=dtype), rows(columns, dtype=dtype)
    expected = torch.nn.functional.rms_norm(x.double(), (columns,), weight.double(), eps=1e-6)
    near(rms_norm(x, weight, 1e-6), expected, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_fused_add_rms_norm(near, dtype):
    torch.manual_seed(104)
    x, residual, weight = rows(6, 90, dtype=dtype), rows(6, 90, dtype=dtype), rows(90, dtype=dtype)
    total = x.double() + residual.double()
    normed, kept = fused_add_rms_norm(x, residual, weight, 1e-5)
    near(kept, total, TOLERANCE[dtype])
    near(normed, torch.nn.functional.rms_norm(total, (90,), weight.double(), eps=1e-5), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gemma_rms_norm(near, dtype):
    torch.manual_seed(105)
    x, weight = rows(4, 120, dtype=dtype), rows(120, dtype=dtype)
    expected = torch.nn.functional.rms_norm(x.double(), (120,), 1 + weight.double(), eps=1e-6)
    result = gemma_rms_norm(x, weight, 1e-6)
    near(result, expected, TOLERANCE[dtype])


def test_gemma_rms_norm_with_residual(near):
    torch.manual_seed(106)
    x, residual, weight = rows(4, 65), rows(4, 65), rows(65)
    total = x.double() + residual.double()
    expected = torch.nn.functional.rms_norm(total, (65,), 1 + weight.double(), eps=1e-6)
    result, _ = gemma_rms_norm(x, weight, 1e-6, residual)
    near(result, expected, TOLERANCE[torch.float32])


@pytest.mark.parametrize(("head", "rotated", "dtype"), [(32, 32, torch.float32), (48, 20, torch.float16)])
def test_rotary_embedding(near, head, rotated, dtype):
    torch.manual_seed(107)
    positions = torch.randint(50, (7,)).to(DEVICE)
    angle = torch.arange(50)[:, None] * 100.0 ** (-torch.arange(rotated // 2) / (rotated // 2))
    table = torch.cat([angle.cos(), angle.sin()], -1).to(DEVICE, dtype)
    query, key = rows(7, 4 * head, dtype=dtype), rows(7, 2 * head, dtype=dtype)
    cos, sin = table[positions].double()[:, None].chunk(2, -1)

    def turn(x):
        x = x.double().unflatten(-1, (-1, head))
        first, second = x[..., : rotated // 2], x[..., rotated // 2 : rotated]
        parts = [first * cos - second * sin, second * cos + first * sin, x[..., rotated:]]
        return torch.cat(parts, -1).flatten(1)

    expected = turn(query), turn(key)
    turned = rotary_embedding(positions, query, key, head, table)
    for output, correct in zip(turned, expected, strict=True):
        near(output, correct, TOLERANCE[dtype])
