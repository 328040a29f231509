"""Any copy that can be written moves every element to its place and no other, whichever variant carries it out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from tests.kernels.drawn_operands import (
    Data,
    Place,
    extents,
    is_static,
    memory,
    places,
    rearranged,
    region_shape,
    registers,
)
from tests.reference import tiles
from tests.support.operands import Operand, bits
from tests.support.proving import prove_verdict
from tests.support.running import launch
from tilejit.dtypes import DTYPES, DType
from tilejit.errors import DispatchError
from tilejit.ir import nodes
from tilejit.ir.arithmetic import build
from tilejit.runtime.device import Device
from tilejit.testing import dtypes

MEMORY_PAIRS = (("global", "shared"), ("shared", "global"))
ANY_PAIR = tuple((d, s) for d in ("global", "shared", "local") for s in ("global", "shared", "local"))
TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a")


class Copy:
    """One copy: its operation, its operands, and what its storages hold before."""

    def __init__(
        self, place: Place, sides: tuple[Data, Data], symbols: dict[str, int], fill: Any, variant: str | None, seed: int
    ) -> None:
        self.place = place
        self.dst, self.src = (
            Operand(n, d, place.threads, symbols) for n, d in zip(("dst", "src"), sides, strict=True)
        )
        # a constant is rounded to its type, and fp8 saturates
        constant = build.const(fill or 0, self.dst.dtype)
        self.fill = np.asarray(constant.value).astype(self.dst.dtype.numpy)
        value = () if fill is None else (constant,)
        attrs = () if variant is None else (("variant", variant),)
        self.operation = nodes.TileOp("copy", place.scope, (self.dst.region(), self.src.region(), *value), attrs)
        random = np.random.default_rng(seed)
        self.held = {o.name: bits(o, random) for o in (self.dst, self.src)}
        if self.src.space == "local":
            self.held["src"] = tiles.agreed(self.src, place.scope, self.held["src"])
            if self.dst.space != "local" and not place.apart:
                self.held["src"] = tiles.equal_in_instances(self.src, place.scope, self.held["src"])

    def __repr__(self) -> str:
        return (
            f"{self.place} {self.operation.attrs}\n  dst={self.dst.data}\n  src={self.src.data}\n"
            f"  symbols={self.dst.symbols} fill={self.fill}"
        )

    def run(self, device: Device, target: str | None) -> nodes.TileOp:
        """Runs it, compares, and returns the verdict."""
        fill = int(self.fill.view(f"u{self.fill.itemsize}"))
        expected = tiles.copied(self.dst, self.src, self.place.scope, self.held["dst"], self.held["src"], fill)
        found, made = launch(self.operation, [self.dst, self.src], self.held, device, target=target)
        np.testing.assert_array_equal(found, expected)
        (verdict,) = made.verdicts
        if is_static(self.dst.data) and is_static(self.src.data):
            prove_verdict(verdict)
        event(verdict.variant)
        event(f"{getattr(verdict.plan, 'vector_bits', 0)} bits at a time")
        return verdict


@st.composite
def fills(draw: st.DrawFn, dtype: DType) -> Any:
    """A fill of the type, or None for none."""
    if dtype.kind == "bool":
        return draw(st.sampled_from((None, True)))
    listed = [None, 0, 1, 5] + ([-1, 0.5] if dtype.is_float else [])
    return draw(st.sampled_from(listed + ([math.inf] if dtype.is_float and dtype.name != "float8_e4m3fn" else [])))


@st.composite
def memory_copies(draw: st.DrawFn, pairs: tuple[tuple[str, str], ...], variant: str | None = None) -> Copy:
    """A copy between two memories."""
    scope, threads = draw(places())
    place = Place(scope, threads, scope != "cta" and draw(st.booleans()))
    dtype, shape = draw(dtypes()), draw(extents(1024 // place.instances if place.apart else 1024))
    spaces = draw(st.sampled_from(pairs))
    dst, first = draw(memory("x", spaces[0], dtype, shape, place, written=True))
    src, second = draw(memory("y", spaces[1], dtype, shape, place, written=False))
    return Copy(place, (dst, src), first | second, draw(fills(dtype)), variant, draw(st.integers(0, 2**32 - 1)))


@st.composite
def register_copies(draw: st.DrawFn, variant: str | None = None, windowed: bool = False) -> Copy:
    """A copy between registers and a memory."""
    scope, threads = draw(places())
    dtype = draw(dtypes())
    tile = draw(registers(dtype, scope, threads, windowed=windowed))
    loads = draw(st.booleans())
    # instances must not store different values in one place, so their places are disjoint or their values equal
    place = Place(scope, threads, scope != "cta" and draw(st.booleans()))
    space = draw(st.sampled_from(("global", "shared")))
    other, symbols = draw(memory("x", space, dtype, region_shape(tile) or (1,), place, written=not loads))
    sides = (tile, other) if loads else (other, tile)
    return Copy(place, sides, symbols, draw(fills(dtype)), variant, draw(st.integers(0, 2**32 - 1)))


@st.composite
def local_copies(draw: st.DrawFn) -> Copy:
    """A copy from a local tile to another one that lies in the same threads, its registers in another order."""
    scope, threads = draw(places())
    dtype = draw(dtypes())
    src = draw(registers(dtype, scope, threads))
    dst = draw(rearranged(src))
    return Copy(Place(scope, threads), (dst, src), {}, None, None, draw(st.integers(0, 2**32 - 1)))


@st.composite
def matrix_copies(draw: st.DrawFn) -> Copy:
    """A copy between shared memory and registers in the order in which ldmatrix and stmatrix deal out 8x8 tiles."""
    scope, threads = draw(st.sampled_from((("warp", 32), ("warp", 64), ("warpgroup", 128), ("cta", 64), ("cta", 96))))
    dtype = DTYPES[draw(st.sampled_from(("float16", "bfloat16", "int16", "uint16")))]
    warps = 1 if scope == "warp" else threads // 32
    tiles = draw(st.lists(st.sampled_from((2, 2, 3, 4)), max_size=2))
    registers_of_tile, step = [], 2
    for k in draw(st.permutations(range(len(tiles)))):
        registers_of_tile.append((k, step))
        step *= tiles[k]
    own = dict(registers_of_tile)
    axis = "wid_in_wg" if scope == "warpgroup" else "warpid"
    digits = {"warp": (warps, 1, axis), "row": (8, 4, "laneid"), "pair": (4, 1, "laneid"), "half": (2, 1, "m")}
    digits |= {f"tile{k}": (n, own[k], "m") for k, n in enumerate(tiles)}
    if warps == 1:
        del digits["warp"]
    strides = draw(matrix_strides({name: extent for name, (extent, _, _) in digits.items()}))
    order = draw(st.permutations(list(digits)))
    shape = [digits[name][0] for name in order]
    common = {"dtype": dtype.name, "shape": shape, "region": [(0, n) for n in shape]}
    tile = {**common, "scope": "local", "layout": {"shard": [digits[name] for name in order]}}
    other = {**common, "scope": "shared", "layout": {"shard": [(digits[n][0], strides[n], "m") for n in order]}}
    if draw(st.booleans()):
        bits = draw(st.integers(1, 3))
        other["layout"]["swizzle"] = {"per_element": 3, "swizzle_len": bits, "atom_len": 3, "inner": True}
    sides = (tile, other) if draw(st.booleans()) else (other, tile)
    return Copy(Place(scope, threads), sides, {}, None, None, draw(st.integers(0, 2**32 - 1)))


@st.composite
def matrix_strides(draw: st.DrawFn, extents: dict[str, int]) -> dict[str, int]:
    """Where each digit leads in memory: rows or columns of 8 elements together, all else in any order, with gaps."""
    is_column = draw(st.booleans())
    strides = {"row": 1} if is_column else {"half": 1, "pair": 2}
    step = 8
    for name in draw(st.permutations([n for n in extents if n not in strides and n != "pair"])):
        strides[name] = step
        if is_column and name == "half":
            strides["pair"] = 2 * step
        step *= 8 if is_column and name == "half" else extents[name]
        # a gap that isn't a multiple of 8 elements leaves the copy to another variant
        step += draw(st.sampled_from((0, 0, 0, 8, 16, 4)))
    return strides


@given(case=matrix_copies(), target=st.sampled_from(TARGETS))
def test_ldstmatrix_copies(case: Copy, target: str, device: Device) -> None:
    verdict = case.run(device, None if device.number >= 0 else target)
    assert verdict.variant in ("ldstmatrix", "reg")


@given(case=memory_copies((("shared", "global"),)), target=st.sampled_from(TARGETS[1:]))
def test_ldgsts_copies(case: Copy, target: str, device: Device) -> None:
    case.operation = replace(case.operation, name="copy_async", operands=case.operation.operands[:2])
    case.fill = np.zeros_like(case.fill)
    try:
        verdict = case.run(device, None if device.number >= 0 else target)
    except DispatchError as error:
        event("refused")
        assert all(text in str(error) for text in ("ldgsts", "no variant accepts"))
        return
    assert verdict.variant == "ldgsts"


@given(case=memory_copies(MEMORY_PAIRS), target=st.sampled_from(TARGETS))
def test_gmem_smem_copies(case: Copy, target: str, device: Device) -> None:
    verdict = case.run(device, None if device.number >= 0 else target)
    assert verdict.variant in ("gmem_smem", "fallback")


@given(case=register_copies(), target=st.sampled_from(TARGETS))
def test_reg_copies(case: Copy, target: str, device: Device) -> None:
    verdict = case.run(device, None if device.number >= 0 else target)
    assert verdict.variant in ("reg", "ldstmatrix", "fallback")


@given(case=memory_copies(tuple(p for p in ANY_PAIR if "local" not in p), "fallback"), target=st.sampled_from(TARGETS))
def test_fallback_copies_between_memories(case: Copy, target: str, device: Device) -> None:
    case.run(device, None if device.number >= 0 else target)


@given(case=register_copies("fallback", windowed=True), target=st.sampled_from(TARGETS))
def test_fallback_copies_of_registers(case: Copy, target: str, device: Device) -> None:
    case.run(device, None if device.number >= 0 else target)


@given(case=local_copies(), target=st.sampled_from(TARGETS))
def test_fallback_copies_between_registers(case: Copy, target: str, device: Device) -> None:
    case.run(device, None if device.number >= 0 else target)
