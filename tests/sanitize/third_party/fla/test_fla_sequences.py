"""Modules of fla that read neighbours in a sequence: convolution, token shift, rotary embedding, packing, pooling."""

import os

import pytest
import torch
import torch.nn.functional as F
from fla.modules.causal_conv1d import causal_conv1d
from fla.modules.rotary import rotary_embedding
from fla.modules.token_shift import token_shift
from fla.ops.utils.pack import pack_sequence, unpack_sequence
from fla.ops.utils.pooling import mean_pooling

DEVICE = os.environ.get("DEVICE", "cuda")

#: sums of at most a few hundred terms in float32, which has 24 bits of mantissa
FLOAT32 = 2**-19


def normal(*shape):
    """Return normal numbers that require gradients."""
    return torch.randn(*shape).to(DEVICE).requires_grad_()


def boundaries(*lengths):
    """Return the offsets of sequences that lie one after the other."""
    return torch.tensor([0, *lengths]).cumsum(0).to(DEVICE)


def convolution(x, weight, bias):
    """Return the causal convolution of each channel, x of [B, T, D], weight of [D, W]."""
    padded = F.pad(x.transpose(1, 2), (weight.shape[1] - 1, 0))
    return F.conv1d(padded, weight.unsqueeze(1), bias, groups=x.shape[2]).transpose(1, 2)


def test_causal_convolution_with_bias_and_silu(compare):
    compare(
        lambda x, weight, bias: causal_conv1d(x, weight, bias, activation="silu")[0],
        lambda x, weight, bias: F.silu(convolution(x, weight, bias)),
        {"x": normal(2, 37, 48), "weight": normal(48, 4), "bias": normal(48)},
        2**-17,  # exp.approx of silu, and a gradient of weight and bias that sums 74 rows in tiles
    )


def test_causal_convolution_of_packed_sequences(compare):
    offsets = boundaries(5, 19, 3)

    def reference(x, weight):
        parts = x.split([5, 19, 3], dim=1)
        return torch.cat([convolution(part, weight, None) for part in parts], dim=1)

    compare(
        lambda x, weight: causal_conv1d(x, weight, cu_seqlens=offsets)[0],
        reference,
        {"x": normal(1, 27, 32), "weight": normal(32, 3)},
        FLOAT32,
    )


def test_token_shift(compare):
    compare(
        token_shift,
        lambda x: torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1) - x,
        {"x": normal(2, 33, 100)},
        FLOAT32,
    )


def test_token_shift_of_packed_sequences(compare):
    offsets = boundaries(1, 14, 7)

    def reference(x):
        first = torch.zeros(22, dtype=torch.bool, device=x.device)
        first[offsets[:-1]] = True
        before = x.roll(1, dims=1).masked_fill(first[None, :, None], 0)
        return before - x

    compare(lambda x: token_shift(x, cu_seqlens=offsets), reference, {"x": normal(1, 22, 64)}, FLOAT32)


@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "pairs"])
def test_rotary_embedding(compare, interleaved):
    """The first 24 of 32 columns are turned, in the order of halves (NeoX) or pairs (GPT-J); the rest is copied."""

    def reference(x, cos, sin):
        turned, rest = x[..., :24], x[..., 24:]
        a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, dim=-1)
        cos, sin = cos[None, : x.shape[1], None], sin[None, : x.shape[1], None]
        left, right = a * cos - b * sin, a * sin + b * cos
        both = torch.stack([left, right], -1).flatten(-2) if interleaved else torch.cat([left, right], -1)
        return torch.cat([both, rest], -1)

    angles = torch.outer(torch.arange(40.0), 100.0 ** (-torch.arange(12) / 12))
    compare(
        lambda x, cos, sin: rotary_embedding(x, cos, sin, interleaved=interleaved),
        reference,
        {"x": normal(2, 19, 3, 32), "cos": angles.cos().to(DEVICE), "sin": angles.sin().to(DEVICE)},
        FLOAT32,
    )


@pytest.mark.parametrize("side", ["left", "right"])
def test_packing_moves_rows_only(side):
    """Nothing is computed: the results are equal bit by bit."""
    lengths = [3, 9, 6]
    offsets = boundaries(*lengths)
    padded = normal(3, 9, 40)
    spans = [slice(9 - n, 9) if side == "left" else slice(0, n) for n in lengths]
    packed = pack_sequence(padded, offsets, padding_side=side)
    expected = torch.cat([row[span] for row, span in zip(padded, spans, strict=True)]).detach()
    assert torch.equal(packed.reshape(18, 40), expected)
    weights = torch.randn(18, 40).to(DEVICE)
    (gradient,) = torch.autograd.grad(packed, padded, weights.reshape(packed.shape))
    wanted = torch.zeros_like(gradient)
    for row, span, part in zip(wanted, spans, weights.split(lengths), strict=True):
        row[span] = part
    assert torch.equal(gradient, wanted)
    again = unpack_sequence(packed.detach(), offsets, padding_side=side, desired_shape=padded.shape)
    assert torch.equal(pack_sequence(again, offsets, padding_side=side), packed)


def test_mean_pooling_of_chunks(compare):
    """The last chunk has 5 rows."""
    compare(
        lambda x: mean_pooling(x, 16),
        lambda x: torch.stack([part.mean(1) for part in x.split(16, dim=1)], dim=1),
        {"x": normal(2, 37, 2, 24)},
        FLOAT32,
    )
