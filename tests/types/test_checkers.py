"""What type checkers say of users' programs: nothing of examples, guide and README, and of mistakes the right lines."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tilejit as tj
from tests.support.notebooks import write_notebooks
from tests.support.pages import write_programs

pytestmark = pytest.mark.integration

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


@contextmanager
def users_programs() -> Iterator[list[str]]:
    """The files that are checked; of notebooks those with their cells, without what is a mistake and meant to be."""
    with tempfile.TemporaryDirectory() as folder:
        readme = write_programs(ROOT / "README.md", Path(folder) / "readme")
        guide = write_notebooks(Path(folder) / "guide")
        yield [str(path) for path in (*EXAMPLES.glob("*.py"), MISTAKES, *readme, *guide)]


def mypy() -> list[Finding]:
    # of the package what it says of itself, as where it is installed: its own lines are checked by `test_style.py`
    imports = ["--ignore-missing-imports", "--follow-imports=silent"]
    arguments = ["--strict", "--config-file=", *imports, "--no-pretty", "--hide-error-context"]
    with users_programs() as paths:
        run = subprocess.run(
            [program("mypy"), *arguments, "--cache-dir", str(ROOT / ".mypy_cache" / "users"), *paths],
            cwd=ROOT, capture_output=True, text=True,
        )
    lines = re.findall(r"^(\S+?):(\d+): error: (.*)$", run.stdout, re.MULTILINE)
    assert run.returncode == 1 and lines, run.stdout + run.stderr
    return [(Path(file).name, int(line), text) for file, line, text in lines]


def pyright() -> list[Finding]:
    """basedpyright is pyright with its own Node.js: the package `pyright` loads one from the net."""
    file = ROOT / ".mypy_cache" / "pyright.json"
    file.parent.mkdir(exist_ok=True)
    with users_programs() as paths:
        # NumPy's own stubs are for this version
        folders = [str(ROOT), str(EXAMPLES / "testing")]
        settings = {"include": paths, "typeCheckingMode": "strict", "extraPaths": folders, "pythonVersion": "3.12"}
        file.write_text(json.dumps(settings), encoding="utf-8")
        run = subprocess.run(
            [program("basedpyright"), "-p", str(file), "--pythonpath", sys.executable, "--outputjson"],
            cwd=ROOT, capture_output=True, text=True, timeout=300,
        )
    findings = json.loads(run.stdout)["generalDiagnostics"]
    return [(Path(d["file"]).name, d["range"]["start"]["line"] + 1, d["message"]) for d in findings]


CHECKERS = pytest.mark.parametrize("check", (mypy, pyright), ids=("mypy", "pyright"))


@CHECKERS
def test_users_programs_pass_in_strict_mode_and_mistakes_are_found_on_their_lines(
    check: Callable[[], list[Finding]]
) -> None:
    """Of examples, guide and README nothing. Both in one test, which runs the checker once."""
    findings = check()
    others = [f"{file}:{line}: {text}" for file, line, text in findings if file != MISTAKES.name]
    assert not others, "\n".join(others)
    text = MISTAKES.read_text(encoding="utf-8").splitlines()
    wrong = {number for number, line in enumerate(text, 1) if line.endswith("# mistake")}
    assert len(wrong) >= 20
    assert {line for file, line, _ in findings if file == MISTAKES.name} == wrong
