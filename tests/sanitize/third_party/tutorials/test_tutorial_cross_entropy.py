"""Cross entropy over a large number of classes: one pass finds the normalizer, another replaces scores by gradients."""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def forward_kernel(x_ptr, target_ptr, loss_ptr, lse_ptr, stride, CLASSES, IGNORED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(target_ptr + row)
    x_ptr += row * stride
    largest, total = -float("inf"), 0.0
    for start in range(0, CLASSES, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < CLASSES, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(x - larger), axis=0)
        largest = larger
    lse = largest + tl.log(total)
    tl.store(lse_ptr + row, lse)
    loss = 0.0
    if target != IGNORED:
        loss = lse - tl.load(x_ptr + target).to(tl.float32)
    tl.store(loss_ptr + row, loss)


@triton.jit
def backward_kernel(
    x_ptr, target_ptr, lse_ptr, dloss_ptr, stride, CLASSES, IGNORED: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < CLASSES
    target = tl.load(target_ptr + row)
    dloss = tl.where(target == IGNORED, 0.0, tl.load(dloss_ptr + row))
    x = tl.load(x_ptr + row * stride + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    dx = dloss * (tl.exp(x - tl.load(lse_ptr + row)) - tl.where(offsets == target, 1.0, 0.0))
    tl.store(x_ptr + row * stride + offsets, dx.to(x_ptr.dtype.element_ty), mask=inside)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, ignored, block):
        rows, classes = x.shape
        loss, lse = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
        forward_kernel[(rows,)](x, target, loss, lse, x.stride(0), classes, IGNORED=ignored, BLOCK=block)
        ctx.save_for_backward(x, target, lse)
        ctx.options = ignored, block
        return loss

    @staticmethod
    def backward(ctx, dloss):
        x, target, lse = ctx.saved_tensors
        ignored, block = ctx.options
        rows, classes = x.shape
        grid = (rows, triton.cdiv(classes, block))
        backward_kernel[grid](
            x, target, lse, dloss.contiguous(), x.stride(0), classes, IGNORED=ignored, BLOCK=block
        )
        return x, None, None, None


@pytest.mark.parametrize(("classes", "block"), [(1000, 256), (130, 128), (77, 128)], ids=str)
def test_cross_entropy(classes, block):
    """float32: a logarithm of a sum of exponentials; the gradient takes the place of the scores."""
    torch.manual_seed(classes)
    scores = (3 * torch.randn(6, classes)).to(DEVICE)
    target = torch.randint(classes, (6,))
    target[2] = -1
    target = target.to(DEVICE)
    exact = scores.double().requires_grad_()
    expected = torch.nn.functional.cross_entropy(exact, target, ignore_index=-1)
    expected.backward()
    x = scores.clone().requires_grad_()
    loss = CrossEntropy.apply(x, target, -1, block).sum() / 5
    loss.backward()
    torch.testing.assert_close(loss, expected.float(), rtol=2**-19, atol=0)
    # probabilities down to 2^-30 are exponentials of differences near 20, whose rounding is 2^-20 of the result
    torch.testing.assert_close(x.grad, exact.grad.float(), rtol=2**-18, atol=2**-24)
    assert torch.equal(x.grad, x.detach())
