"""Shared memory as atoms: the layout that TMA fills box by box and wgmma reads.

An atom has 8 contiguous rows of w bytes; w is 32, 64 or 128, depending on the swizzle, or without a swizzle the length
of the contiguous runs. If a row of the tile is longer than w, its columns are split into blocks. For a tile of 64 x 256
16-bit elements with swizzle="128B":

                    columns 0 ... 63       64 ... 127     128 ... 191    192 ... 255
    rows 0 ... 7    byte 0 ... 1023        8192 ...       16384 ...      24576 ...       w = 128, e = 64 elements
    rows 8 ... 15   byte 1024 ... 2047     9216 ...                                      4 blocks, 8192 bytes apart
    ...             SBO: 1024              LBO: 8192

Columns run along the contiguous dimension, `major`; all other dimensions count rows. For an operand (K, N) with N
contiguous, K counts rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ...dataclass import dataclass
from ...errors import LayoutError
from ...ir.arithmetic import facts
from ...ir.nodes import Const, Expr, Region
from ...isa.wgmma import K_BYTES
from ...layout import Swizzle
from ...layout.swizzle import SWIZZLE_BITS
from ...scopes import CTA
from .placement import DigitStep, Offset, Placement, need_slice, place

ATOM_ROWS = 8

#: names of the swizzle modes, indexed by the bits of the swizzle
MODES = tuple(SWIZZLE_BITS)

#: bytes of a chunk, which every swizzle mode keeps contiguous
_CHUNK_BYTES = 16


@dataclass(frozen=True, slots=True)
class Atoms:
    """A region of shared memory as atoms. Strides and the start are in elements, before swizzling."""

    placement: Placement
    bits: int
    #: elements of an atom's row, e; without a swizzle, the number of contiguous elements
    row_elements: int
    rows: int
    columns: int
    #: number of blocks of columns; a single block may be partial (columns < e)
    blocks: int
    block_stride: int
    #: distance from one group of 8 rows to the next
    group_stride: int
    #: the dimension of `placement` that counts columns
    major: int
    #: the other dimensions, slowest first
    row_dims: tuple[int, ...]

    @property
    def mode(self) -> str:
        return MODES[self.bits]

    @property
    def element_bits(self) -> int:
        return self.placement.buffer.dtype.bits

    @property
    def row_bytes(self) -> int:
        return self.row_elements * self.element_bits // 8

    @property
    def lbo_bytes(self) -> int:
        return self.block_stride * self.element_bits // 8

    @property
    def sbo_bytes(self) -> int:
        return self.group_stride * self.element_bits // 8

    @property
    def start(self) -> Expr:
        return self.placement.start

    @property
    def is_dense(self) -> bool:
        """True if all rows of a block are `row_elements` apart, also across groups of 8 rows."""
        return self.rows <= ATOM_ROWS or self.group_stride == ATOM_ROWS * self.row_elements

    def at(self, row: int, column: int) -> int:
        """Return the distance of an element from the start, in elements, before swizzling."""
        block, within = divmod(column, self.row_elements)
        group, row = divmod(row, ATOM_ROWS)
        return group * self.group_stride + row * self.row_elements + block * self.block_stride + within


def atoms_of(region: Region, k: int | None = None) -> Atoms:
    """Return a region of shared memory as atoms, or raise LayoutError.

    accepts: the layouts of `swizzled_atom_layout` and their views: whole blocks of columns or the beginning of one
        block, from a multiple of 8 rows on; without a swizzle, groups of 8 contiguous rows of contiguous elements. If
        columns run along dimension `k`, a part of one block may start at any multiple of wgmma's k.
    """
    buffer = region.buffer
    placement = place(region, CTA.name)
    if placement.replicas or region.gathered is not None:
        what = "holds elements in several places" if placement.replicas else "is gathered by an index"
        raise LayoutError(f"{buffer.name} {what}")
    need_slice(placement)
    bits = _swizzle_bits(placement)
    major = _major(placement)
    columns = placement.shape[major]
    e, blocks, block_stride = _columns(placement, major, bits)
    rows, group_stride, row_dims = _rows(placement, major, e, bits)
    if blocks == 1:
        block_stride = rows * e
    atoms = Atoms(placement, bits, e, rows, columns, blocks, block_stride, group_stride, major, row_dims)
    if bits:
        _need_period(atoms, K_BYTES * 8 // buffer.dtype.bits if major == k and blocks == 1 else e)
    return atoms


def _swizzle_bits(placement: Placement) -> int:
    """Return how many bits the swizzle changes, 0 without one; raise LayoutError unless it is one of `MODES`."""
    swizzle, dtype = placement.swizzle, placement.buffer.dtype
    if swizzle is None:
        return 0
    wanted = Swizzle.for_dtype(dtype, _mode_of(swizzle))
    if swizzle == wanted:
        return swizzle.bits
    bits = 8 * _CHUNK_BYTES >> swizzle.base
    if swizzle.base != wanted.base and 8 <= bits <= 64:
        raise LayoutError(
            f"swizzle {swizzle!r} is for {bits}-bit elements; {dtype} needs base {wanted.base}",
            hint=f'use swizzle="{_mode_of(swizzle)}" or {wanted!r}',
        )
    raise LayoutError(f"swizzle {swizzle!r} is not supported by TMA and wgmma; {wanted!r} is", hint=f"use {wanted!r}")


def _mode_of(swizzle: Swizzle) -> str:
    return MODES[min(swizzle.bits, len(MODES) - 1)]


def _major(placement: Placement) -> int:
    for d, steps in enumerate(placement.dims):
        if steps[-1].stride == 1:
            return d
    if not placement.dims:
        raise LayoutError(f"the region of {placement.buffer.name} is a single element; needs a contiguous dimension")
    strides = ", ".join(str(step.stride) for steps in placement.dims for step in steps)
    raise LayoutError(f"no dimension of {placement.buffer.name} has unit stride; strides are ({strides})")


def _columns(placement: Placement, major: int, bits: int) -> tuple[int, int, int]:
    """Return (elements of an atom's row, number of blocks, their stride, 0 for one block), or raise LayoutError."""
    buffer, steps = placement.buffer, placement.dims[major]
    *slower, fastest = steps
    e = (_CHUNK_BYTES * 8 << bits) // buffer.dtype.bits if bits else fastest.extent
    mode = MODES[bits]
    if len(slower) > 1 or slower and fastest.extent != e:
        raise LayoutError(
            f"columns of {buffer.name} are split into runs of {_listed(steps)}; needs blocks of {e}, evenly spaced"
        )
    if slower:
        stride = slower[0].stride
        assert isinstance(stride, int), "strides in shared memory are constants"
        return e, slower[0].extent, stride
    if fastest.extent > e:
        raise LayoutError(
            f"{fastest.extent} columns of {buffer.name} are contiguous; a row of the {mode} swizzle holds {e}",
            hint=f'use tj.alloc_shared(..., swizzle="{mode}"), which splits columns into blocks',
        )
    return e, 1, 0


def _rows(placement: Placement, major: int, e: int, bits: int) -> tuple[int, int, tuple[int, ...]]:
    """Return (number of rows, distance between groups of 8, row dimensions, slowest first), or raise LayoutError."""
    buffer = placement.buffer
    others = [d for d in range(len(placement.dims)) if d != major]
    others.sort(key=lambda d: -_stride(placement.dims[d][-1]))
    steps = _merged(step for d in others for step in placement.dims[d])
    rows = prod(step.extent for step in steps)
    dims = tuple(others)
    if not steps:
        return 1, ATOM_ROWS * e, dims
    pitch = _stride(steps[-1])
    if pitch != e:
        bytes_each = buffer.dtype.bits / 8
        held = f"with the {MODES[bits]} swizzle they must be" if bits else "they must be contiguous,"
        raise LayoutError(
            f"rows of {buffer.name} are {pitch * bytes_each:g} bytes apart; {held} {e * bytes_each:g} bytes apart",
            hint='use tj.alloc_shared(..., swizzle="128B") or rows without padding',
        )
    if len(steps) == 1:
        return rows, ATOM_ROWS * e, dims
    if len(steps) == 2 and steps[-1].extent == ATOM_ROWS:
        return rows, _stride(steps[0]), dims
    raise LayoutError(
        f"rows of {buffer.name} are split into runs of {_listed(steps)}; "
        f"needs contiguous rows, or evenly spaced runs of {ATOM_ROWS}",
        hint="take one tile at a time: index the leading dimensions",
    )


def _stride(step: DigitStep) -> int:
    assert isinstance(step.stride, int), "strides in shared memory are constants"
    return step.stride


def _merged(steps: Iterable[DigitStep]) -> list[DigitStep]:
    run: list[DigitStep] = []
    for step in steps:
        while run and _stride(run[-1]) == step.extent * _stride(step):
            step = DigitStep(run.pop().extent * step.extent, step.stride)
        run.append(step)
    return run


def _listed(steps: Iterable[DigitStep]) -> str:
    return "·".join(str(step.extent) for step in steps)


def _need_period(atoms: Atoms, column_step: int) -> None:
    """Raise LayoutError unless the tile, its blocks and groups of 8 rows start at multiples of the swizzle's period.

    column_step: the tile may also start within an atom's first row, at a multiple of this number of columns.
    """
    placement, e = atoms.placement, atoms.row_elements
    buffer, region, period = placement.buffer, placement.region, ATOM_ROWS * e
    bytes_each = buffer.dtype.bits // 8
    if buffer.align % (period * bytes_each):
        raise LayoutError(f"{buffer.name} is aligned to {buffer.align} bytes; the swizzle needs {period * bytes_each}")
    for what, stride in (("blocks of columns", atoms.block_stride), ("groups of 8 rows", atoms.group_stride)):
        several = atoms.blocks > 1 if what.startswith("blocks") else not atoms.is_dense
        if several and stride % period:
            raise LayoutError(
                f"{what} of {buffer.name} start every {stride * bytes_each} bytes; "
                f"needs a multiple of {period * bytes_each}, the swizzle's period"
            )
    inside = [offset for offset in placement.offsets if offset.multiple % period]
    if not inside or len(inside) == 1 and _is_within_row(inside[0], column_step, e):
        return
    dims = [("column", placement.places[atoms.major], column_step)]
    dims += [("row", placement.places[d], ATOM_ROWS) for d in atoms.row_dims[-1:]]
    for what, d, need in dims:
        start = region.starts[d]
        multiple = facts.multiple_of(start)
        if multiple % need:
            at, isnt = f"(a multiple of {multiple})", "isn't known to be"
            if isinstance(start, Const):
                at, isnt = str(start.value), "isn't"
            of_column = "a row of the swizzle" if need == e else "the step of products along K"
            which = "the swizzle's period" if what == "row" else of_column
            raise LayoutError(f"{what} start {at} of {buffer.name} {isnt} a multiple of {need}, {which}")
    offset = inside[0]
    raise LayoutError(
        f"{offset.what} is a multiple of {offset.multiple * bytes_each} bytes; "
        f"needs a multiple of {period * bytes_each}, the swizzle's period"
    )


def _is_within_row(offset: Offset, step: int, e: int) -> bool:
    """True if an offset is known to be in the first row of an atom, at a multiple of `step` columns."""
    if offset.stride != 1 or offset.multiple % step:
        return False
    if isinstance(offset.index, Const):
        return int(offset.index.value) % (ATOM_ROWS * e) < e
    low, high = facts.bounds(offset.index)
    return low is not None and low >= 0 and high is not None and high < e
