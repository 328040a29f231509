"""The grid barrier of cooperative launches: a word in global memory, to which one thread of each CTA adds.

The first CTA adds 2**31 minus the number of other CTAs, and each other CTA adds 1. When all have arrived, the highest
bit has flipped, and the other bits are 0 again, which leaves the word ready for the next barrier. The word is an
argument of each launch, because launches of one kernel on two streams would share a variable of the module.

source: grid synchronization of CUDA's cooperative groups.
"""

from __future__ import annotations

from ...dtypes import bool_, int64, uint32
from ...ir.arithmetic import build
from ...ir.nodes import Atomic, Break, Buffer, Expr, If, Let, Load, Loop, Special, Sync, Var, Vector
from ...layout import TileLayout
from ..builder import Builder

_ONE = TileLayout.row_major((1,))

#: the word that CTAs add to
BARRIER = Buffer("grid.barrier", "global", uint32, _ONE.shape, _ONE, uint32.bytes)

_HIGHEST = 1 << 31


def wait(b: Builder) -> None:
    """Emit a barrier of all threads of the grid. Memory accesses before the barrier happen before those after it."""
    span = b.span
    place = Vector(BARRIER, build.const(0, int64))
    b.append(Sync("cta", span))
    with b.when(build.equal(Special("thread_id"), 0)):
        count: Expr = build.const(1, int64)
        is_first: Expr = build.const(True, bool_)
        for axis in range(3):
            count = build.mul(count, Special(f"num_ctas.{axis}"))
            is_first = build.logical_and(is_first, build.equal(Special(f"cta_id.{axis}"), 0))
        completing = build.sub(build.const(_HIGHEST + 1, uint32), build.cast(count, uint32))
        added = build.where(is_first, completing, build.const(1, uint32))
        before, now = Var(b.name("before"), uint32), Var(b.name("now"), uint32)
        b.append(Atomic("add", place, (added,), "release.gpu", before, span))
        changed = build.bitwise_and(build.bitwise_xor(before, now), build.const(_HIGHEST, uint32))
        leave = If(build.not_equal(changed, build.const(0, uint32)), (Break(span),), span=span)
        b.append(Loop((Let(now, Load(place, "acquire.gpu", span), span), leave), span))
    b.append(Sync("cta", span))
