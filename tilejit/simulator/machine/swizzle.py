"""Swizzle modes of shared memory, which permute the 16-byte chunks of an atom.

An atom has 8 rows of 32, 64 or 128 bytes. The address bits from 4 on that select a chunk in a row are XORed with as
many bits from 7 on.
The pattern depends only on the address, not on the start of a matrix.

source: PTX ISA, "Tensor: Swizzling Modes" and "Matrices in shared memory: swizzling modes".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...dataclass import dataclass
from .lanes import Index

CHUNK_BYTES = 16
_CHUNK_BIT, _ROW_BIT = 4, 7


@dataclass(frozen=True, slots=True)
class AddressSwizzle:
    """A swizzle mode. row_bytes: the size of its atom's rows, 0 for none. bits: the number of changed address bits.

    code: its value in bits 62 and 63 of a matrix descriptor.
    """

    name: str
    row_bytes: int
    bits: int
    code: int

    def apply(self, addresses: Index) -> Index:
        if not self.bits:
            return addresses
        rows = (addresses >> _ROW_BIT) & ((1 << self.bits) - 1)
        return addresses ^ (rows << _CHUNK_BIT)


SWIZZLES: Mapping[str, AddressSwizzle] = MappingProxyType({
    x.name: x
    for x in (
        AddressSwizzle("none", 0, 0, 0), AddressSwizzle("128B", 128, 3, 1), AddressSwizzle("64B", 64, 2, 2),
        AddressSwizzle("32B", 32, 1, 3),
    )
})
BY_CODE: Mapping[int, AddressSwizzle] = MappingProxyType({x.code: x for x in SWIZZLES.values()})
