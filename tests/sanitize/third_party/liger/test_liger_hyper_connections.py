"""Manifold-constrained hyper-connections of liger-kernel against their formulas in float64."""

import os

import pytest
import torch
from liger_kernel.transformers import LigerMHC
from liger_kernel.transformers import functional as liger

DEVICE = os.environ.get("DEVICE", "cuda")
# float32 has 24 bits of mantissa: four of them are left to sums of a few hundred elements and to approximate functions
FLOAT32 = 2.0**-20
# float16 and TF32 have 11 bits of mantissa; the kernels round once or twice more than their inputs were
FLOAT16 = 2.0**-9
STREAMS = 4


def rows(*shape, dtype=torch.float32):
    """Return normally distributed numbers, the same on each device."""
    return torch.randn(shape).to(DEVICE, dtype)


def coefficients(x, phi, bias, alpha_pre, alpha_post, alpha_res, steps):
    """Return the weights of streams before the layer, after it and among each other."""
    flat = x.flatten(-2)
    mixed = (flat @ phi) * torch.rsqrt(flat.square().mean(-1, keepdim=True) + 1e-6)
    pre, post, rest = mixed.split([STREAMS, STREAMS, STREAMS**2], -1)
    bias_pre, bias_post, bias_rest = bias.split([STREAMS, STREAMS, STREAMS**2])
    matrix = (rest * alpha_res + bias_rest).unflatten(-1, (STREAMS, STREAMS)).softmax(-1) + 1e-6
    for step in range(steps):
        if step:
            matrix = matrix / (matrix.sum(-1, keepdim=True) + 1e-6)
        matrix = matrix / (matrix.sum(-2, keepdim=True) + 1e-6)
    return torch.sigmoid(pre * alpha_pre + bias_pre), 2 * torch.sigmoid(post * alpha_post + bias_post), matrix


def parameters(channels, dtype):
    """Return the projection, its bias and three factors."""
    count = STREAMS**2 + 2 * STREAMS
    phi = (rows(STREAMS * channels, count) / (STREAMS * channels) ** 0.5).to(dtype)
    return [phi, rows(count), rows(), rows(), rows()]


@pytest.mark.parametrize(("channels", "dtype"), [(32, torch.float16), (24, torch.float32)])
def test_mhc_coefficients(compare, channels, dtype):
    torch.manual_seed(71)
    compare(
        lambda *inputs: liger.liger_mhc_coeffs(*inputs, allow_fp32=True, tmax=5),
        lambda *inputs: coefficients(*inputs, steps=5),
        [rows(2, 3, STREAMS, channels, dtype=dtype), *parameters(channels, dtype)],
        FLOAT16,
    )


@pytest.mark.parametrize(("channels", "dtype"), [(50, torch.float32), (64, torch.float16)])
def test_mhc_pre(compare, channels, dtype):
    torch.manual_seed(72)
    compare(
        liger.liger_mhc_pre,
        lambda x, weights: (weights[..., None] * x).sum(-2),
        [rows(5, STREAMS, channels, dtype=dtype), rows(5, STREAMS)],
        FLOAT32 if dtype == torch.float32 else FLOAT16,
    )


def test_mhc_post_and_residual(compare):
    torch.manual_seed(73)
    compare(
        liger.liger_mhc_post_res,
        lambda x, out, post, rest: rest @ x + post[..., None] * out[..., None, :],
        [rows(5, STREAMS, 40), rows(5, 40), rows(5, STREAMS), rows(5, STREAMS, STREAMS)],
        FLOAT32,
    )


def test_mhc_layer(compare, near):
    torch.manual_seed(74)
    layer = torch.nn.Linear(32, 32, bias=False)
    mhc = LigerMHC(layer, hc=STREAMS, c=32, tmax=3, phi_dtype=torch.float32, allow_fp32=True).to(DEVICE)
    exact = {name: p.detach().double().requires_grad_() for name, p in mhc.named_parameters()}

    def reference(x):
        named = [exact[name] for name in ("phi", "b", "alpha_pre", "alpha_post", "alpha_res")]
        pre, post, rest = coefficients(x, *named, steps=3)
        out = (pre[..., None] * x).sum(-2) @ exact["layer.weight"].T
        return rest @ x + post[..., None] * out[..., None, :]

    compare(mhc, reference, [rows(2, 2, STREAMS, 32)], FLOAT16)
    for name, parameter in mhc.named_parameters():
        near(parameter.grad, exact[name].grad, FLOAT16)
