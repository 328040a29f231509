"""Fixtures of the tests of `python -m tilejit check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sanitize.kernels_ptx import PTX, SOURCE, Run
from tilejit.__main__ import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in a directory that has k.ptx; returns the exit status and what was printed."""
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_text(PTX)
    Path("kernels.cu").write_text(SOURCE)

    def run(*options: object) -> tuple[int, str, str]:
        try:
            status = main(["check", *map(str, options)])
        except SystemExit as ended:
            status = int(ended.code or 0)
        shown = capsys.readouterr()
        assert "Traceback" not in shown.out + shown.err
        return status, shown.out, shown.err

    return run
