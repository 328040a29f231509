"""Tensor maps in the kernel: one thread fetches them ahead, before the first copy asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.arithmetic import build
from ..ir.nodes import If, Instruction, Special, Stmt
from ..ir.params import TensorMapParam
from ..isa.tma import PREFETCH
from ..source import Span

__all__ = ["prefetches"]


def prefetches(params: Sequence[TensorMapParam], span: Span | None) -> tuple[Stmt, ...]:
    """What the CTA's first thread does at the kernel's beginning."""
    if not params:
        return ()
    fetched = tuple([Instruction(PREFETCH.name, (), (param.var,), span) for param in params])
    return (If(build.equal(Special("thread_id"), 0), fetched, span=span),)
