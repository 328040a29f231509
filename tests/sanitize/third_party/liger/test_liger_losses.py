"""Losses of liger-kernel against torch's and against their formulas in float64."""

import os

import pytest
import torch
from liger_kernel.transformers import LigerFusedCETVDLoss, LigerVocabParallelCrossEntropy
from liger_kernel.transformers import functional as liger
from liger_kernel.transformers.grpo_loss import triton_grpo_loss

DEVICE = os.environ.get("DEVICE", "cuda")
# float32 has 24 bits of mantissa: five of them are left to sums of a few hundred elements, to approximate
# exponentials and logarithms, and to differences of logarithms that cancel
FLOAT32 = 2.0**-19
# half an ulp is 2**-11 for 11 bits of mantissa and 2**-8 for 8 bits; the two parts of a bound allow four of them for
# the largest elements, and the kernels round three times in a row or less
TOLERANCE = {torch.float32: FLOAT32, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
IGNORED = -100


def rows(*shape, dtype=torch.float32):
    """Return normally distributed numbers, the same on each device."""
    return torch.randn(shape).to(DEVICE, dtype)


def labels(count, classes):
    """Return class numbers, of which the second is to be ignored."""
    chosen = torch.randint(classes, (count,)).to(DEVICE)
    chosen[1] = IGNORED
    return chosen


@pytest.mark.parametrize(
    ("columns", "dtype", "reduction"),
    [
        (128, torch.float32, "mean"),
        (77, torch.float32, "sum"),
        (77, torch.float32, "none"),
        (300, torch.bfloat16, "mean"),
    ],
)
def test_cross_entropy(compare, columns, dtype, reduction):
    torch.manual_seed(31)
    target = labels(4, columns)
    compare(
        lambda x: liger.liger_cross_entropy(x, target, reduction=reduction),
        lambda x: torch.nn.functional.cross_entropy(x, target, reduction=reduction),
        [rows(4, columns, dtype=dtype)],
        TOLERANCE[dtype],
    )


def test_cross_entropy_with_label_smoothing_and_z_loss(compare):
    torch.manual_seed(32)
    target = labels(5, 99)

    def reference(x):
        kept = x[target != IGNORED].logsumexp(-1).square().mean()
        return torch.nn.functional.cross_entropy(x, target, label_smoothing=0.1) + 0.01 * kept

    compare(
        lambda x: liger.liger_cross_entropy(x, target, label_smoothing=0.1, lse_square_scale=0.01),
        reference,
        [rows(5, 99)],
        FLOAT32,
    )


def test_cross_entropy_with_class_weights(compare):
    torch.manual_seed(33)
    target = labels(4, 60)
    weight = torch.rand(60).to(DEVICE) + 0.5
    compare(
        lambda x: liger.liger_cross_entropy(x, target, weight, label_smoothing=0.2),
        lambda x: torch.nn.functional.cross_entropy(x, target, weight.double(), label_smoothing=0.2),
        [rows(4, 60)],
        FLOAT32,
    )


def test_cross_entropy_with_softcap(compare):
    torch.manual_seed(34)
    target = labels(3, 130)
    compare(
        lambda x: liger.liger_cross_entropy(x, target, softcap=3.0),
        lambda x: torch.nn.functional.cross_entropy(3 * torch.tanh(x / 3), target),
        [rows(3, 130)],
        FLOAT32,
    )


def test_cross_entropy_reports_predictions(near):
    torch.manual_seed(35)
    target = labels(6, 50)
    x = rows(6, 50)
    target[0] = x[0].argmax()
    result = liger.liger_cross_entropy(
        x.clone(),
        target,
        lse_square_scale=0.1,
        return_z_loss=True,
        return_token_accuracy=True,
        return_predicted_tokens=True,
    )
    kept = target != IGNORED
    exact = x.double()
    z_loss = 0.1 * exact[kept].logsumexp(-1).square().mean()
    near(result.z_loss, z_loss, FLOAT32)
    near(result.loss, torch.nn.functional.cross_entropy(exact, target) + z_loss, FLOAT32)
    predicted = torch.where(kept, x.argmax(-1), -1)
    assert result.predicted_tokens.tolist() == predicted.tolist()
    near(result.token_accuracy, (predicted == target)[kept].double().mean(), FLOAT32)


@pytest.mark.parametrize("formula", ["pytorch", "megatron"])
def test_vocab_parallel_cross_entropy(compare, formula):
    torch.manual_seed(36)
    target = labels(6, 70).view(3, 2)
    loss = LigerVocabParallelCrossEntropy(label_smoothing=0.1, label_smoothing_formula=formula)
    # Megatron spreads the smoothed part over the wrong classes only
    smoothing = 0.1 if formula == "pytorch" else 0.1 * 70 / 69

    def reference(x):
        flat = torch.nn.functional.cross_entropy(
            x.flatten(0, 1), target.flatten(), label_smoothing=smoothing, reduction="none"
        )
        return flat.view(3, 2)

    compare(lambda x: loss(x, target), reference, [rows(3, 2, 70)], FLOAT32)


@pytest.mark.parametrize(
    ("reduction", "log_target"), [("batchmean", False), ("batchmean", True), ("mean", True), ("none", False)]
)
def test_kl_div(compare, reduction, log_target):
    torch.manual_seed(37)
    target = rows(4, 90).log_softmax(-1) if log_target else rows(4, 90).softmax(-1)

    def reference(x):
        elements = torch.nn.functional.kl_div(x, target.double(), reduction="none", log_target=log_target)
        return {"none": elements, "mean": elements.mean(), "batchmean": elements.sum() / 4}[reduction]

    compare(
        lambda x: liger.liger_kl_div(x, target, reduction=reduction, log_target=log_target),
        reference,
        [rows(4, 90).log_softmax(-1)],
        FLOAT32,
    )


def divergence(x, y, beta):
    """Return the elements of the generalized divergence of Jensen and Shannon of two tensors of logarithms."""
    if beta == 0:
        return y.exp() * (y - x)
    if beta == 1:
        return x.exp() * (x - y)
    mixed = (beta * y.exp() + (1 - beta) * x.exp()).log()
    return beta * y.exp() * (y - mixed) + (1 - beta) * x.exp() * (x - mixed)


@pytest.mark.parametrize(
    ("beta", "dtype"), [(0.5, torch.float32), (0.1, torch.float32), (0.0, torch.float32), (1.0, torch.bfloat16)]
)
def test_jsd(compare, beta, dtype):
    torch.manual_seed(38)
    target = rows(4, 110).log_softmax(-1).to(dtype)
    compare(
        lambda x: liger.liger_jsd(x, target, beta=beta),
        lambda x: divergence(x, target.double(), beta).sum() / 4,
        [rows(4, 110).log_softmax(-1).to(dtype)],
        TOLERANCE[dtype],
    )


def test_jsd_with_ignored_rows(compare):
    torch.manual_seed(39)
    target = rows(5, 64).log_softmax(-1)
    chosen = labels(5, 64)
    compare(
        lambda x: liger.liger_jsd(x, target, chosen, beta=0.3),
        lambda x: divergence(x, target.double(), 0.3)[chosen != IGNORED].sum() / 4,
        [rows(5, 64).log_softmax(-1)],
        FLOAT32,
    )


@pytest.mark.parametrize("reduction", ["batchmean", "mean", "sum", "none"])
def test_tvd(compare, reduction):
    torch.manual_seed(40)
    target = rows(4, 75).softmax(-1)
    scale = {"batchmean": 4, "mean": 4 * 75, "sum": 1, "none": 1}[reduction]

    def reference(x):
        distance = 0.5 * (x - target.double()).abs() / scale
        if reduction == "none":
            return distance
        return distance.sum(0 if distance.dim() == 1 else None)

    compare(lambda x: liger.liger_tvd(x, target, reduction=reduction), reference, [rows(4, 75).softmax(-1)], FLOAT32)


def test_tvd_with_ignored_rows(compare):
    torch.manual_seed(41)
    target = rows(5, 100).softmax(-1)
    chosen = labels(5, 100)
    compare(
        lambda x: liger.liger_tvd(x, target, chosen, reduction="batchmean"),
        lambda x: 0.5 * (x - target.double())[chosen != IGNORED].abs().sum() / 4,
        [rows(5, 100).softmax(-1)],
        FLOAT32,
    )


def test_fused_cross_entropy_and_tvd(compare):
    torch.manual_seed(42)
    teacher = rows(5, 120)
    target = labels(5, 120)
    loss = LigerFusedCETVDLoss()

    def reference(x):
        kept = target != IGNORED
        distance = 0.5 * (x.softmax(-1) - teacher.double().softmax(-1)).abs().sum(-1)
        return torch.nn.functional.cross_entropy(x, target, reduction="none"), distance * kept

    compare(lambda x: loss(x, teacher, target), reference, [rows(5, 120)], FLOAT32)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_grpo_loss(compare, level):
    torch.manual_seed(43)
    chosen = torch.randint(90, (2, 3)).to(DEVICE)
    advantages = rows(2)
    logits = rows(2, 4, 90)
    now = logits[:, :-1].log_softmax(-1).gather(-1, chosen[..., None])[..., 0]
    old = now + 0.3 * rows(2, 3)
    other = now + 0.3 * rows(2, 3)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]], device=DEVICE)

    def reference(x):
        log_p = (x[:, :-1] / 0.9).log_softmax(-1).gather(-1, chosen[..., None])[..., 0]
        log_ratio = log_p - old.double()
        if level == "sequence":
            log_ratio = ((log_ratio * mask).sum(-1) / mask.sum(-1))[:, None]
        ratio = log_ratio.exp()
        scale = advantages.double()[:, None]
        gain = torch.minimum(ratio * scale, ratio.clamp(0.8, 1.4) * scale)
        log_quotient = other.double() - log_p
        penalty = log_quotient.exp() - log_quotient - 1
        return (((0.04 * penalty - gain) * mask).sum(-1) / mask.sum(-1)).mean()

    def ours(x):
        return triton_grpo_loss(
            x,
            old,
            other,
            chosen,
            advantages,
            mask,
            temperature=0.9,
            beta=0.04,
            eps_low=0.2,
            eps_high=0.4,
            inplace=False,
            loss_type="grpo",
            importance_sampling_level=level,
            reduce=True,
        )[0]

    compare(ours, reference, [logits], FLOAT32)
