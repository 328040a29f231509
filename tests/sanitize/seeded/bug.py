"""The record of a seeded bug."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent

#: values of `Bug.interpreter`: the outcome of the changed program in the compiler's own interpreter
OUTCOMES = ("silent", "wrong result", "crash", "hang", "named", "none")


@dataclass(frozen=True)
class Bug:
    """A change that makes a correct program wrong, and the report that it should get.

    A line is given by its text without indentation; exactly one line of the changed program has that text.
    """

    #: lower-case words joined by underscores
    name: str
    #: the file that is changed, relative to this folder
    file: str
    #: text that occurs once in the file, and the text that replaces it
    old: str
    new: str
    #: the line that a report must name
    line: str
    #: the expected rule, a key of `RULES` in `tilejit.simulator.checks.findings`
    rule: str
    #: a short phrase: the user's mistake
    kind: str
    #: one of OUTCOMES, as observed: "named" if an error names the mistake, "none" if no interpreter runs the program;
    #: accesses out of bounds may end in another way at the next run
    interpreter: str
    #: other lines that a report may name instead, such as the other access of a race
    also: tuple[str, ...] = ()
    #: the file of `line` and `also`, if it isn't `file`
    reported: str = ""
    #: the oldest architecture that the program runs on
    arch: str = "sm_80"

    @property
    def compiler(self) -> str:
        return self.file.partition("/")[0]


def changed(bug: Bug) -> str:
    """Return the text of the bug's file after the change."""
    text = (FOLDER / bug.file).read_text(encoding="utf-8")
    if text.count(bug.old) != 1:
        raise ValueError(f"{bug.name}: {bug.file} contains the old text {text.count(bug.old)} times")
    return text.replace(bug.old, bug.new)


def reported_text(bug: Bug) -> str:
    """Return the text of the file that a report must name, after the change."""
    if bug.reported in ("", bug.file):
        return changed(bug)
    return (FOLDER / bug.reported).read_text(encoding="utf-8")
