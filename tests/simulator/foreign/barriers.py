"""Kernels of the corpus with one barrier left out, and what both race checks say of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pytest

from tests.simulator.order.arguments import Orders
from tests.simulator.order.happens_before import races
from tests.simulator.order.recorder import recorded
from tilejit.errors import SimulationError
from tilejit.simulator import Device
from tilejit.simulator.checks.findings import Finding
from tilejit.simulator.decode.translate import translate

from .case import HERE, Case, stored_ptx
from .simulate import reports

#: a paragraph for each kernel with redundant barriers: its name, and the line, the text and the argument of each
REDUNDANT = HERE / "redundant.txt"
#: legal orders of the threads
SCHEDULES = range(5)
#: thread instructions that a launch without one of its barriers may take
LIMIT = 10**8
ORDERING = ("bar", "barrier", "fence", "membar")
WAITING = ("cp", "mbarrier", "wgmma")
#: what an instruction with a result becomes when it doesn't wait: (the instruction, what each thread computes alone)
ALONE = (
    (r"mbarrier\.(?:test|try)_wait\S*\s+(\S+?)\s*,[^;]*;", r"setp.eq.u32 \1, 0, 0;"),
    (r"(?:bar|barrier)\.(?:cta\.)?red\.popc\S*\s+(\S+),.*?(!?%\w+)\s*;", r"selp.u32 \1, 1, 0, \2;"),
    (r"(?:bar|barrier)\.(?:cta\.)?red\.(?:and|or)\S*\s+(\S+),.*?(!?%\w+)\s*;", r"mov.pred \1, \2;"),
)


@dataclass(frozen=True)
class Mutation:
    """A kernel without the instruction of one PTX line."""

    case: Case
    line: int

    def __str__(self) -> str:
        return f"{self.case.name}:{self.line}"

    @property
    def text(self) -> str:
        return lines_of(self.case)[self.line - 1].strip()

    def ptx(self) -> str:
        """The PTX without the barrier. Other lines keep their numbers."""
        lines = list(lines_of(self.case))
        text = lines[self.line - 1]
        for barrier, alone in ALONE:
            text = re.sub(barrier, alone, text)
        if text == lines[self.line - 1]:
            text = re.sub(r"(?:@!?%\w+\s+)?[a-z][\w.:]*[^;{}]*;", "", text, count=1)
        assert text != lines[self.line - 1], text
        lines[self.line - 1] = text
        return "\n".join(lines)


@lru_cache(maxsize=8)
def lines_of(case: Case) -> tuple[str, ...]:
    return tuple(stored_ptx(case.family, case.file).split("\n"))


def mutations(case: Case) -> Iterator[Mutation]:
    """One for every instruction of a kernel that orders memory accesses and does nothing else."""
    ptx = stored_ptx(case.family, case.file)
    entry = case.entry or Device().load(ptx).kernels[0]
    lines = {
        x.line for x in translate(ptx, entry, case.shared_bytes).function.body
        if x.root in ORDERING or (x.root in WAITING and ("_wait" in x.suffix or ".wait_" in x.suffix))
        or (x.root == "wgmma" and x.suffix.startswith(".fence"))
    }
    for line in sorted(lines):
        yield Mutation(case, line)


@dataclass(frozen=True)
class Verdict:
    """What both checks say of all launches of a case.

    findings: the simulator's. races, unseen: pairs of PTX lines of the independent pass.
    """

    findings: tuple[Finding, ...]
    races: frozenset[tuple[int, int]]
    unseen: frozenset[tuple[int, int]]

    def beyond(self, whole: Verdict) -> list[Finding]:
        """The findings apart from the warnings that the kernel gives as it came."""
        known = {warned(x) for x in whole.findings}
        return [x for x in self.findings if x.level == "error" or warned(x) not in known]

    def disagreement(self, whole: Verdict) -> str:
        """What one check reports and the other doesn't; "" if they agree. whole: of the kernel as it came."""
        if (self.races and not self.beyond(whole)) or (self.unseen and not self.findings):
            return f"not reported: {sorted(self.races | self.unseen)}"
        for finding in self.findings:
            if finding.rule in ("race", "scope", "read-only") and finding.first and finding.second:
                lines = sorted((finding.first.ptx_line, finding.second.ptx_line))
                if (lines[0], lines[1]) not in self.races:
                    return f"no race: {finding}"
        return ""

    def about_whole(self) -> str:
        """What is wrong with a kernel as it came; "" if nothing is, apart from reads that a proxy hasn't seen."""
        errors = [str(x) for x in self.findings if x.level == "error"]
        if errors or self.races:
            return f"{errors} {sorted(self.races)}"
        return "" if bool(self.findings) == bool(self.unseen) else f"{self.findings} {sorted(self.unseen)}"


def warned(finding: Finding) -> tuple[str, int]:
    """The rule of a finding, and the PTX line of its first instruction."""
    return finding.rule, finding.first.ptx_line if finding.first else 0


def examine(case: Case, ptx: str, schedule: int) -> Verdict:
    """Launch a kernel and ask both checks."""
    findings: list[Finding] = []
    with pytest.MonkeyPatch.context() as patch, recorded() as recorder:
        patch.setenv("TILEJIT_SIM_LIMIT", str(LIMIT))
        try:
            for report in reports(case, ptx, schedule):
                findings.extend(report.findings)
        except SimulationError as error:
            raise AssertionError(f"{case.name} ends although findings are collected: {error}") from error
    found = [races(stream) for stream in recorder.streams]
    return Verdict(
        tuple(findings), frozenset().union(*(x.races for x in found)), frozenset().union(*(x.unseen for x in found))
    )


def examine_whole(case: Case, schedule: int) -> Verdict:
    """Launch a kernel as it came."""
    return examine(case, stored_ptx(case.family, case.file), schedule)


def explained(case: Case, redundant: Sequence[Mutation]) -> str:
    """Why nothing misses the barriers that were left out: a paragraph of `REDUNDANT`, "" if there are none."""
    if not redundant:
        return ""
    with recorded(lines=True) as recorder:
        for _ in reports(case, stored_ptx(case.family, case.file), 0):
            pass
    orders = Orders(recorder.streams)
    arguments = [f"  {x.line} {x.text.partition('//')[0].strip()}\n    {orders.argument(x.line)}" for x in redundant]
    return "\n".join([case.name, *arguments]).expandtabs(1)


def stored_arguments() -> dict[str, str]:
    """The paragraphs of `REDUNDANT` by kernel."""
    return {x.partition("\n")[0]: x for x in REDUNDANT.read_text().strip().split("\n\n")}


def store_argument(name: str, text: str) -> None:
    """Replace the paragraph of a kernel."""
    each = {**stored_arguments(), name: text}
    REDUNDANT.write_text("\n\n".join(each[x] for x in sorted(each) if each[x]) + "\n")
