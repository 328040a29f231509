"""Checked builds: tile IR with assertions for what PTX no longer shows.

A dimension's extent, the region that an operand is, and a register that nothing wrote are gone in PTX. So they are
checked here, where they still stand, unless the facts already prove them.
"""

from __future__ import annotations

from dataclasses import replace

from ..nodes import Kernel
from .in_place import refuse_overlaps
from .insertion import Insertion

__all__ = ["checked", "refuse_overlaps"]


def checked(kernel: Kernel) -> Kernel:
    """The kernel with assertions; as it is where all of it is proved."""
    insertion = Insertion(kernel)
    body = insertion.block(kernel.body)
    if body == kernel.body:
        return kernel
    return replace(kernel, params=(*kernel.params, *insertion.aliases.params), body=body)
