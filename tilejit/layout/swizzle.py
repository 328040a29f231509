"""Swizzles: address permutations that spread a tile's columns over the banks of shared memory."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import NDArray

from ..dataclass import dataclass
from ..dtypes import DType, as_dtype
from ..errors import LayoutError
from ..wording import counted, shown
from .arguments import instance, integer

#: mode -> number of bits of the row index that are xored into the index of the 16-byte chunk
SWIZZLE_BITS = {"none": 0, "32B": 1, "64B": 2, "128B": 3}

#: number of low address bits that a swizzle may involve, so that addresses fit in an int64
_ADDRESS_BITS = 62


@dataclass(frozen=True, slots=True, repr=False)
class Swizzle:
    """The address permutation that xors some bits of the index of a chunk into others.

    A chunk of 2**base elements stays contiguous. Swizzle(bits=3, base=3, shift=3), the 128-byte mode for
    elements of 16 bits, reads and changes these bits of an element's address:

        bit    ...   8   7   6 | 5   4   3 | 2   1   0
                    row        | chunk     | within the chunk      inner: chunk ^= row, else: row ^= chunk
                    [shift + base, +bits)  [base, +bits)

    A swizzle is its own inverse, and repeats every `period` elements.

    bits, base, shift: like the parameters of CuTe's Swizzle, in the same order; shift >= bits.
    inner: True to change the chunk's bits, False to change the row's, which CuTe writes as a negative shift.

    Example:
        rows = S[(8, 64) : (64, 1)].swizzled(tj.Swizzle(3, 3, 3))
        assert rows(0, 8) == {"m": 8} and rows(1, 8) == {"m": 64}
    """

    bits: int
    base: int
    shift: int
    inner: bool = True

    def __post_init__(self) -> None:
        for name in ("bits", "base", "shift"):
            number = integer(getattr(self, name), f"a swizzle's {name}", "write Swizzle(bits, base, shift), as in CuTe")
            object.__setattr__(self, name, number)
        instance(self.inner, bool, "a swizzle's inner", "write True or False")
        order = "the order is Swizzle(bits, base, shift), as in CuTe"
        if self.bits < 0 or self.base < 0:
            raise LayoutError(f"{self!r}: bits and base must not be negative", hint=order)
        if self.base + self.shift + self.bits > _ADDRESS_BITS:
            raise LayoutError(
                f"Swizzle{shown((self.bits, self.base, self.shift))} reaches past the {_ADDRESS_BITS} bits of an "
                "address", hint=order,
            )
        if self.shift < self.bits:
            raise LayoutError(
                f"{self!r}: shift must be at least bits; {self.shift} is less than {self.bits}",
                hint=f"{order}; for a negative shift, write inner=False",
            )

    @classmethod
    def for_dtype(cls, dtype: DType | int, mode: str) -> Swizzle:
        """Return the swizzle of a swizzle mode of TMA, wgmma and tcgen05.

        dtype: an element type, or its width in bits. mode: "32B", "64B", "128B", or "none".
        """
        width = dtype if isinstance(dtype, int) else getattr(as_dtype(dtype) or dtype, "bits", None)
        if width is None:
            raise LayoutError(
                f"{shown(dtype)} is not an element type", hint="give tj.float16 or another type, or its width in bits"
            )
        if not isinstance(mode, str) or mode not in SWIZZLE_BITS:
            modes = ", ".join(map(repr, SWIZZLE_BITS))
            raise LayoutError(f"swizzle mode {shown(mode)} is not one of {modes}", hint="choose one of these")
        if width not in (4, 8, 16, 32, 64, 128):
            raise LayoutError(
                f"no swizzle for elements of {shown(width)} bits; only for those of 4, 8, 16, 32, 64 or 128 bits",
                hint="use one of these widths",
            )
        return cls(SWIZZLE_BITS[mode], (128 // width).bit_length() - 1, 3)

    @property
    def chunk(self) -> int:
        """The number of elements of a chunk, which stay contiguous and in order."""
        return 1 << self.base

    @property
    def period(self) -> int:
        """The number of elements after which the permutation repeats."""
        return 1 << (self.base + self.shift + self.bits)

    @property
    def is_identity(self) -> bool:
        return self.bits == 0

    @overload
    def apply(self, address: int) -> int: ...
    @overload
    def apply(self, address: NDArray[np.int64]) -> NDArray[np.int64]: ...

    def apply(self, address: int | NDArray[np.int64]) -> int | NDArray[np.int64]:
        """Return the swizzled address, in elements, for an address or for each one in an array."""
        if not isinstance(address, np.ndarray):
            address = integer(address, "an address", "give an integer, or an array of them")
        elif address.dtype.kind not in "iu":
            raise LayoutError(f"addresses are integers; got an array of {address.dtype}", hint="convert it with astype")
        mask = (1 << self.bits) - 1
        if self.inner:
            return address ^ (((address >> (self.base + self.shift)) & mask) << self.base)
        return address ^ (((address >> self.base) & mask) << (self.base + self.shift))

    def xor_separable(self, base_bits: int, offset: int) -> bool:
        """True if `base_bits` and `offset` share no bits, and `offset` isn't negative.

        Then apply(a + offset) == apply(a) ^ apply(offset) for every a whose set bits are all in `base_bits`.
        """
        bits = integer(base_bits, "base_bits", "give a mask of bits")
        return integer(offset, "an offset", "give an integer") >= 0 and bits & offset == 0

    def repacked(self, log2: int) -> Swizzle:
        """Return the same permutation of bytes for elements 2**log2 times narrower; a negative `log2` widens them."""
        log2 = integer(log2, "log2", "give the number of times that elements are halved")
        if self.base + log2 < 0:
            raise LayoutError(
                f"{self!r} moves chunks of {counted(self.chunk, 'element')}; can't pack {1 << -log2} into one",
                hint=f"pack by at most {self.chunk}",
            )
        return Swizzle(self.bits, self.base + log2, self.shift, self.inner)

    def __repr__(self) -> str:
        outer = "" if self.inner else ", inner=False"
        return f"Swizzle({self.bits}, {self.base}, {self.shift}{outer})"
