"""Attention of fla.ops that forms scores of queries and keys, beside the same scores in plain torch in float64."""

import os

import pytest
import torch
import torch.nn.functional as F
from fla.ops import (
    fused_attnres,
    parallel_attn,
    parallel_based,
    parallel_forgetting_attn,
    parallel_simple_gla,
    parallel_stickbreaking_attn,
)
from fla.ops.rebased import parallel_rebased

DEVICE = os.environ.get("DEVICE", "cuda")

# Tensor cores read float32 as TF32: 13 of 24 bits of mantissa are cut off, so a factor is short by up to 2^-10 of
# itself, a product of two by 2^-10.5 on average, and an output, two such products one after the other, by about 2^-9.5.
# A gradient is four or five, of which some cancel. float16 has 11 bits but is rounded, to either side, so that errors
# are 2^-12.3 of a factor in root mean square and average out; bfloat16 has 8.
OUTPUT = {torch.float32: 2**-9, torch.float16: 2**-11, torch.bfloat16: 2**-7}
GRADIENT = {dtype: 2 * bound for dtype, bound in OUTPUT.items()}
#: float32 without tensor cores, or with products that aren't rounded to TF32
FLOAT32 = 2**-17


def normal(*shape, dtype=torch.float32):
    """Return normal numbers that require gradients."""
    return torch.randn(*shape).to(DEVICE, dtype).requires_grad_()


def decay(*shape):
    """Return logarithms of decays between 0.5 and 1."""
    return torch.log(1 - torch.rand(*shape) / 2).to(DEVICE).requires_grad_()


def scores(q, k):
    """Return scaled products of queries and keys, [B, HQ, T, T], and the mask of keys not later than the query."""
    k = k.repeat_interleave(q.shape[2] // k.shape[2], dim=2)
    s = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    return s, torch.ones_like(s[0, 0], dtype=torch.bool).tril()


def weighted(p, v):
    """Return the values weighted by p, in the layout of queries."""
    return torch.einsum("bhqk,bkhd->bqhd", p, v.repeat_interleave(p.shape[1] // v.shape[2], dim=2))


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16], ids=["fp16", "bf16"])
def test_causal_attention_of_grouped_heads(compare, dtype):
    """Four heads of queries read two of keys and values; the last tile of 70 rows is cut off."""

    def reference(q, k, v):
        s, mask = scores(q, k)
        return weighted(s.masked_fill(~mask, -torch.inf).softmax(-1), v)

    compare(
        parallel_attn,
        reference,
        {
            "q": normal(1, 70, 4, 32, dtype=dtype), "k": normal(1, 70, 2, 32, dtype=dtype),
            "v": normal(1, 70, 2, 32, dtype=dtype),
        },
        OUTPUT[dtype], GRADIENT[dtype],
    )


def test_attention_of_a_window(compare):
    def reference(q, k, v):
        s, mask = scores(q, k)
        mask &= torch.ones_like(mask).triu(-19)
        return weighted(s.masked_fill(~mask, -torch.inf).softmax(-1), v)

    compare(
        lambda q, k, v: parallel_attn(q, k, v, window_size=20),
        reference,
        {
            "q": normal(1, 50, 1, 32, dtype=torch.half), "k": normal(1, 50, 1, 32, dtype=torch.half),
            "v": normal(1, 50, 1, 32, dtype=torch.half),
        },
        OUTPUT[torch.half], GRADIENT[torch.half],
    )


def test_forgetting_attention(compare):
    """A score loses the sum of the logarithms of decays between its key and its query."""

    def reference(q, k, v, g):
        s, mask = scores(q, k)
        total = g.cumsum(1).transpose(1, 2)
        s = s + total[..., :, None] - total[..., None, :]
        return weighted(s.masked_fill(~mask, -torch.inf).softmax(-1), v)

    compare(
        parallel_forgetting_attn,
        reference,
        {"q": normal(1, 60, 2, 32), "k": normal(1, 60, 2, 32), "v": normal(1, 60, 2, 32), "g": decay(1, 60, 2)},
        OUTPUT[torch.float32], GRADIENT[torch.float32],
    )


def test_stick_breaking_attention(compare):
    """A key takes the part sigmoid(s) of what the keys between it and the query have left."""

    def reference(q, k, v):
        s, mask = scores(q, k)
        mask = mask.tril(-1)
        left = F.logsigmoid(-s).masked_fill(~mask, 0)
        between = left.flip(-1).cumsum(-1).flip(-1) - left
        p = (F.logsigmoid(s) + between).exp().masked_fill(~mask, 0)
        return weighted(p, v), 1 - p.sum(-1).transpose(1, 2)

    compare(
        parallel_stickbreaking_attn,
        reference,
        {"q": normal(1, 48, 2, 32), "k": normal(1, 48, 2, 32), "v": normal(1, 48, 2, 32)},
        OUTPUT[torch.float32], GRADIENT[torch.float32],
    )


def test_simple_gla_in_parallel(compare):
    """Scores decay by the product of gates between key and query.

    The gradient of a gate is a sum of differences, which keep the errors of what they subtract.
    """

    def reference(q, k, v, g):
        s, mask = scores(q, k)
        total = g.cumsum(1).transpose(1, 2)
        decayed = (total[..., :, None] - total[..., None, :]).masked_fill(~mask, -torch.inf).exp() * s
        return weighted(decayed, v)

    compare(
        lambda q, k, v, g: parallel_simple_gla(q, k, v, g)[0],
        reference,
        {"q": normal(1, 64, 1, 32), "k": normal(1, 64, 1, 32), "v": normal(1, 64, 1, 32), "g": decay(1, 64, 1)},
        OUTPUT[torch.float32], 2 * GRADIENT[torch.float32],
    )


@pytest.mark.parametrize(
    ("function", "polynomial", "eps"),
    [(parallel_based, lambda s: 1 + s + s * s / 2, 1e-6), (parallel_rebased, lambda s: s * s, 1e-5)],
    ids=["based", "rebased"],
)
def test_attention_by_a_polynomial_of_scores(compare, function, polynomial, eps):
    """Products are computed without TF32. Weights are divided by their sum, which is positive."""

    def reference(q, k, v):
        s, mask = scores(q, k)
        p = polynomial(s) * mask
        return weighted(p / (p.sum(-1, keepdim=True) + eps), v)

    compare(
        function,
        reference,
        {"q": normal(1, 60, 1, 16), "k": normal(1, 60, 1, 16), "v": normal(1, 60, 1, 16)},
        FLOAT32, 2**-12,
    )


def test_attention_over_residuals(compare):
    """Each position mixes its rows of three layers by a softmax over the layers."""

    def reference(query, a, b, c, weight):
        rows = torch.stack([a, b, c])
        p = (F.rms_norm(rows, (48,), weight, 1e-6) @ query * 0.3).softmax(0)
        return (p[..., None] * rows).sum(0)

    compare(
        lambda query, a, b, c, weight: fused_attnres(query, [a, b, c], weight, scale=0.3),
        reference,
        {
            "query": normal(48), "a": normal(2, 9, 48), "b": normal(2, 9, 48), "c": normal(2, 9, 48),
            "weight": normal(48),
        },
        FLOAT32,
    )
