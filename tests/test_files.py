"""A file is written whole, or what was there before is still there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tilejit as tj
from tilejit import files
from tilejit.files import write_whole


class Full:
    """A file on a full disk. error: what writing raises once half is written."""

    def __init__(self, number: int, error: BaseException) -> None:
        self.number, self.error = number, error

    def __enter__(self) -> Full:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)

    def write(self, content: bytes) -> None:
        os.write(self.number, content[: len(content) // 2])
        raise self.error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("old", [b"old", None])
def test_what_cannot_be_finished_changes_nothing(
    error: BaseException, old: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "k.ptx"
    if old is not None:
        path.write_bytes(old)
    monkeypatch.setattr(files.os, "fdopen", lambda number, mode: Full(number, error))
    with pytest.raises(type(error)):
        write_whole(path, b"new content")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == ([] if old is None else [old])


def test_links_and_rights_stay(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"old")
    (tmp_path / "there").chmod(0o640)
    (tmp_path / "link").symlink_to("there")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there").read_bytes() == b"new"
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "there"]


def test_what_is_no_ordinary_file_is_written_as_it_is() -> None:
    write_whole(os.devnull, b"gone")
    assert not Path(os.devnull).is_file()


def test_pictures_and_kernels_are_written_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @tj.kernel(threads=32)
    def k(A: tj.Tensor) -> None:
        A[tj.thread_id()] = 1

    compiled, picture = k.compile(tj.spec(32, "float32"), target="sm_90a"), tj.S[(8, 8)].draw()
    saves = {"k.ptx": compiled.save, "k.h": compiled.save, "t": compiled.save, "layout.svg": picture.save}
    for name, save in saves.items():
        save(str(tmp_path / name))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 7
    monkeypatch.setattr(files.os, "fdopen", lambda number, mode: Full(number, OSError(28, "No space left on device")))
    for name, save in saves.items():
        with pytest.raises((tj.TilejitError, OSError), match="No space left"):
            save(str(tmp_path / name))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
