"""The README: its programs run and print what it shows, and its two commands are where users and CI look."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import BLOCK, Program, is_printed, programs

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = list(programs(README))

COMMANDS = [
    "python -m pip install . && python examples/quickstart.py",
    'python -m pip install ".[test]" && python -m pytest -n auto',
]
#: checks a program of Triton
TRITON = 'python -m pip install ".[triton]" && python -m tilejit run --triton row_sums.py'
#: lines of the README that a screen shows
SCREEN = 30


def run(program: Program, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a program does in a process of its own, without a GPU; its output and its errors together."""
    command = [program.name]
    if program.is_triton:
        pytest.importorskip("torch", reason="torch isn't installed")
        pytest.importorskip("triton", reason="Triton isn't installed: pip install -e '.[triton]'")
        command = TRITON.partition("&& python ")[2].split()
        assert command[-1] == program.name
    (folder / program.name).write_text(program.text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, *command], cwd=folder, encoding="utf-8", check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TILEJIT_DEVICE": "sim", "PYTHONIOENCODING": "utf-8"},
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: f"{p.name} changed" if p.is_changed else p.name)
def test_a_program_prints_what_the_page_shows(program: Program, tmp_path: Path) -> None:
    ended = run(program, tmp_path)
    fails = program.report is not None and "Error: " in program.report
    assert (ended.returncode != 0) == fails, ended.stdout
    printed = ended.stdout.replace(f"{tmp_path}{os.sep}", "")
    assert program.report is None or is_printed(program.report, printed), printed


def test_the_page_checks_triton_then_teaches_tiles_then_races_then_layouts_then_tuning() -> None:
    taught = [
        ("triton.jit", "row_sums[", "RaceError"), ("triton.jit", "atomic_add", "0 findings"),
        ("vector_add", "softmax", None), ("alloc_shared", "reverse[1]", "RaceError"),
        ("alloc_shared", "cta_sync", None), ("layout=", "explain", "variant"), ("autotune", "tuning", None),
    ]
    assert len(PROGRAMS) == len(taught)
    for program, (first, then, shown) in zip(PROGRAMS, taught, strict=True):
        assert -1 < program.text.find(first) < program.text.find(then), program.name
        assert (program.report is None) == (shown is None) and (shown or "") in (program.report or ""), program.name


def test_a_report_is_compared_but_for_what_it_leaves_out() -> None:
    assert is_printed("a\n  b ...\nc", "a\n  b 1\n2\nc\n")
    assert is_printed("PTX line 7: ld %r1;", "PTX line 8: ld %rd2;")
    assert not is_printed("PTX line 7: ld %r1;", "PTX line 7: st %r1;") and not is_printed("f.py:7", "f.py:8")
    assert not is_printed("a\nc", "a\nb\nc") and not is_printed("a", "a\nb") and not is_printed("a...c", "a.c.d")


def test_the_commands_are_on_the_first_screen() -> None:
    blocks = [text.strip() for language, text in BLOCK.findall(README) if language == "sh"]
    assert blocks == [*COMMANDS, TRITON]
    assert [line for line in README.splitlines()[:SCREEN] if line in COMMANDS] == COMMANDS
    assert TRITON in README.splitlines()[SCREEN : 2 * SCREEN]


def test_speeds_name_their_example_with_its_length() -> None:
    named = re.findall(r"`(\w+\.py)`, (\d+)", README)
    assert len(named) > 5
    for name, lines in named:
        assert len((ROOT / "examples" / name).read_text(encoding="utf-8").splitlines()) == int(lines), name


def test_ci_runs_the_second_command_and_what_a_default_run_leaves_out() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "grep -m1 'pytest' README.md" in script
    for tier in ("-m integration", "$day --other-cases", "-m long tests/guide tests/types"):
        assert f"python -m pytest -n auto {tier}" in script
    assert next(line for line in README.splitlines() if "pytest" in line) == COMMANDS[1]


def test_what_the_package_index_shows_says_only_what_is_tested() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'"Operating System :: (.*)"', project) == ["POSIX :: Linux"]
