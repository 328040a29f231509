"""What type checkers say of users' programs: nothing of the examples, and of mistakes the right lines."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import tilejit as tj

ROOT = Path(tj.__file__).parent.parent
EXAMPLES = ROOT / "examples"
MISTAKES = Path(__file__).with_name("mistakes.py")

#: (file, line, what is wrong)
Finding = tuple[str, int, str]


def program(*names: str) -> str:
    """The first of these that is beside this Python, else on the path; without one the test is skipped."""
    beside = str(Path(sys.executable).parent)
    for name in names:
        path = shutil.which(name, path=beside) or shutil.which(name)
        if path is not None:
            return path
    pytest.skip(f"no {' or '.join(names)}: pip install -e .[test]")


@cache
def mypy() -> list[Finding]:
    arguments = ["--strict", "--config-file=", "--ignore-missing-imports", "--no-pretty", "--hide-error-context"]
    run = subprocess.run(
        [program("mypy"), *arguments, "--cache-dir", str(ROOT / ".mypy_cache" / "users"), str(EXAMPLES), str(MISTAKES)],
        cwd=ROOT, capture_output=True, text=True,
    )
    lines = re.findall(r"^(\S+?):(\d+): error: (.*)$", run.stdout, re.MULTILINE)
    assert run.returncode == 1 and lines, run.stdout + run.stderr
    return [(Path(file).name, int(line), text) for file, line, text in lines]


@cache
def pyright() -> list[Finding]:
    """basedpyright is pyright with its own Node.js: the package `pyright` loads one from the net."""
    # NumPy's own stubs are for this version
    settings = {"include": [str(EXAMPLES), str(MISTAKES)], "typeCheckingMode": "strict", "extraPaths": [str(ROOT)],
                "pythonVersion": "3.12"}
    file = ROOT / ".mypy_cache" / "pyright.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(settings), encoding="utf-8")
    run = subprocess.run(
        [program("basedpyright"), "-p", str(file), "--pythonpath", sys.executable, "--outputjson"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )
    findings = json.loads(run.stdout)["generalDiagnostics"]
    return [(Path(d["file"]).name, d["range"]["start"]["line"] + 1, d["message"]) for d in findings]


CHECKERS = pytest.mark.parametrize("check", (mypy, pyright), ids=("mypy", "pyright"))


@CHECKERS
def test_the_examples_pass_in_strict_mode(check: Callable[[], list[Finding]]) -> None:
    findings = [f"{file}:{line}: {text}" for file, line, text in check() if file != MISTAKES.name]
    assert not findings, "\n".join(findings)


@CHECKERS
def test_mistakes_are_found_on_their_lines_and_on_no_others(check: Callable[[], list[Finding]]) -> None:
    text = MISTAKES.read_text(encoding="utf-8").splitlines()
    wrong = {number for number, line in enumerate(text, 1) if line.endswith("# mistake")}
    assert len(wrong) >= 20
    assert {line for file, line, _ in check() if file == MISTAKES.name} == wrong
