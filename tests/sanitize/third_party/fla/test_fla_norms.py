"""Normalizations of fla.modules beside torch's own operators in float64."""

import os

import pytest
import torch
import torch.nn.functional as F
from fla.modules.norm.fused_norm_gate import layer_norm_gated, rms_norm_gated
from fla.modules.norm.l2norm import l2norm
from fla.modules.norm.layernorm import group_norm, layer_norm, rms_norm, rms_norm_linear

DEVICE = os.environ.get("DEVICE", "cuda")

# float32 has 24 bits of mantissa: sums of a few hundred terms in any order, rsqrt and exp agree to 2^-17.
# bfloat16 has 8: rounding moves an output by up to 2^-8 of itself, 2^-9.3 in root mean square.
BOUNDS = {torch.float32: 2**-17, torch.bfloat16: 2**-8}


def normal(*shape, dtype=torch.float32):
    """Return normal numbers that require gradients."""
    return torch.randn(*shape).to(DEVICE, dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_layer_norm(compare, dtype):
    inputs = {"x": normal(2, 3, 100, dtype=dtype), "weight": normal(100, dtype=dtype), "bias": normal(100, dtype=dtype)}
    compare(
        layer_norm, lambda x, weight, bias: F.layer_norm(x, (100,), weight, bias, 1e-5), inputs, BOUNDS[dtype]
    )


def test_rms_norm_adds_and_returns_the_residual(compare):
    def reference(x, weight, residual):
        summed = x + residual
        return F.rms_norm(summed, (192,), weight, 1e-5), summed

    inputs = {"x": normal(5, 192), "weight": normal(192), "residual": normal(5, 192)}
    compare(
        lambda x, weight, residual: rms_norm(x, weight, None, residual=residual, prenorm=True),
        reference, inputs, BOUNDS[torch.float32],
    )


def test_group_norm_is_layer_norm_of_each_group(compare):
    def reference(x, weight, bias):
        y = F.layer_norm(x.unflatten(-1, (3, 40)), (40,), None, None, 1e-5).flatten(-2)
        return y * weight + bias

    inputs = {"x": normal(4, 120), "weight": normal(120), "bias": normal(120)}
    compare(lambda x, weight, bias: group_norm(x, weight, bias, num_groups=3), reference, inputs, BOUNDS[torch.float32])


@pytest.mark.parametrize("columns", [64, 100, 600])
def test_l2norm(compare, columns):
    inputs = {"x": normal(3, 2, columns)}
    compare(
        l2norm, lambda x: x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt(), inputs, BOUNDS[torch.float32]
    )


def test_rms_norm_gated_by_swish(compare):
    inputs = {"x": normal(6, 128), "g": normal(6, 128), "weight": normal(128)}
    compare(
        lambda x, g, weight: rms_norm_gated(x, g, weight, None, activation="swish", eps=1e-6),
        lambda x, g, weight: F.rms_norm(x, (128,), weight, 1e-6) * F.silu(g),
        inputs, BOUNDS[torch.float32],
    )


def test_layer_norm_gated_by_sigmoid(compare):
    inputs = {"x": normal(3, 72), "g": normal(3, 72), "weight": normal(72), "bias": normal(72)}
    compare(
        lambda x, g, weight, bias: layer_norm_gated(x, g, weight, bias, activation="sigmoid", eps=1e-6),
        lambda x, g, weight, bias: F.layer_norm(x, (72,), weight, bias, 1e-6) * torch.sigmoid(g),
        inputs, BOUNDS[torch.float32],
    )


def test_rms_norm_linear(compare):
    inputs = {"x": normal(4, 64), "norm_weight": normal(64), "linear_weight": normal(32, 64)}
    compare(
        lambda x, norm_weight, linear_weight: rms_norm_linear(x, norm_weight, None, linear_weight, None),
        lambda x, norm_weight, linear_weight: F.rms_norm(x, (64,), norm_weight, 1e-5) @ linear_weight.T,
        inputs, BOUNDS[torch.float32],
    )
