"""Checked builds: tile IR with assertions for what PTX no longer shows.

A dimension's extent, the region that an operand is, and a register that nothing wrote are gone in PTX. So they are
checked here, where they still stand, unless the facts already prove them. So is what a GPU does without a word and
Python refuses: to divide integers by zero.
Regions that the edges of a tensor may mask entirely are counted.
"""

from __future__ import annotations

from ...dataclass import dataclass, replace
from ..nodes import Kernel
from ..watched import WatchedRegion
from .in_place import refuse_overlaps
from .insertion import Insertion

__all__ = ["Checked", "checked", "refuse_overlaps"]


@dataclass(frozen=True, slots=True)
class Checked:
    """A kernel with assertions, and the regions that are counted in it."""

    kernel: Kernel
    watched: tuple[WatchedRegion, ...] = ()


def checked(kernel: Kernel) -> Checked:
    """The kernel with assertions; as it is where all of it is proved."""
    insertion = Insertion(kernel)
    body = insertion.block(kernel.body)
    if insertion.flags.asked != insertion.flags.doubtful:
        # that no flag of a buffer is asserted is known only at the end
        insertion = Insertion(kernel, insertion.flags.doubtful - insertion.flags.asked)
        body = insertion.block(kernel.body)
    if body == kernel.body:
        return Checked(kernel)
    params, body = (*kernel.params, *insertion.aliases.params), (*insertion.agreements.head, *body)
    with_assertions = replace(kernel, params=params, body=body)
    return Checked(with_assertions, insertion.watched.all)
