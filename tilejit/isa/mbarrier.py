"""Barriers in shared memory: arrivals, bytes of copies that are awaited, waits for a phase by its number.

A barrier is in phase 0 at first. A phase completes when as many have arrived as the barrier was made for, and as many
bytes have come as were announced. The hardware sees whether a phase's number is odd, and no more of it.
"""

from __future__ import annotations

from ..dtypes import barrier
from ..scopes import THREAD
from .row import B32, Direction, Operand, Row, address, predicate, register

__all__ = [
    "ARRIVE", "ARRIVE_AT_PEER", "ARRIVE_EXPECT", "EXPECT", "FENCE", "INIT", "MOST_IN_A_PHASE", "ROWS", "TEST_WAIT",
    "TRY_WAIT",
]

#: arrivals, or bytes, of one phase
#: source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier", valid ranges of its counts
MOST_IN_A_PHASE = (1 << 20) - 1

#: of all targets and versions the first that have each part of a barrier's use; some instructions are older
_SINCE, _PTX = 90, (8, 0)


def _row(
    name: str, text: str, meaning: str, operands: tuple[Operand, ...] = (), since: int = _SINCE,
    ptx: tuple[int, int] = _PTX,
) -> Row:
    return Row(
        name=name,
        text=text,
        meaning=meaning,
        operands=operands,
        since=since,
        ptx=ptx,
        scope=THREAD,
        memory=True,
        convergent=True,
        elides_sync=True,
        source='PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"',
    )


_BARRIER = address("barrier", "shared", Direction.INOUT, barrier.bytes)
_BYTES = register("bytes", B32)

INIT = _row(
    "mbarrier.init",
    "mbarrier.init.shared::cta.b64 [$barrier], $arrivals;",
    "makes a barrier that awaits $arrivals arrivals in each phase",
    (address("barrier", "shared", Direction.OUT, barrier.bytes), register("arrivals", B32)),
    since=80,
    ptx=(7, 8),
)

FENCE = _row(
    "fence.mbarrier_init",
    "fence.mbarrier_init.release.cluster;",
    "makes known to others the barriers that this thread has made",
)

ARRIVE = _row(
    "mbarrier.arrive",
    "mbarrier.arrive.shared::cta.b64 _, [$barrier];",
    "arrives at the barrier; what this thread did before comes before what those do who wait for the phase",
    (_BARRIER,),
    since=80,
    ptx=(7, 8),
)

ARRIVE_EXPECT = _row(
    "mbarrier.arrive.expect_tx",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$barrier], $bytes;",
    "arrives at the barrier, whose phase awaits $bytes bytes of copies besides",
    (_BARRIER, _BYTES),
)

#: Not `.release.cluster`, of which ptxas makes a fence of the whole GPU: products and copies are complete when they
#: have been waited for, whoever learns of it.
ARRIVE_AT_PEER = _row(
    "mbarrier.arrive.remote",
    "{ .reg .b32 a; mapa.shared::cluster.u32 a, $barrier, $cta; mbarrier.arrive.shared::cluster.b64 _, [a]; }",
    "arrives at the barrier at the same place in CTA $cta of the cluster; orders no ordinary accesses",
    (_BARRIER, register("cta", B32)),
)

EXPECT = _row(
    "mbarrier.expect_tx",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$barrier], $bytes;",
    "the barrier's phase awaits $bytes bytes of copies besides",
    (_BARRIER, _BYTES),
)


def _asked(instruction: str, meaning: str, since: int) -> Row:
    """Takes the phase's number and gives the hardware its lowest bit."""
    asked = f"mbarrier.{instruction}.parity.shared::cta.b64 $complete, [$barrier], p;"
    return _row(
        f"mbarrier.{instruction}",
        f"{{ .reg .b32 p; and.b32 p, $phase, 1; {asked} }}",
        meaning,
        (predicate("complete", Direction.OUT), _BARRIER, register("phase", B32)),
        since=since,
        ptx=(7, 8),
    )


TRY_WAIT = _asked("try_wait", "whether phase $phase is complete, after some time of waiting for it", 90)
TEST_WAIT = _asked("test_wait", "whether phase $phase is complete", 80)

ROWS = (INIT, FENCE, ARRIVE, ARRIVE_EXPECT, ARRIVE_AT_PEER, EXPECT, TRY_WAIT, TEST_WAIT)
