"""Lowering from tile IR to lane IR. The rule engine chooses a variant for each tile operation."""

from __future__ import annotations

from ..ir.nodes import Kernel
from ..target import Target
from .engine import Verdict
from .lowering import Lowered
from .lowering import lower as _lower
from .plans import Facts, Folds, Moves, Plan
from .variant import Condition, Decline, DispatchContext, Variant
from .variants import VARIANTS

__all__ = [
    "Condition", "DispatchContext", "Decline", "Facts", "Folds", "Lowered", "Moves", "Plan",
    "VARIANTS", "Variant", "Verdict", "lower",
]


def lower(kernel: Kernel, target: Target) -> Lowered:
    """Lower `kernel` to lane level, and record the variant chosen for each tile operation.

    raises: DispatchError if it can't be lowered; KernelTypeError if `store_groups.check` rejects a wait.
    """
    return _lower(kernel, target, VARIANTS)
