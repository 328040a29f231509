"""Kernels made straight from operands, and their results worked out longhand.

A case names the operands of one tile operation: where they live, their layouts and regions. Around that operation the
harness builds a kernel that fills every operand's whole storage with known bits, carries the operation out, and writes
the destination's whole storage back, so that an element too many is found as well as one too few.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests import longhand
from tilejit.dtypes import DTYPES, DType, int32, int64
from tilejit.ir import build, nodes
from tilejit.ir.types import ArgumentType, ArrayType, ScalarType, Signature
from tilejit.layout import Swizzle, TileLayout
from tilejit.pipeline import Compiled, compile
from tilejit.runtime.arrays import Argument, view_of
from tilejit.runtime.device import Device, Launch
from tilejit.target import target as find_target


@dataclass
class Operand:
    """One operand of a case: its data, its buffer, and its storage on the host."""

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
    def layout(self) -> TileLayout:
        given = self.data["layout"]
        swizzle = given.get("swizzle")
        return TileLayout.from_iters(
            [tuple(i) for i in given["shard"]],
            [tuple(i) for i in given.get("replica") or []],
            given.get("offset"),
            Swizzle(swizzle["swizzle_len"], swizzle["per_element"], swizzle["atom_len"], swizzle.get("inner", True))
            if swizzle
            else None,
        )

    @property
    def elements(self) -> int:
        """Elements of one instance of the storage: a thread's registers, or all of the memory."""
        return longhand.storage_size(self.data["layout"])

    @property
    def buffer(self) -> nodes.Buffer:
        align = 16 if self.space != "local" else self.dtype.bytes
        if self.space == "shared":
            align = max(128, self._period_bytes())
        return nodes.Buffer(self.name, self.space, self.dtype, tuple(self.data["shape"]), self.layout, align)

    def _period_bytes(self) -> int:
        swizzle = self.layout.swizzle
        return 1 if swizzle is None else swizzle.period * self.dtype.bytes

    @property
    def flat(self) -> nodes.Buffer:
        """The storage as it lies: memory, or the calling thread's registers."""
        return nodes.Buffer(
            f"{self.name}_flat",
            self.space,
            self.dtype,
            (self.elements,),
            TileLayout.row_major((self.elements,)),
            self.buffer.align,
            base=self.buffer,
        )

    def host(self, suffix: str) -> nodes.Buffer:
        """The global buffer that fills the storage, or that it is written back to."""
        count = self.elements * (self.threads if self.space == "local" else 1)
        layout = TileLayout.row_major((count,))
        return nodes.Buffer(f"{self.name}_{suffix}", "global", self.dtype, (count,), layout, 16)

    def region(self) -> nodes.Region:
        starts = tuple(self._start(start) for start, _ in self.data["region"])
        return nodes.Region(self.buffer, starts, tuple(extent for _, extent in self.data["region"]))

    def _start(self, start: int | dict[str, str]) -> nodes.Expr:
        """A number, or a sum of symbols: `t` is the thread, any other one a run-time parameter."""
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
        if text == "t":
            return build.cast(nodes.Special("thread_id"), int64)
        return nodes.Var(text, int64)

    def numbers(self, thread: int) -> list[int]:
        """The logical element numbers of the region, in order, for one thread of the CTA."""
        region = [(self._value(start, thread), extent) for start, extent in self.data["region"]]
        return [longhand.flat(index, self.data["shape"]) for index in longhand.coordinates(region)]

    def _value(self, start: int | dict[str, str], thread: int) -> int:
        if isinstance(start, int):
            return start
        return eval(start["sym"], {"__builtins__": {}}, {"t": thread, **self.symbols})  # noqa: S307 - our own data


def kernel_around(operation: nodes.TileOp, operands: list[Operand], threads: int, target: str) -> nodes.Kernel:
    """The kernel that fills all operands, carries `operation` out and writes the first operand back."""
    body: list[nodes.Stmt] = []
    params: list[nodes.Param] = []
    for operand in operands:
        if operand.space == "global":
            written = operand is operands[0]
            params.append(nodes.Param("pointer", operand.name, operand.dtype, buffer=operand.buffer, written=written))
            continue
        source = operand.host("in")
        params.append(nodes.Param("pointer", source.name, operand.dtype, buffer=source))
        body += [nodes.Alloc(operand.buffer), nodes.View(operand.flat), *_transfer(operand, source, threads, "fill")]
    for symbol in sorted({s for o in operands for s in o.symbols}):
        params.append(nodes.Param("scalar", symbol, int64, var=nodes.Var(symbol, int64)))
    body += [nodes.Sync("cta"), operation, nodes.Sync("cta")]
    if operands[0].space != "global":
        result = operands[0].host("out")
        params.append(nodes.Param("pointer", result.name, result.dtype, buffer=result, written=True))
        body += _transfer(operands[0], result, threads, "dump")
    return nodes.Kernel("case", tuple(params), threads, target, tuple(body))


def _transfer(operand: Operand, host: nodes.Buffer, threads: int, way: str) -> list[nodes.Stmt]:
    """Element by element between an operand's storage and its copy in global memory."""
    thread = build.cast(nodes.Special("thread_id"), int64)

    def one(inside: nodes.Expr, outside: nodes.Expr, tag: str) -> list[nodes.Stmt]:
        near, far = nodes.Element(operand.flat, (inside,)), nodes.Element(host, (outside,))
        source, target = (far, near) if way == "fill" else (near, far)
        value = nodes.Var(f"{operand.name}_{way}_{tag}", operand.dtype)
        return [nodes.Let(value, nodes.Load(source)), nodes.Store(target, value)]

    if operand.space == "local":
        first = build.mul(thread, build.const(operand.elements, int64))
        moved = (one(build.const(k, int64), build.add(first, build.const(k, int64)), str(k)) for k in range(operand.elements))
        return [statement for pair in moved for statement in pair]
    i = nodes.Var(f"{operand.name}_{way}_i", int64, bounds=(0, operand.elements))
    limits = build.const(operand.elements, int64), build.const(threads, int64)
    return [nodes.For(i, thread, *limits, tuple(one(i, i, "v")))]


def bits(operand: Operand, random: np.random.Generator) -> np.ndarray:
    """Random bits for the operand's storage, as unsigned integers of its width; bool_ stays 0 or 1."""
    count = operand.elements * (operand.threads if operand.space == "local" else 1)
    unsigned = np.dtype(f"u{operand.dtype.bytes}")
    high = 2 if operand.dtype.kind == "bool" else np.iinfo(unsigned).max
    return random.integers(0, high, count, dtype=unsigned, endpoint=operand.dtype.kind != "bool")


#: threads of one instance of a scope; a CTA is all of them
SCOPE_THREADS = {"thread": 1, "warp": 32, "warpgroup": 128}


def copied(dst: Operand, src: Operand, scope: str, before: np.ndarray, source: np.ndarray) -> np.ndarray:
    """What the destination's storage must hold after the copy, longhand."""
    after = before.copy()
    step = SCOPE_THREADS.get(scope, dst.threads)
    for first in range(0, dst.threads, step):
        for to, at in zip(dst.numbers(first), src.numbers(first), strict=True):
            value = source[_slot(src, at, first)[0]]
            for slot in _slot(dst, to, first):
                after[slot] = value
    return after


def _slot(operand: Operand, number: int, first_thread: int) -> list[int]:
    """Indices in the host copy of the places of one logical element, for the instance that starts at a thread."""
    found = sorted(longhand.places(operand.data["layout"], number))
    if operand.space != "local":
        return [element for _, element in found]
    return [(first_thread + thread) * operand.elements + register for thread, register in found]


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


def index_of(value: int) -> nodes.Const:
    """A literal index."""
    return nodes.Const(value, int32)


def run(kernel: nodes.Kernel, arrays: dict[str, np.ndarray], scalars: dict[str, int], device: Device) -> Compiled:
    """Compiles a tile kernel for its target and launches one CTA of it on `device`; arrays are changed in place."""
    kinds: list[tuple[str, ArgumentType]] = []
    values: list[Argument] = []
    for param in kernel.params:
        if param.kind == "pointer":
            kinds.append((param.of, ArrayType(param.dtype, 1, 0, 16, 1)))
            values.append(view_of(arrays[param.of].view(param.dtype.numpy)))
        else:
            kinds.append((param.of, ScalarType(param.dtype)))
            values.append(scalars[param.of])
    made = compile(kernel, Signature(tuple(kinds)), find_target(kernel.target))
    device.load(made).launch(Launch((1, 1, 1), kernel.threads), values)
    device.synchronize()
    return made


def aligned(array: np.ndarray, align: int = 16) -> np.ndarray:
    """The same values at an address that is a multiple of `align` bytes."""
    room = np.zeros(array.nbytes + align, np.uint8)
    start = -room.ctypes.data % align
    placed = room[start : start + array.nbytes].view(array.dtype)
    placed[:] = array
    return placed
