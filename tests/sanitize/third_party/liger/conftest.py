"""A comparison of a function and its gradients with a reference in float64."""

import os

import pytest
import torch

# read when liger-kernel is imported: else each kernel of a mixture of experts tries 16 or 32 configurations
os.environ.setdefault("LIGER_FUSED_MOE_AUTOTUNE", "0")


def compare_with_gradients(function, reference, inputs, tolerance):
    """Compare outputs and gradients of `function` with those of `reference`, which computes in float64.

    Floating-point tensors among the inputs get gradients; `function` gets copies, since kernels may overwrite them.
    An error of a sum is relative to its terms, not to its result, so that each bound is relative to the largest
    element of a tensor.
    """
    ours = [value.clone().requires_grad_() if is_float(value) else value for value in inputs]
    exact = [value.double().requires_grad_() if is_float(value) else value for value in inputs]
    outputs, expected = as_tuple(function(*ours)), as_tuple(reference(*exact))
    assert len(outputs) == len(expected)
    for output, correct in zip(outputs, expected, strict=True):
        assert_near(output, correct, tolerance)
    seeds = [torch.randn(output.shape).to(output) for output in outputs]
    torch.autograd.backward(expected, [seed.double() for seed in seeds])
    torch.autograd.backward(outputs, seeds)
    for value, correct in zip(ours, exact, strict=True):
        if is_float(value):
            assert value.grad is not None
            assert value.grad.dtype == value.dtype
            assert_near(value.grad, correct.grad, tolerance)


def assert_near(output, expected, tolerance):
    """Compare two tensors; `tolerance` is relative to each element and to the largest one."""
    bound = tolerance * expected.abs().max().item()
    torch.testing.assert_close(output.double(), expected.double(), rtol=tolerance, atol=bound)


def as_tuple(value):
    """Return the tensor or the tuple of tensors `value` as a tuple."""
    return value if isinstance(value, tuple) else (value,)


def is_float(value):
    """Tell if `value` is a tensor that can have a gradient."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()


@pytest.fixture
def compare():
    """Return the function that compares outputs and gradients with those of a reference."""
    return compare_with_gradients


@pytest.fixture
def near():
    """Return the function that compares two tensors."""
    return assert_near
