"""The pytest plugin: which device and how many schedules it gives to tests, and what it costs that don't use it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent

KERNEL = '''
import numpy as np
import pytest
import tilejit as tj
from tilejit.testing import check

@tj.kernel(threads=64)
def last_one_wins(A: tj.Tensor):
    tj.atomic.exch(A[0], tj.thread_id() // 32)

def test_device():
    assert tj.device() == "sim:sm_80"

def test_schedules():
    check(last_one_wins, 1, np.zeros(1, np.int32), expected=np.ones(1, np.int32))

@pytest.mark.gpu
@pytest.mark.parametrize("n", range(3))
def test_gpu(n):
    assert tj.device().startswith("cuda")
'''


def pytest_says(folder: Path, *options: str, text: str = KERNEL) -> str:
    """What pytest prints with this plugin and no other."""
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("TILEJIT", "PYTEST"))}
    command = (sys.executable, "-m", "pytest", "-p", "tilejit.pytest_plugin", "-p", "no:cacheprovider", "-rs", *options)
    variables |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=variables)
    return run.stdout + run.stderr


def test_the_device_and_the_schedules_are_those_of_the_options(tmp_path: Path) -> None:
    text = pytest_says(tmp_path, "--tilejit-device", "sim:sm_80", "--tilejit-schedules", "16", "--strict-markers")
    assert "AssertionError: A[0] is 0, expected 1; wrong elements: 1 of 1; under schedule " in text
    assert ": needs a GPU, and --tilejit-device is sim:sm_80 (2 more cases)" in text
    assert "1 failed, 1 passed, 1 skipped, 2 deselected" in text


TICKET = '''
import numpy as np
import tilejit as tj
from tilejit.testing import check

@tj.kernel(threads=32)
def ticket(counter: tj.Tensor, out: tj.Tensor):
    if tj.thread_id() == 0:
        out[tj.cta_id(0)] = tj.atomic.add(counter[0], 1)

def test_ticket():
    arrays = [np.zeros(1, np.int32), np.zeros(2, np.int32)]
    check(ticket, 2, *arrays, expected=[np.array([2], np.int32), np.array([0, 1], np.int32)])
'''


def test_the_orders_are_those_of_the_option(tmp_path: Path) -> None:
    assert "1 passed" in pytest_says(tmp_path, text=TICKET)
    text = pytest_says(tmp_path, "--tilejit-orders", "all", text=TICKET)
    assert "1 failed" in text and re.search(r"in this order:\nE +CTA \(1, 0, 0\) sets counter\+0 to 1", text)
    refused = pytest_says(tmp_path, "--tilejit-orders", "some")
    assert "argument --tilejit-orders: 'some' is not a number of orders: pass 1, 2, ... or all" in refused


def test_a_device_that_is_not_there_ends_the_run_before_a_test(tmp_path: Path) -> None:
    text = pytest_says(tmp_path, "--tilejit-device", "gpu")
    assert "ERROR: --tilejit-device=gpu: unknown device 'gpu'\nhelp: write cuda, cuda:1, sim" in text
    assert "passed" not in text and "Traceback" not in text
    refused = pytest_says(tmp_path, "--tilejit-schedules", "0")
    assert "argument --tilejit-schedules: '0' is not a number of schedules: pass 1, 2, ..." in refused


@pytest.mark.gpu
def test_what_is_marked_runs_on_a_gpu(tmp_path: Path) -> None:
    assert "3 passed" in pytest_says(tmp_path, "-k", "test_gpu")


UNRELATED = """
import sys

def test():
    ours = {name for name in sys.modules if name.startswith("tilejit")}
    assert ours == {"tilejit", "tilejit.pytest_plugin"}
    assert not {"numpy", "llvmlite", "hypothesis", "cuda", "ml_dtypes"} & set(sys.modules)
"""


def test_tests_that_do_not_use_tilejit_import_only_the_plugin(tmp_path: Path) -> None:
    text = pytest_says(tmp_path, text=UNRELATED)
    assert "1 passed" in text, text
