"""mbarrier: barriers in shared memory, with arrivals, expected bytes of copies, and waits for a phase.

A barrier starts in phase 0. A phase is complete once it has had the expected number of arrivals and the expected
number of bytes has been copied. The rows for waits take a phase's number, of which PTX uses only the parity.
"""

from __future__ import annotations

from functools import partial

from ..dtypes import barrier
from ..scopes import THREAD
from .row import B32, Direction, Row, address, predicate, register

#: maximum number of arrivals, and of bytes, per phase
#: source: PTX ISA, "Contents of the mbarrier object", valid range of each count
MOST_IN_A_PHASE = (1 << 20) - 1

# defaults for the rows of this module; those of older instructions override `since` and `ptx`
_row = partial(
    Row, since=90, ptx=(8, 0), scope=THREAD, memory=True, convergent=True, elides_sync=True,
    source='PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"',
)

BARRIER = address("barrier", "shared", Direction.INOUT, barrier.bytes)
BYTES = register("bytes", B32)

INIT = _row(
    name="mbarrier.init", since=80, ptx=(7, 8),
    text="mbarrier.init.shared::cta.b64 [$barrier], $arrivals;",
    meaning="initializes a barrier that expects $arrivals arrivals per phase",
    operands=(address("barrier", "shared", Direction.OUT, barrier.bytes), register("arrivals", B32)),
)
FENCE = _row(
    name="fence.mbarrier_init",
    text="fence.mbarrier_init.release.cluster;",
    meaning="makes the barriers that this thread has initialized visible to other threads of the cluster",
)
ARRIVE = _row(
    name="mbarrier.arrive", since=80, ptx=(7, 8),
    text="mbarrier.arrive.shared::cta.b64 _, [$barrier];",
    meaning="arrives at the barrier; accesses before it are ordered before those of other threads after a wait for the "
    "phase",
    operands=(BARRIER,),
)
ARRIVE_EXPECT = _row(
    name="mbarrier.arrive.expect_tx",
    text="mbarrier.arrive.expect_tx.shared::cta.b64 _, [$barrier], $bytes;",
    meaning="arrives at the barrier, whose phase expects another $bytes bytes of copies",
    operands=(BARRIER, BYTES),
)

#: Omits `.release.cluster`, for which ptxas generates a GPU-wide fence. A release to the cluster isn't needed: products
#: and copies that have been waited for are complete for every observer.
ARRIVE_AT_PEER = _row(
    name="mbarrier.arrive.remote",
    text="{ .reg .b32 a; mapa.shared::cluster.u32 a, $barrier, $cta; mbarrier.arrive.shared::cluster.b64 _, [a]; }",
    meaning="arrives at the barrier at the same offset in CTA $cta of the cluster; orders no ordinary accesses",
    operands=(BARRIER, register("cta", B32)),
)
EXPECT = _row(
    name="mbarrier.expect_tx",
    text="mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$barrier], $bytes;",
    meaning="the barrier's phase expects another $bytes bytes of copies",
    operands=(BARRIER, BYTES),
)


def _wait(instruction: str, meaning: str, since: int) -> Row:
    wait = f"mbarrier.{instruction}.parity.shared::cta.b64 $complete, [$barrier], p;"
    return _row(
        name=f"mbarrier.{instruction}", since=since, ptx=(7, 8),
        text=f"{{ .reg .b32 p; and.b32 p, $phase, 1; {wait} }}",
        meaning=meaning,
        operands=(predicate("complete", Direction.OUT), BARRIER, register("phase", B32)),
    )


TRY_WAIT = _wait("try_wait", "whether phase $phase is complete, after waiting for it for some time", 90)
TEST_WAIT = _wait("test_wait", "whether phase $phase is complete", 80)

ROWS = (INIT, FENCE, ARRIVE, ARRIVE_EXPECT, ARRIVE_AT_PEER, EXPECT, TRY_WAIT, TEST_WAIT)
