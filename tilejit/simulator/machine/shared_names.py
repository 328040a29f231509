"""What messages call a place in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from .memory import SHARED_BASE, AddressMap, MemoryRegion

#: name, first byte from the start of shared memory, bytes
SharedName = tuple[str, int, int]


class SharedNames:
    """The names of a kernel's shared buffers: those that a launch is told, else those of variables."""

    def __init__(self, table: Sequence[SharedName], memory: AddressMap) -> None:
        self.table = table
        self.memory = memory

    def name(self, address: int, width: int) -> str:
        """'ring.full[1]' for the address of an element of `width` bytes, 'sm+64' where only a variable has a name."""
        for name, first, size in self.table:
            inside = address - SHARED_BASE - first
            if 0 <= inside < size:
                element = f"[{inside // width}]" if size > width else ""
                return name + element + (f"+{inside % width}" if inside % width else "")
        region: MemoryRegion | None = self.memory.find("shared", address)
        if region is None:
            return f"at {address:#x}"
        part = region.part_at(address - region.base) or region.parts[0]
        return f"{part.name}+{address - region.base - part.start}"
