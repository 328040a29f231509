"""Every upstream case of copies, elementwise operations and products, compiled to PTX and run with all checks on.

The whole storage of the destination is compared, so that an element moved to a wrong place is found, and one that
should have been left alone.
"""

from __future__ import annotations

import json
import re
from math import prod
from typing import Any

import numpy as np
import pytest

from tests.reference import tiles
from tests.reference.tiles import put
from tests.support.operands import Operand, bits, symbol_values
from tests.support.running import launch
from tests.support.tolerances import tolerance
from tests.support.upstream import load
from tilejit.compiled import Compiled
from tilejit.dtypes import DTYPES
from tilejit.ir import nodes
from tilejit.ir.arithmetic import build
from tilejit.runtime.device import Device
from tilejit.testing import assert_equal


def cases(name: str) -> list[Any]:
    accepted = (c for c in load(name) if c["kind"] == "dispatch" and c["expect"]["result"] == "ok")
    return [pytest.param(c, id=c["id"]) for c in accepted]


def operands_of(case: dict[str, Any], names: list[str], data: list[dict[str, Any]]) -> list[Operand]:
    symbols = symbol_values(data)
    return [Operand(n, d, case["cta_threads"], symbols) for n, d in zip(names, data, strict=True)]


def storages(operands: list[Operand], seed: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(np.frombuffer(seed.encode(), np.uint8))
    return {o.name: bits(o, random) for o in operands}


@pytest.mark.parametrize("case", cases("copy_gmem_smem") + cases("copy_reg") + cases("copy_fallback"))
def test_a_copy_case_moves_every_element_to_its_place_and_no_other(case: dict[str, Any], device: Device) -> None:
    copies_as_it_should(case, device)


@pytest.mark.parametrize("case", cases("copy_ldstmatrix"))
def test_a_matrix_copy_moves_every_element_to_its_place_and_no_other(case: dict[str, Any], device: Device) -> None:
    made = copies_as_it_should(case, device)
    (wanted,) = case["expect"]["instructions"]
    assert made.ptx.count(wanted["op"] + " ") == wanted["trips"]


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64"])
@pytest.mark.parametrize("loads", [True, False])
def test_a_matrix_copy_of_other_than_16_bits_moves_every_element_without_the_instruction(
    dtype: str, loads: bool, device: Device
) -> None:
    (defect,) = (c["setup"] for c in load("copy_ldstmatrix") if c["kind"] == "upstream_defect")
    assert dtype in defect["dtypes"]
    shape = [i[0] for i in defect["reg"]["shard"]]
    whole = {"dtype": dtype, "shape": shape, "region": [[0, n] for n in shape]}
    tile = {**whole, "scope": "local", "layout": defect["reg"]}
    memory = {**whole, "scope": "shared", "layout": defect["mem"]}
    dst, src = (tile, memory) if loads else (memory, tile)
    case = {"id": dtype, "op": "copy", "scope": defect["scope"], "cta_threads": 32, "dst": dst, "src": src}
    assert "matrix" not in copies_as_it_should(case, device).ptx


@pytest.mark.parametrize("case", cases("copy_async_ldgsts"))
def test_an_asynchronous_copy_moves_every_element_to_its_place_and_no_other(
    case: dict[str, Any], device: Device
) -> None:
    made = copies_as_it_should(case, device)
    (wanted,) = case["expect"]["instructions"]
    copies = re.findall(r"cp\.async\.c[ag]\.shared\.global \[%r\d+(?:\+\d+)?\], \[%rd\d+\], (\d+)", made.ptx)
    assert copies == [str(wanted["bytes"])] * wanted["trips"]


def copies_as_it_should(case: dict[str, Any], device: Device) -> Compiled:
    dst, src = operands_of(case, ["dst", "src"], [case["dst"], case["src"]])
    held = storages([dst, src], case["id"])
    if src.space == "local" and '"sym": "t' not in json.dumps(case["dst"]):
        # every instance writes to one place, which is no race where the values are equal
        held["src"] = tiles.equal_in_instances(src, case["scope"], held["src"])
    operation = nodes.TileOp(case["op"], case["scope"], (dst.region(), src.region()))
    found, made = launch(operation, [dst, src], held, device)
    expected = tiles.copied(dst, src, case["scope"], held["dst"], held["src"])
    np.testing.assert_array_equal(found, expected)
    return made


@pytest.mark.parametrize("case", cases("gemm_mma"))
def test_a_product_case_adds_to_every_sum_of_small_integers_and_touches_no_other(
    case: dict[str, Any], device: Device
) -> None:
    factors = [transposed(case[n]) if case[f"transpose_{n.lower()}"] else case[n] for n in "AB"]
    tiles = operands_of(case, ["acc", "a", "b"], [case["D"], *factors])
    random = np.random.default_rng(np.frombuffer(case["id"].encode(), np.uint8))
    values = {t.name: random.integers(-4, 5, t.count).astype(t.dtype.numpy) for t in tiles}
    if case["expect"]["init"] == "zero":
        values["acc"][:] = 0
    held = {name: v.view(f"u{v.itemsize}") for name, v in values.items()}
    operation = nodes.TileOp("gemm", case["scope"], tuple(t.region() for t in tiles))
    found, made = launch(operation, tiles, held, device)
    acc, a, b = (matrix(t, values[t.name]) for t in tiles)
    expected = values["acc"].copy()
    totals = (acc + a @ b).astype(expected.dtype).ravel()
    put(expected, tiles[0].slots(tiles[0].indices(0), 0), totals)
    np.testing.assert_array_equal(found.view(expected.dtype), expected)
    assert made.ptx.count(case["expect"]["ptx"] + " ") == case["expect"]["issues"]


def transposed(data: dict[str, Any]) -> dict[str, Any]:
    """The same registers under swapped indices."""
    shard, shape = data["layout"]["shard"], data["shape"]
    (cut,) = (k for k in range(len(shard)) if prod(i[0] for i in shard[:k]) == shape[0])
    swapped = {name: data[name][::-1] for name in ("shape", "region")}
    return {**data, **swapped, "layout": {"shard": [*shard[cut:], *shard[:cut]]}}


def matrix(tile: Operand, storage: np.ndarray) -> np.ndarray:
    """The values of a tile of one warp, for sums that are exact."""
    values = storage[tile.slots(tile.indices(0), 0)[:, 0]]
    return values.astype(np.float64).reshape(tile.data["shape"])


#: upstream's names for ours, and how many inputs its operations have that ours have too: no bias, no scale
NAMES = {"fdiv": "div", "zero": "fill"}
ARITY = {"add": 2, "sub": 2, "mul": 2, "fdiv": 2, "maximum": 2, "fma": 3}
ZERO = {"const": 0.0, "dtype": "float32"}


@pytest.mark.parametrize("case", cases("elementwise_reg") + cases("elementwise_smem"))
def test_an_elementwise_case_computes_every_element_and_touches_no_other(case: dict[str, Any], device: Device) -> None:
    name, scope = NAMES.get(case["op"], case["op"]), case["scope"]
    given = [ZERO] if case["op"] == "zero" else case["inputs"][: ARITY.get(case["op"], 1)]
    data = [case["dst"], *(i for i in given if "shape" in i)]
    dst, *sources = operands_of(case, ["dst", "a", "b", "c"][: len(data)], data)
    held = storages([dst, *sources], case["id"])
    held = {t.name: tiles.agreed(t, scope, held[t.name]) for t in (dst, *sources)}
    inputs, operands, scalars = mixed(given, sources)
    operation = nodes.TileOp(name, scope, (dst.region(), *operands))
    found, _ = launch(operation, [dst, *sources], held, device, scalars)
    expected = tiles.computed(name, dst, inputs, scope, held["dst"], held)
    dtype = dst.dtype.numpy
    assert_equal("dst", found.view(dtype), expected.view(dtype), ulp=tolerance(name, dst.dtype))


def mixed(
    given: list[dict[str, Any]], tiles: list[Operand]
) -> tuple[list[Operand | np.generic], list[nodes.Region | nodes.Expr], dict[nodes.Var, float]]:
    """The inputs for the oracle and for the kernel: tiles, constants, and run-time scalars where upstream loads one."""
    left = iter(tiles)
    inputs: list[Operand | np.generic] = []
    operands: list[nodes.Region | nodes.Expr] = []
    scalars: dict[nodes.Var, float] = {}
    for entry in given:
        if "shape" in entry:
            inputs.append(next(left))
            operands.append(inputs[-1].region())
            continue
        dtype = DTYPES[entry["dtype"]]
        inputs.append(dtype.numpy.type(entry.get("const", 1.25)))
        operands.append(build.const(float(inputs[-1]), dtype))
        if "const" not in entry:
            operands[-1] = nodes.Var(f"scalar{len(scalars)}", dtype)
            scalars[operands[-1]] = 1.25
    return inputs, operands, scalars
