"""Operations on the bits of float32 numbers (i32), for conversions to and from narrower floats."""

from __future__ import annotations

from .writer import Writer


def to_bits(w: Writer, x: str) -> str:
    """Return the bits of the float32 `x`."""
    return w.value(f"bitcast float {x} to i32")


def from_bits(w: Writer, bits: str) -> str:
    """Return the float32 with the bits `bits`."""
    return w.value(f"bitcast i32 {bits} to float")


def field(w: Writer, bits: str, first: int, mask: int) -> str:
    """Return `(bits >> first) & mask`; the shift is logical."""
    return w.value(f"and i32 {w.value(f'lshr i32 {bits}, {first}')}, {mask}")


def rounded_off(w: Writer, bits: str, dropped: int) -> str:
    """Return an i32 without its lowest `dropped` bits, rounded to nearest even.

    For the bits of a positive float this rounds the number: a carry out of the mantissa increments the exponent.
    """
    even = field(w, bits, dropped, 1)
    up = w.value(f"add i32 {even}, {2 ** (dropped - 1) - 1}")
    carried = w.value(f"add i32 {bits}, {up}")
    return w.value(f"lshr i32 {carried}, {dropped}")
