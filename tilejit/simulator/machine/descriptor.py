"""Matrix descriptors of wgmma: the addresses of the 16-byte chunks of an operand in shared memory.

A chunk holds 16 bytes along the contiguous dimension: K of a K-major operand, M or N of an MN-major one.

    bits 0-13    start >> 4                   bits 49-51    base offset
    bits 16-29   leading byte offset >> 4     bits 62-63    swizzle mode
    bits 32-45   stride byte offset >> 4

Offsets in bytes, for chunk c and row r (of M or N; of K if that is strided), with w bytes per row of a swizzle atom:

    K-major, no swizzle      (r mod 8)·16 + (r div 8)·stride + c·leading
    K-major, swizzled        (r mod 8)·w + (r div 8)·stride + c·16
    MN-major, no swizzle     (r mod 8)·16 + (r div 8)·leading + c·stride
    MN-major, swizzled       (r mod 8)·w + (r div 8)·stride + (c mod w/16)·16 + (c div w/16)·leading

source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Strides", "Matrix Descriptor Format".
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...dataclass import dataclass
from .lanes import Index
from .swizzle import BY_CODE, CHUNK_BYTES, AddressSwizzle

CORE_ROWS = 8
# size of an instruction's operand along K, in bytes
STEP_BYTES = 32
_UNUSED = (0b11 << 14) | (0b11 << 30) | (0b111 << 46) | (0x3FF << 52)


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """A decoded matrix descriptor. start, leading, stride: in bytes."""

    start: int
    leading: int
    stride: int
    mode: AddressSwizzle

    def chunks(self, extent: int, transposed: bool) -> Index:
        """Return the chunk addresses: (M or N) × 2 for a K-major operand, else (M or N) div 8 × 16 rows of K."""
        return self.mode.apply(self.start + _offsets(self.leading, self.stride, self.mode, extent, transposed))


@lru_cache(maxsize=256)
def _offsets(leading: int, stride: int, mode: AddressSwizzle, extent: int, transposed: bool) -> Index:
    width = mode.row_bytes
    per_row = width // CHUNK_BYTES
    if not transposed:
        row, chunk = np.arange(extent, dtype=np.int64)[:, None], np.arange(STEP_BYTES // CHUNK_BYTES)[None]
        within, block = row % CORE_ROWS, row // CORE_ROWS
        if not width:
            return within * CHUNK_BYTES + block * stride + chunk * leading
        return within * width + block * stride + chunk * CHUNK_BYTES
    # elements have 16 bits: a chunk holds 8 of them along M or N, and the operand has 16 rows of K
    chunk, row = np.arange(extent // 8, dtype=np.int64)[:, None], np.arange(STEP_BYTES // 2)[None]
    within, block = row % CORE_ROWS, row // CORE_ROWS
    if not width:
        return within * CHUNK_BYTES + block * leading + chunk * stride
    return within * width + block * stride + chunk % per_row * CHUNK_BYTES + chunk // per_row * leading


def decode(bits: int) -> MatrixDescriptor | str:
    """Return the decoded descriptor, or the reason why it is invalid or not supported."""
    if bits & _UNUSED:
        return f"bits that must be 0 are set: {bits & _UNUSED:#018x}"
    offset = bits >> 49 & 7
    if offset:
        return f"its base offset is {offset}; only 0 is supported, for matrices at multiples of the swizzle's period"
    start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    return MatrixDescriptor(start, leading, stride, BY_CODE[bits >> 62])
