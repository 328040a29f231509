"""`pytest --gpu-sim` on a project whose tests launch Triton's kernels, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

pytest.importorskip("torch", reason="torch isn't installed")
pytest.importorskip("triton", reason="Triton isn't installed")

ROOT = Path(__file__).parent.parent.parent

CONFTEST = """
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
"""

TESTS = """
import pytest
import torch
import triton
import triton.language as tl

from conftest import DEVICE

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

@triton.autotune([triton.Config({"BLOCK": block}) for block in (128, 256)], key=["n"])
@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)

@triton.jit
def copy(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at))

def doubled(n):
    x = torch.ones(n, device=DEVICE)
    double[lambda values: (triton.cdiv(n, values["BLOCK"]),)](x, n)
    return x

@needs_gpu
@pytest.mark.parametrize("n", [100, 200])
def test_right(n):
    x = doubled(n)
    assert (x == x[0]).all()

@needs_gpu
def test_wrong():
    copy[(1,)](torch.ones(100, device=DEVICE), torch.zeros(128, device=DEVICE), BLOCK=128)

@needs_gpu
def test_that_catches_the_error():
    with pytest.raises(Exception):
        copy[(1,)](torch.empty(128, device=DEVICE), torch.zeros(128, device=DEVICE), BLOCK=128)
"""


NUMBA = """
import numpy as np
import pytest
from numba import cuda

@cuda.jit
def double(x):
    at = cuda.grid(1)
    x[at] *= 2

@pytest.mark.parametrize("n", [64, 60])
def test_double(n):
    x = cuda.to_device(np.ones(n, np.float32))
    double[1, 64](x)
    assert (x.copy_to_host() == 2).all()
"""


LATE = NUMBA + """
@pytest.fixture
def late():
    yield
    with pytest.raises(Exception):
        double[1, 64](cuda.to_device(np.ones(60, np.float32)))

def test_late(late):
    pass
"""


def pytest_says(folder: Path, *options: str, tests: str = TESTS) -> str:
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(tests, encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("TILEJIT", "PYTEST"))}
    plugins = ("-p", "tilejit.pytest_plugin", "-p", "no:cacheprovider")
    variables |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CUDA_VISIBLE_DEVICES": ""}
    run = subprocess.run(
        (sys.executable, "-m", "pytest", *plugins, *options), cwd=folder, capture_output=True, text=True, env=variables
    )
    return run.stdout + run.stderr


def test_findings_fail_tests_and_the_summary_counts_them(tmp_path: Path) -> None:
    text = pytest_says(tmp_path, "--gpu-sim=sm_80", "--junitxml=report.xml")
    assert "2 failed, 2 passed" in text
    assert "element 100 of float32[100]; x_ptr has 400 bytes" in text
    line = TESTS[: TESTS.index("tl.store(out_ptr")].count("\n") + 1
    assert f"test_it.py:{line}" in text
    # even if the test expects an exception
    assert "error [undefined] (128 times): thread 0 " in text
    # two sizes, each with two configurations and then the best one
    assert "simulated sm_80: 2 kernels, 8 launches, 2 findings, " in text
    assert "element 100 of float32[100]" in (tmp_path / "report.xml").read_text(encoding="utf-8")


def test_the_first_configuration_only(tmp_path: Path) -> None:
    text = pytest_says(tmp_path, "--gpu-sim", "--gpu-sim-autotune=first", "--gpu-sim-schedules=2", "-k", "test_right")
    assert "2 passed" in text
    assert "simulated sm_90: 1 kernel, 2 launches, 0 findings, " in text


def test_all_orders(tmp_path: Path) -> None:
    assert "2 passed" in pytest_says(tmp_path, "--gpu-sim", "--gpu-sim-orders=all", "-k", "test_right")


@pytest.mark.parametrize("path", [".", "test_it.py", "test_it.py::test_right"])
def test_paths_after_the_option(tmp_path: Path, path: str) -> None:
    text = pytest_says(tmp_path, "--gpu-sim", path, "-k", "test_right", "--gpu-sim-autotune=first")
    assert "2 passed" in text
    assert "simulated sm_90: 1 kernel, 2 launches, 0 findings, " in text


def test_in_processes_of_xdist(tmp_path: Path) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist isn't installed")
    text = pytest_says(tmp_path, "--gpu-sim", ".", "-p", "xdist", "-n", "2", "--gpu-sim-sarif=found.sarif")
    assert "2 failed, 2 passed" in text
    assert "simulated sm_90: 2 kernels, 8 launches, 2 findings, " in text
    assert rules_in(tmp_path / "found.sarif") == ["bounds", "undefined"]


def rules_in(file: Path) -> list[str]:
    (run,) = json.loads(file.read_text(encoding="utf-8"))["runs"]
    return sorted(result["ruleId"] for result in run["results"])


def test_numba(tmp_path: Path) -> None:
    pytest.importorskip("numba_cuda", reason="numba-cuda isn't installed")
    text = pytest_says(tmp_path, "--gpu-sim=sm_80", "--gpu-sim-sarif=new/found.sarif", tests=NUMBA)
    assert "1 failed, 1 passed" in text
    assert "simulated sm_80: 1 kernel, 2 launches, 1 finding, " in text
    assert rules_in(tmp_path / "new" / "found.sarif") == ["bounds"]


def test_findings_of_fixtures_fail_tests_when_they_end(tmp_path: Path) -> None:
    pytest.importorskip("numba_cuda", reason="numba-cuda isn't installed")
    text = pytest_says(tmp_path, "--gpu-sim", "-k", "late", tests=LATE)
    assert "1 passed, 2 deselected, 1 error" in text
    assert "error [bounds] (8 times): thread 60 " in text


def test_without_the_option_nothing_is_simulated_or_imported(tmp_path: Path) -> None:
    text = pytest_says(tmp_path)
    assert "4 skipped" in text and "simulated" not in text
    unrelated = "import sys\ndef test(): assert not [x for x in sys.modules if x.startswith('tilejit.s')]\n"
    assert "1 passed" in pytest_says(tmp_path, tests=unrelated)


def test_bad_options_end_the_run(tmp_path: Path) -> None:
    text = pytest_says(tmp_path, "--gpu-sim", "sm90")
    assert "argument --gpu-sim: 'sm90' is not an architecture: write --gpu-sim=sm_90" in text
    assert "--gpu-sim=test_it.py: unknown arch 'test_it.py'" in pytest_says(tmp_path, "--gpu-sim=test_it.py")
    text = pytest_says(tmp_path, "--gpu-sim=sm_12")
    assert "--gpu-sim=sm_12: unknown arch 'sm_12'" in text and "Traceback" not in text
