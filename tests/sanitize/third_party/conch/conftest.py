"""A comparison of tensors with a bound relative to the largest element."""

import pytest
import torch


def assert_near(output, expected, tolerance):
    """Compare two tensors; `tolerance` is relative to each element and to the largest one.

    An error of a sum is relative to its terms, not to its result.
    """
    bound = tolerance * expected.abs().max().item()
    torch.testing.assert_close(output.double(), expected.double(), rtol=tolerance, atol=bound)


@pytest.fixture
def near():
    """Return the function that compares two tensors."""
    return assert_near
