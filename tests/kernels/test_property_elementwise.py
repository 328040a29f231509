"""Elementwise operations on local tiles give what NumPy gives, in every layout, and touch no other register."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from tests.kernels.drawn_operands import (
    Data,
    Place,
    broadcast,
    extents,
    is_static,
    memory,
    places,
    rearranged,
    registers,
)
from tests.reference import tiles
from tests.support.operands import Operand, bits
from tests.support.proving import prove_verdict
from tests.support.running import launch
from tests.support.tolerances import REPRODUCIBLE, tolerance
from tilejit.dtypes import DTYPES, DType, bool_
from tilejit.ir import nodes
from tilejit.ir.arithmetic import build
from tilejit.ops.elementwise import ELEMENTWISE, result_type
from tilejit.runtime.device import Device
from tilejit.testing import arrays, assert_equal, dtypes

TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a")
#: 256 elements of a CTA, few a thread: what is unrolled takes long to compile
TWO_EACH: Data = {
    "scope": "local",
    "shape": [128, 2],
    "region": [[0, 128], [0, 2]],
    "layout": {"shard": [(128, 1, "tx"), (2, 1, "m")]},
}

Input = Operand | np.generic


class Computation:
    """One elementwise operation: its operands, and what their storages hold before."""

    def __init__(self, name: str, scope: str, dst: Operand, inputs: list[Input], held: dict[str, np.ndarray]) -> None:
        self.name, self.scope, self.dst, self.inputs = name, scope, dst, inputs
        named = {o.name: o for o in (dst, *inputs) if isinstance(o, Operand)}
        self.tiles = list(named.values())
        self.held = {o.name: tiles.agreed(o, scope, held[o.name]) for o in self.tiles}
        self.scalars: dict[nodes.Var, bool | int | float] = {}

    def __repr__(self) -> str:
        shown = [i.data if isinstance(i, Operand) else repr(i) for i in self.inputs]
        return f"{self.name} on {self.scope} of {self.dst.threads}\n  dst={self.dst.data}\n  inputs={shown}"

    def operation(self, at_run_time: bool) -> nodes.TileOp:
        """at_run_time: scalars are parameters, else constants."""
        operands: list[nodes.Region | nodes.Expr] = []
        for k, given_ in enumerate(self.inputs):
            if isinstance(given_, Operand):
                operands.append(given_.region())
                continue
            dtype = DTYPES[_name(given_)]
            operands.append(build.const(given_.item(), dtype))
            if at_run_time:
                operands[-1] = nodes.Var(f"scalar{k}", dtype)
                self.scalars[operands[-1]] = given_.item()
        return nodes.TileOp(self.name, self.scope, (self.dst.region(), *operands))

    def run(self, device: Device, target: str | None = None, at_run_time: bool = False) -> None:
        """Runs it and compares the destination's whole storage."""
        operation = self.operation(at_run_time)
        found, made = launch(operation, self.tiles, self.held, device, self.scalars, target)
        expected = tiles.computed(self.name, self.dst, self.inputs, self.scope, self.held[self.dst.name], self.held)
        dtype = self.dst.dtype.numpy
        ulp = tolerance(self.name, self.dst.dtype)
        called = f"{self.name} of {', '.join(str(i.dtype) for i in self.inputs)}"
        assert_equal(called, *same_zeros(self.name, found.view(dtype), expected.view(dtype)), ulp=ulp)
        (verdict,) = made.verdicts
        assert verdict.variant == ("reg" if self.dst.space == "local" else "smem")
        if all(is_static(o.data) for o in self.tiles):
            prove_verdict(verdict)


def same_zeros(name: str, *values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Which zero the greater or the lesser of two zeros is, IEEE 754 leaves open."""
    if name not in ("maximum", "minimum", "clamp", "relu"):
        return values
    with np.errstate(invalid="ignore"):
        return tuple(np.where(v == 0, np.zeros_like(v), v) for v in values)


def _name(scalar: np.generic) -> str:
    return "bool_" if scalar.dtype == np.bool_ else scalar.dtype.name


def accepted(name: str) -> list[tuple[DType, ...]]:
    """The types that an operation takes, its inputs all of one type but for a condition."""
    op = ELEMENTWISE[name]
    rows = [(bool_,) * op.conditions + (t,) * (op.arity - op.conditions) for t in DTYPES.values()]
    return [row for row in rows if not isinstance(result_type(name, row), str)]


def tame(dtype: DType, values: np.ndarray) -> np.ndarray:
    """Small numbers in place of those that no integer type can hold."""
    if not dtype.is_float:
        return values
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
    return np.where(np.abs(wide) < 100, wide, np.arange(wide.size) % 100).astype(dtype.numpy)


@pytest.mark.parametrize("name", REPRODUCIBLE)
def test_an_operation_gives_what_numpy_gives_on_special_values_too(name: str, device: Device) -> None:
    for types in accepted(name):
        of_special_values(name, types).run(device)


def of_special_values(name: str, types: tuple[DType, ...]) -> Computation:
    """An operation on inputs of these types that hold every pair of special values."""
    rule = result_type(name, types)
    assert not isinstance(rule, str)
    random = np.random.default_rng(len(name) + types[-1].bits)
    operands = [Operand("dst", {**TWO_EACH, "dtype": rule[1].name}, 128)]
    operands += [Operand(n, {**TWO_EACH, "dtype": t.name}, 128) for n, t in zip("abc", types, strict=False)]
    held = {o.name: bits(o, random) for o in operands}
    for k, operand in enumerate(operands[1:]):
        values = grid_of_specials(operand.dtype, k, held[operand.name])
        held[operand.name] = values.view(held[operand.name].dtype)
    return Computation(name, "cta", operands[0], list(operands[1:]), held)


def grid_of_specials(dtype: DType, position: int, bits: np.ndarray) -> np.ndarray:
    """Every pair of special values in the first half, for two inputs; ordinary numbers, then any bits, in the other."""
    values = bits.view(dtype.numpy).copy()
    if dtype.kind == "bool":
        return values
    listed = specials(dtype)
    count = len(listed)
    steps = np.arange(128) // (1, count, 3)[position]
    values[:128] = listed[steps % count]
    numbers = np.random.default_rng(position).normal(0, 4, 64)
    values[128:192] = (numbers if dtype.kind in ("float", "int") else np.abs(numbers)).astype(dtype.numpy)
    return values


def specials(dtype: DType) -> np.ndarray:
    if not dtype.is_float:
        ends = np.iinfo(dtype.numpy)
        return np.array([0, 1, 2, 3, dtype.bits - 1, dtype.bits, ends.min, ends.max, ends.max - 1, 7], dtype.numpy)
    listed = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.5, 1e-30]
    return np.array(listed, np.float64).astype(dtype.numpy)


@pytest.mark.parametrize("to", list(DTYPES.values()), ids=str)
def test_a_cast_gives_what_numpy_gives(to: DType, device: Device) -> None:
    random = np.random.default_rng(to.bits)
    for dtype in DTYPES.values():
        src = Operand("a", {**TWO_EACH, "dtype": dtype.name}, 128)
        dst = Operand("dst", {**TWO_EACH, "dtype": to.name}, 128)
        held = {o.name: bits(o, random) for o in (dst, src)}
        if to.is_integer and dtype.is_float:
            held["a"] = np.abs(tame(dtype, held["a"].view(dtype.numpy))).view(held["a"].dtype)
        Computation("cast", "cta", dst, [src], held).run(device)


@st.composite
def computations(draw: st.DrawFn) -> Computation:
    """Any operation on tiles, on tiles that broadcast, on scalars and in place."""
    name = draw(st.sampled_from([*REPRODUCIBLE, "cast", "fill"]))
    scope, threads = draw(places())
    types = draw(input_types(name))
    dst_type = draw(dtypes()) if name in ("cast", "fill") else result_type(name, types)[1]
    data = draw(registers(dst_type, scope, threads))
    dst = Operand("dst", data, threads)
    held = {"dst": draw(storage(dst))}
    inputs: list[Input] = []
    for k, dtype in enumerate(types):
        kind = draw(st.sampled_from(("tile", "tile", "broadcast", "scalar", "in place")))
        if name == "fill" or (kind == "scalar" and name != "cast"):
            inputs.append(draw(arrays((1,), dtype))[0])
        elif kind == "in place" and dtype == dst_type:
            inputs.append(dst)
        else:
            shaped = draw(broadcast(data) if kind == "broadcast" else rearranged(data))
            inputs.append(Operand("abc"[k], {**shaped, "dtype": dtype.name}, threads))
            held["abc"[k]] = draw(storage(inputs[-1]))
    if name in ("cast", "fill") and dst_type.is_integer:
        inputs, held = in_range(inputs, held)
    event(name)
    return Computation(name, scope, dst, inputs, held)


@st.composite
def input_types(draw: st.DrawFn, name: str) -> tuple[DType, ...]:
    if name in ("cast", "fill"):
        return (draw(dtypes()),)
    types = draw(st.sampled_from(accepted(name)))
    if len(types) > 1 and draw(st.booleans()):
        mixed = (*types[:-1], draw(dtypes(fp8=False)))
        return types if isinstance(result_type(name, mixed), str) else mixed
    return types


@st.composite
def storage(draw: st.DrawFn, operand: Operand) -> np.ndarray:
    values = draw(arrays((operand.count,), operand.dtype))
    return values.view(f"u{values.itemsize}")


def in_range(inputs: list[Any], held: dict[str, np.ndarray]) -> tuple[list[Any], dict[str, np.ndarray]]:
    """Floats that every integer type can hold: what others become is left open."""
    found, kept = [], dict(held)
    for given_ in inputs:
        if isinstance(given_, Operand):
            bits = kept[given_.name]
            values = tame(given_.dtype, bits.view(given_.dtype.numpy))
            kept[given_.name] = (np.abs(values) if given_.dtype.is_float else values).view(bits.dtype)
            found.append(given_)
        else:
            one = np.asarray([given_])
            dtype = DTYPES[_name(given_)]
            found.append((np.abs(tame(dtype, one)) if dtype.is_float else one)[0])
    return found, kept


@st.composite
def memory_computations(draw: st.DrawFn) -> Computation:
    """Any operation on shared and global memory, with tiles that broadcast, and scalars."""
    name = draw(st.sampled_from([*REPRODUCIBLE, "cast", "fill"]))
    scope, threads = draw(places())
    place = Place(scope, threads, scope != "cta" and draw(st.booleans()))
    types = draw(input_types(name))
    dst_type = draw(dtypes()) if name in ("cast", "fill") else result_type(name, types)[1]
    shape = draw(extents(512 // place.instances if place.apart else 512))
    spaces = st.sampled_from(("shared", "global"))
    data, symbols = draw(memory("x", draw(spaces), dst_type, shape, place, written=True, same_rank=True))
    found: list[Data | np.generic] = []
    for k, dtype in enumerate(types):
        if name == "fill" or (name != "cast" and draw(st.integers(0, 3)) == 0):
            found.append(draw(arrays((1,), dtype))[0])
            continue
        # an instance's own rows can't be those that all share
        own = shape if place.apart else draw(broadcast_shape(shape))
        other, names = draw(memory("uvw"[k], draw(spaces), dtype, own, place, written=False, same_rank=True))
        found.append(other)
        symbols |= names
    dst = Operand("dst", data, threads, symbols)
    inputs = [Operand("abc"[k], f, threads, symbols) if isinstance(f, dict) else f for k, f in enumerate(found)]
    held = {o.name: draw(storage(o)) for o in (dst, *inputs) if isinstance(o, Operand)}
    if name in ("cast", "fill") and dst_type.is_integer:
        inputs, held = in_range(inputs, held)
    event(name)
    return Computation(name, scope, dst, inputs, held)


@st.composite
def broadcast_shape(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`."""
    found = tuple(draw(st.sampled_from((n, n, 1))) for n in shape)
    first = draw(st.integers(0, len(shape) - 1)) if draw(st.booleans()) else 0
    return found[first:]


@given(case=memory_computations(), target=st.sampled_from(TARGETS), at_run_time=st.booleans())
def test_elementwise_memory_computed(case: Computation, target: str, at_run_time: bool, device: Device) -> None:
    assume(not any(not isinstance(i, Operand) and DTYPES[_name(i)].is_fp8 for i in case.inputs))
    case.run(device, None if device.number >= 0 else target, at_run_time)


@given(case=computations(), target=st.sampled_from(TARGETS), at_run_time=st.booleans())
def test_elementwise_computations(case: Computation, target: str, at_run_time: bool, device: Device) -> None:
    # fp8 has no arithmetic, and scalars of it no parameters
    assume(not any(not isinstance(i, Operand) and DTYPES[_name(i)].is_fp8 for i in case.inputs))
    case.run(device, None if device.number >= 0 else target, at_run_time)
