"""Attention of liger-kernel: over neighbours, over several tokens and over the outputs of blocks."""

import os

import pytest
import torch
from liger_kernel.transformers import functional as liger

DEVICE = os.environ.get("DEVICE", "cuda")
# float32 has 24 bits of mantissa: four of them are left to sums of a few hundred elements and to approximate functions
FLOAT32 = 2.0**-20
# tensor cores round float32 factors to TF32, which has 11 bits of mantissa like float16: an error of 2**-10 for each
# factor of a product when they cut; scores, probabilities and products are each computed so
TENSOR_CORES = 2.0**-8


def rows(*shape, dtype=torch.float32):
    """Return normally distributed numbers, the same on each device."""
    return torch.randn(shape).to(DEVICE, dtype)


@pytest.mark.parametrize(
    ("length", "dim", "size", "dilation", "dtype"),
    [(32, 16, 7, 1, torch.float32), (45, 24, 3, 2, torch.float32), (64, 32, 5, 1, torch.float16)],
)
def test_fused_neighborhood_attention(compare, length, dim, size, dilation, dtype):
    torch.manual_seed(61)
    distance = torch.arange(length, device=DEVICE)[:, None] - torch.arange(length, device=DEVICE)
    near = (distance.abs() <= size // 2 * dilation) & (distance % dilation == 0)

    def reference(q, k, v):
        scores = (q @ k.mT / dim**0.5).masked_fill(~near, float("-inf"))
        return scores.softmax(-1) @ v

    compare(
        lambda q, k, v: liger.liger_fused_neighborhood_attention(q, k, v, size, dilation),
        reference,
        [rows(1, 2, length, dim, dtype=dtype) for _ in range(3)],
        TENSOR_CORES,
    )


def sparsemax(x):
    """Project rows on the simplex: subtract the threshold that leaves a sum of 1."""
    ordered = x.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, x.shape[-1] + 1, device=x.device)
    support = (1 + ranks * ordered > ordered.cumsum(-1)).to(x.dtype)
    threshold = ((ordered * support).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
    return (x - threshold).relu()


@pytest.mark.parametrize(("length", "sparse"), [(32, False), (21, True)])
def test_multi_token_attention(compare, length, sparse):
    torch.manual_seed(62)
    past = torch.ones(length, length, device=DEVICE).tril().bool()

    def reference(scores, w, b):
        masked = scores.masked_fill(~past, -1e9)
        weights = sparsemax(masked) if sparse else masked.softmax(-1)
        return torch.nn.functional.conv2d(weights, w, b, padding=1) * past

    # convolutions of torch use tensor cores for float32
    compare(
        lambda scores, w, b: liger.liger_multi_token_attention(scores, w, b, padding=1, sparse=sparse),
        reference,
        [rows(1, 2, length, length), rows(2, 2, 3, 3), rows(2)],
        TENSOR_CORES,
    )


@pytest.mark.parametrize(("blocks", "columns"), [(4, 64), (3, 100)])
def test_attention_residuals(compare, blocks, columns):
    torch.manual_seed(63)

    def reference(values, query, norm):
        keys = values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-6) * norm
        return ((keys @ query).softmax(0)[..., None] * values).sum(0)

    compare(
        liger.liger_attn_res,
        reference,
        [rows(blocks, 2, 3, columns), rows(columns) / columns**0.5, rows(columns)],
        FLOAT32,
    )
