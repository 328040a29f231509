"""The oldest versions that pyproject.toml allows, as constraints for pip: `python -m tests.support.oldest`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"

_ENTRY = re.compile(r'^ +"([\w-]+)>=([\d.]+)([^;"]*)(;[^"]*)?",?$', re.MULTILINE)


def requirements(*lists: str) -> Iterator[re.Match[str]]:
    """The entries of these lists: name, lower bound, further bounds and marker. Python 3.10 reads no TOML itself."""
    text = PYPROJECT.read_text(encoding="utf-8")
    for name in lists:
        start = re.search(rf"^{name} = \[$", text, re.MULTILINE)
        assert start is not None, f"pyproject.toml has no {name}"
        body = text[start.end() : text.index("\n]\n", start.end())]
        found = list(_ENTRY.finditer(body))
        assert len(found) == body.count('"') // 2, f"an entry of {name} has no lower bound"
        yield from found


def oldest() -> list[str]:
    """A constraint for each dependency of the package and of its tests."""
    return [f"{r[1]}=={r[2]}{r[4] or ''}" for r in requirements("dependencies", "test")]


if __name__ == "__main__":
    print(*oldest(), sep="\n")
