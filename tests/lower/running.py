"""Drawn operations as kernels on the simulator, and what their operands must hold afterwards, longhand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from tests.reference import tiles
from tests.reference.layouts import plain
from tests.support.drafts import Operation
from tests.support.operands import Operand, bits
from tests.support.operations import INLINE
from tests.support.running import launch
from tests.support.tolerances import tolerance
from tilejit.compiled import Compiled
from tilejit.ir import nodes
from tilejit.ir.arithmetic.evaluate import evaluate
from tilejit.ir.nodes import FALSE
from tilejit.layout import TileLayout
from tilejit.ops.axes import REDUCTION, SCAN
from tilejit.ops.gemm import reference
from tilejit.runtime import devices
from tilejit.runtime.device import Device
from tilejit.testing import assert_equal

Array = np.ndarray

#: the operations that give each element of the destination one of the source, in order
_COPIES = ("copy", "copy_async", "reshape")


class Placed(Operand):
    """A region of a drawn operation, as an operand."""

    def __init__(self, region: nodes.Region, operation: Operation) -> None:
        buffer = region.buffer
        self.at, self.values = region, operation.values
        data: dict[str, Any] = {
            "scope": buffer.space,
            "dtype": buffer.dtype.name,
            "shape": [self._number(n) for n in buffer.shape],
            "region": list(zip(region.starts, region.extents, strict=True)),
            "align": buffer.align,
        }
        if isinstance(buffer.layout, nodes.Strided):
            strides = [self._number(s) for s in buffer.layout.strides]
            reach = [(n - 1) * s for n, s in zip(data["shape"], strides, strict=True)]
            multiple = max(1, buffer.align // buffer.dtype.bytes)
            origin = -(sum(r for r in reach if r < 0) // multiple) * multiple
            storage = origin + sum(r for r in reach if r > 0) + 1
            data |= {"strides": strides, "origin": origin, "storage": storage}
        else:
            data["layout"] = plain(buffer.tile_layout)
        if buffer.slots:
            data["slots"] = list(buffer.slots)
        super().__init__(buffer.name, data, operation.threads)

    def _number(self, value: int | nodes.Var) -> int:
        return value if isinstance(value, int) else int(self.values[value.name])

    @property
    def buffer(self) -> nodes.Buffer:
        return self.at.buffer

    @property
    def layout(self) -> TileLayout | nodes.Strided:
        layout = self.at.buffer.layout
        return layout if isinstance(layout, nodes.Strided) else self.at.buffer.tile_layout

    @property
    def shape(self) -> tuple[int | nodes.Var, ...]:
        return self.at.buffer.shape

    def region(self) -> nodes.Region:
        return self.at

    def _value(self, start: Any, thread: int) -> int:
        ids = {"thread_id": thread, "warp_id": thread // 32, "warpgroup_id": thread // 128}
        return int(evaluate(start, {**self.values, **ids}))

    def padding(self, scope: str) -> list[int]:
        """The places of its storage that hold no element, but a slot."""
        if not self.buffer.slots:
            return []
        every, shape = np.indices(self.buffer.slots).reshape(len(self.buffer.slots), -1), self.data["shape"]
        past = every[:, (every >= np.reshape(shape, (-1, 1))).any(axis=0)]
        self.data["shape"] = list(self.buffer.slots)
        places = [place for first in tiles.instances(self, scope) for place in self.slots(past, first).ravel()]
        self.data["shape"] = shape
        return places

    @cached_property
    def is_common(self) -> bool:
        return self.space != "local" and not any(_reads_id(start) for start in self.at.starts)


def _reads_id(expr: nodes.Expr) -> bool:
    if isinstance(expr, nodes.Special):
        return True
    parts = expr.args if isinstance(expr, nodes.Op) else (expr.x,) if isinstance(expr, nodes.Cast) else ()
    return any(_reads_id(part) for part in parts)


class Run:
    """One operation with what its operands' storages hold before."""

    def __init__(self, operation: Operation, seed: int = 0) -> None:
        self.operation, self.op = operation, operation.op
        self.tiles = [Placed(r, operation) for r in {r.buffer.name: r for r in self.op.tiles.values()}.values()]
        self.dst = self.tiles[0]
        random = np.random.default_rng(seed)
        self.held = {o.name: self._contents(o, random) for o in self.tiles}

    def _contents(self, operand: Placed, random: np.random.Generator) -> Array:
        """Any bits for what is moved, small numbers for what is computed with; the same in all places of an element."""
        if self.op.name in _COPIES:
            found = bits(operand, random)
        else:
            least = 0 if self.op.name == "cast" or operand.dtype.kind in ("uint", "bool") else -4
            numbers = random.integers(least, 2 if operand.dtype.kind == "bool" else 5, operand.count)
            values = numbers / 2 if operand.dtype.is_float and not self.op.name.startswith("gemm") else numbers
            found = values.astype(operand.dtype.numpy).view(f"u{operand.dtype.bytes}")
        return tiles.agreed(operand, self.op.scope, found)

    def check(self, device: Device | None = None) -> Compiled:
        """Run it, on the simulator with all its checks; the destination's whole storage must be what NumPy says.

        device: another one than the simulator, for whose target it is compiled.
        """
        starts = {n: v for o in self.tiles for s in o.at.starts for n, v in self._variables(s)}
        scalars = {n: v for o in self.op.given if not isinstance(o, nodes.Region) for n, v in self._variables(o)}
        target = self.operation.target if device is None or device.number < 0 else device.target
        device = device or devices.named("sim")
        got, made = launch(self.op, self.tiles, self.held, device, {**starts, **scalars}, target.name)
        expected = self.expected()
        # padding holds anything
        padding = self.dst.padding(self.op.scope)
        got[padding] = expected[padding]
        if self.op.name in _COPIES:
            np.testing.assert_array_equal(got, expected)
            return made
        dtype = self.dst.dtype.numpy
        ulp = tolerance(self._meaning, self.dst.dtype)
        assert_equal(self._meaning, got.view(dtype), expected.view(dtype), ulp=ulp)
        return made

    def _variables(self, expr: nodes.Expr) -> Iterator[tuple[nodes.Var, bool | int | float]]:
        if isinstance(expr, nodes.Var):
            yield expr, self.operation.values[expr.name]
        parts = expr.args if isinstance(expr, nodes.Op) else (expr.x,) if isinstance(expr, nodes.Cast) else ()
        for part in parts:
            yield from self._variables(part)

    def expected(self) -> Array:
        """What the destination's storage must hold."""
        before = self.held[self.dst.name]
        if self.op.name in _COPIES:
            src = self.tiles[1]
            masks = [o for o in self.tiles[2:] if o.name == "mask"]
            allowed = {m.name: (m, self.held[m.name]) for m in masks}.get("mask")
            return tiles.copied(self.dst, src, self.op.scope, before, self.held[src.name], self._fill(), allowed)
        if self.op.name in ("gemm", "gemm_async"):
            return self._multiplied(before)
        if self.op.name == "atomic":
            return self._updated(before)
        if self.op.name == "indices":
            shape, axis = self.dst.region().shape, self.op.attr("axis")
            assert isinstance(axis, int)
            return tiles.filled(self.dst, np.indices(shape)[axis], self.op.scope, before)
        if self.op.name == "sort":
            return self._sorted(before)
        if self.op.record.relation is REDUCTION:
            src = self.tiles[1]
            return tiles.reduced(self.op, self.dst, src, before, self.held[src.name])
        if self.op.record.relation is SCAN:
            initial = self.op.value("initial")
            src, first = self.tiles[1], None if initial is None else self._input(initial)
            return tiles.reduced(self.op, self.dst, src, before, self.held[src.name], initial=first)
        inputs = [self._input(o) for o in self.op.inputs.values()]
        return tiles.computed(self._meaning, self.dst, inputs, self.op.scope, before, self.held)

    @property
    def _meaning(self) -> str:
        """The name of the elementwise operation that gives the same results."""
        if self.op.name != "ptx":
            return self.op.name
        return next(name for (name, _), text in INLINE.items() if text == self.op.attr("text"))

    def _fill(self) -> int:
        """The bits of what lies outside."""
        fill = self.op.value("fill") if "fill" in self.op.options else None
        value = 0 if fill is None else fill.value  # type: ignore[union-attr]
        found = np.asarray(value).astype(self.dst.dtype.numpy)
        return int(found.view(f"u{found.itemsize}"))

    def _input(self, operand: nodes.Region | nodes.Expr) -> Placed | np.generic:
        if isinstance(operand, nodes.Region):
            return next(o for o in self.tiles if o.name == operand.buffer.name)
        value = operand.value if isinstance(operand, nodes.Const) else self.operation.values[operand.name]  # type: ignore[union-attr]
        return np.asarray(value).astype(operand.dtype.numpy)[()]

    def _updated(self, before: Array) -> Array:
        after = before.copy()
        for first in tiles.instances(self.dst, self.op.scope):
            place, value = (tiles.gathered(o, first, self.held[o.name]) for o in self.tiles)
            made = self.op.record.reference(place, value, operation=self.op.attr("operation"))
            tiles.put(after, self.dst.slots(self.dst.indices(first), first), made.view(after.dtype).ravel())
        return after

    def _sorted(self, before: Array) -> Array:
        after, (dst, src) = before.copy(), self.tiles
        for first in tiles.instances(dst, self.op.scope):
            rows = np.sort(tiles.gathered(src, first, self.held[src.name]), axis=-1)
            kept = np.ascontiguousarray(rows[..., : dst.region().shape[-1]])
            tiles.put(after, dst.slots(dst.indices(first), first), kept.view(after.dtype).ravel())
        return after

    def _accumulates(self) -> bool:
        condition = self.op.operand("accumulate") if "accumulate" in self.op.options else None
        if isinstance(condition, nodes.Var):
            return bool(self.operation.values[condition.name])
        return condition != FALSE

    def _multiplied(self, before: Array) -> Array:
        after = before.copy()
        for first in tiles.instances(self.dst, self.op.scope):
            acc, a, b = (tiles.gathered(o, first, self.held[o.name]) for o in self.tiles)
            if not self._accumulates():
                acc = np.zeros_like(acc)
            made = np.ascontiguousarray(reference(acc, a, b)).view(after.dtype).ravel()
            tiles.put(after, self.dst.slots(self.dst.indices(first), first), made)
        return after
