"""Tests of packages with Triton kernels, run by `pytest --gpu-sim` as their authors would run them."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib.util import find_spec
from pathlib import Path

import pytest

from .third_party.failing import FAILING

FOLDER = Path(__file__).parent / "third_party"
#: folder -> the module that its tests import
PACKAGES = {"conch": "conch", "fla": "fla", "liger": "liger_kernel", "tutorials": "triton"}


@pytest.mark.long
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("package", PACKAGES)
def test_a_packages_tests_pass_on_the_simulator(package: str, arch: str, tmp_path: Path) -> None:
    missing = [name for name in ("torch", "triton", PACKAGES[package]) if find_spec(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} isn't installed: pip install -r tests/sanitize/requirements.txt")
    results = tmp_path / "results.xml"
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--all-cases", "-p", "no:cacheprovider", f"--gpu-sim={arch}",
         "--gpu-sim-schedules=3", "--gpu-sim-autotune=first", f"--junitxml={results}", os.fspath(FOLDER / package)],
        cwd=FOLDER.parents[2], check=False,
    )
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    failed = {named(case) for case in cases if case.find("failure") is not None or case.find("error") is not None}
    assert len(cases) > 40
    assert failed == {name for name in FAILING if name.startswith(f"{package}/")}


def named(case: ElementTree.Element) -> str:
    """Return a test's name in the list of failing ones."""
    *_, package, module = case.attrib["classname"].split(".")
    return f"{package}/{module}.py::{case.attrib['name']}"
