"""Selection, and integer instructions that no NumPy operator implements. Operands are arrays or NumPy scalars."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: a NumPy array with one element per thread, or a NumPy scalar that all threads share
PerThread = Any
U64 = np.uint64
_MANY = 1024
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def sel(p: PerThread, a: PerThread, b: PerThread) -> PerThread:
    """Return elements of `a` where `p` is true, else of `b`."""
    if isinstance(p, np.bool_):
        return a if p else b
    if a.dtype != b.dtype:
        return np.where(p, a, b)
    # A fast path: often all threads select the same operand.
    chosen = np.count_nonzero(p)
    if chosen in (0, p.size):
        only = a if chosen else b
        if only.ndim:
            return only
    if p.size < _MANY or a.dtype.itemsize not in (4, 8):
        return np.where(p, a, b)
    # branch-free, because np.where takes six times as long if p is unpredictable
    signed = np.dtype(f"i{a.dtype.itemsize}")
    other = b.view(signed)
    mixed = (a.view(signed) ^ other) & -p.view(np.int8).astype(signed)
    mixed ^= other
    return mixed.view(a.dtype)


def div(a: PerThread, b: PerThread) -> PerThread:
    """Return the quotient, truncated towards zero; all ones for a divisor of 0, as on GPUs (unspecified by the ISA)."""
    zero = b == 0
    q = a // b if a.dtype.kind == "u" else (a - np.fmod(a, b)) // b
    return q if not np.count_nonzero(zero) else sel(zero, ~a.dtype.type(0), q)


def rem(a: PerThread, b: PerThread) -> PerThread:
    """Return the remainder, with the dividend's sign; the dividend if the divisor is zero."""
    zero = b == 0
    r = a % b if a.dtype.kind == "u" else np.fmod(a, b)
    return r if not np.count_nonzero(zero) else sel(zero, a, r)


def mul_hi(a: PerThread, b: PerThread) -> PerThread:
    """Return the upper half of the product, for any integer type."""
    size = a.dtype.itemsize
    if size < 8:
        wide = np.dtype(f"{a.dtype.kind}{2 * size}").type
        return ((a.astype(wide) * b.astype(wide)) >> wide(8 * size)).astype(a.dtype)
    high = mul_hi_u64(a.view(np.uint64), b.view(np.uint64))
    if a.dtype.kind == "u":
        return high
    # The signed product is the unsigned product, minus b·2^64 if a is negative, minus a·2^64 if b is negative.
    zero = np.int64(0)
    return high.view(np.int64) - sel(a < 0, b, zero) - sel(b < 0, a, zero)


def mul_hi_u64(a: PerThread, b: PerThread) -> PerThread:
    """Return the upper 64 bits of a product of unsigned 64-bit numbers, by 32-bit halves."""
    half, mask = U64(32), U64(0xFFFFFFFF)
    al, ah, bl, bh = a & mask, a >> half, b & mask, b >> half
    middle = ah * bl + ((al * bl) >> half)
    other = al * bh + (middle & mask)
    return ah * bh + (middle >> half) + (other >> half)


def _saturated(operator: Callable[..., Any]) -> Callable[..., PerThread]:
    """Return a function that adds or subtracts int32 values by `operator`, clamping the result instead of wrapping."""
    return lambda a, b: np.clip(operator(a, b, dtype=np.int64), -(2**31), 2**31 - 1).astype(np.int32)


add_sat, sub_sat = map(_saturated, (np.add, np.subtract))


def mulhi_sat(a: PerThread, b: PerThread, c: PerThread) -> PerThread:
    """mad.hi.sat.s32."""
    return add_sat(mul_hi(a, b), c)


def mul24(a: PerThread, b: PerThread, part: str) -> PerThread:
    """mul24: bits 47..16 (`part` "hi") or 31..0 ("lo") of the product of the operands' low 24 bits."""
    wide = np.int64 if a.dtype.kind == "i" else np.uint64
    product = _low24(a).astype(wide) * _low24(b).astype(wide)
    return (product >> wide(16) if part == "hi" else product).astype(a.dtype)


def _low24(a: PerThread) -> PerThread:
    eight = a.dtype.type(8)
    return (a << eight) >> eight


def shl(a: PerThread, n: PerThread) -> PerThread:
    """Shift left; amounts of at least the width give zero."""
    return a << _amount(a, n)


def shr(a: PerThread, n: PerThread) -> PerThread:
    """Shift right; amounts of at least the width give zero, or copies of the sign for signed types."""
    if a.dtype.kind == "u":
        return a >> _amount(a, n)
    width = 8 * a.dtype.itemsize
    return a >> np.minimum(n, np.uint32(width - 1)).astype(a.dtype)


def _amount(a: PerThread, n: PerThread) -> PerThread:
    return (n if a.dtype.itemsize >= 4 else np.minimum(n, np.uint32(16))).astype(a.dtype)


def shf(low: PerThread, high: PerThread, n: PerThread, direction: str, mode: str) -> PerThread:
    """shf: the upper word of (high:low) << n for direction "l", the lower word of (high:low) >> n for "r"."""
    amount = (np.minimum(n, np.uint32(32)) if mode == "clamp" else n & np.uint32(31)).astype(np.uint64)
    both = _pair(low, high)
    return (both << amount >> U64(32) if direction == "l" else both >> amount).astype(np.uint32)


def _pair(low: PerThread, high: PerThread) -> PerThread:
    return low.astype(np.uint64) | (high.astype(np.uint64) << U64(32))


def lop3(a: PerThread, b: PerThread, c: PerThread, table: int) -> PerThread:
    """Apply a bitwise function of three operands: bit 4·a + 2·b + c of `table` is the result for bits a, b and c."""
    result: PerThread = a & np.uint32(0)
    for row in range(8):
        if table >> row & 1:
            term = (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
            result = result | term
    return result


def bfe(a: PerThread, position: PerThread, length: PerThread) -> PerThread:
    """Extract a bit field; the bits above it are zeros, or copies of its sign for signed types."""
    bits = 8 * a.dtype.itemsize
    unsigned = _UNSIGNED[a.dtype.itemsize]
    pos = (position & np.uint32(255)).astype(np.int64)
    size = (length & np.uint32(255)).astype(np.int64)
    field = a.view(unsigned) >> np.minimum(pos, bits).astype(unsigned)
    mask = _low_mask(size, bits, unsigned)
    field = field & mask
    if a.dtype.kind == "u":
        return field
    top = np.minimum(pos + size - 1, bits - 1)
    sign = (a.view(unsigned) >> np.maximum(top, 0).astype(unsigned)) & unsigned(1)
    inside = np.minimum(size, np.maximum(bits - pos, 0))
    fill = sel((sign != 0) & (size > 0), ~_low_mask(inside, bits, unsigned), unsigned(0))
    return (field | fill).view(a.dtype)


def bfi(a: PerThread, b: PerThread, position: PerThread, length: PerThread) -> PerThread:
    """Insert the low `length` bits of a into b at `position`."""
    bits = 8 * b.dtype.itemsize
    kind = b.dtype.type
    pos = (position & np.uint32(255)).astype(np.int64)
    size = (length & np.uint32(255)).astype(np.int64)
    shift = np.minimum(pos, bits).astype(kind)
    mask = _low_mask(size, bits, kind) << shift
    return (b & ~mask) | ((a << shift) & mask)


def _low_mask(size: PerThread, bits: int, kind: Callable[..., Any]) -> PerThread:
    ones = kind(2**bits - 1)
    drop = np.maximum(bits - np.minimum(size, bits), 0)
    return ones >> drop.astype(ones.dtype)


def bmsk(position: PerThread, length: PerThread, mode: str) -> PerThread:
    """Return a mask of `length` ones from bit `position` up; unless `mode` is "clamp", both are taken modulo 32."""
    if mode == "clamp":
        pos, size = position.astype(np.int64), length.astype(np.int64)
    else:
        pos, size = (position & np.uint32(31)).astype(np.int64), (length & np.uint32(31)).astype(np.int64)
    return _low_mask(size, 32, np.uint32) << np.minimum(pos, 32).astype(np.uint32)


_REVERSED = np.array([int(f"{i:08b}"[::-1], 2) for i in range(256)], np.uint8)
_ONES = np.array([i.bit_count() for i in range(256)], np.uint8)


def _bytes(a: PerThread) -> NDArray[np.uint8]:
    return np.ascontiguousarray(a).reshape(-1, 1).view(np.uint8)


def _like(result: NDArray[Any], a: PerThread) -> PerThread:
    return result if np.ndim(a) else result[0]


def brev(a: PerThread) -> PerThread:
    return _like(_REVERSED[_bytes(a)][:, ::-1].copy().view(a.dtype).ravel(), a)


def popc(a: PerThread) -> PerThread:
    return _like(_ONES[_bytes(a)].sum(axis=1, dtype=np.uint32), a)


def bfind(a: PerThread, shift_amount: str | None) -> PerThread:
    """Return the position of the highest 1 (of the highest 0 in negative numbers); 0xffffffff if there is none.

    shift_amount: if set, return the left shift that moves this bit to the top instead.
    """
    size = a.dtype.itemsize
    bits = a.view(_UNSIGNED[size])
    if a.dtype.kind == "i":
        bits = sel(a < 0, ~bits, bits)
    position = np.uint32(8 * size - 1) - clz(bits)
    if not shift_amount:
        return position
    return sel(bits == 0, position, np.uint32(8 * size - 1) - position)


def clz(a: PerThread) -> PerThread:
    """Count leading zeros, by propagating the highest 1 downwards and counting ones. a: unsigned."""
    bits = a
    shift = 1
    while shift < 8 * a.dtype.itemsize:
        bits = bits | (bits >> a.dtype.type(shift))
        shift *= 2
    return np.uint32(8 * a.dtype.itemsize) - popc(bits)


def prmt(a: PerThread, b: PerThread, selector: PerThread, mode: str | None) -> PerThread:
    """Permute bytes: the selector's nibbles, or those that `mode` maps it to, choose bytes of (b:a) or their signs."""
    both = _pair(a, b)
    if not mode:
        return _prmt_default(both, selector)
    rows = {
        "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
        "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
        "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
        "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
        "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
        "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
    }[mode]
    packed = np.array([sum(byte << 4 * i for i, byte in enumerate(row)) for row in rows], np.uint32)
    return _prmt_default(both, packed[selector & np.uint32(3)])


def _prmt_default(both: PerThread, selector: PerThread) -> PerThread:
    result: PerThread = np.uint32(0)
    for i in range(4):
        nibble = selector >> np.uint32(4 * i)
        byte = (both >> ((nibble & np.uint32(7)) * np.uint32(8)).astype(np.uint64)).astype(np.uint32) & np.uint32(255)
        signs = (byte >> np.uint32(7)) * np.uint32(255)
        byte = sel((nibble & np.uint32(8)) != 0, signs, byte)
        result = result | (byte << np.uint32(8 * i))
    return result


def dot(a: PerThread, b: PerThread, c: PerThread, size: int, first: int) -> PerThread:
    """Return c plus the dot product of the parts of a, of `size` bytes, and as many bytes of b, from byte `first` on.

    Parts are signed if the dtype of their word is.
    """
    total = c.astype(np.int64)
    for i in range(4 // size):
        total = total + _part(a, i, size) * _part(b, first + i, 1)
    return total.astype(np.uint32)


def fns(mask: PerThread, base: PerThread, offset: PerThread) -> PerThread:
    """Return the position of a set bit of `mask`, or all ones if there is none.

    offset: n > 0 for the n-th set bit from bit `base` upwards, -n for downwards, 0 for bit `base` itself.
    """
    mask, base, offset = np.broadcast_arrays(mask, base.astype(np.int64), offset.astype(np.int64))
    bits = (mask[..., None] >> np.arange(32, dtype=np.uint32)) & 1 == 1
    position = np.arange(32)
    at = base[..., None]
    reached = np.where(offset[..., None] > 0, position >= at, position <= at)
    counted = bits & np.where(offset[..., None] == 0, position == at, reached)
    upwards = np.cumsum(counted, axis=-1)
    order = np.where(offset[..., None] < 0, upwards[..., -1:] - upwards + 1, upwards)
    hit = counted & (order == np.maximum(abs(offset), 1)[..., None])
    return np.where(hit.any(axis=-1), hit.argmax(axis=-1), -1).astype(np.int32).view(np.uint32)


_SIMD: dict[str, Callable[[PerThread, PerThread], PerThread]] = {
    "add": np.add, "sub": np.subtract, "absdiff": lambda x, y: abs(x - y), "min": np.minimum, "max": np.maximum,
}


def simd(
    a: PerThread, b: PerThread, c: PerThread, name: str, size: int, signed: bool, flags: tuple[str, ...]
) -> PerThread:
    """Apply an operation to the parts of a and of b, of `size` bytes; parts are signed if the dtype of a or b is.

    The results replace the parts of c or, with "add" in `flags`, are added to c. signed: True if results are.
    """
    bits = 8 * size
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    results = [_SIMD[name](_part(a, i, size), _part(b, i, size)) for i in range(4 // size)]
    if "add" in flags:
        return sum(results, c.astype(np.int64)).astype(np.uint32)
    if "sat" in flags:
        results = [np.clip(x, low, high) for x in results]
    parts = [(x & ((1 << bits) - 1)) << bits * i for i, x in enumerate(results)]
    return sum(parts).astype(np.uint32)


def _part(a: PerThread, i: int, size: int) -> PerThread:
    """Return part i, of `size` bytes, as int64; it is signed if the dtype of `a` is."""
    part = (a >> a.dtype.type(8 * size * i)).astype(f"{a.dtype.kind}{size}")
    return part.astype(np.int64)


def functions_of(namespace: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return the public functions in a module's namespace by name, for translated code."""
    return {name: value for name, value in namespace.items() if isfunction(value) and name[0] != "_"}


FUNCTIONS = functions_of(globals())
