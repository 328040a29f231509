"""Layers of liger-kernel that multiply matrices or gather rows, against torch in float64."""

import os

import pytest
import torch
from liger_kernel.ops import LigerFusedMoEFunction
from liger_kernel.ops.experimental.mm_int8int2 import matmul, pack_weights, unpack_weights
from liger_kernel.transformers import LigerMLP, LigerTiledGEGLUMLP, LigerTiledSwiGLUMLP
from liger_kernel.transformers.experimental import LigerEmbedding

DEVICE = os.environ.get("DEVICE", "cuda")
# float32 has 24 bits of mantissa: four of them are left to sums of a few hundred elements and to approximate functions
FLOAT32 = 2.0**-20
# tensor cores round float32 factors to TF32, which has 11 bits of mantissa like float16; three products follow one
# another, and float16 results are rounded after each
TENSOR_CORES = 2.0**-8


def rows(*shape, dtype=torch.float32):
    """Return normally distributed numbers, the same on each device."""
    return torch.randn(shape).to(DEVICE, dtype)


class Config:
    """The part of a model's configuration that gated layers read."""

    def __init__(self, hidden_act, hidden_size, intermediate_size):
        self.hidden_act = hidden_act
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size


def gated(layer, function):
    """Return float64 copies of a gated layer's parameters and a function that computes it from them."""
    exact = {name: p.detach().double().requires_grad_() for name, p in layer.named_parameters()}

    def compute(x):
        gate, up, down = (exact[f"{name}_proj.weight"].T for name in ("gate", "up", "down"))
        return (function(x @ gate) * (x @ up)) @ down

    return exact, compute


def gelu(x):
    """Return GELU by its formula with tanh."""
    return torch.nn.functional.gelu(x, approximate="tanh")


@pytest.mark.parametrize(
    ("module", "act", "function"),
    [
        (LigerTiledSwiGLUMLP, "silu", torch.nn.functional.silu),
        (LigerTiledGEGLUMLP, "gelu_pytorch_tanh", gelu),
    ],
)
def test_tiled_mlp(compare, near, module, act, function):
    torch.manual_seed(81)
    layer = module(Config(act, 20, 36), num_shards=3).to(DEVICE)
    exact, reference = gated(layer, function)
    compare(layer, reference, [rows(1, 7, 20)], FLOAT32)
    for name, parameter in layer.named_parameters():
        near(parameter.grad, exact[name].grad, FLOAT32)


def test_mlp_by_tensor_descriptors(compare, near):
    torch.manual_seed(82)
    layer = LigerMLP(Config("silu", 64, 128)).to(DEVICE, torch.float16)
    exact, reference = gated(layer, torch.nn.functional.silu)
    compare(layer, reference, [rows(1, 40, 64, dtype=torch.float16)], TENSOR_CORES)
    for name, parameter in layer.named_parameters():
        near(parameter.grad, exact[name].grad, TENSOR_CORES)


@pytest.mark.parametrize("padding", [None, 3])
def test_embedding(near, padding):
    torch.manual_seed(83)
    layer = LigerEmbedding(30, 40, padding_idx=padding).to(DEVICE)
    # rows repeat, so that their gradients are summed by atomics
    chosen = torch.randint(6, (5, 9)).to(DEVICE)
    seed = rows(5, 9, 40)
    table = layer.weight.detach().double().requires_grad_()
    output = layer(chosen)
    expected = torch.nn.functional.embedding(chosen, table, padding_idx=padding)
    assert torch.equal(output.double(), expected)
    output.backward(seed)
    expected.backward(seed.double())
    near(layer.weight.grad, table.grad, FLOAT32)


def test_fused_mixture_of_experts(compare):
    torch.manual_seed(84)
    experts, tokens, chosen_per_token, hidden, inner = 4, 11, 2, 32, 24
    chosen = torch.stack([torch.randperm(experts)[:chosen_per_token] for _ in range(tokens)]).to(DEVICE, torch.int32)

    def reference(x, gate_up, down, scores):
        total = torch.zeros_like(x)
        for k in range(chosen_per_token):
            both = torch.einsum("th,tnh->tn", x, gate_up[chosen[:, k].long()])
            gate, up = both.chunk(2, -1)
            act = torch.nn.functional.silu(gate) * up
            total = total + scores[:, k, None] * torch.einsum("ti,thi->th", act, down[chosen[:, k].long()])
        return total

    compare(
        lambda x, gate_up, down, scores: LigerFusedMoEFunction.apply(x, gate_up, down, chosen, scores),
        reference,
        [
            rows(tokens, hidden),
            rows(experts, 2 * inner, hidden) / hidden**0.5,
            rows(experts, hidden, inner) / inner**0.5,
            rows(tokens, chosen_per_token),
        ],
        TENSOR_CORES,
    )


def test_matmul_of_int8_and_packed_2_bit_weights():
    torch.manual_seed(85)
    a = torch.randint(-128, 128, (9, 512)).to(DEVICE, torch.int8)
    weights = torch.randint(-1, 2, (512, 24)).to(DEVICE, torch.int8)
    packed = pack_weights(weights.clone())
    assert torch.equal(unpack_weights(packed).to(torch.int8), weights)
    # 512 products of at most 128 are exact in float64
    expected = (a.double() @ weights.double()).to(torch.int32)
    assert torch.equal(matmul(a, packed), expected)
