"""The number of processors that worker processes and the tests' own processes may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilejit.runtime.workers import processors


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000", 3), ("150000 100000", 2), ("1000 100000", 1), ("6400000 100000", 3), ("-1 100000", 3), ("1 0", 3)],
)
def test_a_process_uses_no_more_processors_than_its_container_has(
    text: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    (tmp_path / "cpu.max").write_text(f"{text}\n")
    assert processors(tmp_path / "cpu.max") == cores
    assert processors(tmp_path / "none") == 3
