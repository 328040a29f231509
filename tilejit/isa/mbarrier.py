"""Barriers in shared memory: arrivals, expected bytes of copies, and waits for a phase by its number.

A barrier starts in phase 0. A phase completes when the expected number of threads has arrived and the expected number
of bytes has been copied. The hardware sees only the parity of a phase's number.
"""

from __future__ import annotations

from ..dtypes import barrier
from ..scopes import THREAD
from .row import B32, Direction, Operand, Row, address, predicate, register

__all__ = [
    "ARRIVE", "ARRIVE_AT_PEER", "ARRIVE_EXPECT", "EXPECT", "FENCE", "INIT", "MOST_IN_A_PHASE", "ROWS", "TEST_WAIT",
    "TRY_WAIT",
]

#: maximum arrivals, or bytes, per phase
#: source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier", valid ranges of its counts
MOST_IN_A_PHASE = (1 << 20) - 1

#: the first target and version that have all of these instructions; some of them are older
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
    "initializes a barrier that expects $arrivals arrivals per phase",
    (address("barrier", "shared", Direction.OUT, barrier.bytes), register("arrivals", B32)),
    since=80,
    ptx=(7, 8),
)

FENCE = _row(
    "fence.mbarrier_init",
    "fence.mbarrier_init.release.cluster;",
    "makes the barriers that this thread has initialized visible to other threads of the cluster",
)

ARRIVE = _row(
    "mbarrier.arrive",
    "mbarrier.arrive.shared::cta.b64 _, [$barrier];",
    "arrives at the barrier; this thread's earlier accesses come before those of threads after a wait for the phase",
    (_BARRIER,),
    since=80,
    ptx=(7, 8),
)

ARRIVE_EXPECT = _row(
    "mbarrier.arrive.expect_tx",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$barrier], $bytes;",
    "arrives at the barrier, whose phase expects another $bytes bytes of copies",
    (_BARRIER, _BYTES),
)

#: Not `.release.cluster`, for which ptxas generates a fence of the whole GPU. It isn't needed: products and copies
#: that have been waited for are complete for every observer.
ARRIVE_AT_PEER = _row(
    "mbarrier.arrive.remote",
    "{ .reg .b32 a; mapa.shared::cluster.u32 a, $barrier, $cta; mbarrier.arrive.shared::cluster.b64 _, [a]; }",
    "arrives at the barrier at the same offset in CTA $cta of the cluster; orders no ordinary accesses",
    (_BARRIER, register("cta", B32)),
)

EXPECT = _row(
    "mbarrier.expect_tx",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$barrier], $bytes;",
    "the barrier's phase expects another $bytes bytes of copies",
    (_BARRIER, _BYTES),
)


def _wait(instruction: str, meaning: str, since: int) -> Row:
    """Return a wait that takes a phase's number and passes its parity to the hardware."""
    instruction_text = f"mbarrier.{instruction}.parity.shared::cta.b64 $complete, [$barrier], p;"
    return _row(
        f"mbarrier.{instruction}",
        f"{{ .reg .b32 p; and.b32 p, $phase, 1; {instruction_text} }}",
        meaning,
        (predicate("complete", Direction.OUT), _BARRIER, register("phase", B32)),
        since=since,
        ptx=(7, 8),
    )


TRY_WAIT = _wait("try_wait", "whether phase $phase is complete, after waiting for it for some time", 90)
TEST_WAIT = _wait("test_wait", "whether phase $phase is complete", 80)

ROWS = (INIT, FENCE, ARRIVE, ARRIVE_EXPECT, ARRIVE_AT_PEER, EXPECT, TRY_WAIT, TEST_WAIT)
