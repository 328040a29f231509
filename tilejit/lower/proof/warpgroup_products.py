"""Proof of a warpgroup's matrix products: accumulator, A and B agree in rows, columns and k, each product once.

The addresses that an instruction reads follow the PTX ISA, from descriptors; their contents follow the layouts.
source: PTX ISA, "Shared Memory Matrix Layout", "Matrix Descriptor Format", "Strides", "Swizzling Modes"; "Register
Fragments for wgmma.mma_async.m64nNk16" and those for other k.
"""

from __future__ import annotations

import numpy as np

from ...ir.nodes import Region, TileOp
from ..plans import SharedFactor, WarpgroupProducts
from ..schedule.iterations import launch_values
from .places import addresses, elements_of_threads

Array = np.ndarray

_ROWS, _THREADS = 64, 128

#: mode of a descriptor -> the bits of an address that are XORed with the bits three places higher
_SWIZZLED = {0: 0, 1: 0x70, 2: 0x30, 3: 0x10}

_FIELD = 0x3FFF


def prove_warpgroup_products(products: WarpgroupProducts, op: TileOp) -> None:
    """Raise AssertionError unless each product is added to the right accumulator element exactly once."""
    acc, a, b = op.region("acc"), op.region("a"), op.region("b")
    (rows, columns), depth = acc.shape, a.shape[1]
    sums = _held(acc, products.acc, _sums(products.n))
    left = _factor(a, products.a, _a(products.k, a.dtype.bits), (_ROWS, products.k), k_first=False)
    right = _factor(b, products.b, None, (products.n, products.k), k_first=True)
    for elements, name in ((sums, "acc"), (left, "a"), (right, "b")):
        assert (elements >= 0).all(), f"an instruction takes an element that isn't in {name}"
    row, column = _along(sums // columns, 2, "rows"), _along(sums % columns, 1, "columns")
    assert (_along(left // depth, 2, "rows") == row).all(), "A and the accumulator have different rows"
    assert (_along(right % columns, 2, "columns") == column).all(), "B and the accumulator have different columns"
    k = _along(left % depth, 1, "k")
    assert (_along(right // columns, 1, "k") == k).all(), "A and B have different k in the same place"
    added = np.zeros((rows, columns, depth), np.uint8)
    for at in zip(row, column, k, strict=True):
        added[np.ix_(*at)] += 1
    assert (added == 1).all(), "a product is added twice, or never"


def _along(numbers: Array, axis: int, what: str) -> Array:
    """Return `numbers` without an axis along which they must be constant."""
    first = np.asarray(np.take(numbers, 0, axis))
    assert (numbers == np.expand_dims(first, axis)).all(), f"an operand's {what} aren't those of a matrix"
    return first


def _sums(n: int) -> tuple[Array, Array]:
    """Return (row, column) of each accumulator element of a thread, of shape (threads, elements)."""
    thread, i = np.indices((_THREADS, _ROWS * n // _THREADS))
    return _row(thread) + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (thread % 4) + i % 2


def _a(k: int, bits: int) -> tuple[Array, Array]:
    """Like `_sums`, for A in registers."""
    pack = 32 // bits
    thread, i = np.indices((_THREADS, _ROWS * k // _THREADS))
    return _row(thread) + 8 * (i // pack % 2), thread % 4 * pack + i % pack + 4 * pack * (i // (2 * pack))


def _row(thread: Array) -> Array:
    return np.asarray(thread // 32 * 16 + thread % 32 // 4)


def _held(region: Region, registers: Array, fragment: tuple[Array, Array]) -> Array:
    """Return the element of a region at each row and column of each instruction's operand, or -1."""
    held = elements_of_threads(region, "warpgroup", _THREADS, registers.max() + 1)
    row, column = fragment
    tile = np.full((len(registers), row.max() + 1, column.max() + 1), -1)
    tile[:, row, column] = held[:, registers].swapaxes(0, 1)
    return tile


def _factor(
    region: Region, taken: Array | SharedFactor, fragment: tuple[Array, Array] | None, shape: tuple[int, int], *,
    k_first: bool,
) -> Array:
    """Like `_held`, of shape (instructions, M or N, k). k_first: the region's first dimension is k."""
    if not isinstance(taken, SharedFactor):
        assert fragment is not None, "B is never in registers"
        return _held(region, taken, fragment)
    places = addresses(region, launch_values((region,))).ravel()
    held = np.full(max(int(places.max()) + 1, 1), -1)
    held[places] = np.arange(len(places))
    size = region.dtype.bits // 8
    read = np.stack([read_at(int(each), taken.is_mn_major, shape, size) for each in taken.descriptors])
    assert (read % size == 0).all(), "a read starts inside an element"
    inside = read // size < len(held)
    elements: Array = np.where(inside, held[np.where(inside, read // size, 0)], -1)
    return elements


def read_at(descriptor: int, is_mn_major: bool, shape: tuple[int, int], size: int) -> Array:
    """Return the address of each element of A or B. shape: (M or N, k). size: bytes of an element."""
    start, lbo, sbo = (16 * (descriptor >> bit & _FIELD) for bit in (0, 16, 32))
    mode = descriptor >> 62
    width = (16 << (4 - mode if mode else 0)) // size
    other, k = np.indices(shape)
    if is_mn_major:
        address = start + other // width * lbo + k // 8 * sbo + (k % 8 * width + other % width) * size
    else:
        # with a swizzle, all k of an instruction are in one row of the swizzle's width
        address = start + other // 8 * sbo + (other % 8 * width + (k if mode else k % width)) * size
        address = address + (0 if mode else k // width * lbo)
    return np.asarray(address ^ (address >> 3 & _SWIZZLED[mode]))
