"""Leaders: in each instance of a scope, the thread that executes what the instance must do only once.

A warp's leader is the lane that `elect.sync` elects; the leader of a warpgroup or a CTA is that of its first warp. In a
CTA with a partial warp, an instance's leader is its first thread instead. Leaders don't change during a launch. ptxas
emits a quarter fewer instructions for `elect.sync` than for a test of the lane.
"""

from __future__ import annotations

from ..dtypes import bool_, int32
from ..ir.arithmetic import build
from ..ir.nodes import TRUE, Expr, Instruction, Special, Var
from ..isa.warp import ELECT
from ..scopes import CTA, SCOPES, THREAD, WARP, WARPGROUP
from ..target import WARP as WARP_THREADS
from .builder import Builder


def leads(b: Builder, scope: str, threads: int) -> Expr:
    """Return the condition that a thread is its instance's leader; all threads must compute it. threads: of the CTA."""
    if SCOPES[scope] is THREAD or threads == 1:
        return TRUE
    if threads % WARP_THREADS:
        # the result of `elect.sync` in a partial warp is unspecified
        counter = SCOPES[scope].thread_id
        assert counter is not None, f"a {scope} has no id that counts its threads"
        return build.equal(Special(counter.name), build.const(0, int32))
    elected = Var(b.name("leads"), bool_)
    b.append(Instruction(ELECT.name, (), (), b.span, elected))
    if SCOPES[scope] is WARP:
        return elected
    warps = WARPGROUP.threads(threads) // WARP_THREADS
    warp: Expr = Special("warp_id")
    if SCOPES[scope] is WARPGROUP:
        warp = build.mod(warp, warps)
    else:
        assert SCOPES[scope] is CTA, f"a {scope} has no leader"
    return build.logical_and(build.equal(warp, build.const(0, int32)), elected)
