"""Kernels of the corpus with one barrier left out, and what both race checks say of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import pytest

from tests.simulator.order.happens_before import races
from tests.simulator.order.recorder import recorded
from tilejit.errors import SimulationError
from tilejit.simulator import Device
from tilejit.simulator.checks.findings import Finding
from tilejit.simulator.decode.translate import translate

from .case import Case, stored_ptx
from .simulate import reports

#: legal orders of the threads
SCHEDULES = range(5)
#: thread instructions that a launch without one of its barriers may take
LIMIT = 10**8
ORDERING = ("bar", "barrier", "fence", "membar")
#: what a reduction over a CTA becomes when it doesn't wait: (the barrier, what each thread computes alone)
ALONE = (
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


_BEYOND = re.compile(r"\smbarrier\.|\.async\.bulk|shared::cluster|mapa|barrier\.cluster")


def is_beyond_the_pass(case: Case) -> bool:
    """True for mbarriers, bulk copies and accesses to other CTAs, which the independent pass doesn't know."""
    kernels = re.split(r"\.entry (\w+)\(", stored_ptx(case.family, case.file))
    names, bodies = kernels[1::2], kernels[2::2]
    return _BEYOND.search(bodies[names.index(case.entry or names[0])]) is not None


@lru_cache(maxsize=8)
def lines_of(case: Case) -> tuple[str, ...]:
    return tuple(stored_ptx(case.family, case.file).split("\n"))


def mutations(case: Case) -> Iterator[Mutation]:
    """One for every instruction of a kernel that orders memory accesses and does nothing else."""
    ptx = stored_ptx(case.family, case.file)
    entry = case.entry or Device().load(ptx).kernels[0]
    for instruction in translate(ptx, entry, case.shared_bytes).function.body:
        waits = instruction.root == "cp" and ".wait_" in instruction.suffix
        if waits or (instruction.root in ORDERING and not instruction.suffix.startswith(".proxy")):
            yield Mutation(case, instruction.line)


@dataclass(frozen=True)
class Verdict:
    """What both checks say of all launches of a case.

    findings: the simulator's. races: pairs of PTX lines of the independent pass.
    """

    findings: tuple[Finding, ...]
    races: frozenset[tuple[int, int]]

    def disagreement(self) -> str:
        """What one check reports and the other doesn't; "" if they agree."""
        if self.races and not self.findings:
            return f"not reported: {sorted(self.races)}"
        for finding in self.findings:
            if finding.rule in ("race", "scope", "read-only") and finding.first and finding.second:
                lines = sorted((finding.first.ptx_line, finding.second.ptx_line))
                if (lines[0], lines[1]) not in self.races:
                    return f"no race: {finding}"
        return ""


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
    return Verdict(tuple(findings), frozenset(pair for stream in recorder.streams for pair in races(stream)))
