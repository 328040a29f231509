"""Exchanges of 32-bit words between the lanes of a warp, as permutations of the bits of lane and register indices.

    from    lane 0: 0 1    lane 1: 2 3       to    lane 0: 0 2    lane 1: 1 3       two words per lane, k = 1

Each word has a lane and a register in the source and in the destination. If k bits of the lane index are exchanged with
k bits of the register index, 2**k steps move a group of 2**k words per lane: in step j, lane s sends the group's
register a ^ j, and lane l receives the word for register b ^ j, where a and b are the exchanged bits of s and l.

    step 0    lane 0 keeps 0, lane 1 keeps 3
    step 1    lane 0 sends 1 and receives 2, lane 1 sends 2 and receives 1
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dataclass import dataclass
from ..target import WARP
from .transfer import Array, Holding

_LANE_BITS = WARP.bit_length() - 1


@dataclass(frozen=True, slots=True)
class Group:
    """The registers of a lane whose words are moved together, one per step. Registers are counted in words.

    sources: registers of the source, indexed by the exchanged bits of the receiving lane. results: registers of the
    destination, indexed by the exchanged bits of the sending lane. offset: the lane that sends to lane 0 in step 0.
    """

    sources: tuple[int, ...]
    results: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class LaneSwap:
    """The exchange after which each lane of a warp holds its words of the destination."""

    #: masks of the exchanged bits of the sending lane's index, which become bits of the destination's register index
    sending: tuple[int, ...]
    #: masks of the exchanged bits of the receiving lane's index, which were bits of the source's register index
    receiving: tuple[int, ...]
    #: for each bit of the receiving lane's index, the mask that it xors into the sending lane's index in step 0 if set
    lanes: tuple[int, ...]
    groups: tuple[Group, ...]

    @staticmethod
    def of(src: Holding, dst: Holding, per_word: int) -> LaneSwap | str:
        """Return the exchange, or a reason if there is none. per_word: elements per 32-bit word, 1 for wider ones."""
        table = _senders(src, dst, per_word)
        return table if isinstance(table, str) else _fitted(*table)

    @property
    def steps(self) -> range:
        return range(1 << len(self.sending))

    def distance(self, group: Group, step: int) -> int:
        return group.offset ^ _spread(step, self.sending)

    @property
    def is_straight(self) -> bool:
        """True if, in each step of a group, all lanes receive from lanes at the same xor distance."""
        return self.lanes == tuple(1 << bit for bit in range(_LANE_BITS))

    def is_shuffled(self, group: Group, step: int) -> bool:
        return not self.is_straight or self.distance(group, step) != 0

    @property
    def shuffles(self) -> int:
        return sum(self.is_shuffled(group, step) for group in self.groups for step in self.steps)

    @property
    def selects(self) -> int:
        """The number of selections per lane: for each word, one per exchanged bit before the shuffles and one after."""
        return 2 * len(self.sending) * len(self.steps) * len(self.groups)


def _spread(value: int, masks: Sequence[int]) -> int:
    return sum(mask for bit, mask in enumerate(masks) if value >> bit & 1)


def _senders(src: Holding, dst: Holding, per_word: int) -> tuple[Array, Array, Array] | str:
    """Return source lane and word by [receiving lane, k] and destination word by [k], or why there is no exchange."""
    thread, register = dst.thread.ravel(), dst.register.ravel()
    element = np.tile(np.arange(dst.elements), len(dst.thread))
    holders = src.thread[:, element]
    is_near = holders // WARP == thread // WARP
    missing = int(np.count_nonzero(~is_near.any(axis=0)))
    if missing:
        return f"{missing} of {len(thread)} values aren't held by the warps that need them"
    # of several lanes that hold an element, the one at the smallest xor distance
    nearest = np.where(is_near, (holders ^ thread) % WARP, WARP).argmin(axis=0)
    every = np.arange(len(thread))
    sender, origin = holders[nearest, every] % WARP, src.register[:, element][nearest, every]
    if (register % per_word != origin % per_word).any():
        return f"the {per_word} elements of a 32-bit word don't stay together"
    results, column = np.unique(register // per_word, return_inverse=True)
    warps = int(thread.max()) // WARP + 1
    tables = np.zeros((2, warps * WARP, len(results)), np.int64)
    if len(thread) != tables[0].size * per_word:
        return "some lanes don't fill all of their 32-bit words"
    tables[:, thread, column] = sender, origin // per_word
    if (tables[:, thread, column] != np.stack([sender, origin // per_word])).any():
        return f"the {per_word} elements of a 32-bit word don't stay together"
    lanes = tables.reshape(2, warps, WARP, len(results))
    if (lanes != lanes[:, :1]).any():
        return "the exchange differs between warps"
    return lanes[0, 0], lanes[1, 0], results


_IRREGULAR = "the exchange isn't a permutation of the bits of lane and register indices"


def _fitted(lane: Array, word: Array, results: Array) -> LaneSwap | str:
    """Return the bit permutation that produces the tables of `_senders`, or a reason if there is none."""
    bits = np.arange(WARP)[:, None] >> np.arange(_LANE_BITS) & 1
    ones = 1 << np.arange(_LANE_BITS)
    strides, adds = word[ones, 0] - word[0, 0], lane[ones, 0] ^ lane[0, 0]
    of_lane = np.bitwise_xor.reduce(bits * adds, axis=1)[:, None]
    if (word != word[0] + (bits @ strides)[:, None]).any() or (lane != lane[0] ^ of_lane).any():
        return _IRREGULAR
    receiving = [int(one) for one, stride in zip(ones, strides, strict=True) if stride]
    members: dict[int, list[int]] = {}
    for k, base in enumerate(word[0].tolist()):
        members.setdefault(base, []).append(k)
    first = lane[0, next(iter(members.values()))]
    exchanged = int(np.bitwise_or.reduce(first ^ first[0]))
    sending = _paired(receiving, [int(one) for one in ones if one & exchanged])
    if sending is None or (adds & exchanged).any():
        return _IRREGULAR
    groups: list[Group] = []
    for base, words in members.items():
        by_lane = {int(lane[0, k]) & exchanged: k for k in words}
        offsets = {int(lane[0, k]) & ~exchanged for k in words}
        numbers = [_spread(number, sending) for number in range(1 << len(sending))]
        if len(words) != len(numbers) or len(by_lane) != len(numbers) or len(offsets) != 1:
            return _IRREGULAR
        moves = [int(stride) for stride in strides if stride]
        sources = tuple(base + _spread(number, moves) for number in range(len(numbers)))
        groups.append(Group(sources, tuple(int(results[by_lane[number]]) for number in numbers), offsets.pop()))
    exchanges = dict(zip(receiving, sending, strict=True))
    lanes = tuple(int(add) ^ exchanges.get(int(one), 0) for one, add in zip(ones, adds, strict=True))
    return LaneSwap(sending, tuple(receiving), lanes, tuple(groups))


def _paired(receiving: Sequence[int], bits: Sequence[int]) -> tuple[int, ...] | None:
    """Return `bits` reordered to pair with `receiving`, a bit in both with itself; None if the counts differ."""
    if len(receiving) != len(bits):
        return None
    others = iter([bit for bit in bits if bit not in receiving])
    return tuple(bit if bit in bits else next(others) for bit in receiving)
