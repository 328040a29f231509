"""Torch's tensor guards: one call compares tensors in 0.7 us; comparing a key of them takes 1.9 us.

They are private to torch, so they may be missing; then the key is computed at each launch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any


def _guard_class() -> Any:
    found: Any = sys.modules.get("torch")
    for name in ("_C", "_dynamo", "guards", "TensorGuards"):
        found = getattr(found, name, None)
    return found


def are_available() -> bool:
    return _guard_class() is not None


def check_of(tensors: Sequence[Any]) -> Callable[..., bool]:
    """Return a function that compares tensors with these by type, dtype, device, shape and strides; it holds no tensor.

    It also returns False if one tensor is passed twice, or if tensors differ in a property that a launch ignores, such
    as `requires_grad`. Without usable guards, it always returns False.
    """
    try:
        check: Callable[..., bool] = _guard_class()(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        return check if check(*tensors) is True else never
    except Exception:
        # other versions of torch may take other arguments and raise anything
        return never


def never(*tensors: Any) -> bool:
    """Return False: no tensors pass this check."""
    return False
