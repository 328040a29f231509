"""TMA: copies of boxes of a tensor, and of contiguous bytes, between global and shared memory.

A copy of a box reads a tensor map: 128 bytes with the tensor's address, extents and strides, and the box's extents:

    map of A[m, k]    dims (k, m), stride of m in bytes, box (64, 128)
    copy              coordinates (c, r): elements A[r : r + 128, c : c + 64]; loads read zeros outside the tensor

A multicast load writes to the same shared memory offset in several CTAs of a cluster. In each of them, its bytes count
for the barrier at the offset of the given barrier.

A load is complete when the phase of a barrier that expects its bytes is complete; stores are committed in groups.
"""

from __future__ import annotations

from functools import partial

from ..dataclass import dataclass
from .mbarrier import BARRIER, BYTES
from .row import B16, B32, B64, AsyncWork, Direction, Family, Operand, Row, address, constant, register

BULK_STORES = AsyncWork("stores from shared memory", "copy_async", wait="bulk.wait")

_MAP = register("map", B64)


@dataclass(frozen=True, slots=True)
class BoxForm:
    """A copy of a box of `rank` dimensions. multicast: True if the box is loaded into several CTAs of a cluster."""

    rank: int
    multicast: bool = False


#: no rank 1: maps of one-dimensional tensors get a second dimension
_FORMS = tuple(BoxForm(rank) for rank in range(2, 6))
_MULTICAST = tuple(BoxForm(form.rank, multicast=True) for form in _FORMS)

_row = partial(
    Row, since=90, ptx=(8, 0), memory=True, convergent=True, elides_sync=True,
    source='PTX ISA, "Data Movement and Conversion Instructions: Bulk copy" and "... Tensor copy"',
)


def _coordinates(form: BoxForm) -> Operand:
    return register("coordinates", B32, count=form.rank)


def _load(form: BoxForm) -> Row:
    how = f"{form.rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    box = "starts to copy the box at $coordinates of the tensor with $map to shared $to"
    operands = (address("to", "shared", Direction.OUT), _MAP, _coordinates(form), BARRIER)
    if form.multicast:
        return _row(
            name=f"tma.load.{form.rank}d.multicast", asynchronous=True,
            text=f"cp.async.bulk.tensor.{how}.multicast::cluster [$to], [$map, {{$coordinates}}], [$barrier], $ctas;",
            meaning=f"{box} of each CTA of the cluster whose bit in $ctas is set; its bytes count for $barrier of each",
            operands=(*operands, register("ctas", B16)),
        )
    return _row(
        name=f"tma.load.{form.rank}d", asynchronous=True,
        text=f"cp.async.bulk.tensor.{how} [$to], [$map, {{$coordinates}}], [$barrier];",
        meaning=f"{box}; its bytes count for $barrier",
        operands=operands,
    )


def _store(form: BoxForm) -> Row:
    how = f"{form.rank}d.global.shared::cta.tile.bulk_group"
    return _row(
        name=f"tma.store.{form.rank}d", asynchronous=True, starts=BULK_STORES,
        text=f"cp.async.bulk.tensor.{how} [$map, {{$coordinates}}], [$source];",
        meaning="starts to copy from shared $source to the box at $coordinates of the tensor with $map",
        operands=(_MAP, _coordinates(form), address("source", "shared", Direction.IN)),
    )


LOADS = Family.of("tma.load", (*_FORMS, *_MULTICAST), _load)
MULTICAST_LOADS = LOADS.among("tma.load.multicast", lambda form: form.multicast)
STORES = Family.of("tma.store", _FORMS, _store)

BULK_LOAD = _row(
    name="bulk.load", asynchronous=True,
    text="cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$to], [$source], $bytes, [$barrier];",
    meaning="starts to copy $bytes bytes from global $source to shared $to; they count for $barrier",
    operands=(address("to", "shared", Direction.OUT), address("source", "global", Direction.IN), BYTES, BARRIER),
)
BULK_STORE = _row(
    name="bulk.store", asynchronous=True, starts=BULK_STORES,
    text="cp.async.bulk.global.shared::cta.bulk_group [$to], [$source], $bytes;",
    meaning="starts to copy $bytes bytes from shared $source to global $to",
    operands=(address("to", "global", Direction.OUT), address("source", "shared", Direction.IN), BYTES),
)
BULK_COMMIT = _row(
    name="bulk.commit", text="cp.async.bulk.commit_group;", commits=BULK_STORES,
    meaning="commits this thread's stores since the last commit as a group",
)
BULK_WAIT = _row(
    name="bulk.wait", text="cp.async.bulk.wait_group $groups;", completes=BULK_STORES,
    meaning="waits until at most $groups of this thread's groups are unfinished",
    operands=(constant("groups"),),
)
BULK_WAIT_READ = _row(
    name="bulk.wait_read", text="cp.async.bulk.wait_group.read $groups;", completes=BULK_STORES,
    meaning="waits until at most $groups of this thread's groups haven't finished reading their source",
    operands=(constant("groups"),), called="bulk.wait_read",
)
PREFETCH = _row(
    name="tensormap.prefetch", text="prefetch.tensormap [$map];", operands=(_MAP,),
    meaning="prefetches the tensor map at $map for later copies",
)

ROWS = (
    *LOADS.rows(), *STORES.rows(), BULK_LOAD, BULK_STORE, BULK_COMMIT, BULK_WAIT_READ, BULK_WAIT, PREFETCH,
)
