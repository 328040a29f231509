"""Checked builds: tile IR with assertions for facts that PTX no longer contains.

The extents of dimensions, the regions of operands and the initialization of registers are lost in PTX, so accesses are
checked against them in tile IR, unless they are provably valid. `tj.uniform` and division of integer scalars by zero,
which GPUs allow, are checked, too. Accesses to regions that may lie entirely outside their tensor are counted.

Launches on the simulator run the checked build, as do GPU launches with `debug=True`. `TILEJIT_SIM_CHECKS=0`,
`checks=False` and `profile=True` select the plain one, which `compile`, `explain`, golden files and profiles show. Both
compute the same bits unless an assertion fails. If nothing needs an assertion or a count, one build serves as both.
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
    """A kernel with the assertions that it needs, and the regions whose accesses it counts."""

    kernel: Kernel
    watched: tuple[WatchedRegion, ...] = ()


def checked(kernel: Kernel) -> Checked:
    """Return the kernel with assertions and counts, or the same kernel if it needs none."""
    insertion = Insertion(kernel)
    body = insertion.block(kernel.body)
    if insertion.flags.asked != insertion.flags.doubtful:
        # only now is it known which buffers have flags that are never asserted
        insertion = Insertion(kernel, insertion.flags.doubtful - insertion.flags.asked)
        body = insertion.block(kernel.body)
    if body == kernel.body:
        return Checked(kernel)
    params, body = (*kernel.params, *insertion.aliases.params), (*insertion.agreements.head, *body)
    with_assertions = replace(kernel, params=params, body=body)
    return Checked(with_assertions, insertion.watched.all)
