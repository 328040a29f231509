"""Programs of a page, and what it says that they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

#: a fenced block
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: the first line of a block that begins a file
NAME = re.compile(r"# (\w+\.py)\n")
#: what a small change of the compiler gives another number
PLACE = re.compile(r"(?<=PTX line )\d+|(?<=%)[a-z]+\d+")


@dataclass(frozen=True)
class Program:
    """A file of a page.

    report: what the page says that it prints, with `...` for what is left out; None if it shows nothing.
    is_changed: it is the program before it with a change that the page makes.
    """

    name: str
    text: str
    report: str | None = None
    is_changed: bool = False

    @property
    def is_triton(self) -> bool:
        """Its kernels are Triton's, which isn't always installed."""
        return "import triton\n" in self.text


def programs(page: str) -> Iterator[Program]:
    """The programs of a page, in its order.

    A block of Python begins a file, whose name is its first line, or goes on with the one before it; a `diff` changes
    the file before it, which is another program; a block without a language is what the program before it prints.
    Blocks of `sh` and `text` are no part of any.
    """
    program: Program | None = None
    for language, text in BLOCK.findall(page):
        name = NAME.match(text)
        if language == "python" and name:
            if program:
                yield program
            program = Program(name[1], text)
        elif language in ("sh", "text"):
            continue
        elif program is None:
            raise ValueError(f"no file before\n{text}")
        elif language == "python":
            program = replace(program, text=f"{program.text}\n\n{text}")
        elif language == "diff":
            yield program
            program = Program(program.name, patched(program.text, text), is_changed=True)
        elif language == "" and program.report is None:
            program = replace(program, report=text)
        else:
            raise ValueError(f"{program.name}: what is this block of {language or 'text'}?\n{text}")
    if program:
        yield program


def patched(text: str, diff: str) -> str:
    """The text with each hunk's new lines in place of its old ones, which must occur once."""
    for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        old, new = ("\n".join(line[1:] for line in hunk.splitlines() if line[:1] != sign) for sign in "+-")
        assert text.count(old) == 1, f"{text.count(old)} places for\n{hunk}"
        text = text.replace(old, new)
    return text


def is_printed(report: str, printed: str) -> bool:
    """Whether a report is all that is printed, but for lines and registers of PTX; its `...` match any text."""
    parts = [re.escape(PLACE.sub("?", part)) for part in report.rstrip().split("...")]
    return re.fullmatch(".*".join(parts), PLACE.sub("?", printed.rstrip()), re.DOTALL) is not None


def write_programs(page: Path, folder: Path) -> list[Path]:
    """The files of a page, as it shows them first, without those of Triton."""
    folder.mkdir(parents=True, exist_ok=True)
    for program in programs(page.read_text(encoding="utf-8")):
        if not (program.is_changed or program.is_triton):
            (folder / program.name).write_text(program.text, encoding="utf-8")
    return sorted(folder.glob("*.py"))
