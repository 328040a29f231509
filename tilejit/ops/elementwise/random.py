"""Random bits by Philox 4×32 with 10 rounds, a function of a seed and an offset that needs no state.

Block j, for the seed's key, is 4 words of 32 bits; the word at offset o is word o mod 4 of block o // 4. Elements whose
offsets are in one block share its computation, if the compiler can prove that (`codegen.expressions`).

source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import numpy as np

from ..scalar import Code, Number, ScalarBuilder
from .record import Elementwise

#: the number of words of a block
BLOCK = 4

_ROUNDS = 10
_FACTORS = 0xD2511F53, 0xCD9E8D57
#: added to the key's words in each round: the golden ratio and the square root of 3, less 1, in 32 bits
_STEPS = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(2**32 - 1)
_HALF = np.uint64(32)


def philox(counter: tuple[np.ndarray, ...], key: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Return the 4 words of the block for a counter of 4 words and a key of 2, each less than 2**32, as uint64."""
    words, (first, second) = list(counter), key
    for _ in range(_ROUNDS):
        a, b = words[0] * np.uint64(_FACTORS[0]), words[2] * np.uint64(_FACTORS[1])
        words = [b >> _HALF ^ words[1] ^ first, b & _LOW, a >> _HALF ^ words[3] ^ second, a & _LOW]
        first, second = first + np.uint64(_STEPS[0]) & _LOW, second + np.uint64(_STEPS[1]) & _LOW
    return words


def _formula(seed: np.ndarray, offset: np.ndarray) -> np.ndarray:
    seed, offset = (np.asarray(number).astype(np.uint64) for number in (seed, offset))
    block, zero = offset >> np.uint64(2), np.zeros_like(offset)
    words = philox((block & _LOW, block >> _HALF, zero, zero), (seed & _LOW, seed >> _HALF))
    word = (offset & np.uint64(BLOCK - 1)).astype(np.intp)
    return np.asarray(np.choose(word, np.broadcast_arrays(*words)))


def _halves(b: ScalarBuilder, x: Number) -> tuple[Number, Number]:
    return b.convert("trunc", x, "u32"), b.convert("trunc", x >> 32, "u32")


def _product(b: ScalarBuilder, x: Number, factor: int) -> tuple[Number, Number]:
    """Return the low and the high half of a product of two u32, of which LLVM makes one multiplication each."""
    return x * factor, _halves(b, b.convert("zext", x, "u64") * factor)[1]


def _random_bits(b: ScalarBuilder, seed: Number, offset: Number, word: Number | None = None) -> Number:
    """Return the word at `offset`, a multiple of `BLOCK`, plus `word`, which is less than that; None for any offset."""
    zero = b.constant("u32", 0)
    words, key = [*_halves(b, offset >> 2), zero, zero], list(_halves(b, seed))
    for number in range(_ROUNDS):
        if number:
            key = [k + step for k, step in zip(key, _STEPS, strict=True)]
        (a_low, a_high), (b_low, b_high) = (_product(b, x, f) for x, f in zip(words[::2], _FACTORS, strict=True))
        words = [b_high ^ words[1] ^ key[0], b_low, a_high ^ words[3] ^ key[1], a_low]
    known = None if word is None else b.literal(word)
    if known is None:
        is_odd, is_upper = (offset & 1).differs(0), (offset & 2).differs(0)
        chosen = b.select(is_upper, b.select(is_odd, words[3], words[2]), b.select(is_odd, words[1], words[0]))
    else:
        chosen = words[known]
    return b.convert("zext", chosen, "u64")


RANDOM_BITS = Elementwise(
    name="random_bits", operands=("seed", "offset"), kind="random",
    meaning="word offset % 4 of block offset // 4 of Philox 4x32-10 with the key seed: the same on all devices",
    formula=_formula, integers=Code(_random_bits),
)
