"""What messages call a place in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from .memory import SHARED_BASE, AddressMap, Part

#: name, first byte from the start of shared memory, bytes
SharedName = tuple[str, int, int]


def parts_of(table: Sequence[SharedName], base: int, size: int) -> list[Part]:
    """The buffers of a table that lie in a region of shared memory, which begins at `base`."""
    starts = [(name, SHARED_BASE + first - base, buffer) for name, first, buffer in table]
    return [Part(name, start, buffer, buffer=True) for name, start, buffer in starts if 0 <= start < size]


def name_of(memory: AddressMap, address: int, width: int) -> str:
    """'ring.full[1]' for the address of an element of `width` bytes, 'sm+64' where only a variable has a name."""
    region = memory.find("shared", address)
    if region is None:
        return f"at {address:#x}"
    part = region.part_at(address - region.base) or region.parts[-1]
    inside = address - region.base - part.start
    if not part.buffer:
        return f"{part.name}+{inside}"
    return part.name + (f"[{inside // width}]" if part.size_bytes > width else "")
