"""Every upstream case of the copy and elementwise variants, compiled to PTX and run with all checks on.

The whole storage of the destination is compared, so that an element moved to a wrong place is found, and one that
should have been left alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import harness
from tests.harness import Operand
from tests.kernels.tolerances import tolerance
from tilejit.dtypes import DTYPES
from tilejit.ir import build, nodes
from tilejit.runtime.device import Device
from tilejit.testing import assert_equal

DATA = Path(__file__).parent.parent / "data"


def cases(name: str) -> list[Any]:
    listed = json.loads((DATA / f"{name}.json").read_text())
    return [pytest.param(c, id=c["id"]) for c in listed if c["kind"] == "dispatch" and c["expect"]["result"] == "ok"]


def operands_of(case: dict[str, Any], names: list[str], data: list[dict[str, Any]]) -> list[Operand]:
    symbols = harness.symbol_values(data)
    return [Operand(n, d, case["cta_threads"], symbols) for n, d in zip(names, data, strict=True)]


def storages(operands: list[Operand], seed: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(np.frombuffer(seed.encode(), np.uint8))
    return {o.name: harness.bits(o, random) for o in operands}


@pytest.mark.parametrize("case", cases("copy_gmem_smem") + cases("copy_reg") + cases("copy_fallback"))
def test_a_copy_case_moves_every_element_to_its_place_and_no_other(case: dict[str, Any], device: Device) -> None:
    copies_as_it_should(case, device)


@pytest.mark.parametrize("case", cases("copy_ldstmatrix"))
def test_a_matrix_copy_moves_every_element_to_its_place_and_no_other(
    case: dict[str, Any], device: Device
) -> None:
    copies_as_it_should(case, device)


@pytest.mark.parametrize("case", cases("copy_async_ldgsts"))
def test_an_asynchronous_copy_moves_every_element_to_its_place_and_no_other(
    case: dict[str, Any], device: Device
) -> None:
    copies_as_it_should(case, device)


def copies_as_it_should(case: dict[str, Any], device: Device) -> None:
    dst, src = operands_of(case, ["dst", "src"], [case["dst"], case["src"]])
    held = storages([dst, src], case["id"])
    if src.space == "local" and '"sym": "t' not in json.dumps(case["dst"]):
        # every instance writes to one place, which is no race where the values are equal
        held["src"] = harness.alike(src, case["scope"], held["src"])
    operation = nodes.TileOp(case["op"], case["scope"], (dst.region(), src.region()))
    found, _ = harness.launch(operation, [dst, src], held, device)
    expected = harness.copied(dst, src, case["scope"], held["dst"], held["src"])
    np.testing.assert_array_equal(found, expected)


#: upstream's names for ours, and how many inputs its operations have that ours have too: no bias, no scale
NAMES = {"fdiv": "div", "zero": "fill"}
ARITY = {"add": 2, "sub": 2, "mul": 2, "fdiv": 2, "maximum": 2, "fma": 3}
ZERO = {"const": 0.0, "dtype": "float32"}


@pytest.mark.parametrize("case", cases("elementwise_reg") + cases("elementwise_smem"))
def test_an_elementwise_case_computes_every_element_and_touches_no_other(case: dict[str, Any], device: Device) -> None:
    name, scope = NAMES.get(case["op"], case["op"]), case["scope"]
    given = [ZERO] if case["op"] == "zero" else case["inputs"][: ARITY.get(case["op"], 1)]
    data = [case["dst"], *(i for i in given if "shape" in i)]
    dst, *tiles = operands_of(case, ["dst", "a", "b", "c"][: len(data)], data)
    held = storages([dst, *tiles], case["id"])
    held = {t.name: harness.agreed(t, scope, held[t.name]) for t in (dst, *tiles)}
    inputs, operands, scalars = mixed(given, tiles)
    operation = nodes.TileOp(name, scope, (dst.region(), *operands))
    found, _ = harness.launch(operation, [dst, *tiles], held, device, scalars)
    expected = harness.computed(name, dst, inputs, scope, held["dst"], held)
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
