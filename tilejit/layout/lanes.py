"""Elements that change lanes within a warp: which bits of lanes change places with which bits of registers.

    from    lane 0: 0 1    lane 1: 2 3       to    lane 0: 0 2    lane 1: 1 3       two words a lane, k = 1

A word lies in a lane and a register of the source, and of the destination. Where k bits of the lane become bits of the
register, and as many the other way round, 2**k rounds move a group of 2**k words: in round j lane s sends register
a ^ j, where a are the k bits of s, and lane l receives what becomes register j ^ b, where b are the k bits of l.

    round 0    lane 0 keeps 0, lane 1 keeps 3
    round 1    lane 0 sends 1 and receives 2, lane 1 sends 2 and receives 1
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..dataclass import dataclass
from ..target import WARP
from .transfer import Holding

__all__ = ["Group", "LaneSwap"]

Array = NDArray[np.int64]

_LANE_BITS = WARP.bit_length() - 1


@dataclass(frozen=True, slots=True)
class Group:
    """Words that change places among themselves.

    sources: the source's words, by the exchanged bits of the lane that receives them. results: the destination's, by
    those of the lane that sends them. offset: what is xored to the lane that sends.
    """

    sources: tuple[int, ...]
    results: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class LaneSwap:
    """How each lane of a warp gets the words of its destination from lanes of the warp.

    sending, receiving: the exchanged bits as lanes: those of the lane that sends become the destination's register,
    those of the lane that receives were the source's. lanes: for each bit of a receiving lane what it adds, by xor, to
    the lane from which it receives in round 0.
    """

    sending: tuple[int, ...]
    receiving: tuple[int, ...]
    lanes: tuple[int, ...]
    groups: tuple[Group, ...]

    @staticmethod
    def of(src: Holding, dst: Holding, per_word: int) -> LaneSwap | str:
        """per_word: elements of a word, which must lie together on both sides.

        returns: why there is none, where there is none.
        """
        table = _senders(src, dst, per_word)
        return table if isinstance(table, str) else _fitted(*table)

    @property
    def rounds(self) -> range:
        return range(1 << len(self.sending))

    def distance(self, group: Group, round: int) -> int:
        """What is xored to the sending lane in a round."""
        return group.offset ^ _spread(round, self.sending)

    @property
    def is_straight(self) -> bool:
        """Whether lanes receive from lanes at a distance."""
        return self.lanes == tuple(1 << bit for bit in range(_LANE_BITS))

    def is_shuffled(self, group: Group, round: int) -> bool:
        """Whether words of a round change lanes."""
        return not self.is_straight or self.distance(group, round) != 0

    @property
    def shuffles(self) -> int:
        """Words that a lane receives from others."""
        return sum(self.is_shuffled(group, round) for group in self.groups for round in self.rounds)

    @property
    def selects(self) -> int:
        """Choices between two words, for each word and bit before and behind the shuffles."""
        return 2 * len(self.sending) * len(self.rounds) * len(self.groups)


def _spread(value: int, masks: Sequence[int]) -> int:
    """The bits of a number where the masks say."""
    return sum(mask for bit, mask in enumerate(masks) if value >> bit & 1)


def _senders(src: Holding, dst: Holding, per_word: int) -> tuple[Array, Array, Array] | str:
    """(lane, word) from which each lane gets each word of the destination, of shape (lanes, words); and these words."""
    thread, register = dst.thread.ravel(), dst.register.ravel()
    element = np.tile(np.arange(dst.elements), len(dst.thread))
    holders = src.thread[:, element]
    is_near = holders // WARP == thread // WARP
    missing = int(np.count_nonzero(~is_near.any(axis=0)))
    if missing:
        return f"{missing} of {len(thread)} values are held by other warps than need them"
    # the nearest of several owners
    nearest = np.where(is_near, (holders ^ thread) % WARP, WARP).argmin(axis=0)
    every = np.arange(len(thread))
    sender, origin = holders[nearest, every] % WARP, src.register[:, element][nearest, every]
    if (register % per_word != origin % per_word).any():
        return f"the {per_word} elements of a 32-bit word don't stay together"
    results, column = np.unique(register // per_word, return_inverse=True)
    warps = int(thread.max()) // WARP + 1
    tables = np.zeros((2, warps * WARP, len(results)), np.int64)
    if len(thread) != tables[0].size * per_word:
        return "some lanes have 32-bit words that aren't full of elements"
    tables[:, thread, column] = sender, origin // per_word
    if (tables[:, thread, column] != np.stack([sender, origin // per_word])).any():
        return f"the {per_word} elements of a 32-bit word don't stay together"
    lanes = tables.reshape(2, warps, WARP, len(results))
    if (lanes != lanes[:, :1]).any():
        return "warps exchange in different ways"
    return lanes[0, 0], lanes[1, 0], results


_IRREGULAR = "the bits of lanes and registers don't change places one by one"


def _fitted(lane: Array, word: Array, results: Array) -> LaneSwap | str:
    """The bits that explain from which (lane, word) each lane gets each word of the destination."""
    bits = np.arange(WARP)[:, None] >> np.arange(_LANE_BITS) & 1
    ones = 1 << np.arange(_LANE_BITS)
    steps, adds = word[ones, 0] - word[0, 0], lane[ones, 0] ^ lane[0, 0]
    of_lane = np.bitwise_xor.reduce(bits * adds, axis=1)[:, None]
    if (word != word[0] + (bits @ steps)[:, None]).any() or (lane != lane[0] ^ of_lane).any():
        return _IRREGULAR
    receiving = [int(one) for one, step in zip(ones, steps, strict=True) if step]
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
        strides = [int(step) for step in steps if step]
        sources = tuple(base + _spread(number, strides) for number in range(len(numbers)))
        groups.append(Group(sources, tuple(int(results[by_lane[number]]) for number in numbers), offsets.pop()))
    exchanges = dict(zip(receiving, sending, strict=True))
    lanes = tuple(int(add) ^ exchanges.get(int(one), 0) for one, add in zip(ones, adds, strict=True))
    return LaneSwap(sending, tuple(receiving), lanes, tuple(groups))


def _paired(receiving: Sequence[int], bits: Sequence[int]) -> tuple[int, ...] | None:
    """The bits in the order of those that they change places with, each with itself where it can be."""
    if len(receiving) != len(bits):
        return None
    others = iter([bit for bit in bits if bit not in receiving])
    return tuple(bit if bit in bits else next(others) for bit in receiving)
