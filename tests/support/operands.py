"""Operands of one tile operation as data: where they live, their layouts and regions, and their storage on the host."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tests.reference import layouts
from tilejit.dtypes import DTYPES, DType, int64, uint64
from tilejit.ir import nodes
from tilejit.ir.arithmetic import build
from tilejit.ir.params import ExtentParam, Param, PointerParam, StrideParam
from tilejit.layout import Swizzle, TileLayout
from tilejit.lower.schedule.placement import global_strides

#: names in the starts of regions -> (the hardware's id, threads from one value to the next)
IDS = {"t": ("thread_id", 1), "w": ("warp_id", 32), "g": ("warpgroup_id", 128)}

#: lanes of tensor memory
TMEM_LANES = 128


@dataclass
class Operand:
    """One operand of a case: its data, its buffer, and its storage on the host.

    A global tensor whose `data` has `strides` instead of a `layout` is known only at launch: `origin` is where its
    first element lies in the storage of `storage` elements; `align` and `extent_align`, in bytes, are promised.
    A padded local tile has a `shape` and also `slots`, the shape that its layout places.
    """

    name: str
    data: dict[str, Any]
    threads: int
    symbols: dict[str, int] = field(default_factory=dict)

    @property
    def space(self) -> str:
        return self.data["scope"]

    @property
    def dtype(self) -> DType:
        return DTYPES["bool_" if self.data["dtype"] == "bool" else self.data["dtype"]]

    @property
    def is_strided(self) -> bool:
        return "strides" in self.data

    @property
    def layout(self) -> TileLayout | nodes.Strided:
        if self.is_strided:
            return self._strided()
        data = self.data["layout"]
        swizzle = data.get("swizzle")
        return TileLayout.from_iters(
            [tuple(i) for i in data["shard"]],
            [tuple(i) for i in data.get("replica") or []],
            data.get("offset"),
            Swizzle(swizzle["swizzle_len"], swizzle["per_element"], swizzle["atom_len"], swizzle.get("inner", True))
            if swizzle
            else None,
        )

    def _strided(self) -> nodes.Strided:
        multiple = max(1, self.data["align"] // self.dtype.bytes)
        unit = self.data["unit_dim"]
        strides = tuple(
            1 if d == unit else nodes.Var(f"{self.name}.stride.{d}", int64, multiple)
            for d in range(len(self.data["shape"]))
        )
        return nodes.Strided(strides, self.data["align"], self.data["extent_align"])

    @property
    def shape(self) -> tuple[int | nodes.Var, ...]:
        """The buffer's extents; parameters where it is known only at launch."""
        if not self.is_strided:
            return tuple(self.data["shape"])
        multiple = max(1, self.data["extent_align"] // self.dtype.bytes)
        return tuple(
            nodes.Var(f"{self.name}.shape.{d}", int64, multiple if d == self.data["unit_dim"] else 1, (0, 2**40))
            for d in range(len(self.data["shape"]))
        )

    @cached_property
    def elements(self) -> int:
        """Elements of one instance of the storage: a thread's registers, or all of the memory."""
        if self.space == "tmem":
            return TMEM_LANES * self.columns
        return self.data["storage"] if self.is_strided else layouts.storage_size(self.data["layout"])

    @property
    def buffer(self) -> nodes.Buffer:
        align = self.data.get("align", 16) if self.space != "local" else self.dtype.bytes
        if self.space == "shared":
            align = max(128, self._period_bytes())
        return nodes.Buffer(self.name, self.space, self.dtype, self.shape, self.layout, align)

    def _period_bytes(self) -> int:
        swizzle = self.layout.swizzle
        return 1 if swizzle is None else swizzle.period * self.dtype.bytes

    @cached_property
    def columns(self) -> int:
        """Elements of one lane of tensor memory that the layout reaches, whole 32-bit columns."""
        layout, packed = self.data["layout"], 32 // self.dtype.bits
        numbers = np.arange(math.prod(self.data["shape"]))
        reached = max(int(np.max(a.get("TCol", 0))) for a in layouts.along_axes(layout, numbers)) + 1
        return -(-reached // packed) * packed

    @property
    def word(self) -> DType:
        """What fills and reads the storage: 8 bytes at once in shared memory that has a whole number of them."""
        has_words = self.space == "shared" and self.elements * self.dtype.bytes % uint64.bytes == 0
        return uint64 if has_words else self.dtype

    def words(self, elements: int) -> int:
        """The number of words in `elements` elements."""
        return elements * self.dtype.bytes // self.word.bytes

    @property
    def flat(self) -> nodes.Buffer:
        """The storage as it lies: memory, lanes of tensor memory, or the calling thread's registers."""
        shape = (self.words(self.elements),)
        layout = TileLayout.row_major(shape)
        if self.space == "tmem":
            shape = (TMEM_LANES, self.columns)
            layout = TileLayout.from_iters([(TMEM_LANES, 1, "TLane"), (self.columns, 1, "TCol")])
        return nodes.Buffer(
            f"{self.name}_flat", self.space, self.word, shape, layout, self.buffer.align, base=self.buffer
        )

    @property
    def count(self) -> int:
        """Elements of the storage of all threads together."""
        return self.elements * (self.threads if self.space == "local" else 1)

    def host(self, suffix: str) -> nodes.Buffer:
        """The global buffer that fills the storage, or that it is written back to."""
        shape = (self.words(self.count),)
        return nodes.Buffer(f"{self.name}_{suffix}", "global", self.word, shape, TileLayout.row_major(shape), 16)

    def view(self, storage: np.ndarray) -> np.ndarray:
        """What the launch gets: of a tensor with a stride a dimension an array of its shape and strides."""
        steps = self.data.get("strides") or (self.space == "global" and global_strides(self.buffer))
        if not steps:
            return storage.view(self.word.numpy)
        values = storage.view(self.dtype.numpy)
        item = self.dtype.bytes
        strides, origin = tuple(s * item for s in steps), self.data.get("origin", 0) * item
        return np.ndarray(tuple(self.data["shape"]), values.dtype, values, origin, strides)

    def params(self, written: bool) -> list[Param]:
        """The kernel parameters of a global operand."""
        params = [PointerParam(self.name, self.buffer, written=written)]
        for d, extent in enumerate(self.shape):
            if isinstance(extent, nodes.Var):
                params.append(ExtentParam(self.name, extent, d))
        if isinstance(self.layout, nodes.Strided):
            for d, stride in enumerate(self.layout.strides):
                if isinstance(stride, nodes.Var):
                    params.append(StrideParam(self.name, stride, d))
        return params

    def region(self) -> nodes.Region:
        starts = tuple(self._start(start) for start, _ in self.data["region"])
        extents = tuple(extent for _, extent in self.data["region"])
        return nodes.Region(self.buffer, starts, extents, self.data.get("in_bounds", False))

    def _start(self, start: int | dict[str, str]) -> nodes.Expr:
        """A number, or a sum of products of numbers, the thread's ids and run-time parameters."""
        if isinstance(start, int):
            return build.const(start, int64)
        total: nodes.Expr = build.const(0, int64)
        for term in start["sym"].split("+"):
            product: nodes.Expr = build.const(1, int64)
            for factor in term.split("*"):
                product = build.mul(product, self._factor(factor.strip()))
            total = build.add(total, product)
        return total

    def _factor(self, text: str) -> nodes.Expr:
        if text.isdigit():
            return build.const(int(text), int64)
        if text in IDS:
            return build.cast(nodes.Special(IDS[text][0]), int64)
        return nodes.Var(text, int64)

    def indices(self, thread: int) -> np.ndarray:
        """The logical indices of the region, in order, for one thread of the CTA; of shape (rank, elements)."""
        region = [(self._value(start, thread), extent or 1) for start, extent in self.data["region"]]
        extents = [extent for _, extent in region]
        steps = np.indices(extents).reshape(len(region), math.prod(extents))
        return steps + np.array([start for start, _ in region], np.int64).reshape(-1, 1)

    def _value(self, start: int | dict[str, str], thread: int) -> int:
        if isinstance(start, int):
            return start
        ids = {name: thread // step for name, (_, step) in IDS.items()}
        return eval(start["sym"], {"__builtins__": {}}, {**ids, **self.symbols})  # noqa: S307 - our own data

    @cached_property
    def is_common(self) -> bool:
        """Whether every instance of a scope works on the same elements."""
        starts = " ".join(start["sym"] for start, _ in self.data["region"] if isinstance(start, dict))
        return self.space != "local" and not set(IDS) & set(starts.replace("*", " ").split())

    def slots(self, indices: np.ndarray, first_thread: int) -> np.ndarray:
        """Where elements lie in the storage, for the instance that starts at a thread; -1 outside.

        indices: of shape (rank, elements). returns: (elements, owners), in the order of threads.
        """
        shape = self.data["shape"]
        is_inside = np.ones(indices.shape[1], bool)
        for along, extent in zip(indices, shape, strict=True):
            is_inside &= (along >= 0) & (along < extent)
        assert self.space == "global" or is_inside.all(), f"a region lies outside {self.name}"
        number = is_inside * 0 + layouts.flat(np.where(is_inside, indices, 0), self.data.get("slots", shape))
        return np.where(is_inside, self._places(number, indices, first_thread), -1).T

    def _places(self, number: np.ndarray, indices: np.ndarray, first_thread: int) -> np.ndarray:
        """Where the elements of these numbers lie; of shape (owners, elements)."""
        if self.is_strided:
            steps = zip(indices, self.data["strides"], strict=True)
            return np.array([self.data["origin"] + sum(i * s for i, s in steps)])
        # what doesn't depend on the number is one number for all
        each = np.zeros_like(number)
        if self.space == "tmem":
            at = layouts.along_axes(self.data["layout"], number)
            return np.array([each + a.get("TLane", 0) * self.columns + a.get("TCol", 0) for a in at])
        places = layouts.places(self.data["layout"], number)
        threads, elements = (np.array([each + place[k] for place in places]) for k in (0, 1))
        order = np.lexsort((elements, threads), axis=0)
        threads, elements = (np.take_along_axis(part, order, axis=0) for part in (threads, elements))
        return elements if self.space != "local" else (first_thread + threads) * self.elements + elements


def bits(operand: Operand, random: np.random.Generator) -> np.ndarray:
    """Random bits for the operand's storage, as unsigned integers of its width; bool_ stays 0 or 1."""
    unsigned = np.dtype(f"u{operand.dtype.bytes}")
    if operand.dtype.kind == "bool":
        return random.integers(0, 2, operand.count, dtype=unsigned)
    return random.integers(0, np.iinfo(unsigned).max, operand.count, dtype=unsigned, endpoint=True)


def symbol_values(operands: list[dict[str, Any]]) -> dict[str, int]:
    """A value for each run-time symbol of the regions but the thread: the loop's second trip where it fits."""
    text = " ".join(start["sym"] for o in operands for start, _ in o["region"] if isinstance(start, dict))
    names = sorted({word for word in text.replace("*", " ").replace("+", " ").split() if word.isalpha()} - {"t"})
    values = dict.fromkeys(names, 0)
    if "i" in values and all(_fits(o, {**values, "i": 1}) for o in operands):
        values["i"] = 1
    return values


def _fits(operand: dict[str, Any], symbols: dict[str, int]) -> bool:
    probe = Operand("probe", operand, 1, symbols)
    last = [probe._value(start, 0) + extent for start, extent in operand["region"]]
    return all(end <= extent for end, extent in zip(last, operand["shape"], strict=True))
