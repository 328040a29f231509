"""Seeded bugs in programs of Triton, Numba and CUDA C++: a report names the line; the unchanged program is clean."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sanitize.seeded.bug import Bug, changed
from tests.sanitize.seeded.bugs import CUDA, FOLDER, MISSED, NUMBA, TRITON
from tests.sanitize.seeded.cuda.launches import launch
from tests.sanitize.test_for_cuda import nvrtc_works
from tilejit import sanitize
from tilejit.__main__ import main
from tilejit.sanitize.report import frames
from tilejit.sanitize.session import Session

pytestmark = pytest.mark.integration

#: (rule, line) of each error
Errors = set[tuple[str, int]]


def names_it(bug: Bug, errors: Errors, text: str) -> bool:
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.strip() in (bug.line, *bug.also)]
    return any(rule == bug.rule and line in lines for rule, line in errors)


@contextmanager
def imported(path: Path) -> Iterator[Any]:
    """A file as a module, until the context ends."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[path.stem]


def python_errors(context: AbstractContextManager[Session], text: str, path: Path) -> tuple[Errors, bool]:
    """Run a program; return the errors, and True if its own comparison of results failed."""
    path.write_text(text)
    is_wrong = False
    with context as session, imported(path) as program:
        try:
            program.main()
        except AssertionError:
            is_wrong = True
    pattern = re.compile(re.escape(str(path)) + r":(\d+)")
    return {(error.rule, int(line)) for error in session.errors for line in pattern.findall(error.message)}, is_wrong


def check_python(bug: Bug, context: Callable[[], AbstractContextManager[Session]], folder: Path) -> None:
    assert python_errors(context(), (FOLDER / bug.file).read_text(), folder / "program.py") == (set(), False)
    text = changed(bug)
    errors, is_wrong = python_errors(context(), text, folder / "changed.py")
    assert names_it(bug, errors, text) == (bug.name not in MISSED), errors
    if bug.name in MISSED:
        assert MISSED[bug.name].outcome == ("wrong result" if is_wrong else "silent")


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install -e '.[triton]'"
)
@pytest.mark.parametrize("bug", TRITON, ids=lambda bug: bug.name)
def test_triton(tmp_path: Path, bug: Bug) -> None:
    check_python(bug, lambda: sanitize.triton(bug.arch, "collect"), tmp_path)


@pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed: pip install -e '.[numba]'"
)
@pytest.mark.parametrize("bug", NUMBA, ids=lambda bug: bug.name)
def test_numba(tmp_path: Path, bug: Bug) -> None:
    check_python(bug, lambda: sanitize.numba(on_finding="collect"), tmp_path)


def cuda_errors(program: str, text: str, capsys: pytest.CaptureFixture[str]) -> Errors:
    """Check a file by the command, with arrays from files, in the working directory."""
    Path("k.cu").write_text(text)
    once = launch(program)
    grid, block = (",".join(map(str, extents)) for extents in (once.grid, once.block))
    options = ["check", "k.cu", once.kernel, "--grid", grid, "--block", block, "--shared", str(once.shared_bytes)]
    for number, value in enumerate(once.arguments):
        if isinstance(value, np.ndarray):
            np.save(f"{number}.npy", value)
            options += ["--arg", f"{number}.npy"]
        else:
            options += ["--arg", f"{value.dtype.kind}{8 * value.itemsize}:{value}"]
    status = main([*options, "--format", "json"])
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["errors"] == [] and status == (1 if kernel["verdict"] == "findings" else 0)
    return {
        (finding["rule"], frame["line"])
        for finding in kernel["findings"] if finding["level"] == "error"
        for place in finding["places"]
        for frame in frames(place) if frame["file"] == "k.cu"
    }


@pytest.mark.parametrize("bug", CUDA, ids=lambda bug: bug.name)
def test_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bug: Bug
) -> None:
    if not nvrtc_works():
        pytest.skip("NVRTC is not installed: pip install -e '.[cuda]'")
    monkeypatch.chdir(tmp_path)
    program = Path(bug.file).stem
    assert cuda_errors(program, (FOLDER / bug.file).read_text(), capsys) == set()
    text = changed(bug)
    assert names_it(bug, cuda_errors(program, text, capsys), text) == (bug.name not in MISSED)
