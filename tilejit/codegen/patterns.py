"""Work on float32's bits as a 32-bit integer, as the conversions to and from narrower floats need it."""

from __future__ import annotations

from .writer import Writer


def to_bits(w: Writer, x: str) -> str:
    """A float32's bits (i32)."""
    return w.value(f"bitcast float {x} to i32")


def from_bits(w: Writer, bits: str) -> str:
    """The float32 of an i32's bits."""
    return w.value(f"bitcast i32 {bits} to float")


def field(w: Writer, bits: str, first: int, mask: int) -> str:
    """(bits >> first) & mask, of an i32."""
    return w.value(f"and i32 {w.value(f'lshr i32 {bits}, {first}')}, {mask}")


def rounded_off(w: Writer, bits: str, dropped: int) -> str:
    """An i32 without its lowest `dropped` bits, rounded to nearest even.

    On a positive float's bits it rounds the number: a carry out of the mantissa increments the exponent.
    """
    even = field(w, bits, dropped, 1)
    up = w.value(f"add i32 {even}, {2 ** (dropped - 1) - 1}")
    carried = w.value(f"add i32 {bits}, {up}")
    return w.value(f"lshr i32 {carried}, {dropped}")
