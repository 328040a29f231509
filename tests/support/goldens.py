"""Golden files: `tests/golden/<op>/<case>.tile` holds target, tile IR, `---` and lane IR."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1] / "golden"
SEPARATOR = "\n---\n"


@dataclass(frozen=True)
class Golden:
    """bless: write what differs instead of failing."""

    bless: bool

    def check(self, path: str | Path, text: str) -> None:
        """`text` must be what the file (under tests/golden) holds."""
        file = ROOT / path
        text = text.rstrip("\n") + "\n"
        held = file.read_text(encoding="utf-8") if file.exists() else None
        if held == text:
            return
        if self.bless:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        if held is None:
            raise AssertionError(f"{file} doesn't exist; `pytest --bless` writes it:\n{text}")
        lines = difflib.unified_diff(held.splitlines(), text.splitlines(), str(path), "this run", lineterm="")
        raise AssertionError("\n".join([*lines, "`pytest --bless` accepts this"]))


def read(path: str | Path) -> tuple[str, str, str]:
    """(target, tile IR, lane IR or "") of a golden file under tests/golden, or anywhere."""
    text = (ROOT / path).read_text(encoding="utf-8")
    target, _, rest = text.partition("\n")
    tile, _, lane = rest.partition(SEPARATOR)
    return target.removeprefix("target").strip(), tile + "\n", lane


def joined(target: str, tile: str, lane: str) -> str:
    """The text of a golden file from its parts."""
    return f"target {target}\n{tile.rstrip()}{SEPARATOR}{lane.rstrip()}\n"


def cases() -> list[str]:
    """Every golden file, relative to tests/golden."""
    return sorted(str(p.relative_to(ROOT)) for p in ROOT.rglob("*.tile"))
