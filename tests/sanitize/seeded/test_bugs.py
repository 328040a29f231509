"""The table of seeded bugs fits its programs."""

from __future__ import annotations

import re

from tilejit.simulator.checks.findings import RULES

from .bugs import BUGS, FOLDER, OUTCOMES, changed, reported_text

#: compiler → the least number of bugs
LEAST = {"triton": 24, "numba": 8, "cuda": 8}
#: the file of the launches of all CUDA C++ programs
LAUNCHES = "cuda/launches.py"


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_bugs_fit_their_programs() -> None:
    for bug in BUGS:
        text = changed(bug)
        assert text != (FOLDER / bug.file).read_text(encoding="utf-8"), bug.name
        if bug.file.endswith(".py"):
            compile(text, bug.file, "exec")
        reported = lines(reported_text(bug))
        counts = {line: reported.count(line) for line in (bug.line, *bug.also)}
        assert counts == dict.fromkeys((bug.line, *bug.also), 1), bug.name
        assert len(counts) == 1 + len(bug.also), f"{bug.name} lists a line twice"


def test_the_words_of_the_table_are_known() -> None:
    for bug in BUGS:
        assert bug.rule in RULES, bug.name
        assert bug.interpreter in OUTCOMES, bug.name
        assert (bug.interpreter == "none") == (bug.compiler == "cuda" or "gluon" in changed(bug)), bug.name
        assert re.fullmatch(r"sm_\d+a?", bug.arch), bug.name
        assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", bug.name), bug.name


def test_names_and_mistakes_are_distinct() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert len({bug.kind for bug in BUGS}) == len(BUGS)


def test_every_program_has_a_bug() -> None:
    programs = [*FOLDER.glob("triton/*.py"), *FOLDER.glob("numba/*.py"), *FOLDER.glob("cuda/*.cu")]
    used = {bug.file for bug in BUGS} | {bug.reported for bug in BUGS}
    assert {path.relative_to(FOLDER).as_posix() for path in programs} <= used


def test_every_program_compiles() -> None:
    for path in [*FOLDER.glob("triton/*.py"), *FOLDER.glob("numba/*.py"), *FOLDER.glob(LAUNCHES)]:
        compile(path.read_text(encoding="utf-8"), str(path), "exec")


def test_each_compiler_has_its_share() -> None:
    counts = {compiler: sum(bug.compiler == compiler for bug in BUGS) for compiler in LEAST}
    assert all(counts[compiler] >= least for compiler, least in LEAST.items()), counts
