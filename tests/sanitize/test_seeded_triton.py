"""Seeded bugs in programs of Triton: a report names the line, and the unchanged program is clean."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from tests.sanitize.seeded.bug import Bug, changed, reported_text
from tests.sanitize.seeded.bugs import FOLDER, TRITON
from tilejit import sanitize

pytestmark = pytest.mark.integration

pytest.importorskip("torch", reason="torch isn't installed")
pytest.importorskip("triton", reason="Triton isn't installed")

#: bugs that no report names, and why
MISSED = {"load_without_other": "Triton's code fills masked-off elements with zeros, as with other=0"}
BUGS = {bug.name: bug for bug in TRITON}
#: unchanged program -> the oldest architecture that it runs on
PROGRAMS = {bug.file: bug.arch for bug in TRITON}
#: (rule, name of the file, line) of each place of each error
Errors = set[tuple[str, str, int]]


def errors_of(text: str, path: Path, arch: str, missed: bool = False) -> Errors:
    """Run a program; its own comparison of the results may fail if there are errors, or if the bug is missed."""
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    with sanitize.triton(arch, on_finding="collect") as session, pytest.MonkeyPatch.context() as changes:
        changes.setitem(sys.modules, path.stem, program)
        spec.loader.exec_module(program)
        try:
            program.main()
        except AssertionError as error:
            assert session.errors or missed, f"nothing was reported, and the results are wrong: {error}"
        return {
            (error.rule, Path(file).name, int(line))
            for error in session.errors
            for file, line in re.findall(r"(\S+\.py):(\d+)", error.message)
        }


@pytest.mark.parametrize("file", PROGRAMS)
def test_unchanged_programs_are_clean(tmp_path: Path, file: str) -> None:
    text = (FOLDER / file).read_text(encoding="utf-8")
    assert errors_of(text, tmp_path / Path(file).name, PROGRAMS[file]) == set()


@pytest.mark.parametrize("name", BUGS)
def test_bugs_are_named_with_their_lines(tmp_path: Path, name: str) -> None:
    bug = BUGS[name]
    errors = errors_of(changed(bug), tmp_path / Path(bug.file).name, bug.arch, name in MISSED)
    assert names_it(bug, errors) == (name not in MISSED), sorted(errors)


def names_it(bug: Bug, errors: Errors) -> bool:
    file = Path(bug.reported or bug.file).name
    text = reported_text(bug)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.strip() in (bug.line, *bug.also)]
    return any(rule == bug.rule and name == file and line in lines for rule, name, line in errors)
