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

from tests import harness, longhand
from tests.harness import Operand
from tilejit.ir import nodes
from tilejit.ops.elementwise import ELEMENTWISE, reference
from tilejit.runtime import devices
from tilejit.runtime.device import Device

DATA = Path(__file__).parent.parent / "data"
DEVICES = ["sim", pytest.param("cuda", marks=pytest.mark.gpu)]


def cases(name: str) -> list[Any]:
    listed = json.loads((DATA / f"{name}.json").read_text())
    return [pytest.param(c, id=c["id"]) for c in listed if c["kind"] == "dispatch" and c["expect"]["result"] == "ok"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Device:
    return devices.named(request.param)


def operands_of(case: dict[str, Any], names: list[str], data: list[dict[str, Any]]) -> list[Operand]:
    symbols = harness.symbol_values(data)
    return [Operand(n, d, case["cta_threads"], symbols) for n, d in zip(names, data, strict=True)]


def storages(operands: list[Operand], seed: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(np.frombuffer(seed.encode(), np.uint8))
    return {o.name: harness.aligned(harness.bits(o, random)) for o in operands}


def launch(operation: nodes.TileOp, operands: list[Operand], held: dict[str, np.ndarray], device: Device) -> np.ndarray:
    """Runs the kernel around `operation`; returns the destination's storage."""
    dst = operands[0]
    arrays = {o.name if o.space == "global" else f"{o.name}_in": held[o.name].copy() for o in operands}
    arrays = {name: harness.aligned(array) for name, array in arrays.items()}
    result = dst.name
    if dst.space != "global":
        result = f"{dst.name}_out"
        arrays[result] = harness.aligned(np.zeros_like(held[dst.name]))
    target = "sm_90a" if device.number >= 0 else "sm_100a"
    kernel = harness.kernel_around(operation, operands, dst.threads, target)
    harness.run(kernel, arrays, dst.symbols, device)
    return arrays[result]


@pytest.mark.parametrize("case", cases("copy_gmem_smem") + cases("copy_reg") + cases("copy_fallback"))
def test_a_copy_case_moves_every_element_to_its_place_and_no_other(case: dict[str, Any], device: Device) -> None:
    dst, src = operands_of(case, ["dst", "src"], [case["dst"], case["src"]])
    held = storages([dst, src], case["id"])
    operation = nodes.TileOp("copy", case["scope"], (dst.region(), src.region()))
    found = launch(operation, [dst, src], held, device)
    expected = harness.copied(dst, src, case["scope"], held["dst"], held["src"])
    np.testing.assert_array_equal(found, expected)
