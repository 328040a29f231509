"""The registers that wgmma takes: those of the sums, and of A where that isn't in memory.

With thread 32w + 4g + t of the warpgroup and pack elements in a 32-bit register:

    sums         row 16w + g + 8i     column 8j + 2t + e                   register 4j + 2i + e
    A            row 16w + g + 8i     column 4 * pack * h + pack * t + e   register pack * (2h + i) + e
source: PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16" and those for other k.
"""

from __future__ import annotations

import numpy as np

from ...dataclass import dataclass
from ...errors import LayoutError
from ...ir.nodes import Region
from ...isa.wgmma import WGMMA_M
from ...scopes import WARPGROUP
from ...target import WARPGROUP as THREADS
from .placement import need_slice, place
from .tensor_words import Elements

__all__ = ["Run", "registers_of_a", "registers_of_sums", "runs"]

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Run:
    """Registers that follow each other: elements `first` to `first` + `width` of a thread's tile."""

    first: int
    width: int


def registers_of_sums(region: Region) -> Array:
    """The register of each element of the sums of 64 rows, in order, of shape (blocks of 64 rows, elements).

    raises: LayoutError where threads hold them otherwise.
    """
    rows, columns = region.shape
    row, column = np.ogrid[:rows, :columns]
    lane, slot = column % 8 // 2, column // 8 * 4 + row // 8 % 2 * 2 + column % 2
    return _registers(region, "acc", lane, slot, f"tj.wgmma.layout_c({region.shape})")


def registers_of_a(region: Region) -> Array:
    """As `registers_of_sums`, of A."""
    rows, depth = region.shape
    pack = 32 // region.dtype.bits
    row, column = np.ogrid[:rows, :depth]
    word, within = np.divmod(column, 4 * pack)
    slot = pack * (2 * word + row // 8 % 2) + within % pack
    return _registers(region, "a", within // pack, slot, f"tj.wgmma.layout_a({region.shape}, tj.{region.dtype})")


def _registers(region: Region, name: str, lane: Array, slot: Array, layout: str) -> Array:
    """lane: of the four that share a row, the one that has an element. slot: which element it is of the thread's."""
    (rows, columns), hint = region.shape, f"what fits: layout={layout}"
    row = np.arange(rows)[:, None]
    thread = row % WGMMA_M // 16 * 32 + row % 8 * 4 + lane
    placement = place(region, WARPGROUP.name)
    need_slice(placement)
    elements = Elements.of(placement)
    threads, places = (each.reshape(rows, columns) for each in (elements.threads, elements.places))
    wrong = np.argwhere(threads != thread)
    what = region.buffer.name if region.buffer.name == name else f"{name} ({region.buffer.name})"
    if len(wrong) or placement.replicas:
        (r, c) = wrong[0] if len(wrong) else (0, 0)
        owner = f" (thread {threads[r, c]} has its element {r}, {c}; wgmma's is {thread[r, c]})" if len(wrong) else ""
        raise LayoutError(f"{what} is no fragment of wgmma's; needs {layout}{owner}", hint=hint)
    blocks, count = rows // WGMMA_M, WGMMA_M * columns // THREADS
    held = np.full((blocks, count, THREADS), -1)
    held[row // WGMMA_M, slot, thread] = places
    if (held != held[:, :, :1]).any():
        raise LayoutError(f"threads hold {what} in different registers; needs {layout}", hint=hint)
    return np.asarray(held[:, :, 0])


def runs(registers: Array, pack: int, name: str) -> tuple[Run, ...]:
    """Registers in order as runs. pack: elements in a 32-bit register.

    raises: LayoutError where one of 32 bits isn't whole.
    """
    breaks = np.flatnonzero(np.diff(registers) != 1) + 1
    found = [Run(int(part[0]), len(part)) for part in np.split(registers, breaks)]
    if any(run.first % pack or run.width % pack for run in found):
        raise LayoutError(f"the {pack} elements of a 32-bit register of {name} don't lie together")
    return tuple(found)
