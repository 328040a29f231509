"""Interrupts and forks at random moments do no harm: see `tests/long/storms.py`, which runs in processes of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not hasattr(signal, "setitimer") or not hasattr(os, "fork"), reason="needs Unix"),
]


def storm(what: str, count: int) -> None:
    program = [sys.executable, "-X", "faulthandler", "-m", "tests.long.storms", what, str(count)]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout.startswith(f"{count} ")


@pytest.mark.parametrize(("what", "count"), [("interrupts", 80), ("forks", 6), ("cold-forks", 2)])
def test_a_short_storm(what: str, count: int) -> None:
    storm(what, count)


@pytest.mark.long
@pytest.mark.parametrize(("what", "count"), [("interrupts", 20_000), ("forks", 200)])
def test_a_long_storm(what: str, count: int) -> None:
    storm(what, count)
