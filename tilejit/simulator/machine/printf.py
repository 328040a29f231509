"""vprintf: formats the arguments that the kernel has stored in memory, according to a C format string."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...errors import OutOfBoundsError
from .lanes import Index, Lanes
from .memory import AddressMap, Bytes, MemoryRegion

_SPEC = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])")


class Stop(NamedTuple):
    """A call of `__breakpoint(text, values)` by threads of a chunk.

    values: for each thread, the bytes from the address `values` on. others: describes the threads elsewhere.
    """

    text: str
    lanes: Lanes
    positions: Index
    values: Bytes
    memory: AddressMap
    others: Callable[[], list[str]]


class Printer:
    """Prints the output of vprintf, for the threads of a call in ascending order."""

    def __init__(
        self, memory: AddressMap, write: Callable[[str], object] | None = None,
        stop: Callable[[Stop], object] | None = None,
    ) -> None:
        self.memory = memory
        self.write = write
        self.stop = stop

    def vprintf(self, lanes: Lanes, form: Any, arguments: Any) -> None:
        positions = lanes.positions()
        forms = np.broadcast_to(form, positions.shape)
        places = np.broadcast_to(arguments, positions.shape)
        write = self.write or sys.stdout.write
        cache: dict[int, str] = {}
        for position, where, place in zip(positions.tolist(), forms.tolist(), places.tolist(), strict=True):
            if where not in cache:
                cache[where] = self.string(where)
            write(self.format(cache[where], place, position))

    def breakpoint(self, text: Any, values: Any, lanes: Lanes, others: Callable[[], list[str]]) -> None:
        """Call the launch's `stop`, if any, once for each of the texts that executing threads pass."""
        if self.stop is None:
            return
        positions = lanes.positions()
        texts, places = (np.broadcast_to(x, positions.shape) for x in (text, values))
        for where in np.unique(texts).tolist():
            here, place = positions[texts == where], int(places[texts == where][0])
            self.stop(Stop(self.string(where), lanes, here, self.bytes_at(place, here), self.memory, others))

    def bytes_at(self, address: int, positions: Index) -> Bytes:
        """Return the bytes from an address in local memory on, a row per thread; no bytes if the address is null."""
        if not address:
            return np.zeros((positions.size, 0), np.uint8)
        region, start = self.region(address)
        rows = region.memory[: region.memory.size // region.stride * region.stride].reshape(-1, region.stride)
        return rows[positions, start:]

    def region(self, address: int) -> tuple[MemoryRegion, int]:
        region = self.memory.find("", address)
        if region is None:
            raise OutOfBoundsError(f"printf reads at address {address:#x}, where no memory is allocated")
        return region, address - region.generic

    def string(self, address: int) -> str:
        region, offset = self.region(address)
        data = region.memory[offset : region.size].tobytes()
        return data.split(b"\0", 1)[0].decode("utf-8", "replace")

    def format(self, form: str, place: int, position: int) -> str:
        reader = _VariadicArguments(self, place, position)

        def replace(match: re.Match[str]) -> str:
            flags, width, precision, _, kind = match.groups()
            if kind == "%":
                return "%"
            width = str(reader.integer(4)) if width == "*" else width
            precision = str(reader.integer(4)) if precision == "*" else precision
            spec = "%" + flags + (width or "") + (f".{precision}" if precision is not None else "")
            return reader.value(spec, match[4] or "", kind)

        return _SPEC.sub(replace, form)


class _VariadicArguments:
    """Reads one thread's arguments, each of which is aligned to its size."""

    def __init__(self, printer: Printer, place: int, position: int) -> None:
        self.printer = printer
        self.offset = 0
        if not place:
            return
        region, start = printer.region(place)
        if region.owner == "lane":
            begin = position * region.stride + start
            self.data = region.memory[begin : (position + 1) * region.stride]
        else:
            self.data = region.memory[start:]

    def take(self, size: int) -> bytes:
        self.offset = -(-self.offset // size) * size
        data = self.data[self.offset : self.offset + size].tobytes()
        self.offset += size
        return data

    def integer(self, size: int, signed: bool = True) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def value(self, spec: str, length: str, kind: str) -> str:
        size = 8 if length in ("l", "ll", "j", "z", "t") else 4
        if kind in "diouxX":
            return (spec + kind) % self.integer(size, signed=kind in "di")
        if kind == "c":
            return (spec + "c") % (self.integer(4) & 0xFF)
        if kind == "s":
            return (spec + "s") % self.printer.string(self.integer(8, signed=False))
        if kind == "p":
            return f"{self.integer(8, signed=False):#x}"
        number = float(np.frombuffer(self.take(8), np.float64)[0])
        if kind in "aA":
            return number.hex()
        return (spec + kind) % number
