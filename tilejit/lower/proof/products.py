"""Proof of matrix products: instructions read and write the right elements in registers and in shared memory.

The fragments of instructions, and the addresses that they read from descriptors, follow the PTX ISA; the contents of
registers and memory follow the layouts.
source: PTX ISA, "Matrix Fragments for mma.m16n8k8", "... m16n8k16 with floating point type", "... m16n8k32"; "Register
Fragments for wgmma.mma_async.m64nNk16" and those for other k; "Shared Memory Matrix Layout", "Matrix Descriptor
Format", "Strides", "Swizzling Modes".
"""

from __future__ import annotations

import numpy as np

from ...fast_unique import fast_unique
from ...ir.nodes import Region, TileOp
from ..plans import Products, SharedFactor, WarpgroupProducts
from ..schedule.iterations import launch_values
from .places import addresses, elements_of_threads

Array = np.ndarray

_WARP = 32

#: marks for no element (as in `elements_of_threads`), and for an element that counts as 0
_NONE, _ZERO = -1, -2


def prove_products(products: Products, op: TileOp) -> None:
    """Raise AssertionError unless each warp adds all products of each accumulator element that it holds, each once.

    Padding along k counts as 0 in both A and B. Other padding contributes to no accumulator element.
    """
    regions = list(op.tiles.values())
    n, depth = regions[0].shape[1], regions[1].shape[1]
    zeros = (np.zeros(1, bool), products.a_zeros, products.b_zeros)
    sides = (products.acc, products.a, products.b)
    held = [
        elements_of_threads(region, op.scope, products.threads, registers.max() + 1)
        for region, registers in zip(regions, sides, strict=True)
    ]
    acc, a, b = (
        _tile(np.where(zero, _ZERO, _taken(elements, registers)), fragment)
        for elements, zero, registers, fragment in zip(held, zeros, sides, fragments(products), strict=True)
    )
    span = held[0].shape[1]
    places = np.arange(products.threads)[:, None, None] * span + products.acc
    sums = _tile(np.where(_taken(held[0], products.acc) < 0, _NONE, places), fragments(products)[0])
    # these broadcast to (warps, instructions, m, k, n): the product of A[m, k] and B[k, n] is added to acc[m, n]
    acc, sums, a, b = acc[:, :, :, None], sums[:, :, :, None], a[..., None], b[:, :, None]
    counts = np.broadcast_to(sums >= 0, np.broadcast_shapes(sums.shape, a.shape, b.shape))
    assert (((a == _ZERO) == (b == _ZERO)) | ~counts).all(), "one of A and B counts as 0 where the other doesn't"
    counts = counts & (a != _ZERO)
    assert ((a != _NONE) & (b != _NONE) | ~counts).all(), "a product takes padding, or a register without an element"
    assert (a % depth == b // n)[counts].all(), "A and B have different k in the same place"
    assert (acc // n == a // depth)[counts].all(), "A and the accumulator have different rows"
    assert (acc % n == b % n)[counts].all(), "B and the accumulator have different columns"
    every = sums * depth + a % depth
    owned = (held[0] >= 0).reshape(len(acc), -1).sum(1)
    for count, made, added in zip(owned, every, counts, strict=True):
        products_made = np.broadcast_to(made, added.shape)[added]
        assert len(fast_unique(products_made)) == products_made.size, "a product is added twice"
        assert products_made.size == count * depth, "an accumulator element lacks products"


def fragments(products: Products) -> tuple[tuple[Array, Array], ...]:
    """Return (row, column) of each element of a lane's fragments of acc, A and B, of shape (lanes, elements)."""
    pack = 32 // products.bits
    lane, i = np.indices((_WARP, 4))
    acc = lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2
    lane, i = np.indices((_WARP, products.m * products.k // _WARP))
    along = lane % 4 * pack + i % pack
    a = lane // 4 + 8 * (i // pack % 2), along + 4 * pack * (i // (2 * pack))
    lane, i = np.indices((_WARP, products.k * products.n // _WARP))
    b = lane % 4 * pack + i % pack + 4 * pack * (i // pack), lane // 4
    return acc, a, b


def _taken(held: Array, registers: Array) -> Array:
    return np.where(registers < 0, _NONE, held[:, registers])


def _tile(taken: Array, fragment: tuple[Array, Array]) -> Array:
    """Return an instruction's operand as a matrix, of shape (warps, instructions, rows, columns)."""
    row, column = fragment
    by_warp = taken.reshape(-1, _WARP, *taken.shape[1:])
    missing = _ZERO - 1
    tile = np.full((len(by_warp), taken.shape[1], row.max() + 1, column.max() + 1), missing)
    tile[:, :, row, column] = by_warp.swapaxes(1, 2)
    assert (tile != missing).all(), "the fragments don't cover the instruction's operand"
    return tile


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
    """Return `numbers` without `axis`, or raise AssertionError unless they are constant along it."""
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
    """Return the index of the element at each row and column of each instruction's operand, or -1."""
    held = elements_of_threads(region, "warpgroup", _THREADS, registers.max() + 1)
    row, column = fragment
    tile = np.full((len(registers), row.max() + 1, column.max() + 1), -1)
    tile[:, row, column] = held[:, registers].swapaxes(0, 1)
    return tile


def _factor(
    region: Region, taken: Array | SharedFactor, fragment: tuple[Array, Array] | None, shape: tuple[int, int], *,
    k_first: bool,
) -> Array:
    """Like `_held`, for A or B, of shape (instructions, M or N, k). k_first: True if the region has shape (k, ...)."""
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
    """Return the byte address of each element that is read. shape: (M or N, k). size: bytes of an element."""
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
