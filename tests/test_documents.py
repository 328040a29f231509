"""The documents of the project: their links, the files that they name, and citations of documents."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = [
    path
    for pattern in ("*.md", "tilejit/**/*", "tests/**/*", "examples/**/*")
    for path in sorted(ROOT.glob(pattern))
    if path.suffix in (".md", ".py", ".pyi", ".ipynb") and path != Path(__file__)
]

#: documents that the project does not contain, as citations of them would look
ABSENT = re.compile(
    r"\b(LANGUAGE|OPEN-LAYOUTS|HOPPER|BLACKWELL|MEMORY-BOUND|ARCHITECTURE|SANITIZER)\b"
    r"|\b(DISPATCH|HOUSE|KERNELS|LAUNCH|ORDERS|RANKS|SIMULATOR)(\.md\b| \d|'s\b)"
)


def test_no_file_cites_a_document_that_the_project_does_not_contain() -> None:
    cited = [
        f"{path.relative_to(ROOT)}:{number}: {found[0]}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for found in [ABSENT.search(line)]
        if found
    ]
    assert not cited, f"cite a README of the package, the PTX ISA or a public document: {', '.join(cited)}"
