"""Losses of liger-kernel that contain the last linear layer, against two steps of torch in float64."""

import os

import pytest
import torch
from liger_kernel.transformers import functional as liger

DEVICE = os.environ.get("DEVICE", "cuda")
# float32 has 24 bits of mantissa: five of them are left to sums of a few hundred elements, to approximate
# exponentials and logarithms, and to differences of logarithms that cancel
FLOAT32 = 2.0**-19
# half an ulp is 2**-8 for 8 bits of mantissa; logits and their gradients are rounded, and an error of a logit
# between 2 and 4 is as large, in relation to its exponential, as an ulp of the logit: 2**-6
BFLOAT16 = 2.0**-6
IGNORED = -100


def rows(*shape, dtype=torch.float32):
    """Return normally distributed numbers, the same on each device."""
    return torch.randn(shape).to(DEVICE, dtype)


def labels(count, classes):
    """Return class numbers, of which the second is to be ignored."""
    chosen = torch.randint(classes, (count,)).to(DEVICE)
    chosen[1] = IGNORED
    return chosen


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_fused_linear_cross_entropy(compare, reduction):
    torch.manual_seed(51)
    target = labels(6, 37)
    compare(
        lambda x, w, b: liger.liger_fused_linear_cross_entropy(x, w, target, b, reduction=reduction),
        lambda x, w, b: torch.nn.functional.cross_entropy(x @ w.T + b, target, reduction=reduction),
        [rows(6, 32), rows(37, 32) / 6, rows(37)],
        FLOAT32,
    )


def test_fused_linear_cross_entropy_of_bfloat16(compare):
    torch.manual_seed(52)
    target = labels(4, 90)
    compare(
        lambda x, w: liger.liger_fused_linear_cross_entropy(x, w, target, accum_dtype=torch.float32),
        lambda x, w: torch.nn.functional.cross_entropy(x @ w.T, target),
        [rows(4, 48, dtype=torch.bfloat16), rows(90, 48, dtype=torch.bfloat16) / 8],
        BFLOAT16,
    )


def test_fused_linear_cross_entropy_with_softcap_and_smoothing(compare):
    torch.manual_seed(53)
    target = labels(5, 33)

    def reference(x, w):
        capped = 2 * torch.tanh(x @ w.T / 2)
        z_loss = 0.01 * capped[target != IGNORED].logsumexp(-1).square().mean()
        return torch.nn.functional.cross_entropy(capped, target, label_smoothing=0.1) + z_loss

    compare(
        lambda x, w: liger.liger_fused_linear_cross_entropy(
            x, w, target, softcap=2.0, label_smoothing=0.1, lse_square_scale=0.01
        ),
        reference,
        [rows(5, 24), rows(33, 24) / 5],
        FLOAT32,
    )


def divergence(x, y, beta):
    """Return the elements of the generalized divergence of Jensen and Shannon of two tensors of logarithms."""
    if beta == 0:
        return y.exp() * (y - x)
    mixed = (beta * y.exp() + (1 - beta) * x.exp()).log()
    return beta * y.exp() * (y - mixed) + (1 - beta) * x.exp() * (x - mixed)


@pytest.mark.parametrize("beta", [0.5, 0.0])
def test_fused_linear_jsd(compare, beta):
    torch.manual_seed(54)
    teacher, teacher_weight = rows(5, 24), rows(40, 24) / 5
    chosen = labels(5, 40)

    def reference(x, w):
        ours = (x @ w.T / 1.5).log_softmax(-1)
        other = (teacher.double() @ teacher_weight.double().T / 1.5).log_softmax(-1)
        return divergence(ours, other, beta)[chosen != IGNORED].sum() / 4

    compare(
        lambda x, w: liger.liger_fused_linear_jsd(
            x, w, teacher, teacher_weight, chosen, jsd_beta=beta, temperature=1.5
        ),
        reference,
        [rows(5, 20), rows(40, 20) / 4],
        FLOAT32,
    )


@pytest.mark.parametrize("reduction", ["batchmean", "mean"])
def test_fused_linear_kl_div(compare, reduction):
    torch.manual_seed(55)
    target = rows(5, 35).softmax(-1)
    chosen = labels(5, 35)

    def reference(x, w):
        elements = torch.nn.functional.kl_div((x @ w.T / 2).log_softmax(-1), target.double(), reduction="none")
        return elements[chosen != IGNORED].sum() / (4 if reduction == "batchmean" else 4 * 35)

    compare(
        lambda x, w: liger.liger_fused_linear_kl_div(x, w, target, chosen, reduction=reduction, temperature=2.0),
        reference,
        [rows(5, 36), rows(35, 36) / 6],
        FLOAT32,
    )
