from __future__ import annotations

from typing import Any

from .. import simulator
from ..simulator.placing import PlacedMemory


class _Array(simulator.DeviceArray):
    name = ""

    def define(self) -> None:
        self._initialized = True

    def allocation(self) -> PlacedMemory:
        init = self._initialized
        return PlacedMemory(self.array, self.address, self.name or repr(self), init)


class Device(simulator.Device):
    def place(self, memory: Any, *, initialized: Any, name: str = "") -> _Array:
        self._next = -(-self._next // 512) * 512
        base = self._place(memory, initialized is True)
        self._arrays.remove(base)
        array = _Array(base.array, base.address, base._initialized)
        array.name = name
        self._arrays.append(array)
        return array
