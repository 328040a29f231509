"""Elementwise functions, softmax, sparsemax and gated layers of liger-kernel against their formulas in float64."""

import os

import pytest
import torch
from liger_kernel.ops.swiglu import LigerFusedGateUpSiLUMulFunction
from liger_kernel.transformers import LigerGEGLUMLP, LigerSwiGLUMLP
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


def gelu(x):
    """Return GELU by its formula with tanh."""
    return torch.nn.functional.gelu(x, approximate="tanh")


@pytest.mark.parametrize(("columns", "dtype"), [(150, torch.float32), (256, torch.float16), (77, torch.bfloat16)])
def test_swiglu(compare, columns, dtype):
    torch.manual_seed(11)
    inputs = [rows(4, columns, dtype=dtype), rows(4, columns, dtype=dtype)]
    compare(liger.liger_swiglu, lambda a, b: torch.nn.functional.silu(a) * b, inputs, TOLERANCE[dtype])


def test_swiglu_of_gate_and_up_in_one_tensor(compare):
    torch.manual_seed(12)
    def reference(x):
        gate, up = x.chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    compare(LigerFusedGateUpSiLUMulFunction.apply, reference, [rows(3, 2 * 90)], FLOAT32)


@pytest.mark.parametrize(("columns", "dtype"), [(100, torch.float32), (192, torch.bfloat16)])
def test_geglu(compare, columns, dtype):
    torch.manual_seed(13)
    inputs = [rows(2, 3, columns, dtype=dtype), rows(2, 3, columns, dtype=dtype)]
    compare(liger.liger_geglu, lambda a, b: gelu(a) * b, inputs, TOLERANCE[dtype])


@pytest.mark.parametrize(("columns", "dtype"), [(130, torch.float32), (256, torch.float16)])
def test_relu_squared(compare, columns, dtype):
    torch.manual_seed(14)
    compare(liger.liger_relu_squared, lambda x: x.relu().square(), [rows(5, columns, dtype=dtype)], TOLERANCE[dtype])


@pytest.mark.parametrize(("columns", "dtype"), [(64, torch.float32), (301, torch.float32), (200, torch.float16)])
def test_softmax(compare, columns, dtype):
    torch.manual_seed(15)
    compare(liger.liger_softmax, lambda x: x.softmax(-1), [rows(2, 3, columns, dtype=dtype)], TOLERANCE[dtype])


def sparsemax(x):
    """Project rows on the simplex: subtract the threshold that leaves a sum of 1."""
    ordered = x.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, x.shape[-1] + 1, device=x.device)
    support = (1 + ranks * ordered > ordered.cumsum(-1)).to(x.dtype)
    threshold = ((ordered * support).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
    return (x - threshold).relu()


@pytest.mark.parametrize(("shape", "dim"), [((4, 100), -1), ((3, 60, 2), 1)])
def test_sparsemax(compare, shape, dim):
    torch.manual_seed(16)
    compare(
        lambda x: liger.liger_sparsemax(x, dim),
        lambda x: sparsemax(x.transpose(dim, -1)).transpose(dim, -1),
        [rows(*shape)],
        FLOAT32,
    )


def test_dynamic_tanh(compare):
    torch.manual_seed(17)
    compare(
        liger.liger_dyt,
        lambda x, alpha, gamma, beta: gamma * torch.tanh(alpha * x) + beta,
        [rows(3, 70), rows(1), rows(70), rows(70)],
        FLOAT32,
    )


class Config:
    """The part of a model's configuration that gated layers read."""

    def __init__(self, hidden_act):
        self.hidden_size = 24
        self.intermediate_size = 50
        self.hidden_act = hidden_act


@pytest.mark.parametrize(("module", "act", "function"), [
    (LigerSwiGLUMLP, "silu", torch.nn.functional.silu),
    (LigerGEGLUMLP, "gelu_pytorch_tanh", gelu),
])
def test_gated_layer(compare, near, module, act, function):
    torch.manual_seed(18)
    layer = module(Config(act)).to(DEVICE)
    exact = {name: p.detach().double().requires_grad_() for name, p in layer.named_parameters()}

    def reference(x):
        gate, up, down = (exact[f"{name}_proj.weight"].T for name in ("gate", "up", "down"))
        return (function(x @ gate) * (x @ up)) @ down

    compare(layer, reference, [rows(2, 5, 24)], FLOAT32)
    for name, parameter in layer.named_parameters():
        near(parameter.grad, exact[name].grad, FLOAT32)
