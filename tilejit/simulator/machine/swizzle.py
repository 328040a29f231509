"""AddressSwizzle modes of shared memory: which 16-byte chunk of its atom an address really means.

An atom is 8 rows of 32, 64 or 128 bytes. Address bits 4 and up say which chunk of a row, bits 7 and up which row of
the pattern; the first are changed by the second. The pattern follows the address itself, wherever a matrix begins.

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
    """A mode. row_bytes: of a row of its atom, 0 for none; bits: how many address bits are changed.

    code: in bits 62 and 63 of a matrix descriptor.
    """

    name: str
    row_bytes: int
    bits: int
    code: int

    def apply(self, addresses: Index) -> Index:
        """Where elements lie that belong at these addresses."""
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
