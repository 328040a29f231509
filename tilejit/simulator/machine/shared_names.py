"""Names of shared memory locations in messages."""

from __future__ import annotations

from collections.abc import Sequence

from .memory import AddressMap, MemoryPart

#: (name, PTX variable, first byte in the variable, size in bytes)
SharedName = tuple[str, str, int, int]


def parts_of(table: Sequence[SharedName], variable: str) -> list[MemoryPart]:
    """Return the buffers in a table that lie in a variable of shared memory."""
    return [MemoryPart(name, first, size, buffer=True) for name, inside, first, size in table if inside == variable]


def name_of(memory: AddressMap, address: int, width: int) -> str:
    """Return 'ring.full[1]' for the address of an element of `width` bytes, 'sm+64' if unnamed, 'at 0x8' if invalid."""
    region = memory.find("shared", address)
    if region is None:
        return f"at {address:#x}"
    part = region.part_at(address - region.base) or region.parts[-1]
    inside = address - region.base - part.start
    if not part.buffer:
        return f"{part.name}+{inside}"
    return part.name + (f"[{inside // width}]" if part.size_bytes > width else "")
