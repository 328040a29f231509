"""Register fragments of wgmma: the accumulator, and A if it isn't in shared memory.

Thread 32w + 4g + t of the warpgroup holds these elements, where pack is the number of elements of A in 32 bits:

    accumulator  row 16w + g + 8i     column 8h + 2t + e                   index 4h + 2i + e in its fragment
    A            row 16w + g + 8i     column 4 * pack * h + pack * t + e   index pack * (2h + i) + e

Both follow the second rule; for the accumulator, pack is 2.
source: PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16" and those for other k.
"""

from __future__ import annotations

import numpy as np

from ...dataclass import dataclass
from ...errors import LayoutError
from ...ir.nodes import Region
from ...isa.wgmma import WGMMA_M
from ...scopes import WARPGROUP
from .placement import need_slice, place
from .tensor_words import Elements, first_place

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class FragmentRun:
    """Consecutive elements of a thread's tile: `first` to `first` + `width` - 1."""

    first: int
    width: int


def registers_of_sums(region: Region) -> Array:
    """Return the indices in a thread's tile of accumulator elements in wgmma's order, one row per block of 64 rows."""
    return _registers(region, "acc", 2, f"tj.wgmma.layout_c({region.shape})")


def registers_of_a(region: Region) -> Array:
    """Like `registers_of_sums`, for the elements of A."""
    return _registers(region, "a", 32 // region.dtype.bits, f"tj.wgmma.layout_a({region.shape}, tj.{region.dtype})")


def _registers(region: Region, name: str, pack: int, layout: str) -> Array:
    """Implement `registers_of_sums`, or raise LayoutError. pack: adjacent elements of a row that one thread holds."""
    hint, what = f"what fits: layout={layout}", region.buffer.name
    what = what if what == name else f"{name} ({what})"
    placement = place(region, WARPGROUP.name)
    need_slice(placement)
    rows, columns = Elements.along(placement)
    row, column = np.arange(len(rows.threads)), np.arange(len(columns.threads))
    of_row, of_column = row % WGMMA_M // 16 * 32 + row % 8 * 4, column // pack % 4
    wrong = [(0, int(c)) for c in np.flatnonzero(columns.threads != of_column)]
    wrong += [(int(r), 0) for r in np.flatnonzero(rows.threads != of_row)]
    if wrong or placement.replicas:
        (r, c) = wrong[0] if wrong else (0, 0)
        thread, wanted = rows.threads[r] + columns.threads[c], of_row[r] + of_column[c]
        owner = f" (its element {r}, {c} is in thread {thread}; wgmma needs it in thread {wanted})" if wrong else ""
        raise LayoutError(f"{what} is not a wgmma fragment; needs {layout}{owner}", hint=hint)
    by_row, by_column = rows.places.reshape(-1, 4, 2, 8), columns.places.reshape(-1, 4, pack)
    # offsets of the first of each 8 rows of warp 0, and of the columns of a row's first lane; the rest must match
    i, e = by_row[:, :1, :, :1], by_column[:, :1]
    if (by_row != i).any() or (by_column != e).any():
        raise LayoutError(f"threads hold {what} in different registers; needs {layout}", hint=hint)
    held = first_place(placement) + i.reshape(-1, 1, 2, 1) + e.reshape(1, -1, 1, pack)
    return np.asarray(held.reshape(len(by_row), -1))


def runs(registers: Array, pack: int, name: str) -> tuple[FragmentRun, ...]:
    """Split elements into runs of whole 32-bit registers, of `pack` elements each, or raise LayoutError."""
    breaks = np.flatnonzero(np.diff(registers) != 1) + 1
    found = [FragmentRun(int(part[0]), len(part)) for part in np.split(registers, breaks)]
    if any(run.first % pack or run.width % pack for run in found):
        raise LayoutError(f"the elements of {name} don't fill whole 32-bit registers with {pack} consecutive ones each")
    return tuple(found)
