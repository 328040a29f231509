"""Activations of fla.modules.activations, forward and backward, beside torch's in float64."""

import os

import pytest
import torch
import torch.nn.functional as F
from fla.modules.activations import elu_p1, logsigmoid, powglu, sigmoid, swiglu, swish

DEVICE = os.environ.get("DEVICE", "cuda")

# float32: each element is an exp or two and a few products, all within a few units of 2^-24; exp.approx adds 2^-22.
# float16 has 11 bits: rounding moves an output by up to 2^-11 of itself, a gradient is one product more.
BOUNDS = {torch.float32: 2**-19, torch.float16: 2**-10}


def normal(*shape, dtype=torch.float32):
    """Return normal numbers of deviation 2 that require gradients."""
    return (2 * torch.randn(*shape)).to(DEVICE, dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
def test_swish(compare, dtype):
    compare(swish, F.silu, {"x": normal(3, 333, dtype=dtype)}, BOUNDS[dtype])


def test_logsigmoid_with_temperature(compare):
    compare(
        lambda x: logsigmoid(x, 4.0), lambda x: F.logsigmoid(x) / 4, {"x": normal(2, 5, 77)}, BOUNDS[torch.float32]
    )


def test_sigmoid(compare):
    compare(sigmoid, torch.sigmoid, {"x": normal(1000)}, BOUNDS[torch.float32])


def test_elu_plus_one(compare):
    compare(elu_p1, lambda x: F.elu(x) + 1, {"x": normal(7, 60)}, BOUNDS[torch.float32])


def test_swiglu_of_two_halves_of_rows(compare):
    """The halves are views with a stride of both, as a fused projection gives them."""
    compare(
        lambda xy: swiglu(*xy.chunk(2, dim=-1)),
        lambda xy: F.silu(xy[:, :130]) * xy[:, 130:],
        {"xy": normal(4, 260)},
        BOUNDS[torch.float32],
    )


def test_powglu(compare):
    """The gate is x ** (3 / (sqrt(x) + 1)) * sigmoid(x) for positive x, else x * sigmoid(x)."""

    def reference(x, y):
        positive = torch.where(x > 0, x, 1.0)
        power = positive ** (3.0 / (positive.sqrt() + 1))
        return torch.where(x > 0, power, x) * torch.sigmoid(x) * y

    # log(x) of x near 0 is large: the power is off by the rounding of p * log(x), some 2^-23 * 10.
    compare(powglu, reference, {"x": normal(3, 100), "y": normal(3, 100)}, 2**-18)
