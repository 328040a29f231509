"""Kernels made straight from operands, and their results worked out longhand.

A case names the operands of one tile operation: where they live, their layouts and regions. Around that operation the
harness builds a kernel that fills every operand's whole storage with known bits, carries the operation out, and writes
the destination's whole storage back, so that an element too many is found as well as one too few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tests import longhand
from tests.codegen.math_reference import INEXACT, rounded64
from tilejit.dtypes import DTYPES, DType, float64, from_numpy, int32, int64
from tilejit.frontend import Parameter
from tilejit.ir import nodes
from tilejit.ir.arithmetic import build
from tilejit.ir.types import ArgumentType, ArrayType, ScalarType, Signature
from tilejit.layout import Swizzle, TileLayout
from tilejit.ops.cast import convert
from tilejit.ops.elementwise import ELEMENTWISE, result_type
from tilejit.pipeline import Compiled, compile
from tilejit.runtime.device import Device, Launch
from tilejit.runtime.signature import Call
from tilejit.target import target as find_target

#: names in the starts of regions -> (the hardware's id, threads from one value to the next)
IDS = {"t": ("thread_id", 1), "w": ("warp_id", 32), "g": ("warpgroup_id", 128)}


@dataclass
class Operand:
    """One operand of a case: its data, its buffer, and its storage on the host.

    A global tensor whose `data` has `strides` instead of a `layout` is known only at launch: `origin` is where its
    first element lies in the storage of `storage` elements; `align` and `extent_align`, in bytes, are promised.
    """

    name: str
    data: dict[str, Any]
    threads: int
    symbols: dict[str, int] = field(default_factory=dict)
    #: places of elements that were asked for before
    seen: dict[int, list[tuple[int, int]]] = field(default_factory=dict, repr=False)

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
        return self.data["storage"] if self.is_strided else longhand.storage_size(self.data["layout"])

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
        numbers = range(math.prod(self.data["shape"]))
        reached = max(a.get("TCol", 0) for n in numbers for a in longhand.along_axes(layout, n)) + 1
        return -(-reached // packed) * packed

    @property
    def flat(self) -> nodes.Buffer:
        """The storage as it lies: memory, lanes of tensor memory, or the calling thread's registers."""
        shape, layout = (self.elements,), TileLayout.row_major((self.elements,))
        if self.space == "tmem":
            shape = (TMEM_LANES, self.columns)
            layout = TileLayout.from_iters([(TMEM_LANES, 1, "TLane"), (self.columns, 1, "TCol")])
        return nodes.Buffer(
            f"{self.name}_flat", self.space, self.dtype, shape, layout, self.buffer.align, base=self.buffer
        )

    @property
    def count(self) -> int:
        """Elements of the storage of all threads together."""
        return self.elements * (self.threads if self.space == "local" else 1)

    def host(self, suffix: str) -> nodes.Buffer:
        """The global buffer that fills the storage, or that it is written back to."""
        layout = TileLayout.row_major((self.count,))
        return nodes.Buffer(f"{self.name}_{suffix}", "global", self.dtype, (self.count,), layout, 16)

    def view(self, storage: np.ndarray) -> np.ndarray:
        """What the launch gets: for a strided tensor the storage as an array of its shape and strides."""
        values = storage.view(self.dtype.numpy)
        if not self.is_strided:
            return values
        item = self.dtype.bytes
        strides = tuple(s * item for s in self.data["strides"])
        return np.ndarray(tuple(self.data["shape"]), values.dtype, values, self.data["origin"] * item, strides)

    def params(self, written: bool) -> list[nodes.Param]:
        """The kernel parameters of a global operand."""
        found = [nodes.PointerParam(self.name, self.buffer, written=written)]
        for d, extent in enumerate(self.shape):
            if isinstance(extent, nodes.Var):
                found.append(nodes.ExtentParam(self.name, extent, d))
        if isinstance(self.layout, nodes.Strided):
            for d, stride in enumerate(self.layout.strides):
                if isinstance(stride, nodes.Var):
                    found.append(nodes.StrideParam(self.name, stride, d))
        return found

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

    def indices(self, thread: int) -> Iterator[tuple[int, ...]]:
        """The logical indices of the region, in order, for one thread of the CTA."""
        region = [(self._value(start, thread), extent or 1) for start, extent in self.data["region"]]
        return longhand.coordinates(region)

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

    def slots(self, index: tuple[int, ...], first_thread: int) -> list[int]:
        """Where an element lies in the storage, for the instance that starts at a thread; nowhere if outside.

        In the order of threads.
        """
        shape = self.data["shape"]
        if not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
            assert self.space == "global", f"{index} lies outside {self.name}"
            return []
        if self.is_strided:
            return [self.data["origin"] + sum(i * s for i, s in zip(index, self.data["strides"], strict=True))]
        number = longhand.flat(index, shape)
        if self.space == "tmem":
            at = longhand.along_axes(self.data["layout"], number)
            return [a.get("TLane", 0) * self.columns + a.get("TCol", 0) for a in at]
        found = self.seen.get(number)
        if found is None:
            found = self.seen[number] = sorted(longhand.places(self.data["layout"], number))
        if self.space != "local":
            return [element for _, element in found]
        return [(first_thread + thread) * self.elements + register for thread, register in found]


#: lanes of tensor memory
TMEM_LANES = 128


def wait_for(operation: nodes.TileOp) -> tuple[nodes.Stmt, ...]:
    """What waits for what an operation has started."""
    if operation.name != "copy_async":
        return ()
    dst, src = (o.buffer.space for o in operation.operands[:2] if isinstance(o, nodes.Region))
    if "tmem" in (dst, src):
        return (nodes.Instruction("tcgen05.wait.st" if dst == "tmem" else "tcgen05.wait.ld"),)
    return nodes.Instruction("cp.async.commit"), nodes.Instruction("cp.async.wait", (), (build.const(0, int32),))


def kernel_around(
    operation: nodes.TileOp, operands: list[Operand], threads: int, target: str, scalars: tuple[nodes.Var, ...] = ()
) -> nodes.Kernel:
    """The kernel that fills all operands, carries `operation` out and writes the first operand back."""
    body: list[nodes.Stmt] = []
    params: list[nodes.Param] = []
    for operand in operands:
        if operand.space == "global":
            params += operand.params(written=operand is operands[0])
            continue
        source = operand.host("in")
        params.append(nodes.PointerParam(source.name, source))
        body += [nodes.Alloc(operand.buffer), nodes.View(operand.flat), *_transfer(operand, source, threads, "fill")]
    for symbol in sorted({s for o in operands for s in o.symbols}):
        params.append(nodes.ScalarParam(symbol, nodes.Var(symbol, int64)))
    params += [nodes.ScalarParam(var.name, var) for var in scalars]
    body += [nodes.Sync("cta"), operation, *wait_for(operation), nodes.Sync("cta")]
    if operands[0].space != "global":
        result = operands[0].host("out")
        params.append(nodes.PointerParam(result.name, result, written=True))
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
        places = [build.const(k, int64) for k in range(operand.elements)]
        moved = (one(k, build.add(first, k), str(k.value)) for k in places)
        return [statement for pair in moved for statement in pair]
    if operand.space == "tmem":
        return _transfer_lanes(operand, host, way)
    i = nodes.Var(f"{operand.name}_{way}_i", int64, bounds=(0, operand.elements))
    limits = build.const(operand.elements, int64), build.const(threads, int64)
    return [nodes.For(i, thread, *limits, tuple(one(i, i, "v")))]


def _transfer_lanes(operand: Operand, host: nodes.Buffer, way: str) -> list[nodes.Stmt]:
    """Between tensor memory and its copy: each thread of a warpgroup the lane of its number."""
    count = operand.columns
    layout = TileLayout.from_iters([(TMEM_LANES, 1, "tid_in_wg"), (count, 1, "m")])
    name = f"{operand.name}_{way}_lane"
    lanes = nodes.Buffer(name, "local", operand.dtype, (TMEM_LANES, count), layout, operand.dtype.bytes)
    row = TileLayout.row_major((count,))
    own = nodes.Buffer(f"{name}_own", "local", operand.dtype, (count,), row, operand.dtype.bytes, base=lanes)
    zero, first = build.const(0, int64), build.mul(build.cast(nodes.Special("thread_id"), int64), count)
    there, here = (nodes.Region(b, (zero, zero), (TMEM_LANES, count)) for b in (operand.flat, lanes))
    moves: list[nodes.Stmt] = []
    for k in range(count):
        near, far = nodes.Element(own, (build.const(k, int64),)), nodes.Element(host, (build.add(first, k),))
        source, target = (far, near) if way == "fill" else (near, far)
        value = nodes.Var(f"{name}_{k}", operand.dtype)
        moves += [nodes.Let(value, nodes.Load(source)), nodes.Store(target, value)]
    copy = nodes.TileOp("copy_async", "warpgroup", (there, here) if way == "fill" else (here, there))
    moved = [copy, *wait_for(copy)]
    head: list[nodes.Stmt] = [nodes.Alloc(lanes), nodes.View(own)]
    return [*head, *moves, *moved] if way == "fill" else [*head, *moved, *moves]


def bits(operand: Operand, random: np.random.Generator) -> np.ndarray:
    """Random bits for the operand's storage, as unsigned integers of its width; bool_ stays 0 or 1."""
    unsigned = np.dtype(f"u{operand.dtype.bytes}")
    if operand.dtype.kind == "bool":
        return random.integers(0, 2, operand.count, dtype=unsigned)
    return random.integers(0, np.iinfo(unsigned).max, operand.count, dtype=unsigned, endpoint=True)


#: threads of one instance of a scope; a CTA is all of them
SCOPE_THREADS = {"thread": 1, "warp": 32, "warpgroup": 128}


def instances(operand: Operand, scope: str) -> range:
    """The first thread of each instance of a scope."""
    return range(0, operand.threads, SCOPE_THREADS.get(scope, operand.threads))


def copied(
    dst: Operand, src: Operand, scope: str, before: np.ndarray, source: np.ndarray, fill: int = 0
) -> np.ndarray:
    """What the destination's storage must hold after the copy, longhand. fill: bits of what lies outside."""
    after = before.copy()
    for first in instances(dst, scope):
        if first and dst.is_common and src.is_common:
            break
        for to, at in zip(dst.indices(first), src.indices(first), strict=True):
            found = src.slots(at, first)
            after[dst.slots(to, first)] = source[found[0]] if found else fill
    return after


def agreed(operand: Operand, scope: str, storage: np.ndarray) -> np.ndarray:
    """The storage with one value in all places of a replicated element of a local tile."""
    if operand.space != "local" or not operand.data["layout"].get("replica"):
        return storage
    whole = [(0, n) for n in operand.data["shape"]]
    found = storage.copy()
    for first in instances(operand, scope):
        for index in longhand.coordinates(whole):
            slots = operand.slots(index, first)
            found[slots] = found[slots[0]]
    return found


def computed(
    name: str,
    dst: Operand,
    inputs: list[Operand | np.generic],
    scope: str,
    before: np.ndarray,
    held: dict[str, np.ndarray],
) -> np.ndarray:
    """What the destination's storage must hold after an elementwise operation on tiles and scalars, longhand."""
    after = before.copy()
    for first in instances(dst, scope):
        if first and all(o.is_common for o in (dst, *inputs) if isinstance(o, Operand)):
            break
        values = [gathered(i, first, held[i.name]) if isinstance(i, Operand) else np.asarray(i) for i in inputs]
        value, _ = np.broadcast_arrays(meaning(name, dst.dtype, values), np.zeros(dst.region().shape))
        flat = np.ascontiguousarray(value).view(after.dtype).ravel()
        for k, index in enumerate(dst.indices(first)):
            after[dst.slots(index, first)] = flat[k]
    return after


def alike(operand: Operand, scope: str, storage: np.ndarray) -> np.ndarray:
    """A local tile's storage with the same values in each instance of a scope."""
    found = storage.reshape(len(instances(operand, scope)), -1).copy()
    found[:] = found[0]
    return found.ravel()


def meaning(name: str, dtype: DType, values: list[np.ndarray]) -> np.ndarray:
    """An elementwise operation, a fill or a cast in NumPy: computed in its own type, rounded once to `dtype`."""
    if name not in ELEMENTWISE:
        return convert(values[0], dtype)
    types = tuple(from_numpy(v.dtype) for v in values)
    rule = result_type(name, types)
    assert not isinstance(rule, str), rule
    conditions = ELEMENTWISE[name].conditions
    converted = [*values[:conditions], *(convert(v, rule[0]) for v in values[conditions:])]
    with np.errstate(all="ignore"):
        value = np.asarray(ELEMENTWISE[name].formula(*converted))
    if rule[0] == float64 and name in INEXACT:
        # NumPy's own errors would count
        value = rounded64(name, *np.broadcast_arrays(value, *converted))
    return convert(value, dtype)


def gathered(operand: Operand, first: int, storage: np.ndarray) -> np.ndarray:
    """The region's values, for the instance that starts at a thread; 0 outside a tensor."""
    places = (operand.slots(index, first) for index in operand.indices(first))
    found = [storage[at[0]] if at else 0 for at in places]
    return np.array(found, storage.dtype).view(operand.dtype.numpy).reshape(operand.region().shape)


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


def run(
    kernel: nodes.Kernel, arrays: dict[str, np.ndarray], scalars: dict[str, bool | int | float], device: Device
) -> Compiled:
    """Compiles a tile kernel for its target and launches one CTA of it on `device`; arrays are changed in place.

    arrays: by parameter, of its dtype.
    """
    kinds: list[tuple[str, ArgumentType]] = []
    parameters: list[Parameter] = []
    values: list[np.ndarray | bool | int | float] = []
    for param in kernel.params:
        if isinstance(param, nodes.PointerParam):
            array = arrays[param.of]
            kinds.append((param.of, ArrayType(param.buffer.dtype, array.ndim, None, 1, 1)))
            parameters.append(Parameter(param.of, "array"))
            values.append(array)
        elif isinstance(param, nodes.ScalarParam):
            kinds.append((param.of, ScalarType(param.var.dtype)))
            parameters.append(Parameter(param.of, "scalar", param.var.dtype))
            values.append(scalars[param.of])
    made = compile(kernel, Signature(tuple(kinds)), find_target(kernel.target))
    device.load(made).launch(Launch((1, 1, 1), kernel.threads), Call(parameters, values))
    device.synchronize()
    return made


def launch(
    operation: nodes.TileOp,
    operands: list[Operand],
    held: dict[str, np.ndarray],
    device: Device,
    scalars: dict[nodes.Var, bool | int | float] | None = None,
    target: str | None = None,
) -> tuple[np.ndarray, Compiled]:
    """Runs the kernel around `operation`; returns the first operand's storage, as `held` has it, and what was compiled.

    held: each operand's storage before. scalars: further run-time parameters and their values.
    """
    dst, given = operands[0], scalars or {}
    target = target or ("sm_90a" if device.number >= 0 else "sm_100a")
    kernel = kernel_around(operation, operands, dst.threads, target, tuple(given))
    storages = {o.name: aligned(held[o.name], o.buffer.align if o.space == "global" else 0) for o in operands}
    arrays = {o.name if o.space == "global" else f"{o.name}_in": o.view(storages[o.name]) for o in operands}
    result = storages[dst.name]
    if dst.space != "global":
        result = aligned(np.zeros_like(held[dst.name]))
        arrays[f"{dst.name}_out"] = result.view(dst.dtype.numpy)
    values = {**{name: v for o in operands for name, v in o.symbols.items()}, **{v.name: n for v, n in given.items()}}
    return result, run(kernel, arrays, values, device)


def aligned(array: np.ndarray, offset: int = 0) -> np.ndarray:
    """The same values `offset` bytes past a multiple of 128."""
    room = np.zeros(array.nbytes + 256, np.uint8)
    start = -room.ctypes.data % 128 + offset % 128
    placed = room[start : start + array.nbytes].view(array.dtype)
    placed[:] = array
    return placed
