"""What messages call a place in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from .memory import AddressMap, MemoryPart

#: name, the variable of the PTX in which it lies, its first byte there, bytes
SharedName = tuple[str, str, int, int]


def parts_of(table: Sequence[SharedName], variable: str) -> list[MemoryPart]:
    """The buffers of a table that lie in a variable of shared memory."""
    return [MemoryPart(name, first, size, buffer=True) for name, inside, first, size in table if inside == variable]


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
