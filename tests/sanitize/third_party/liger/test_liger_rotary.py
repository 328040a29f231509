"""Rotary position embeddings of liger-kernel against rotations by pairs in float64."""

import os

import pytest
import torch
from liger_kernel.transformers import functional as liger
from liger_kernel.transformers import (
    liger_llama4_text_rotary_pos_emb,
    liger_llama4_vision_rotary_pos_emb,
)

DEVICE = os.environ.get("DEVICE", "cuda")
# a rotation takes two products and a sum, which lose two of float32's 24 bits of mantissa
FLOAT32 = 2.0**-22
# half an ulp is 2**-8 for 8 bits of mantissa; the kernel rounds products and sums
BFLOAT16 = 2.0**-7


def rows(*shape, dtype=torch.float32):
    """Return normally distributed numbers, the same on each device."""
    return torch.randn(shape).to(DEVICE, dtype)


def angles(*shape):
    """Return angles between 0 and 2 pi, the same on each device."""
    return torch.rand(shape).to(DEVICE) * 6.2831853


def halves(x, cos, sin):
    """Rotate pairs of elements that are half a head apart."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim", "batches", "dtype"),
    [(4, 2, 32, 1, torch.float32), (3, 1, 24, 2, torch.float32), (2, 2, 64, 1, torch.bfloat16)],
)
def test_rope(compare, heads, kv_heads, dim, batches, dtype):
    torch.manual_seed(21)
    angle = angles(batches, 5, dim // 2).repeat(1, 1, 2)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)

    def reference(q, k):
        return tuple(halves(x, cos.double()[:, None], sin.double()[:, None]) for x in (q, k))

    inputs = [rows(2, heads, 5, dim, dtype=dtype), rows(2, kv_heads, 5, dim, dtype=dtype)]
    compare(
        lambda q, k: liger.liger_rope(q, k, cos, sin),
        reference,
        inputs,
        FLOAT32 if dtype == torch.float32 else BFLOAT16,
    )


def test_rope_of_a_part_of_each_head(compare):
    torch.manual_seed(22)
    angle = angles(1, 7, 8).repeat(1, 1, 2)
    cos, sin = angle.cos(), angle.sin()

    def reference(q, k):
        turned = (halves(x[..., :16], cos.double()[:, None], sin.double()[:, None]) for x in (q, k))
        return tuple(torch.cat([part, x[..., 16:]], -1) for part, x in zip(turned, (q, k), strict=True))

    compare(
        lambda q, k: liger.liger_rope(q, k, cos, sin, rotary_dim=16),
        reference,
        [rows(1, 3, 7, 40), rows(1, 1, 7, 40)],
        FLOAT32,
    )


def neighbours(x, frequencies):
    """Multiply neighbouring elements, taken as complex numbers, by `frequencies`."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * frequencies.to(torch.complex128)).flatten(-2)


@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(4, 2, 32), (3, 1, 40)])
def test_llama4_text_rope(compare, heads, kv_heads, dim):
    torch.manual_seed(23)
    frequencies = torch.polar(torch.ones(6, dim // 2, device=DEVICE), angles(6, dim // 2))
    compare(
        lambda q, k: liger_llama4_text_rotary_pos_emb(q, k, frequencies),
        lambda q, k: (neighbours(q, frequencies[:, None]), neighbours(k, frequencies[:, None])),
        [rows(2, 6, heads, dim), rows(2, 6, kv_heads, dim)],
        FLOAT32,
    )


def test_llama4_vision_rope(compare):
    torch.manual_seed(24)
    frequencies = torch.polar(torch.ones(5, 16, device=DEVICE), angles(5, 16))
    compare(
        lambda q, k: liger_llama4_vision_rotary_pos_emb(q, k, frequencies),
        lambda q, k: (neighbours(q, frequencies[:, None]), neighbours(k, frequencies[:, None])),
        [rows(2, 5, 2, 32), rows(2, 5, 2, 32)],
        FLOAT32,
    )


def test_qwen2vl_mrope(compare):
    torch.manual_seed(25)
    sections = [3, 4, 5]
    angle = angles(3, 2, 6, 12).repeat(1, 1, 1, 2)
    cos, sin = angle.cos(), angle.sin()

    def reference(q, k):
        # each section of a head has its own kind of position: time, height or width
        chosen = [
            torch.cat([part[n % 3] for n, part in enumerate(table.double().split(sections * 2, -1))], -1)[:, None]
            for table in (cos, sin)
        ]
        return tuple(halves(x, *chosen) for x in (q, k))

    compare(
        lambda q, k: liger.liger_qwen2vl_mrope(q, k, cos, sin, sections),
        reference,
        [rows(2, 3, 6, 24), rows(2, 1, 6, 24)],
        FLOAT32,
    )
