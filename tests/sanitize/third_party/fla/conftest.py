"""A seed for each test and a comparison of a function with its reference, outputs and gradients."""

import pytest
import torch


def _outputs(value):
    """Return the tensors of a result: one tensor, or a tuple with None for what a function doesn't return."""
    values = value if isinstance(value, tuple) else (value,)
    return [x for x in values if x is not None]


def _check(name, actual, expected, bound):
    """Fail where the error's root mean square is above bound, relative to that of expected.

    One wrong element of n makes a relative error of about 1 / sqrt(n), which is more than all bounds used here.
    """
    assert actual.shape == expected.shape, f"{name}: {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    actual, expected = actual.detach().double(), expected.detach().double()
    assert torch.isfinite(actual).all(), f"{name} has elements that aren't finite"
    error = (actual - expected).square().mean().sqrt()
    size = expected.square().mean().sqrt()
    assert error <= bound * size, f"{name}: error {error:.3g} of {size:.3g}, relative {error / size:.3g} > {bound:.3g}"


@pytest.fixture(autouse=True)
def seed():
    """Give each test the same random numbers in any order of tests."""
    torch.manual_seed(20260)


@pytest.fixture
def check():
    """Return the comparison of one tensor with another."""
    return _check


@pytest.fixture
def compare():
    """Return a function that runs a kernel and its reference in float64 on the same data and compares them.

    Floating-point inputs that require gradients are differentiated, each output weighted by random numbers.
    """

    def run(function, reference, inputs, bound, gradient_bound=None):
        exact = {
            name: x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x
            for name, x in inputs.items()
        }
        actual, expected = _outputs(function(*inputs.values())), _outputs(reference(*exact.values()))
        assert len(actual) == len(expected)
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            _check(f"output {i}", a, e, bound)
        leaves = [name for name, x in inputs.items() if x.requires_grad]
        if not leaves:
            return
        weights = [torch.randn(a.shape).to(a.device, a.dtype) for a in actual]
        torch.autograd.backward(actual, weights)
        torch.autograd.backward(expected, [w.double() for w in weights])
        for name in leaves:
            assert inputs[name].grad is not None, f"no gradient of {name}"
            assert inputs[name].grad.dtype == inputs[name].dtype
            _check(f"gradient of {name}", inputs[name].grad, exact[name].grad, gradient_bound or bound)

    return run
