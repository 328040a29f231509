"""The corpus on disk: for each kind of program one compressed file of programs and one of what they compile to."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from .compiling import TARGETS, Outcome

DATA = Path(__file__).parent / "data"

T = TypeVar("T")


@dataclass(frozen=True)
class Program:
    """name: `<kind>/<number or file>`.

    source, kernel, call: a module's text, the kernel in it, and how it is compiled: `kernel.compile<call>`.
    tile: tile IR, for a program that has no source.
    """

    name: str
    source: str = ""
    kernel: str = ""
    call: str = ""
    tile: str = ""

    @property
    def kind(self) -> str:
        return self.name.split("/")[0]


#: target -> what became of a program
Expected = dict[str, Outcome]


def kinds() -> list[str]:
    """The kinds of programs that are stored."""
    return sorted(p.name.removesuffix(".programs.xz") for p in DATA.glob("*.programs.xz"))


def programs(kind: str) -> list[Program]:
    """The programs of a kind, by name."""
    return [Program(**row) for row in _rows(kind, "programs")]


def expected(kind: str) -> dict[str, Expected]:
    """Program -> target -> what is stored of it."""
    return {row["name"]: {t: Outcome(**row[t]) for t in TARGETS} for row in _rows(kind, "expected")}


def write_programs(kind: str, stored: Iterable[Program]) -> None:
    """Replaces the programs of a kind."""
    _write(kind, "programs", [_filled(asdict(p)) for p in sorted(stored, key=lambda p: p.name)])


def write_expected(kind: str, found: dict[str, Expected]) -> None:
    """Replaces what the programs of a kind compile to."""
    rows = [{"name": name, **{t: _filled(asdict(o)) for t, o in found[name].items()}} for name in sorted(found)]
    _write(kind, "expected", rows)


def spaced(items: Sequence[T], count: int) -> list[T]:
    """`count` of the items, evenly spaced; all where there are fewer."""
    if count >= len(items):
        return list(items)
    return [items[k * len(items) // count] for k in range(count)]


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value}


def _file(kind: str, part: str) -> Path:
    return DATA / f"{kind}.{part}.xz"


def _rows(kind: str, part: str) -> list[dict[str, Any]]:
    text = lzma.decompress(_file(kind, part).read_bytes()).decode()
    # not splitlines: a text may have other ends of lines
    return [json.loads(line) for line in text.split("\n") if line]


def _write(kind: str, part: str, rows: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    DATA.mkdir(exist_ok=True)
    _file(kind, part).write_bytes(lzma.compress(text.encode(), preset=9))
