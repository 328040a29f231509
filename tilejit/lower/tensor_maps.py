"""Prefetching of tensor maps at the kernel's beginning."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.arithmetic import build
from ..ir.nodes import If, Instruction, Special, Stmt
from ..ir.params import TensorMapParam
from ..isa.tma import PREFETCH
from ..source import Span

__all__ = ["prefetches"]


def prefetches(params: Sequence[TensorMapParam], span: Span | None) -> tuple[Stmt, ...]:
    """Return the statements by which the CTA's first thread prefetches all tensor maps."""
    if not params:
        return ()
    fetched = tuple([Instruction(PREFETCH.name, (), (param.var,), span) for param in params])
    return (If(build.equal(Special("thread_id"), 0), fetched, span=span),)
