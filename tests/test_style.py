"""The linter and the type checker run as tests, so that what CONTRIBUTING asks for stays true."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def tool(name: str) -> str:
    """The program beside this Python, else on the path."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name) or ""


def check(name: str, *arguments: str) -> None:
    if not tool(name):
        pytest.skip(f"{name} is not installed: pip install -e .[test]")
    run = subprocess.run([tool(name), *arguments], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, f"{name} {' '.join(arguments)}\n{run.stdout}{run.stderr}"


def test_ruff_finds_nothing() -> None:
    check("ruff", "check", "--no-cache", "tilejit", "tests", "examples")


def test_mypy_finds_nothing() -> None:
    # its cache in .mypy_cache makes the next run take 1 s instead of 15
    check("mypy")
