"""The benchmark of layouts compiles without a GPU, and its ways to transpose a tile all do it."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.bench.bench_layouts import THREADS, access_probes, check, kind, row, softmax, transpose_of, weight_probes
from tilejit.lower import weights

pytestmark = pytest.mark.integration


def test_every_weight_of_an_instruction_has_a_probe() -> None:
    named = " ".join(probe.name for probe in weight_probes())
    measured_otherwise = {"SECTOR", "LINE", "PARTIAL", "SPILL", "FREE_REGISTERS", "STAGED"}
    assert all(name in named for name in vars(weights) if name.isupper() and name not in measured_otherwise)


def test_probes_compile() -> None:
    assert check(["weights"]) == len(list(weight_probes()))


@pytest.mark.parametrize("number", range(0, 24, 5))
def test_an_access_is_as_wide_as_its_name_says(number: int) -> None:
    probe = list(access_probes())[number]
    ptx = probe.kernel.compile(*(tj.spec(*array) for array in probe.arrays), 1, target="sm_90a").ptx
    run = int(probe.name.split()[-2])
    instruction = {2: "b16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}[run]
    assert ptx.count(f"ld.global.{instruction} ") == 4


@pytest.mark.parametrize("dtype", [tj.float32, tj.float16])
def test_all_ways_transpose(dtype: tj.DType) -> None:
    choice = transpose_of((64, 64), dtype, 128, 128)
    x = np.random.default_rng(3).standard_normal((128, 128)).astype(dtype.numpy)
    for way in choice.ways:
        y = np.full_like(x, np.nan)
        with tj.use_device("sim:sm_90a"):
            way.kernel[choice.grid](x, y)
        assert np.array_equal(y, x.T), way.name
    assert [way.name for way in choice.ways if way.is_chosen] == ["open: blocks"]
    costs = {way.name: way.cost for way in choice.ways}
    assert costs["open: blocks"] == min(costs.values())


def test_candidates_differ_in_cost_and_layout() -> None:
    arrays = (((64, 128), tj.float32), ((64, 128), tj.float32))
    choice = row(softmax, 128, 32, 128, arrays, 2, lambda x: x)
    assert sorted({way.cost for way in choice.ways}) == [way.cost for way in choice.ways]
    specs = [tj.spec(*array) for array in arrays]
    compiled = [way.kernel.compile(*specs, M=32, N=128, target="sm_90a") for way in choice.ways]
    made = [each.derivation.layouts[0] for each in compiled]
    assert [layout.cost for layout in made] == [way.cost for way in choice.ways]
    assert len({layout.grid for layout in made}) == 3 and kind(made[0].grid) == "rows" and THREADS == 256
