"""How partial results of several threads become one: by shuffles, by one instruction, or through shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...dtypes import DType, int32
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, BufferView, Expr, Instruction, Load, Move, Store, Sync, Vector
from ...isa.access import WIDEST_BITS
from ...isa.warp import SHUFFLE_XOR
from ...layout import TileLayout
from ..builder import Builder
from .combining import Combining, Partial

__all__ = ["SharedPartials", "by_redux", "exchanged", "shuffled"]

_WORD_BITS = 32


def by_redux(b: Builder, combining: Combining, instruction: str, partials: Sequence[Partial]) -> list[Partial]:
    """Each partial combined with those of all other lanes of the warp."""
    made = b.scratch("reduced", combining.dtype, len(partials))
    for k, (value,) in enumerate(partials):
        b.append(Instruction(instruction, (_element(made, k),), (value,), span=b.span))
    return [combining.named(b, (Load(_element(made, k)),)) for k in range(len(partials))]


def shuffled(
    b: Builder, combining: Combining, distances: Sequence[int], partials: Sequence[Partial]
) -> list[Partial]:
    """Each partial combined with those of the lanes whose numbers differ by the distances, single bits.

    All these lanes get the same bits: the order of two values doesn't matter.
    """
    columns = [Column.of(b, dtype, len(partials)) for dtype in combining.types]
    for distance in distances:
        others = [
            column.from_lane(b, [partial[k] for partial in partials], distance) for k, column in enumerate(columns)
        ]
        pairs = zip(partials, zip(*others, strict=True), strict=True)
        partials = [combining.named(b, combining.combined(b, own, other, in_order=False)) for own, other in pairs]
    return list(partials)


@dataclass(frozen=True, slots=True)
class Column:
    """Registers through which values go from lane to lane.

    sent, received: of the values' type. sent_words, received_words: the same as words of 32 bits.
    """

    sent: Buffer
    received: Buffer
    sent_words: Buffer
    received_words: Buffer

    @staticmethod
    def of(b: Builder, dtype: DType, count: int) -> Column:
        """For `count` values."""
        sent, received = (b.scratch(stem, dtype, count) for stem in ("sent", "received"))
        return Column(sent, received, _words(b, sent), _words(b, received))

    def from_lane(self, b: Builder, values: Sequence[Expr], distance: int) -> list[Expr]:
        """What the lane at a distance has of these values."""
        for k, value in enumerate(values):
            b.append(Store(_element(self.sent, k), value, span=b.span))
        by = build.const(distance, int32)
        for k in range(len(values) * self.sent.dtype.bits // _WORD_BITS):
            source, target = _element(self.sent_words, k), _element(self.received_words, k)
            b.append(Instruction(SHUFFLE_XOR.name, (target,), (source, by), span=b.span))
        # the registers are filled again for the next distance
        return [b.let("other", Load(_element(self.received, k))) for k in range(len(values))]


def _words(b: Builder, buffer: Buffer) -> Buffer:
    """Registers as words of 32 bits, of which an element has one or more."""
    count = buffer.dtype.bits // _WORD_BITS
    if count == 1:
        return buffer
    shape = (buffer.tile_layout.size() * count,)
    view = Buffer(b.name("words"), "local", int32, shape, TileLayout.row_major(shape), buffer.align, base=buffer)
    b.head.append(BufferView(view, span=b.span))
    return view


@dataclass(frozen=True, slots=True)
class SharedPartials:
    """Who meets in shared memory.

    scope, threads: whose barrier is waited at, and the threads of the CTA. groups: how many groups of threads there are
    with results of their own, of which the thread belongs to number `group`. members: how many partials a result has,
    of which the thread's is number `member`. is_leader: whether it is the one that writes it.
    """

    scope: str
    threads: int
    groups: int
    group: Expr
    members: int
    member: Expr
    is_leader: Expr


def exchanged(b: Builder, combining: Combining, meeting: SharedPartials, partials: Sequence[Partial]) -> list[Partial]:
    """Each result from the partials of all members: leaders write what they have, everyone reads it all.

    The partials of a result lie together, those of the groups' k-th results next to each other.
    """
    width = meeting.members
    layout = TileLayout.row_major((len(partials) * meeting.groups * width,))
    shared = [
        b.exchange(meeting.scope, meeting.threads, "partials", dtype, layout, is_idle=k > 0)
        for k, dtype in enumerate(combining.types)
    ]
    group = b.let("group", meeting.group)
    rows = [build.mul(build.add(group, k * meeting.groups), width) for k in range(len(partials))]
    with b.when(meeting.is_leader):
        for row, partial in zip(rows, partials, strict=True):
            for (buffer, first), value in zip(shared, partial, strict=True):
                place = Vector(buffer, build.total([first, row, meeting.member], int32))
                b.append(Store(place, value, span=b.span))
    b.append(Sync(meeting.scope, span=b.span))
    made = []
    for row in rows:
        columns = [_read(b, buffer, build.add(first, row), width) for buffer, first in shared]
        made.append(combining.named(b, combining.tree(b, list(zip(*columns, strict=True)), in_order=False)))
    return made


def _read(b: Builder, buffer: Buffer, first: Expr, count: int) -> list[Expr]:
    """Elements of shared memory, in the widest vectors that divide them."""
    width = min(count & -count, WIDEST_BITS // buffer.dtype.bits)
    there = b.scratch("every", buffer.dtype, count)
    for k in range(0, count, width):
        target = Vector(there, build.const(k, int32), width)
        b.append(Move(target, Vector(buffer, build.add(first, k), width), span=b.span))
    return [Load(_element(there, k)) for k in range(count)]


def _element(buffer: Buffer, k: int) -> Vector:
    return Vector(buffer, build.const(k, int32))
