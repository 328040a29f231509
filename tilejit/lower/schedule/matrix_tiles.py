"""8x8 tiles of 16-bit elements: how registers and shared memory must split for one matrix instruction to move them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, prod

from ...errors import LayoutError
from ...ir.nodes import Const
from ...layout import TileLayout
from ...target import WARP
from ..moves.register_copy import register_digits
from .addresses import origin
from .placement import Side, Thread
from .schedule import Atom, split
from .width import misaligned

__all__ = ["ROW", "Tiles", "split_tiles"]

#: elements of one row of a tile, which lie together in shared memory: 16 bytes
ROW = 8

#: tiles that one instruction moves at most
_MOST = 4

#: lanes that share a row of a tile, each with one register of it
_QUAD = 4


@dataclass(frozen=True, slots=True)
class Tiles:
    """The digits of a copy that tiles account for, on (registers, memory).

    trans: whether a tile's columns lie together in memory, not its rows. pitch: elements from one to the next.
    warps: digits of a thread's warp. inner: digits of the tile in one instruction; outer: those of the instruction.
    Both count slowest first.
    """

    trans: bool
    pitch: int
    warps: tuple[Atom, ...]
    inner: tuple[Atom, ...]
    outer: tuple[Atom, ...]

    @property
    def num(self) -> int:
        """Tiles of one instruction."""
        return prod(a.extent for a in self.inner)

    def offsets(self) -> list[int]:
        """How far each tile of an instruction lies from the first in registers."""
        offsets = [0]
        for atom in self.inner:
            offsets = [offset + k * _register(atom) for offset in offsets for k in range(atom.extent)]
        return offsets


def split_tiles(registers: Side, memory: Side) -> Tiles:
    """The digits of a copy as rows, columns, tiles and warps.

    accepts: registers that all threads of whole warps own.
    raises: LayoutError where the layouts aren't made of 8x8 tiles, or rows aren't 16 aligned bytes.
    """
    if memory.replicas:
        raise LayoutError(f"{memory.buffer.name} holds each element in several places")
    found = register_digits(registers, memory)
    lanes = _by_lane([a for a in found if isinstance(a.strides[0], Thread)], registers)
    words, pair = _words([a for a in found if not isinstance(a.strides[0], Thread)], registers)
    quads = _even_step([a for a in lanes if _thread(a) < _QUAD], memory, "4 neighbouring lanes")
    rows = _even_step([a for a in lanes if _QUAD <= _thread(a) < WARP], memory, "every fourth lane")
    warps = tuple(a for a in lanes if _thread(a) >= WARP)
    trans, pitch = _orientation((rows, quads, _step(pair)), memory)
    reason = misaligned(memory, [pitch, *(a.strides[1] for a in (*warps, *words))], ROW)
    if reason is not None:
        raise LayoutError(reason, hint=f"what fits: rows at multiples of {ROW} elements, each row within a chunk")
    inner, outer = _instructions(words, _register if trans else _step)
    return Tiles(trans, pitch, warps, inner, outer)


def _thread(atom: Atom) -> int:
    stride = atom.strides[0]
    assert isinstance(stride, Thread)
    return stride.stride


def _register(atom: Atom) -> int:
    stride = atom.strides[0]
    assert isinstance(stride, int)
    return stride


def _step(atom: Atom) -> int:
    stride = atom.strides[1]
    assert isinstance(stride, int)
    return stride


def _fitting(side: Side) -> str:
    layout = side.buffer.layout
    assert isinstance(layout, TileLayout)
    axis = next((a.name for a in layout.axes() if a.is_thread), "laneid")
    return f"what fits: registers S[(8, 4, n, 2) : (4@{axis}, 1@{axis}, 2, 1)]"


def _by_lane(atoms: Sequence[Atom], side: Side) -> list[Atom]:
    """The digits among threads, nearest first, cut where a quad and where a warp ends."""
    found: list[Atom] = []
    rest = sorted(atoms, key=_thread, reverse=True)
    while rest:
        atom = rest.pop()
        first, end = _thread(atom), _thread(atom) * atom.extent
        cuts = [c for c in (_QUAD, WARP) if first < c < end]
        if not cuts:
            found.append(atom)
            continue
        if cuts[0] % first or atom.extent % (cuts[0] // first):
            raise LayoutError(
                f"{atom.extent} threads {first} apart in {side.buffer.name} don't split at every {cuts[0]} lanes",
                hint=_fitting(side),
            )
        outer, inner = split(atom, cuts[0] // first)
        found.append(inner)
        rest.append(outer)
    return found


def _words(atoms: Sequence[Atom], side: Side) -> tuple[list[Atom], Atom]:
    """The digits among a thread's 32-bit registers, and that of the two elements in one.

    raises: LayoutError where elements don't pair up, or a pair doesn't start at an even register.
    """
    name = side.buffer.name
    pairs = [a for a in atoms if a.strides[0] == 1]
    if not pairs or pairs[0].extent % 2:
        what = f"a run of {pairs[0].extent} elements" if pairs else "no two elements of one thread follow each other"
        raise LayoutError(f"{what} in {name}; a 32-bit register holds 2", hint=_fitting(side))
    outer, pair = split(pairs[0], 2)
    words = [a for a in (outer, *(a for a in atoms if a is not pairs[0])) if a.extent > 1]
    odd = [_register(a) for a in words if _register(a) % 2]
    if odd:
        raise LayoutError(f"pairs of {name} start every {odd[0]} elements; needs a multiple of 2", hint=_fitting(side))
    first = origin(side)
    if not isinstance(first, Const):
        raise LayoutError(f"the region of {name} starts at a register known only at run time")
    if int(first.value) % 2:
        raise LayoutError(f"the region of {name} starts at element {first.value} of a thread; needs a multiple of 2")
    return words, pair


def _even_step(atoms: Sequence[Atom], memory: Side, which: str) -> int:
    """How far each of some lanes leads in memory, the same for all.

    raises: LayoutError where it isn't.
    """
    for near, far in zip(atoms, atoms[1:], strict=False):
        if _step(far) != near.extent * _step(near):
            raise LayoutError(
                f"{which} lie {_step(near)} and then {_step(far)} elements apart in {memory.buffer.name}; "
                "needs one stride",
                hint=f"what fits: {memory.buffer.name} S[(8, 4, n, 2) : (8*n, 2, 8, 1)], row-major or column-major",
            )
    return _step(atoms[0])


def _orientation(steps: tuple[int, int, int], memory: Side) -> tuple[bool, int]:
    """(trans, pitch) from how far a row, two columns and one column lead in memory.

    raises: LayoutError where neither rows nor columns are 8 elements in a row, 16 aligned bytes.
    """
    rows, quads, pair = steps
    name, bytes_each = memory.buffer.name, memory.buffer.dtype.bytes
    if (quads, pair) == (2, 1):
        _need_pitch("rows", rows, name, bytes_each)
        return False, rows
    if rows == 1:
        _need_pitch("columns", pair, name, bytes_each)
        if quads != 2 * pair:
            raise LayoutError(
                f"columns of {name} lie {pair} elements apart, and every second one {quads}; needs {2 * pair}"
            )
        return True, pair
    raise LayoutError(
        f"the elements of a row of 8 lie {pair} apart in {name}, pairs of them {quads}, and rows {rows}; "
        "needs 1 and 2 (rows together), or rows 1 apart (columns together, .trans)",
        hint=f"what fits: {name} S[(8, 4, n, 2) : (8*n, 2, 8, 1)], row-major or column-major",
    )


def _need_pitch(what: str, pitch: int, name: str, bytes_each: int) -> None:
    if pitch > 0 and pitch % ROW == 0:
        return
    fits = max(ROW, -(-pitch // ROW) * ROW) * bytes_each
    raise LayoutError(
        f"{what} of {name} start every {pitch * bytes_each} bytes; needs a multiple of {ROW * bytes_each}",
        hint=f"what fits: {fits} bytes, or a swizzled layout",
    )


def _instructions(
    words: Sequence[Atom], distance: Callable[[Atom], int]
) -> tuple[tuple[Atom, ...], tuple[Atom, ...]]:
    """The digits of the tile in an instruction, as many as fit, and those of the instruction.

    Tiles of one instruction are the nearest by `distance`, in the order of their registers. Of columns those follow
    each other in registers: two that a product takes as one operand then need no moves to a pair of registers.
    """
    inner: list[Atom] = []
    outer: list[Atom] = []
    for atom in sorted(words, key=distance):
        taken = gcd(atom.extent, _MOST // prod(a.extent for a in inner)) if _step(atom) > 0 else 1
        rest, part = split(atom, taken)
        inner += [part] if taken > 1 else []
        outer += [rest] if rest.extent > 1 else []
    inner.sort(key=_register, reverse=True)
    outer.sort(key=_step, reverse=True)
    return tuple(inner), tuple(outer)
