"""Recurrent operators of fla.ops, one step of the sequence after the other, beside their definition in float64."""

import os

import pytest
import torch
import torch.nn.functional as F
from fla.ops import (
    fused_recurrent_delta_rule,
    fused_recurrent_gated_delta_rule,
    fused_recurrent_gla,
    fused_recurrent_gsa,
    fused_recurrent_hgrn,
    fused_recurrent_kda,
    fused_recurrent_linear_attn,
    fused_recurrent_retention,
    fused_recurrent_rwkv6,
    fused_recurrent_rwkv7,
    fused_recurrent_simple_gla,
)
from fla.ops.hgrn import chunk_hgrn

DEVICE = os.environ.get("DEVICE", "cuda")

#: float32 has 24 bits of mantissa: a state of up to 50 products, summed step by step, agrees to 2^-18; gradients that
#: are sums over the whole sequence, or differences of two sums, to 2^-16
STATE, GRADIENT = 2**-18, 2**-16


def normal(*shape, scale=1.0, dtype=torch.float32):
    """Return normal numbers that require gradients."""
    return (scale * torch.randn(*shape)).to(DEVICE, dtype).requires_grad_()


def unit(*shape):
    """Return random vectors of length 1 that require gradients."""
    return F.normalize(torch.randn(*shape), dim=-1).to(DEVICE).requires_grad_()


def decay(*shape):
    """Return logarithms of decays, which are below 0."""
    return F.logsigmoid(torch.randn(*shape) + 1).to(DEVICE).requires_grad_()


def share(*shape):
    """Return numbers between 0 and 1."""
    return torch.rand(*shape).to(DEVICE).requires_grad_()


def linear(q, k, v, g=None, state=None):
    """Return the outputs q_t S_t and the last state of S_t = exp(g_t) S_(t-1) + k_t v_t', all of [B, T, H, ...].

    g is the logarithm of the decay of a head, [B, T, H], or of a row of the state, [B, T, H, K].
    """
    b, t, h, d = q.shape
    s = q.new_zeros(b, h, d, v.shape[-1]) if state is None else state
    out = []
    for i in range(t):
        if g is not None:
            s = s * (g[:, i, :, None, None] if g.dim() == 3 else g[:, i, :, :, None]).exp()
        s = s + k[:, i, :, :, None] * v[:, i, :, None]
        out.append(torch.einsum("bhk,bhkv->bhv", q[:, i] * d**-0.5, s))
    return torch.stack(out, 1), s


def delta(q, k, v, beta, g=None, state=None):
    """Return outputs and the last state of the delta rule: what k_t reads of the state moves to v_t by beta_t."""
    b, t, h, d = q.shape
    s = q.new_zeros(b, h, d, v.shape[-1]) if state is None else state
    out = []
    for i in range(t):
        if g is not None:
            s = s * (g[:, i, :, None, None] if g.dim() == 3 else g[:, i, :, :, None]).exp()
        read = torch.einsum("bhk,bhkv->bhv", k[:, i], s)
        s = s + k[:, i, :, :, None] * (beta[:, i, :, None] * (v[:, i] - read))[:, :, None]
        out.append(torch.einsum("bhk,bhkv->bhv", q[:, i] * d**-0.5, s))
    return torch.stack(out, 1), s


def test_linear_attention(compare):
    compare(
        lambda q, k, v: fused_recurrent_linear_attn(q, k, v, normalize=False)[0],
        lambda q, k, v: linear(q, k, v)[0],
        {"q": normal(2, 17, 2, 32), "k": normal(2, 17, 2, 32), "v": normal(2, 17, 2, 24)},
        STATE, GRADIENT,
    )


def test_simple_gla_from_a_state_to_a_state(compare):
    compare(
        lambda q, k, v, g, state: fused_recurrent_simple_gla(
            q, k, v, g, initial_state=state, output_final_state=True
        ),
        linear,
        {
            "q": normal(1, 29, 2, 16), "k": normal(1, 29, 2, 16), "v": normal(1, 29, 2, 40), "g": decay(1, 29, 2),
            "state": normal(1, 2, 16, 40),
        },
        STATE, GRADIENT,
    )


def test_simple_gla_of_packed_sequences(compare):
    offsets = torch.tensor([0, 9, 12, 30]).to(DEVICE)

    def reference(q, k, v, g):
        parts = zip(*(x.split([9, 3, 18], dim=1) for x in (q, k, v, g)), strict=True)
        return torch.cat([linear(*part)[0] for part in parts], dim=1)

    compare(
        lambda q, k, v, g: fused_recurrent_simple_gla(q, k, v, g, cu_seqlens=offsets)[0],
        reference,
        {"q": normal(1, 30, 1, 16), "k": normal(1, 30, 1, 16), "v": normal(1, 30, 1, 16), "g": decay(1, 30, 1)},
        STATE, GRADIENT,
    )


def test_gla_with_a_decay_of_each_row(compare):
    compare(
        lambda q, k, v, g: fused_recurrent_gla(q, k, v, g, output_final_state=True),
        linear,
        {"q": normal(2, 21, 1, 32), "k": normal(2, 21, 1, 32), "v": normal(2, 21, 1, 32), "g": decay(2, 21, 1, 32)},
        STATE, GRADIENT,
    )


def test_retention(compare):
    """Head h keeps 1 - 2^(-5 - h) of its state."""

    def reference(q, k, v):
        kept = torch.log(1 - 2.0 ** (-5 - torch.arange(2, device=q.device, dtype=torch.double)))
        return linear(q, k, v, kept.expand(1, 24, 2))[0]

    compare(
        lambda q, k, v: fused_recurrent_retention(q, k, v)[0],
        reference,
        {"q": normal(1, 24, 2, 16), "k": normal(1, 24, 2, 16), "v": normal(1, 24, 2, 32)},
        STATE, GRADIENT,
    )


def test_delta_rule(compare):
    compare(
        lambda q, k, v, beta, state: fused_recurrent_delta_rule(
            q, k, v, beta, initial_state=state, output_final_state=True
        ),
        lambda q, k, v, beta, state: delta(q, k, v, beta, state=state),
        {
            "q": normal(1, 20, 2, 32), "k": unit(1, 20, 2, 32), "v": normal(1, 20, 2, 16), "beta": share(1, 20, 2),
            "state": normal(1, 2, 32, 16),
        },
        STATE, GRADIENT,
    )


def test_gated_delta_rule_without_gradients(compare):
    """There is no backward kernel of it."""
    inputs = {
        "q": normal(2, 25, 2, 16), "k": unit(2, 25, 2, 16), "v": normal(2, 25, 2, 24), "beta": share(2, 25, 2),
        "g": decay(2, 25, 2),
    }
    compare(
        lambda q, k, v, beta, g: fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, output_final_state=True),
        delta,
        {name: x.detach() for name, x in inputs.items()},
        STATE,
    )


def test_kda_without_gradients(compare):
    """The gated delta rule with a decay of each row, and no backward kernel."""
    inputs = {
        "q": normal(1, 18, 2, 32), "k": unit(1, 18, 2, 32), "v": normal(1, 18, 2, 32), "beta": share(1, 18, 2),
        "g": decay(1, 18, 2, 32),
    }
    compare(
        lambda q, k, v, beta, g: fused_recurrent_kda(q, k, v, g, beta, output_final_state=True),
        delta,
        {name: x.detach() for name, x in inputs.items()},
        STATE,
    )


@pytest.mark.parametrize("function", [fused_recurrent_hgrn, chunk_hgrn], ids=["recurrent", "chunk"])
def test_hgrn(compare, function):
    """A gated sum of each column. The chunks have 128 rows: the second has 3."""
    t = 40 if function is fused_recurrent_hgrn else 131

    def reference(x, g):
        s, out = torch.zeros_like(x[:, 0]), []
        for i in range(t):
            s = s * g[:, i].exp() + x[:, i]
            out.append(s)
        return torch.stack(out, 1)

    compare(lambda x, g: function(x, g)[0], reference, {"x": normal(1, t, 36), "g": decay(1, t, 36)}, STATE, GRADIENT)


def test_rwkv6(compare, check):
    """The output reads the state before the step, and k_t v_t' weighted by the bonus u.

    The last state is compared alone: its gradient isn't propagated.
    """

    def reference(r, k, v, w, u):
        s, out = r.new_zeros(1, 2, 32, 32), []
        for i in range(22):
            kv = k[:, i, :, :, None] * v[:, i, :, None]
            out.append(torch.einsum("bhk,bhkv->bhv", r[:, i] * 32**-0.5, s + u[None, :, :, None] * kv))
            s = s * w[:, i, :, :, None].exp() + kv
        return torch.stack(out, 1), s

    inputs = {
        "r": normal(1, 22, 2, 32), "k": normal(1, 22, 2, 32), "v": normal(1, 22, 2, 32), "w": decay(1, 22, 2, 32),
        "u": normal(2, 32),
    }
    with torch.no_grad():
        _, state = fused_recurrent_rwkv6(*inputs.values(), output_final_state=True)
        check("last state", state, reference(*(x.double() for x in inputs.values()))[1], STATE)
    compare(
        lambda *args: fused_recurrent_rwkv6(*args)[0], lambda *args: reference(*args)[0], inputs, STATE, GRADIENT
    )


def test_rwkv7_without_gradients(compare):
    """S_t = S_(t-1) diag(exp(w_t)) + (S_(t-1) a_t) b_t' + v_t k_t', here transposed."""

    def reference(r, w, k, v, a, b):
        s, out = r.new_zeros(2, 1, 32, 16), []
        for i in range(19):
            read = torch.einsum("bhk,bhkv->bhv", a[:, i], s)
            s = s * w[:, i, :, :, None].exp() + b[:, i, :, :, None] * read[:, :, None]
            s = s + k[:, i, :, :, None] * v[:, i, :, None]
            out.append(torch.einsum("bhk,bhkv->bhv", r[:, i], s))
        return torch.stack(out, 1), s

    direction = unit(2, 19, 1, 32).detach()
    inputs = {
        "r": normal(2, 19, 1, 32), "w": decay(2, 19, 1, 32), "k": normal(2, 19, 1, 32), "v": normal(2, 19, 1, 16),
        "a": -direction, "b": direction * share(2, 19, 1, 32),
    }
    compare(
        lambda r, w, k, v, a, b: fused_recurrent_rwkv7(r, w, k, v, a, b, scale=1.0, output_final_state=True),
        reference,
        {name: x.detach() for name, x in inputs.items()},
        STATE,
    )


def test_gsa_reads_slots(compare):
    """Two gated linear recurrences: keys into slots, a softmax over the slots, slots into values."""

    def reference(q, k, v, s, g):
        t = q.shape[1]
        keys, values, out = q.new_zeros(1, 1, 32, 16), q.new_zeros(1, 1, 16, 32), []
        for i in range(t):
            kept = g[:, i].exp()
            keys = keys * kept[:, :, None] + k[:, i, :, :, None] * s[:, i, :, None]
            values = values * kept[..., None] + s[:, i, :, :, None] * v[:, i, :, None]
            scores = torch.einsum("bhk,bhkm->bhm", q[:, i] * 32**-0.5, keys)
            out.append(torch.einsum("bhm,bhmv->bhv", scores.softmax(-1), values))
        return torch.stack(out, 1)

    compare(
        lambda q, k, v, s, g: fused_recurrent_gsa(q, k, v, s, g)[0],
        reference,
        {
            "q": normal(1, 15, 1, 32), "k": normal(1, 15, 1, 32), "v": normal(1, 15, 1, 32), "s": share(1, 15, 1, 16),
            "g": decay(1, 15, 1, 16),
        },
        STATE, GRADIENT,
    )
