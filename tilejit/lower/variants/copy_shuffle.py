"""copy and reshape between local tiles whose elements stay within their warps, by shuffles.

accepts: two local tiles of equal dtypes, or parts at constant starts, where each warp holds the elements that its lanes
    need, and the copy exchanges bits of the lane index with each other or with bits of the register index, in the same
    way in all warps. In the written registers no thread may hold an element outside the destination's part. 8- and
    16-bit elements must form 32-bit words kept together on both sides. A copy through shared memory must not cost less.
emits: a permutation of registers that depends on the lane index, a shuffle for each word that changes lanes, and a
    second such permutation; a 64-bit element moves as two words.
source: tilejit/lower/README.md, "Copies"; PTX ISA, "shfl.sync".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dataclass import dataclass
from ...dtypes import DType, int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, BufferView, Expr, Instruction, Load, Region, Store, TileOp, Vector
from ...isa import Row
from ...isa.warp import SHUFFLE_INDEX, SHUFFLE_XOR
from ...layout import TileLayout
from ...layout.lanes import Group, LaneSwap
from ...ops.copies import COPY, RESHAPE
from ...target import WARP
from ...wording import counted
from ..builder import Builder
from ..plans import Array, Moves, Plan
from ..variant import WHOLE_WARPS, DispatchContext, Variant
from ..weights import SELECT, SHUFFLE
from . import copy_through_shared
from .copy_rename import BETWEEN_TILES, CONVERSION_CONDITIONS, held, need_whole_registers

_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class Shuffled(Plan):
    """An exchange of 32-bit words: a word consists of `per_word` elements, or an element of `words` words."""

    dtype: DType
    swap: LaneSwap
    threads: int

    @property
    def per_word(self) -> int:
        return max(1, _WORD_BITS // self.dtype.bits)

    @property
    def words(self) -> int:
        return max(1, self.dtype.bits // _WORD_BITS)

    @property
    def registers(self) -> list[int]:
        """The indices, in a thread's part of the destination, of the elements that are written."""
        words = [word * self.per_word for group in self.swap.groups for word in group.results]
        return [word + k for word in words for k in range(self.per_word)]

    @property
    def shuffle(self) -> Row:
        return SHUFFLE_XOR if self.swap.is_straight else SHUFFLE_INDEX

    @property
    def cost(self) -> int:
        """Cost per warp, in quarter cycles."""
        return (SHUFFLE * self.swap.shuffles + SELECT * self.swap.selects) * self.words

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        return ((self.shuffle.mnemonic, self.swap.shuffles * self.words),)

    def moves(self) -> Moves:
        swap, thread = self.swap, np.arange(self.threads)
        lane, warp = thread % WARP, thread // WARP * WARP
        inner = np.bitwise_xor.reduce([(lane >> bit & 1) * to for bit, to in enumerate(swap.lanes)], axis=0)
        rows: list[tuple[Array, Array, Array]] = []
        for group in swap.groups:
            sources, results = np.array(group.sources), np.array(group.results)
            for j in swap.steps:
                sent = sources[_number(lane, swap.sending) ^ j]
                kept = results[_number(lane, swap.receiving) ^ j]
                rows.append((sent, warp + (inner ^ swap.distance(group, j)), kept))
        sent, sender, kept = (np.concatenate(column) for column in zip(*rows, strict=True))
        issue, receiver = np.divmod(np.arange(len(kept)), self.threads)
        sent = sent.reshape(-1, self.threads)[issue, sender]
        places = np.stack([kept, sent], axis=1) * self.per_word
        return Moves(issue, np.stack([receiver, sender], axis=1), places, np.full(len(kept), self.per_word), (1, 1))

    def schedule(self) -> Array:
        """Return one row per message received: (iteration, thread, sender, sender's register, thread's register)."""
        moves = self.moves()
        return np.column_stack([moves.issue, moves.thread, moves.places[:, ::-1]])


def _number(lane: Array, masks: Sequence[int]) -> Array:
    """Return the number formed by the bits of `lane` that `masks` select, lowest first."""
    return np.asarray(sum(((lane & mask) // mask << bit for bit, mask in enumerate(masks)), start=lane * 0))


def plan(op: TileOp, context: DispatchContext) -> Shuffled:
    threads, dst, src = context.count(op.scope), op.region("dst"), op.region("src")
    # padding is moved too if both sides have it at the same indices, which a reshape would change
    padded = _is_whole(dst) and _is_whole(src) and (dst.buffer.laid_out, dst.shape) == (src.buffer.laid_out, src.shape)
    to, what = (held(region, op.scope, threads, padded=padded) for region in (dst, src))
    swap = LaneSwap.of(what, to, max(1, _WORD_BITS // dst.dtype.bits))
    if isinstance(swap, str):
        raise LayoutError(swap)
    uneven = [r.buffer.name for r in (dst, src) if r.buffer.tile_layout.storage().span() * r.dtype.bits % _WORD_BITS]
    if uneven:
        raise LayoutError(f"a thread's part of {uneven[0]} isn't a whole number of 32-bit words")
    if not swap.shuffles:
        raise LayoutError("no value changes lanes")
    shuffled = Shuffled(dst.dtype, swap, threads)
    need_whole_registers(dst, to, shuffled.registers, op.scope, threads)
    shared = copy_through_shared.cost(op, context)
    if shared < shuffled.cost:
        shuffles, selects = (n * shuffled.words for n in (swap.shuffles, swap.selects))
        counts = f"{counted(shuffles, 'shuffle')} and {counted(selects, 'select')}"
        raise LayoutError(f"{counts} cost {shuffled.cost} quarter cycles per warp; shared memory costs {shared}")
    return shuffled


def _is_whole(region: Region) -> bool:
    return region.shape == region.buffer.shape


def emit(plan: Shuffled, op: TileOp, b: Builder) -> None:
    swap, thread = plan.swap, b.thread(op.scope, plan.threads)
    src, dst = (_words(b, op.region(name).buffer) for name in ("src", "dst"))
    lane = build.mod(thread, WARP)
    distinct = dict.fromkeys((*swap.sending, *swap.receiving))
    bits = {mask: b.let("bit", build.not_equal(build.bitwise_and(lane, mask), 0)) for mask in distinct}
    sent_by, kept_by = ([bits[mask] for mask in masks] for masks in (swap.sending, swap.receiving))
    sender = build.const(0, int32) if swap.is_straight else b.let("lane", _sender(lane, swap.lanes))
    kept: list[tuple[int, Expr]] = []
    # values are stored after all groups are read, since the tiles may overlap
    for group in swap.groups:
        for half in range(plan.words):
            words = [b.let("word", Load(_at(src, word * plan.words + half))) for word in group.sources]
            offered = _xor_permuted(b, words, sent_by)
            received = _received(b, plan, group, offered, sender)
            targets = [word * plan.words + half for word in group.results]
            kept += zip(targets, _xor_permuted(b, received, kept_by), strict=True)
    for word, value in kept:
        b.append(Store(_at(dst, word), value, span=b.span))


def _received(b: Builder, plan: Shuffled, group: Group, offered: Sequence[Expr], sender: Expr) -> list[Expr]:
    """Emit a group's shuffles, and return each step's word: the one received, or without a shuffle the lane's own."""
    swap, received = plan.swap, list(offered)
    steps = [j for j in swap.steps if swap.is_shuffled(group, j)]
    dtype = offered[0].dtype
    out, into = (b.scratch(stem, dtype, max(len(steps), 1)) for stem in ("sent", "received"))
    for k, j in enumerate(steps):
        b.append(Store(_at(out, k), offered[j], span=b.span))
        by = build.bitwise_xor(sender, build.const(swap.distance(group, j), int32))
        b.append(Instruction(plan.shuffle.name, (_at(into, k),), (_at(out, k), by), span=b.span))
        received[j] = b.let("other", Load(_at(into, k)))
    return received


def _xor_permuted(b: Builder, words: Sequence[Expr], bits: Sequence[Expr]) -> list[Expr]:
    """Permute words: place k gets word k xor v, where `bits` are the bits of v, lowest first."""
    permuted = list(words)
    for stage, bit in enumerate(bits):
        swapped = [permuted[k ^ 1 << stage] for k in range(len(permuted))]
        permuted = [b.let("word", build.where(bit, x, y)) for x, y in zip(swapped, permuted, strict=True)]
    return permuted


def _sender(lane: Expr, adds: Sequence[int]) -> Expr:
    """Return the XOR of `adds[bit]` over the bits set in `lane`: its sender in step 0, but for the group's offset."""
    sender: Expr = build.const(0, int32)
    for bit, add in enumerate(adds):
        is_set = build.mod(build.floordiv(lane, 1 << bit), 2)
        sender = build.bitwise_xor(sender, build.mul(is_set, add))
    return sender


def _words(b: Builder, buffer: Buffer) -> Buffer:
    if buffer.dtype.bits == _WORD_BITS:
        return buffer
    shape = (buffer.tile_layout.storage().span() * buffer.dtype.bits // _WORD_BITS,)
    align = max(buffer.align, int32.bytes)
    view = Buffer(b.name("words"), "local", int32, shape, TileLayout.row_major(shape), align, base=buffer)
    b.append(BufferView(view, span=b.span))
    return view


def _at(buffer: Buffer, word: int) -> Vector:
    return Vector(buffer, build.const(word, int32))


VARIANT = Variant(
    name="shuffle",
    operations=(COPY.name, RESHAPE.name),
    priority=20,
    operands=BETWEEN_TILES,
    when=(*CONVERSION_CONDITIONS, WHOLE_WARPS),
    plan=plan,
    emit=emit,
)
