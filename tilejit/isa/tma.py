"""TMA: boxes of a tensor, and runs of bytes, between global and shared memory past the registers.

A copy of a box reads 128 bytes, the tensor map, which say where the tensor lies, how large it is, and how large a box:

    map of A[m, k]    dims (k, m), stride of m in bytes, box (64, 128)
    copy              coordinates (c, r): elements A[r : r + 128, c : c + 64], zeros for those that there aren't

A load may write to several CTAs of a cluster at once, at the same place in each, and its bytes count for each one's
barrier at the same place.

What loads write is there when a phase of a barrier is complete, which awaits the bytes; stores are counted in groups.
"""

from __future__ import annotations

from ..dataclass import dataclass
from ..dtypes import barrier
from .row import B16, B32, B64, AsyncWork, Direction, Family, Operand, Row, address, constant, register

__all__ = [
    "BULK_COMMIT", "BULK_LOAD", "BULK_STORE", "BULK_STORES", "BULK_WAIT", "BULK_WAIT_READ", "LOADS",
    "MULTICAST_LOADS", "PREFETCH", "ROWS", "STORES", "BoxForm",
]

BULK_STORES = AsyncWork("stores from shared memory", "copy_async", wait="bulk.wait")

_SINCE, _PTX = 90, (8, 0)
_BARRIER = address("barrier", "shared", Direction.INOUT, barrier.bytes)
_MAP = register("map", B64)
_BYTES = register("bytes", B32)


@dataclass(frozen=True, slots=True)
class BoxForm:
    """A box of `rank` dimensions. multicast: it is written to several CTAs of a cluster."""

    rank: int
    multicast: bool = False


#: maps of tensors of one dimension have a second one
_FORMS = tuple(BoxForm(rank) for rank in range(2, 6))
_MULTICAST = tuple(BoxForm(form.rank, multicast=True) for form in _FORMS)


def _row(
    name: str, text: str, meaning: str, operands: tuple[Operand, ...] = (), starts: AsyncWork | None = None,
    commits: AsyncWork | None = None, completes: AsyncWork | None = None, called: str = "",
) -> Row:
    return Row(
        name=name,
        text=text,
        meaning=meaning,
        operands=operands,
        since=_SINCE,
        ptx=_PTX,
        starts=starts,
        commits=commits,
        completes=completes,
        called=called,
        memory=True,
        convergent=True,
        elides_sync=True,
        asynchronous=any(operand.name in ("to", "source") for operand in operands),
        source='PTX ISA, "Data Movement and Conversion Instructions: Bulk copy" and "... Tensor copy"',
    )


def _coordinates(form: BoxForm) -> Operand:
    return register("coordinates", B32, count=form.rank)


def _load(form: BoxForm) -> Row:
    how = f"{form.rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    if form.multicast:
        return _row(
            f"tma.load.{form.rank}d.multicast",
            f"cp.async.bulk.tensor.{how}.multicast::cluster [$to], [$map, {{$coordinates}}], [$barrier], $ctas;",
            "starts to copy the box at $coordinates of the tensor that $map tells of to shared $to of each CTA of the "
            "cluster whose bit in $ctas is set; its bytes count for $barrier of each",
            (address("to", "shared", Direction.OUT), _MAP, _coordinates(form), _BARRIER, register("ctas", B16)),
        )
    return _row(
        f"tma.load.{form.rank}d",
        f"cp.async.bulk.tensor.{how} [$to], [$map, {{$coordinates}}], [$barrier];",
        "starts to copy the box at $coordinates of the tensor that $map tells of to shared $to; its bytes count for "
        "$barrier",
        (address("to", "shared", Direction.OUT), _MAP, _coordinates(form), _BARRIER),
    )


def _store(form: BoxForm) -> Row:
    return _row(
        f"tma.store.{form.rank}d",
        f"cp.async.bulk.tensor.{form.rank}d.global.shared::cta.tile.bulk_group [$map, {{$coordinates}}], [$source];",
        "starts to copy from shared $source to the box at $coordinates of the tensor that $map tells of",
        (_MAP, _coordinates(form), address("source", "shared", Direction.IN)),
        starts=BULK_STORES,
    )


LOADS = Family.of("tma.load", (*_FORMS, *_MULTICAST), _load)
MULTICAST_LOADS = LOADS.among("tma.load.multicast", lambda form: form.multicast)
STORES = Family.of("tma.store", _FORMS, _store)

BULK_LOAD = _row(
    "bulk.load",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$to], [$source], $bytes, [$barrier];",
    "starts to copy $bytes bytes from global $source to shared $to; they count for $barrier",
    (address("to", "shared", Direction.OUT), address("source", "global", Direction.IN), _BYTES, _BARRIER),
)

BULK_STORE = _row(
    "bulk.store",
    "cp.async.bulk.global.shared::cta.bulk_group [$to], [$source], $bytes;",
    "starts to copy $bytes bytes from shared $source to global $to",
    (address("to", "global", Direction.OUT), address("source", "shared", Direction.IN), _BYTES),
    starts=BULK_STORES,
)

BULK_COMMIT = _row(
    "bulk.commit",
    "cp.async.bulk.commit_group;",
    "the stores that this thread has started since the last one are a group",
    commits=BULK_STORES,
)

BULK_WAIT = _row(
    "bulk.wait",
    "cp.async.bulk.wait_group $groups;",
    "waits until at most $groups of this thread's groups have yet to write",
    (constant("groups"),),
    completes=BULK_STORES,
)

BULK_WAIT_READ = _row(
    "bulk.wait_read",
    "cp.async.bulk.wait_group.read $groups;",
    "waits until at most $groups of this thread's groups have yet to read their source",
    (constant("groups"),),
    completes=BULK_STORES,
    called="bulk.wait_read",
)

PREFETCH = _row(
    "tensormap.prefetch",
    "prefetch.tensormap [$map];",
    "fetches the tensor map at $map for copies to come",
    (_MAP,),
)

ROWS = (
    *LOADS.rows(), *STORES.rows(), BULK_LOAD, BULK_STORE, BULK_COMMIT, BULK_WAIT_READ, BULK_WAIT, PREFETCH,
)
