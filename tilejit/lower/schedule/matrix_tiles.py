"""8x8 tiles of 16-bit elements, which ldmatrix and stmatrix move between registers and shared memory.

In registers, lane 4r + q holds elements 2q and 2q + 1 of row r of a tile, in one 32-bit register: the digits of a tile
are row (8 lanes, 4 apart), quad (4 lanes) and pair (2 elements). In memory, each row is 16 contiguous bytes; with
.trans, each column is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd, prod

from ...dataclass import dataclass
from ...errors import LayoutError
from ...ir.nodes import Const
from ...target import WARP
from .placement import Placement
from .views import Digit, DigitSchedule, View
from .width import misaligned

#: number of elements in a row or a column of a tile; they take 16 bytes
ROW = 8

#: maximum number of tiles per instruction
_MOST = 4

#: number of lanes that share a row of a tile; each holds one register of the row
_QUAD = 4


@dataclass(frozen=True, slots=True)
class Tiles:
    """The digits of a copy of 8x8 tiles between the operands "registers" and "memory"."""

    #: True if columns are contiguous in memory, not rows
    trans: bool
    #: elements from one row to the next in memory, or from one column to the next if `trans`
    pitch: int
    warps: DigitSchedule
    #: the digits over the tiles of one instruction, slowest first
    inner: DigitSchedule
    #: the digits over instructions, slowest first
    outer: DigitSchedule

    @property
    def registers(self) -> View:
        return self.outer["registers"]

    @property
    def memory(self) -> View:
        return self.outer["memory"]

    @property
    def num(self) -> int:
        return self.inner.count

    def offsets(self) -> list[int]:
        """Return each tile's register offset from the first tile of an instruction, in elements."""
        offsets = [0]
        for digit in self.inner.digits:
            offsets = [offset + k * _register(digit) for offset in offsets for k in range(digit.extent)]
        return offsets


def split_tiles(copy: DigitSchedule) -> Tiles:
    """Split the digits of a copy that whole warps carry out into `Tiles`, or raise LayoutError."""
    registers, memory = copy["registers"].placement, copy["memory"].placement
    for step in registers.replicas:
        if step.threads % WARP:
            raise LayoutError(
                f"{step.extent} threads hold the same elements of {registers.buffer.name}; "
                "in an 8x8 tile each lane holds different ones",
                hint="replicate over whole warps",
            )
    if memory.replicas:
        raise LayoutError(f"{memory.buffer.name} holds each element in several places")
    for d in copy.padded:
        have, count = copy.extents[d], copy.counted[d]
        raise LayoutError(
            f"{registers.buffer.name} has {have} elements in {count} slots along a dimension; 8x8 tiles must be full",
            hint="use extents without padding",
        )
    lanes = _by_lane((d for d in copy.digits if d.is_spread("registers")), registers)
    words, pair = _words([d for d in copy.digits if not d.is_spread("registers")], registers)
    quads = _even_step([d for d in lanes if _thread(d) < _QUAD], memory, "4 adjacent lanes")
    rows = _even_step([d for d in lanes if _QUAD <= _thread(d) < WARP], memory, "lanes that are 4 apart")
    warps = [d for d in lanes if _thread(d) >= WARP]
    trans, pitch = _orientation((rows, quads, _step(pair)), memory)
    reason = misaligned(memory, [pitch, *(d.strides["memory"] for d in (*warps, *words))], ROW)
    if reason is not None:
        raise LayoutError(reason, hint=f"align runs of {ROW} elements to 16 bytes, and use no swizzle that splits one")
    # if transposed, prefer tiles that are consecutive in registers: they form one operand of a product without moves
    inner, outer = _instructions(words, _register if trans else _step)
    return Tiles(trans, pitch, copy.over(warps), copy.over(inner), copy.over(outer))


def _thread(digit: Digit) -> int:
    return digit.threads("registers")


def _register(digit: Digit) -> int:
    return digit.elements("registers")


def _step(digit: Digit) -> int:
    return digit.elements("memory")


def _fitting(placement: Placement) -> str:
    axis = next((a.name for a in placement.buffer.tile_layout.axes() if a.is_thread), "laneid")
    return f"lay registers out as S[(8, 4, n, 2) : (4@{axis}, 1@{axis}, 2, 1)]"


def _by_lane(digits: Iterable[Digit], placement: Placement) -> list[Digit]:
    """Return the digits over threads, fastest first, split at quad and warp boundaries, or raise LayoutError."""
    by_lane: list[Digit] = []
    uncut = sorted(digits, key=_thread, reverse=True)
    while uncut:
        digit = uncut.pop()
        first, end = _thread(digit), _thread(digit) * digit.extent
        cuts = [c for c in (_QUAD, WARP) if first < c < end]
        if not cuts:
            by_lane.append(digit)
            continue
        if cuts[0] % first or digit.extent % (cuts[0] // first):
            raise LayoutError(
                f"{digit.extent} threads {first} apart in {placement.buffer.name} don't form groups of {cuts[0]} lanes",
                hint=_fitting(placement),
            )
        outer, inner = digit.split(cuts[0] // first)
        by_lane.append(inner)
        uncut.append(outer)
    return by_lane


def _words(digits: Sequence[Digit], registers: Placement) -> tuple[list[Digit], Digit]:
    """Return the digits over 32-bit registers and the digit over the pair in a register, or raise LayoutError."""
    name = registers.buffer.name
    pairs = [d for d in digits if d.strides["registers"] == 1]
    if not pairs or pairs[0].extent % 2:
        what = f"runs of {pairs[0].extent} elements" if pairs else "no two consecutive elements"
        raise LayoutError(f"each thread has {what} of {name}; a 32-bit register holds 2", hint=_fitting(registers))
    outer, pair = pairs[0].split(2)
    words = [d for d in (outer, *(d for d in digits if d is not pairs[0])) if d.extent > 1]
    odd = [_register(d) for d in words if _register(d) % 2]
    if odd:
        what = f"pairs of {name} start every {odd[0]} elements"
        raise LayoutError(f"{what}; needs a multiple of 2", hint=_fitting(registers))
    first = registers.start
    if not isinstance(first, Const):
        raise LayoutError(f"the region of {name} starts at a register known only at run time")
    if int(first.value) % 2:
        raise LayoutError(f"the region of {name} starts at element {first.value} of a thread; needs a multiple of 2")
    return words, pair


def _even_step(digits: Sequence[Digit], memory: Placement, which: str) -> int:
    """Return the stride in memory of digits over lanes, or raise LayoutError if they have no single stride."""
    for near, far in zip(digits, digits[1:], strict=False):
        if _step(far) != near.extent * _step(near):
            raise LayoutError(
                f"the elements of {which} have strides of {_step(near)} and {_step(far)} in {memory.buffer.name}; "
                "needs a single stride",
                hint=f"lay {memory.buffer.name} out as S[(8, 4, n, 2) : (8*n, 2, 8, 1)], or with contiguous columns",
            )
    return _step(digits[0])


def _orientation(steps: tuple[int, int, int], memory: Placement) -> tuple[bool, int]:
    """Return (trans, pitch) for the strides of rows, of pairs of columns and of columns, or raise LayoutError."""
    rows, quads, pair = steps
    name, bytes_each = memory.buffer.name, memory.buffer.dtype.bytes
    if (quads, pair) == (2, 1):
        _need_pitch("rows", rows, name, bytes_each)
        return False, rows
    if rows == 1:
        _need_pitch("columns", pair, name, bytes_each)
        if quads != 2 * pair:
            raise LayoutError(
                f"columns of {name} are {pair} elements apart, and pairs of columns {quads}; needs {2 * pair}"
            )
        return True, pair
    raise LayoutError(
        f"the elements of a row of 8 are {pair} apart in {name}, pairs of them {quads}, and rows {rows}; "
        "needs 1 and 2 (contiguous rows), or rows 1 apart (contiguous columns, .trans)",
        hint=f"lay {name} out as S[(8, 4, n, 2) : (8*n, 2, 8, 1)], or with contiguous columns",
    )


def _need_pitch(what: str, pitch: int, name: str, bytes_each: int) -> None:
    if pitch > 0 and pitch % ROW == 0:
        return
    fits = max(ROW, -(-pitch // ROW) * ROW) * bytes_each
    raise LayoutError(
        f"{what} of {name} start every {pitch * bytes_each} bytes; "
        f"needs a {'' if pitch > 0 else 'positive '}multiple of {ROW * bytes_each}",
        hint=f"use {fits} bytes or a swizzled layout",
    )


def _instructions(words: Sequence[Digit], distance: Callable[[Digit], int]) -> tuple[list[Digit], list[Digit]]:
    """Split the digits over tiles into those of an instruction, the smallest by `distance`, and the others."""
    inner: list[Digit] = []
    outer: list[Digit] = []
    for digit in sorted(words, key=distance):
        taken = gcd(digit.extent, _MOST // prod(d.extent for d in inner)) if _step(digit) > 0 else 1
        others, part = digit.split(taken)
        inner += [part] if taken > 1 else []
        outer += [others] if others.extent > 1 else []
    inner.sort(key=_register, reverse=True)
    outer.sort(key=_step, reverse=True)
    return inner, outer
