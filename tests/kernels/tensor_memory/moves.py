"""Kernels of any copies between registers and tensor memory, and what all storage must hold after them, longhand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tests.reference.layouts import THREAD_STEP
from tests.support.running import aligned, run
from tilejit.compiled import Compiled
from tilejit.dtypes import DTYPES, DType, int64
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Alloc,
    Buffer,
    BufferView,
    Expr,
    Instruction,
    Kernel,
    Region,
    Special,
    Stmt,
    Sync,
    TileOp,
    Var,
)
from tilejit.ir.params import (
    PointerParam,
    ScalarParam,
)
from tilejit.layout import S, TileLayout, datapath, tid_in_wg
from tilejit.runtime import devices

#: [[start, extent], ...], a start as a number or as {"sym": "name*factor"}
Window = Sequence[Sequence[Any]]

#: run-time names in starts -> their values
Symbols = dict[str, int]

WAITS = tuple(Instruction(f"tcgen05.wait.{kind}") for kind in ("ld", "st"))


@dataclass(frozen=True)
class Tile:
    """A local or a tensor memory tile; data: scope, dtype, shape and layout, as in the data files."""

    name: str
    data: dict[str, Any]

    @property
    def is_local(self) -> bool:
        return self.data["scope"] == "local"

    @property
    def dtype(self) -> DType:
        return DTYPES[self.data["dtype"]]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data["shape"])

    @property
    def buffer(self) -> Buffer:
        layout = self.data["layout"]
        made = TileLayout.from_iters([tuple(i) for i in layout["shard"]], [], layout.get("offset"))
        return Buffer(self.name, self.data["scope"], self.dtype, self.shape, made, 4)

    @property
    def width(self) -> int:
        """Elements of a thread's registers, or of a lane of tensor memory."""
        axis = "m" if self.is_local else "TCol"
        return 1 + sum((extent - 1) * stride for extent, stride, at in self.data["layout"]["shard"] if at == axis)

    @property
    def flat(self) -> Buffer:
        """The storage as it lies: a thread's registers, or all 128 lanes."""
        shape = (self.width,) if self.is_local else (128, self.width)
        layout = TileLayout.row_major(shape) if self.is_local else datapath("D", *shape)
        return Buffer(f"{self.name}_flat", self.data["scope"], self.dtype, shape, layout, 4, base=self.buffer)

    def host(self, suffix: str) -> Buffer:
        shape = (128, self.width)
        return Buffer(f"{self.name}_{suffix}", "global", self.dtype, shape, TileLayout.row_major(shape), 16)

    def region(self, window: Window) -> Region:
        starts = tuple(start_of(start) for start, _ in window)
        return Region(self.buffer, starts, tuple(extent for _, extent in window))

    def slots(self, window: Window, symbols: Symbols) -> np.ndarray:
        """Where the elements of a region lie in the storage of (128, width), in row-major order."""
        index = np.indices([extent for _, extent in window]).reshape(len(window), -1)
        number = np.zeros(index.shape[1], np.int64)
        for i, (start, _), extent in zip(index, window, self.shape, strict=True):
            number = number * extent + i + value_of(start, symbols)
        along: dict[str, Any] = dict(self.data["layout"].get("offset") or {})
        for extent, stride, axis in reversed(self.data["layout"]["shard"]):
            along[axis] = along.get(axis, 0) + number % extent * stride
            number = number // extent
        if not self.is_local:
            return along["TLane"] * self.width + along.get("TCol", 0)
        thread = sum(along.get(axis, 0) * step for axis, step in THREAD_STEP.items())
        return thread * self.width + along.get("m", 0)


def start_of(start: int | dict[str, str]) -> Expr:
    if isinstance(start, int):
        return build.const(start, int64)
    name, *factors = start["sym"].split("*")
    return build.mul(Var(name, int64), build.const(prod(int(f) for f in factors), int64))


def value_of(start: int | dict[str, str], symbols: Symbols) -> int:
    if isinstance(start, int):
        return start
    name, *factors = start["sym"].split("*")
    return symbols[name] * prod(int(f) for f in factors)


@dataclass(frozen=True)
class Move:
    """One copy_async; windows of equal extents."""

    dst: Tile
    to: Window
    src: Tile
    at: Window

    @property
    def operation(self) -> TileOp:
        return TileOp("copy_async", "warpgroup", (self.dst.region(self.to), self.src.region(self.at)))


def kernel_of(steps: Sequence[Move | Stmt], tiles: Sequence[Tile], symbols: Symbols, target: str) -> Kernel:
    """Fills all tiles, takes the steps, waits, and writes all tiles back."""
    params = [
        PointerParam(t.host(way).name, t.host(way), written=way == "out")
        for t in tiles for way in ("in", "out")
    ]
    params += [ScalarParam(name, Var(name, int64)) for name in symbols]
    body: list[Stmt] = [s for t in tiles for s in (Alloc(t.buffer), BufferView(t.flat))]
    body += [s for t in tiles for s in _transfer(t, t.host("in"), "fill")]
    body += [*WAITS, Sync("cta"), *(s.operation if isinstance(s, Move) else s for s in steps), *WAITS, Sync("cta")]
    body += [s for t in tiles for s in _transfer(t, t.host("out"), "dump")]
    return Kernel("moves", tuple(params), 128, target, tuple(body))


def _transfer(tile: Tile, host: Buffer, way: str) -> list[Stmt]:
    """Between a tile's storage and global memory; tensor memory goes through registers, 64 words a thread at a time."""
    zero = build.const(0, int64)
    if tile.is_local:
        thread = build.cast(Special("thread_id"), int64)
        near, far = Region(tile.flat, (zero,), (tile.width,)), Region(host, (thread, zero), (None, tile.width))
        return [TileOp("copy", "thread", (near, far) if way == "fill" else (far, near))]
    found: list[Stmt] = []
    step = 64 * 32 // tile.dtype.bits
    for start in range(0, tile.width, step):
        extents = (128, min(step, tile.width - start))
        via = Buffer(f"{tile.name}_{way}{start}", "local", tile.dtype, extents, S[extents : (1 @ tid_in_wg, 1)], 4)
        held = Region(via, (zero, zero), extents)
        there, outside = (Region(b, (zero, build.const(start, int64)), extents) for b in (tile.flat, host))
        found.append(Alloc(via))
        if way == "fill":
            found += [TileOp("copy", "warpgroup", (held, outside)), TileOp("copy_async", "warpgroup", (there, held))]
        else:
            found += [TileOp("copy_async", "warpgroup", (held, there)), WAITS[0]]
            found.append(TileOp("copy", "warpgroup", (outside, held)))
    return found


def check(
    steps: Sequence[Move | Stmt], tiles: Sequence[Tile], seed: int, symbols: Symbols | None = None,
    target: str = "sm_100a",
) -> Compiled:
    """Run a kernel of these steps on the simulator, and compare the whole storage of all tiles."""
    symbols = symbols or {}
    random = np.random.default_rng(seed)
    held = {t.name: random.integers(0, 256, 128 * t.width * t.dtype.bytes, dtype=np.uint8) for t in tiles}
    arrays = {f"{name}_in": aligned(b, 16) for name, b in held.items()}
    arrays |= {f"{name}_out": aligned(np.zeros_like(b), 16) for name, b in held.items()}
    shaped = {
        f"{t.name}_{way}": arrays[f"{t.name}_{way}"].view(t.dtype.numpy).reshape(128, t.width)
        for t in tiles for way in ("in", "out")
    }
    made = run(kernel_of(steps, tiles, symbols, target), shaped, dict(symbols), devices.named(f"sim:{target}"))
    expected = {t.name: held[t.name].reshape(-1, t.dtype.bytes).copy() for t in tiles}
    for step in steps:
        if isinstance(step, Move):
            to, at = step.dst.slots(step.to, symbols), step.src.slots(step.at, symbols)
            expected[step.dst.name][to] = expected[step.src.name][at]
    for t in tiles:
        found = arrays[f"{t.name}_out"].reshape(-1, t.dtype.bytes)
        np.testing.assert_array_equal(found, expected[t.name], f"{t.name} after the copies")
    return made
