"""copy and reshape between local tiles if each owner already holds the elements it needs: registers are renamed.

accepts: two local tiles of equal dtypes, or parts at constant starts, where every owner of an element of the
    destination owns it in the source too, in registers that correspond in the same way in all threads. In the
    written registers no thread may hold an element outside the destination's part. Padding is allowed.
emits: one move per run of registers, or two if the tiles share registers; ptxas removes the moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...dataclass import dataclass
from ...dtypes import DType, int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, TileOp, Vector
from ...layout.transfer import renaming
from ...ops.copies import COPY, RESHAPE
from ..builder import Builder
from ..moves.conversion import BETWEEN_TILES, CONVERSION_CONDITIONS, held, need_whole_registers
from ..plans import Array, Moves, Plan
from ..variant import DispatchContext, Variant

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
