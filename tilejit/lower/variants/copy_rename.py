"""copy and reshape between local tiles if each owner already holds the elements it needs: registers are renamed.

accepts: two local tiles of equal dtypes, or parts at constant starts, where every owner of an element of the
    destination owns it in the source too, in registers that correspond in the same way in all threads. In the
    written registers no thread may hold an element outside the destination's part. Padding is allowed.
emits: one move per run of registers, or two if the tiles share registers; ptxas removes the moves.

`held` and the conditions below serve the other copies between local tiles, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

import numpy as np

from ...dataclass import dataclass
from ...dtypes import DType, int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, Const, Region, TileOp, Vector
from ...layout import TileLayout
from ...layout.transfer import Holding, renaming
from ...ops.copies import COPY, RESHAPE
from ...scopes import SCOPES, THREAD
from ...wording import counted
from ..builder import Builder
from ..plans import Array, Moves, Plan
from ..schedule.placement import need_own_registers, need_thread_axes, owned
from ..variant import COPY_CONDITIONS, Condition, DispatchContext, Variant, from_to, known_starts

#: maximum number of cached results; a `Holding` of 64 x 64 elements takes 64 KiB
_REMEMBERED = 64


def _several_threads(op: TileOp, context: DispatchContext) -> str | None:
    return "tj.thread has a single thread, so no registers can be exchanged" if SCOPES[op.scope] is THREAD else None


BETWEEN_TILES = (from_to("local", "local"),)
CONVERSION_CONDITIONS = (*COPY_CONDITIONS, known_starts())

#: conditions of a copy through shared memory
EXCHANGE_CONDITIONS = (*CONVERSION_CONDITIONS, Condition("several threads", _several_threads))


def held(region: Region, scope: str, threads: int, *, padded: bool = False) -> Holding:
    """Return the threads and registers that hold the elements of a region, whose starts must be constants.

    padded: True to include padding; `region` must then be the whole buffer.
    raises: LayoutError, e.g. if the scope can't own the tile or a thread holds a value in several registers.
    """
    buffer = region.buffer
    tile = owned(buffer, scope)
    need_own_registers(tile)
    need_thread_axes(tile, scope, threads)
    slots = [int(n) for n in buffer.laid_out if isinstance(n, int)]
    box = [
        (int(start.value), count)
        for start, count in zip(region.starts, region.counts, strict=True)
        if isinstance(start, Const)
    ]
    return _holding(buffer.tile_layout, tuple(slots), tuple((0, n) for n in slots) if padded else tuple(box), scope)


@lru_cache(_REMEMBERED)
def _holding(layout: TileLayout, slots: tuple[int, ...], box: tuple[tuple[int, int], ...], scope: str) -> Holding:
    return Holding.of(layout.canonical(fuse=False), slots, box, SCOPES[scope].steps)


def need_whole_registers(
    region: Region, part: Holding, registers: Collection[int], scope: str, threads: int
) -> None:
    """Raise LayoutError if `registers`, which all threads write, hold elements outside the region in some thread."""
    if region.extents == region.buffer.shape:
        return
    start = Const(0, int32)
    shape = region.buffer.fixed_shape
    tile = held(Region(region.buffer, (start,) * len(shape), shape), scope, threads)
    written = list(registers)
    outside = int(np.isin(tile.register, written).sum()) - int(np.isin(part.register, written).sum())
    if outside:
        values = counted(outside, "value")
        raise LayoutError(f"the registers that are written also hold {values} outside the region")


#: consecutive registers: (first in the destination, first in the source, count)
Run = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RenamedRegisters(Plan):
    """The runs of registers to move. idle: threads that hold no element of the destination."""

    dtype: DType
    runs: tuple[Run, ...]
    threads: int
    idle: tuple[int, ...] = ()

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """A pseudo-mnemonic and the number of runs; ptxas emits no instruction for them."""
        return ((f"copy.{self.dtype}", len(self.runs)),)

    def moves(self) -> Moves:
        """Return all runs, padding included, for each thread that holds elements of the destination."""
        holders = np.delete(np.arange(self.threads), list(self.idle))
        to, source, width = (np.repeat(np.array(column), len(holders)) for column in zip(*self.runs, strict=True))
        issue = np.repeat(np.arange(len(self.runs)), len(holders))
        thread = np.tile(holders, len(self.runs))
        return Moves(issue, thread, np.stack([to, source], axis=1), width, (1, 1))

    def schedule(self) -> Array:
        """Return one row per run: (first source register, first destination register, count)."""
        return np.array([(source, to, width) for to, source, width in self.runs])


def plan(op: TileOp, context: DispatchContext) -> RenamedRegisters:
    threads = context.count(op.scope)
    dst, src = (held(op.region(name), op.scope, threads) for name in ("dst", "src"))
    pairs = renaming(src, dst)
    if isinstance(pairs, str):
        raise LayoutError(pairs)
    need_whole_registers(op.region("dst"), dst, [to for to, _ in pairs], op.scope, threads)
    holds = np.zeros(threads, bool)
    holds[dst.thread] = True
    return RenamedRegisters(op.region("dst").dtype, tuple(_runs(pairs)), threads, tuple((~holds).nonzero()[0].tolist()))


def _runs(pairs: Sequence[tuple[int, int]]) -> Iterator[Run]:
    """Split sorted (destination, source) registers into runs whose length is a power of two and divides both starts."""
    at = 0
    while at < len(pairs):
        to, source = pairs[at]
        width = 1
        while to % (2 * width) == source % (2 * width) == 0 and _goes_on(pairs[at : at + 2 * width], 2 * width):
            width *= 2
        yield to, source, width
        at += width


def _goes_on(pairs: Sequence[tuple[int, int]], count: int) -> bool:
    (to, source), *_ = pairs
    return list(pairs) == [(to + k, source + k) for k in range(count)]


def emit(plan: RenamedRegisters, op: TileOp, b: Builder) -> None:
    dst, src = op.region("dst").buffer, op.region("src").buffer
    if src.root == dst.root:
        # otherwise a run could overwrite the source registers of a later one
        held = b.scratch("renamed", src.dtype, max(source + width for _, source, width in plan.runs))
        for _, source, width in plan.runs:
            b.move(_vector(held, source, width), _vector(src, source, width))
        src = held
    for to, source, width in plan.runs:
        b.move(_vector(dst, to, width), _vector(src, source, width))


def _vector(buffer: Buffer, start: int, width: int) -> Vector:
    return Vector(buffer, build.const(start, int32), width)


VARIANT = Variant(
    name="rename",
    operations=(COPY.name, RESHAPE.name),
    priority=30,
    operands=BETWEEN_TILES,
    when=CONVERSION_CONDITIONS,
    plan=plan,
    emit=emit,
)
