"""Seeded bugs in programs of Numba and CUDA C++: a report names the line, and the unchanged program is clean."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sanitize.seeded.bug import Bug, changed
from tests.sanitize.seeded.bugs import BUGS, FOLDER
from tests.sanitize.seeded.cuda.launches import launch
from tests.sanitize.test_for_cuda import nvrtc_works
from tilejit import sanitize
from tilejit.__main__ import main
from tilejit.sanitize.report import frames

pytestmark = pytest.mark.integration

#: bugs that no report names, and why
MISSED = {
    "lanes_that_left_early": "a shuffle from a lane that has exited reads a value that the PTX ISA leaves undefined; "
    "the simulator doesn't report it",
}
NUMBA = {bug.name: bug for bug in BUGS if bug.compiler == "numba"}
CUDA = {bug.name: bug for bug in BUGS if bug.compiler == "cuda"}
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


def numba_errors(text: str, path: Path) -> Errors:
    """Run a program; with an error, its own comparison with NumPy may fail, too."""
    path.write_text(text)
    with sanitize.numba(on_finding="collect") as session, imported(path) as program:
        try:
            program.main()
        except AssertionError:
            assert session.errors, "the results are wrong, and nothing was reported"
    pattern = re.compile(re.escape(str(path)) + r":(\d+)")
    return {(error.rule, int(line)) for error in session.errors for line in pattern.findall(error.message)}


@pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed: pip install -e '.[numba]'"
)
@pytest.mark.parametrize("name", NUMBA)
def test_numba(tmp_path: Path, name: str) -> None:
    bug = NUMBA[name]
    assert numba_errors((FOLDER / bug.file).read_text(), tmp_path / "program.py") == set()
    text = changed(bug)
    assert names_it(bug, numba_errors(text, tmp_path / "changed.py"), text) == (name not in MISSED)


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


@pytest.mark.parametrize("name", CUDA)
def test_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    if not nvrtc_works():
        pytest.skip("NVRTC is not installed: pip install -e '.[cuda]'")
    monkeypatch.chdir(tmp_path)
    bug = CUDA[name]
    program = Path(bug.file).stem
    assert cuda_errors(program, (FOLDER / bug.file).read_text(), capsys) == set()
    text = changed(bug)
    assert names_it(bug, cuda_errors(program, text, capsys), text) == (name not in MISSED)
