"""The ten-line tests of `examples/testing` pass, and find the bug that is put into each kernel, in a small example."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "examples" / "testing"

#: what pytest runs here: the same examples each time, a few of them where nothing is to be found
SETTINGS = """
from hypothesis import Phase, settings
settings.register_profile(
    "here", max_examples={examples}, database=None, derandomize=True, phases=[Phase.generate, Phase.shrink]
)
settings.load_profile("here")
"""


class Bug(NamedTuple):
    """What is wrong in a kernel. test: that finds it. right, wrong: the lines. says: how it is reported.

    example: the smallest input that shows it.
    """

    test: str
    right: str
    wrong: str
    says: str
    example: str


BUGS = [
    Bug("edges", "if i < X.shape[0]:\n        Y[i] = X[i] + X[i]", "if i <= X.shape[0]:\n        Y[i] = X[i] + X[i]",
        "OutOfBoundsError: index 1 is outside dimension 0 of X, whose extent is 1",
        r"x=array\(\[0\], dtype=int32\)"),
    Bug("barriers", "        staged[i] = X[i]\n    tj.cta_sync()\n", "        staged[i] = X[i]\n",
        "RaceError: race in shared memory", r"x=array\(\[0, 0\], dtype=int32\)"),
    Bug("masks", "if r < X.shape[0] and c < X.shape[1]", "if r < X.shape[1] and c < X.shape[0]",
        "OutOfBoundsError: index 1 is outside dimension 0 of X, whose extent is 1",
        r"x=array\(\[\[0, 0\]\], dtype=int16\)"),
    Bug("axes", "axis=1", "axis=0", r"Y\[\d\] is -?\d+, expected",
        r"x=array_of\(\(8, 8\), 'int32', 'zeros', special=\(-?\d,\), "),
    Bug("overflow", "x, y = tj.uint16(X[i]), tj.uint16(Y[i])", "x, y = X[i], Y[i]", r"Z\[0\] is 127, expected 255",
        r"xy=\(array\(\[255\], dtype=uint8\), array\(\[255\], dtype=uint8\)\)"),
    Bug("races", "tj.atomic.add(H[X[i]], 1)", "H[X[i]] += 1", "RaceError: race in global memory",
        r"x=array\(\[0, 0\], dtype=int32\)"),
    Bug("uninitialized", "    partial[i] = 0\n", "", "UninitializedReadError: .* at .*partial",
        r"x=array\(\[0\], dtype=int32\)"),
    Bug("nans", "tj.maximum(X[i], 0.0)", "tj.where(X[i] > 0.0, X[i], 0.0)",
        r"Y\[0\] is 0\.0, expected nan; wrong elements: 1 of 1", r"x=array\(\[nan\], dtype=float32\)"),
    Bug("strides", "i // columns * pitch", "i // columns * columns", r"Y\[\d+\] is \d+, expected",
        r"x=array_of\(\(\d, 4\), 'uint8', 'zeros', "),
    Bug("identities", "tj.float32(-tj.inf)", "tj.float32(0)", r"Y\[0\] is 0\.0, expected -",
        r"x=array\(\[\[-\d\.\]\], dtype=float32\)"),
    Bug("accuracy", "1.0 / (1.0 + tj.exp(-X[i]))", "tj.fast.div(1.0, 1.0 + tj.fast.exp(-X[i]))",
        r"Y\[\d\] is .*ulp apart", r"x=array\(\[-?\d+\., -?\d+\.\], dtype=float32\)"),
    # the simulator's usual order gives the right result
    Bug("orders", "tj.atomic.max(Y[0], i)", "tj.atomic.exch(Y[0], i)",
        r"Y\[0\] is \d+, expected \d+; .* under schedule",
        r"x=array_of\(\((33|64|65),\), 'int32', 'ones'.*\),\nE +launch=DrawnLaunch\(5, schedule=\d+\)"),
]


def pytest_says(folder: Path, kernels: str, examples: int) -> str:
    """What pytest prints for the tests with these kernels."""
    shutil.copytree(TESTS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "kernels.py").write_text(kernels, encoding="utf-8")
    (folder / "conftest.py").write_text(SETTINGS.format(examples=examples), encoding="utf-8")
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "-q")
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TILEJIT_DEVICE": "sim", "COLUMNS": "200"},
    )
    return run.stdout + run.stderr


KERNELS = (TESTS / "kernels.py").read_text("utf-8")


def test_they_pass_and_have_ten_lines(tmp_path: Path) -> None:
    files = sorted(TESTS.glob("test_*.py"))
    assert {file.stem for file in files} == {f"test_{bug.test}" for bug in BUGS}
    for file in files:
        code = file.read_text("utf-8").split('"""')[2]
        assert sum(bool(line.strip()) for line in code.splitlines()) <= 10, file.name
    assert f"{len(BUGS)} passed" in pytest_says(tmp_path, KERNELS, examples=4)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By test, what is said where every kernel has its bug."""
    kernels = KERNELS
    for bug in BUGS:
        assert kernels.count(bug.right) == 1, bug.test
        kernels = kernels.replace(bug.right, bug.wrong)
    text = pytest_says(tmp_path_factory.mktemp("bugs"), kernels, examples=100)
    parts = re.split(r"^_+ test_(\w+) _+$", text.partition("short test summary")[0], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("bug", BUGS, ids=[bug.test for bug in BUGS])
def test_a_bug_is_found_and_shrunk(bug: Bug, found: dict[str, str]) -> None:
    said = found[bug.test]
    assert re.search(bug.says, said), said
    assert re.search(bug.example, said), said
