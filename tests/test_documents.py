"""The documents of the project: their programs, their links, the files that they name, and citations of documents."""

from __future__ import annotations

import os
import re
import runpy
import traceback
from collections import Counter
from pathlib import Path

import pytest

from tests.support.pages import Program, is_printed, programs
from tilejit.lower.variants import VARIANTS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tilejit"
SOURCES = [
    path
    for pattern in ("*.md", "tilejit/**/*", "tests/**/*", "examples/**/*")
    for path in sorted(ROOT.glob(pattern))
    if path.suffix in (".md", ".py", ".pyi", ".ipynb") and path != Path(__file__)
]
DOCUMENTS = [path for path in SOURCES if path.suffix == ".md"]
READMES = sorted(PACKAGE.rglob("README.md"))

#: bytes of a README of the package
MOST_BYTES = 12 * 1024

#: documents that the project does not contain, as citations of them would look
ABSENT = re.compile(
    r"\b(LANGUAGE|OPEN-LAYOUTS|HOPPER|BLACKWELL|MEMORY-BOUND|ARCHITECTURE|SANITIZER)\b"
    r"|\b(DISPATCH|HOUSE|KERNELS|LAUNCH|ORDERS|RANKS|SIMULATOR)(\.md\b| \d|'s\b)"
)
#: the target of a link, without that of a picture
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
#: a file or a folder that a document names
NAMED = re.compile(r"`((?:[\w.]+/)*(?:\w+\.(?:py|pyi|md|toml)|\w+/))`")
#: an identifier that a document names, perhaps with arguments, as an attribute or as a keyword argument
IDENTIFIER = re.compile(r"`(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:\([^`]*\)|=[^`]*)?`")
#: a citation of a heading of a README of the package
CITED = re.compile(r'\b(tilejit/(?:\w+/)+README\.md), "([^"]+)"')
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`[^`\n]+`")

PROGRAMS = [(path, program) for path in READMES for program in programs(path.read_text(encoding="utf-8"))]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub derives them: a repeated one gets a number."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page), re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    seen: Counter[str] = Counter()
    found = set()
    for name in names:
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


@pytest.mark.parametrize(("page", "program"), PROGRAMS, ids=[f"{p.parent.name}-{x.name}" for p, x in PROGRAMS])
def test_a_program_of_a_readme_prints_what_it_shows(
    page: Path, program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / program.name
    file.write_text(program.text, encoding="utf-8")
    try:
        runpy.run_path(str(file), run_name="__main__")
    except Exception:
        print(traceback.format_exc())
        if program.report is None or "Error: " not in program.report:
            raise
    printed = capsys.readouterr().out.replace(f"{tmp_path}{os.sep}", "")
    assert is_printed(program.report or "", printed), printed


@pytest.mark.parametrize("page", READMES, ids=lambda path: path.parent.name)
def test_a_readme_of_the_package_is_short_and_names_files_that_exist(page: Path) -> None:
    assert page.stat().st_size <= MOST_BYTES
    named = NAMED.findall(FENCED.sub("", text_of(page)))
    absent = [name for name in named if not any((base / name).exists() for base in (page.parent, PACKAGE, ROOT))]
    assert not absent


@pytest.mark.parametrize("page", READMES, ids=lambda path: path.parent.name)
def test_a_readme_of_the_package_names_identifiers_that_the_package_has(page: Path) -> None:
    words = {word for path in PACKAGE.rglob("*.py") for word in re.findall(r"\w+", text_of(path))}
    absent = set(IDENTIFIER.findall(FENCED.sub("", text_of(page)))) - words
    assert not absent


def test_the_readme_of_lowering_names_every_variant_with_its_priority() -> None:
    page = text_of(PACKAGE / "lower" / "README.md")
    assert {variant.name for variant in VARIANTS} <= set(IDENTIFIER.findall(page))
    named = re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE) + re.findall(r"`(\w+)` \((\d+)[),]", page)
    assert {(name, int(priority)) for name, priority in named} <= {(v.name, v.priority) for v in VARIANTS}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_of_a_document_resolves(page: Path) -> None:
    broken = []
    for link in LINK.findall(INLINE.sub("code", FENCED.sub("", text_of(page)))):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if re.match(r"\w+:", link):
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(text_of(target))):
            broken.append(link)
    assert not broken


def test_every_cited_heading_of_a_readme_exists() -> None:
    cited = {
        found
        for path in SOURCES
        if path.suffix == ".py"
        # a citation may go on in the next line
        for found in CITED.findall(re.sub(r"\s*\n\s*(#:? )?", " ", text_of(path)))
    }
    assert cited
    absent = [
        f'{name}, "{heading}"'
        for name, heading in sorted(cited)
        if not (ROOT / name).exists() or heading not in re.findall(r"^#+ (.*)$", text_of(ROOT / name), re.MULTILINE)
    ]
    assert not absent


def test_no_file_cites_a_document_that_the_project_does_not_contain() -> None:
    cited = [
        f"{path.relative_to(ROOT)}:{number}: {found[0]}"
        for path in SOURCES
        for number, line in enumerate(text_of(path).splitlines(), 1)
        for found in [ABSENT.search(line)]
        if found
    ]
    assert not cited, f"cite a README of the package, the PTX ISA or a public document: {', '.join(cited)}"
