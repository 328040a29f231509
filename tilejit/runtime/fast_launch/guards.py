"""Torch's comparison of tensors, which its compiler uses, in one call: what a key tells in 1.9 us it tells in 0.7.

It is private to torch, so it is asked for, and without it the key is made at each launch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any


def _maker() -> Any:
    """Torch's class, or None."""
    found: Any = sys.modules.get("torch")
    for name in ("_C", "_dynamo", "guards", "TensorGuards"):
        found = getattr(found, name, None)
    return found


def are_there() -> bool:
    """Whether this torch has it."""
    return _maker() is not None


def check_of(tensors: Sequence[Any]) -> Callable[..., bool]:
    """Tells whether other tensors have the types, dtypes, devices, shapes and strides of these; it keeps none of them.

    It says no where one tensor is passed twice, and where they differ in what a launch doesn't ask, such as
    `requires_grad`.
    """
    try:
        check: Callable[..., bool] = _maker()(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        return check if check(*tensors) is True else never
    except Exception:
        # a class of torch's own, which in another version may want other things, and raise anything
        return never


def never(*tensors: Any) -> bool:
    """No tensors are alike."""
    return False
