"""The proof of a verdict, of what its variant emits without a kernel around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilejit.ir.nodes import Stmt, TileOp
from tilejit.ir.walk import rewrite
from tilejit.lower import Plan, Variant
from tilejit.lower.builder import Builder
from tilejit.lower.engine import Verdict
from tilejit.lower.proof.prove import prove
from tilejit.scopes import SCOPES


def prove_emitted(chosen: Variant[Any], plan: Plan, op: TileOp, threads: int = 0) -> None:
    """Raise AssertionError unless what a variant emits for a plan carries out the operation.

    threads: those of the CTA, where neither the scope nor the plan has a number of threads.
    """
    prove_edited(chosen, plan, op, lambda stmt: (stmt,), threads)


def prove_edited(
    chosen: Variant[Any], plan: Plan, op: TileOp, change: Callable[[Stmt], Iterable[Stmt]], threads: int = 0
) -> None:
    """Like `prove_emitted`, after `change` of every emitted statement."""
    builder = Builder()
    chosen.emit(plan, op, builder)
    context = getattr(plan, "context", None)
    count = SCOPES[op.scope].size or getattr(plan, "threads", None) or (context.threads if context else threads)
    prove(plan, op, count, builder, rewrite(builder.take(), change))


def prove_verdict(verdict: Verdict[Any], op: TileOp | None = None, threads: int = 0) -> None:
    prove_emitted(verdict.chosen, verdict.plan, op or verdict.op, threads)
