"""The benchmark of fragments multiplies right, with the instructions that it counts."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

import tilejit as tj
from tests.bench.bench_fragments import K, M, N, again, instructions
from tests.support.ptxas import ptxas_path

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("step", [16, 32, 64])
def test_every_round_adds_one_product_however_much_of_k_a_step_loads(step: int) -> None:
    random = np.random.default_rng(step)
    a, b = (random.integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    c = np.zeros((M, N), np.float32)
    with tj.use_device("sim:sm_90a"):
        again[2](a, b, c, 3, STEP=step)
    assert np.array_equal(c, 3 * (a.astype(np.float32) @ b.astype(np.float32)))


def test_the_instructions_are_counted_in_sass(monkeypatch: pytest.MonkeyPatch) -> None:
    ptxas = ptxas_path()
    if ptxas is not None:
        monkeypatch.setenv("PATH", f"{ptxas.parent}{os.pathsep}{os.environ['PATH']}")
    if shutil.which("ptxas") is None or shutil.which("cuobjdump") is None:
        pytest.skip("no ptxas or no cuobjdump: install the CUDA tools")
    specs = (tj.spec((M, K), tj.float16), tj.spec((K, N), tj.float16), tj.spec((M, N), tj.float32))
    found = instructions(again.compile(*specs, 1, STEP=16, target="sm_90a").ptx)
    # of a warp: 64 x 64 of C by 16 x 8 x 16; 4 tiles of 8 x 8 of A and of B at a time
    assert (found["HMMA"], found["LDSM"]) == (4 * 8 * 4, 4 * 4 + 4 * 4)
