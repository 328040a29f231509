"""Operators of fla.ops that split a sequence into chunks, beside the recurrence that defines them, in float64."""

import os

import pytest
import torch
import torch.nn.functional as F
import triton
from fla.ops import (
    chunk_delta_rule,
    chunk_gated_delta_rule,
    chunk_gla,
    chunk_kda,
    chunk_lightning_attn,
    chunk_linear_attn,
    chunk_rwkv6,
    chunk_simple_gla,
    fused_chunk_retention,
)

DEVICE = os.environ.get("DEVICE", "cuda")

# Tensor cores read float32 as TF32: 13 of 24 bits of mantissa are cut off, so a factor is short by up to 2^-10 of
# itself, a product of two by 2^-10.5 on average, and an output, two such products one after the other, by about 2^-9.5.
# A gradient is as many again, of which some cancel. float16 has 11 bits but is rounded, to either side, so that errors
# are 2^-12.3 of a factor in root mean square and average out; bfloat16 has 8.
OUTPUT = {torch.float32: 2**-9, torch.float16: 2**-11, torch.bfloat16: 2**-7}
GRADIENT = {dtype: 2 * bound for dtype, bound in OUTPUT.items()}

gated_gradients = pytest.mark.xfail(
    (3, 4, 0) <= tuple(int(part) for part in triton.__version__.split("+")[0].split(".")[:3]) < (3, 7, 1),
    raises=RuntimeError,
    strict=False,
    reason="on Hopper, fla refuses gradients of gates with Triton 3.4.0 to 3.7.0, which compiles them wrongly",
)


def normal(*shape, dtype=torch.float32):
    """Return normal numbers that require gradients."""
    return torch.randn(*shape).to(DEVICE, dtype).requires_grad_()


def unit(*shape, dtype=torch.float32):
    """Return random vectors of length 1 that require gradients."""
    return F.normalize(torch.randn(*shape), dim=-1).to(DEVICE, dtype).requires_grad_()


def decay(*shape, dtype=torch.float32):
    """Return logarithms of decays between 0.5 and 1."""
    return torch.log(1 - torch.rand(*shape) / 2).to(DEVICE, dtype).requires_grad_()


def share(*shape, dtype=torch.float32):
    """Return numbers between 0 and 1."""
    return torch.rand(*shape).to(DEVICE, dtype).requires_grad_()


def recurrence(q, k, v, g=None, beta=None, state=None):
    """Return outputs q_t S_t and the last state; all but the state are [B, T, H, ...].

    The state S [B, H, K, V] decays by exp(g), of each head or of each row. Then k_t v_t' is added, with beta the delta
    rule's k_t beta_t (v_t - k_t' S)'.
    """
    b, t, h, d = q.shape
    s = q.new_zeros(b, h, d, v.shape[-1]) if state is None else state
    out = []
    for i in range(t):
        if g is not None:
            s = s * (g[:, i, :, None, None] if g.dim() == 3 else g[:, i, :, :, None]).exp()
        added = v[:, i]
        if beta is not None:
            added = beta[:, i, :, None] * (added - torch.einsum("bhk,bhkv->bhv", k[:, i], s))
        s = s + k[:, i, :, :, None] * added[:, :, None]
        out.append(torch.einsum("bhk,bhkv->bhv", q[:, i] * d**-0.5, s))
    return torch.stack(out, 1), s


def test_linear_attention_normalized(compare):
    """Positive q and k, so that the sum of weights, the divisor, isn't near 0."""

    def reference(q, k, v):
        weights = torch.einsum("bqhd,bkhd->bhqk", q, k).tril() * 32**-0.5
        return torch.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdim=True), v)

    compare(
        lambda q, k, v: chunk_linear_attn(q, k, v, normalize=True)[0],
        reference,
        {"q": share(1, 70, 2, 32), "k": share(1, 70, 2, 32), "v": normal(1, 70, 2, 32)},
        OUTPUT[torch.float32], GRADIENT[torch.float32],
    )


@gated_gradients
def test_simple_gla_from_a_state_to_a_state(compare):
    compare(
        lambda q, k, v, g, state: chunk_simple_gla(q, k, v, g, initial_state=state, output_final_state=True),
        lambda q, k, v, g, state: recurrence(q, k, v, g, state=state),
        {
            "q": normal(1, 75, 1, 32), "k": normal(1, 75, 1, 32), "v": normal(1, 75, 1, 32), "g": decay(1, 75, 1),
            "state": normal(1, 1, 32, 32),
        },
        OUTPUT[torch.float32], GRADIENT[torch.float32],
    )


def test_lightning_attention(compare):
    """Of head h of 2 in layer 1 of 4, exp(-4 * (1 - 1 / 4) * h) of the state is kept."""

    def reference(q, k, v):
        kept = -(8 / 2 * (1 - 1 / 4)) * torch.arange(2, device=q.device, dtype=torch.double)
        return recurrence(q, k, v, kept.expand(1, 50, 2))[0]

    compare(
        lambda q, k, v: chunk_lightning_attn(q, k, v, layer_idx=1, num_layers=4)[0],
        reference,
        {"q": normal(1, 50, 2, 16), "k": normal(1, 50, 2, 16), "v": normal(1, 50, 2, 32)},
        OUTPUT[torch.float32], GRADIENT[torch.float32],
    )


def test_retention_in_half_precision(compare):
    """Head h keeps 1 - 2^(-5 - h) of its state."""

    def reference(q, k, v):
        kept = torch.log(1 - 2.0 ** (-5 - torch.arange(2, device=q.device, dtype=torch.double)))
        return recurrence(q, k, v, kept.expand(1, 64, 2))[0]

    compare(
        lambda q, k, v: fused_chunk_retention(q, k, v)[0],
        reference,
        {
            "q": normal(1, 64, 2, 16, dtype=torch.half), "k": normal(1, 64, 2, 16, dtype=torch.half),
            "v": normal(1, 64, 2, 16, dtype=torch.half),
        },
        OUTPUT[torch.half], GRADIENT[torch.half],
    )


def test_gla_with_a_decay_of_each_row(compare):
    compare(
        lambda q, k, v, g: chunk_gla(q, k, v, g, output_final_state=True),
        recurrence,
        {"q": normal(1, 40, 1, 32), "k": normal(1, 40, 1, 32), "v": normal(1, 40, 1, 32), "g": decay(1, 40, 1, 32)},
        OUTPUT[torch.float32], GRADIENT[torch.float32],
    )


def test_delta_rule_in_bfloat16(compare):
    """Only 16-bit types are accepted. The inverse of a chunk's triangular matrix is made of up to six more products."""
    compare(
        lambda q, k, v, beta: chunk_delta_rule(q, k, v, beta)[0],
        lambda q, k, v, beta: recurrence(q, k, v, beta=beta)[0],
        {
            "q": normal(1, 66, 1, 32, dtype=torch.bfloat16), "k": unit(1, 66, 1, 32, dtype=torch.bfloat16),
            "v": normal(1, 66, 1, 32, dtype=torch.bfloat16), "beta": share(1, 66, 1, dtype=torch.bfloat16),
        },
        2 * OUTPUT[torch.bfloat16], 2 * GRADIENT[torch.bfloat16],
    )


@gated_gradients
def test_gated_delta_rule(compare):
    compare(
        lambda q, k, v, g, beta, state: chunk_gated_delta_rule(
            q, k, v, g, beta, initial_state=state, output_final_state=True
        ),
        recurrence,
        {
            "q": normal(1, 70, 1, 32), "k": unit(1, 70, 1, 32), "v": normal(1, 70, 1, 32), "g": decay(1, 70, 1),
            "beta": share(1, 70, 1), "state": normal(1, 1, 32, 32),
        },
        OUTPUT[torch.float32], GRADIENT[torch.float32],
    )


def test_kda(compare):
    """The gated delta rule with a decay of each row."""
    compare(
        lambda q, k, v, g, beta: chunk_kda(q, k, v, g, beta, output_final_state=True),
        recurrence,
        {
            "q": normal(1, 64, 1, 32), "k": unit(1, 64, 1, 32), "v": normal(1, 64, 1, 32), "g": decay(1, 64, 1, 32),
            "beta": share(1, 64, 1),
        },
        OUTPUT[torch.float32], GRADIENT[torch.float32],
    )


def test_rwkv6(compare):
    """The output reads the state before the step, and k_t v_t' weighted by the bonus u."""

    def reference(r, k, v, w, u):
        s, out = r.new_zeros(1, 1, 32, 32), []
        for i in range(40):
            kv = k[:, i, :, :, None] * v[:, i, :, None]
            out.append(torch.einsum("bhk,bhkv->bhv", r[:, i] * 32**-0.5, s + u[None, :, :, None] * kv))
            s = s * w[:, i, :, :, None].exp() + kv
        return torch.stack(out, 1)

    compare(
        lambda r, k, v, w, u: chunk_rwkv6(r, k, v, w, u)[0],
        reference,
        {
            "r": normal(1, 40, 1, 32), "k": normal(1, 40, 1, 32), "v": normal(1, 40, 1, 32), "w": decay(1, 40, 1, 32),
            "u": normal(1, 32),
        },
        OUTPUT[torch.float32], GRADIENT[torch.float32],
    )
