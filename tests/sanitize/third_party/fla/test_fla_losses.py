"""Loss functions of fla.modules beside torch's own in float64."""

import os

import pytest
import torch
import torch.nn.functional as F
from fla.modules import FusedCrossEntropyLoss, FusedKLDivLoss, FusedLinearCrossEntropyLoss
from fla.modules.grpo import fused_grpo_loss

DEVICE = os.environ.get("DEVICE", "cuda")

#: float32 has 24 bits of mantissa: a log of a sum of a few hundred exponentials, in any order, agrees to 2^-17, and
#: so do the products of linear layers, which torch computes in float32 unless TF32 is allowed
FLOAT32 = 2**-17


def normal(*shape, dtype=torch.float32):
    """Return normal numbers that require gradients."""
    return torch.randn(*shape).to(DEVICE, dtype).requires_grad_()


def labels(classes, rows, ignored=()):
    """Return class numbers, -100 in ignored rows."""
    target = torch.randint(classes, (rows,))
    target[list(ignored)] = -100
    return target.to(DEVICE)


@pytest.mark.parametrize("classes", [100, 512])
def test_cross_entropy_ignores_rows(compare, classes):
    target = labels(classes, 6, ignored=(1, 4))
    compare(
        lambda x: FusedCrossEntropyLoss()(x, target),
        lambda x: F.cross_entropy(x, target),
        {"x": normal(6, classes)},
        FLOAT32,
    )


def test_cross_entropy_with_smoothing_and_scale(compare):
    target = labels(190, 5)
    loss = FusedCrossEntropyLoss(label_smoothing=0.1, logit_scale=0.7, reduction="sum")
    compare(
        lambda x: loss(x, target),
        lambda x: F.cross_entropy(0.7 * x, target, label_smoothing=0.1, reduction="sum"),
        {"x": normal(5, 190)},
        FLOAT32,
    )


def test_cross_entropy_with_a_penalty_of_the_normalizer(compare):
    target = labels(96, 4)
    loss = FusedCrossEntropyLoss(lse_square_scale=0.01)
    compare(
        lambda x: loss(x, target),
        lambda x: F.cross_entropy(x, target) + 0.01 * torch.logsumexp(x, -1).square().mean(),
        {"x": normal(4, 96)},
        FLOAT32,
    )


def test_cross_entropy_of_a_linear_layer(compare):
    target = labels(70, 8, ignored=(3,))
    loss = FusedLinearCrossEntropyLoss(num_chunks=2)
    compare(
        lambda x, weight, bias: loss(x, target, weight, bias),
        lambda x, weight, bias: F.cross_entropy(x @ weight.T + bias, target),
        {"x": normal(8, 32), "weight": normal(70, 32), "bias": normal(70)},
        FLOAT32,
    )


def test_kl_divergence_of_two_linear_layers(compare):
    def reference(x, weight):
        wanted = F.log_softmax(target_x.double() @ target_weight.double().T, -1)
        return F.kl_div(F.log_softmax(x @ weight.T, -1), wanted, log_target=True, reduction="batchmean")

    target_x, target_weight = normal(6, 32).detach(), normal(50, 32).detach()
    loss = FusedKLDivLoss()
    compare(
        lambda x, weight: loss(x, target_x, weight, target_weight),
        reference,
        {"x": normal(6, 32), "weight": normal(50, 32)},
        FLOAT32,
    )


def test_grpo_loss_of_masked_completions(compare):
    """The last token's logits have no successor; the policy's ratio to itself is 1 but has a gradient."""

    def reference(logits, ref):
        logp = F.log_softmax(logits[:, :-1], -1).gather(-1, tokens[:, -5:, None]).squeeze(-1)
        divergence = torch.exp(ref - logp) - (ref - logp) - 1
        gain = torch.exp(logp - logp.detach()) * advantages[:, None].double()
        return (0.1 * divergence - gain) * mask

    tokens = torch.randint(90, (2, 8)).to(DEVICE)
    advantages = torch.randn(2).to(DEVICE)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.int32).to(DEVICE)
    ref = F.log_softmax(torch.randn(2, 5, 90), -1)[..., 0].to(DEVICE)
    compare(
        lambda logits, ref: fused_grpo_loss(logits, ref, tokens, advantages, beta=0.1, completion_mask=mask),
        reference,
        {"logits": normal(2, 6, 90), "ref": ref},
        FLOAT32,
    )
