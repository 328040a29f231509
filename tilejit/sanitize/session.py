"""A run of a program of another compiler on the simulator: its launches and their findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from ..dataclass import dataclass
from ..errors import LaunchError, SimulationError
from ..simulator import Checks, Device, DeviceModule, Finding, Report
from ..target import TARGETS, Target, target

OnFinding = Literal["raise", "collect"]
Autotune = Literal["all", "first"]


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How launches are checked; see `tilejit.sanitize.triton`."""

    target: Target
    on_finding: OnFinding
    checks: Checks
    schedules: int
    autotune: Autotune
    orders: int | str | None


def options(
    arch: str, on_finding: str, checks: Any, schedules: int, autotune: str, orders: int | str | None = None
) -> SessionOptions:
    """Return the options of a session. raises: LaunchError if one of them is invalid."""
    if arch not in TARGETS:
        raise LaunchError(f"unknown arch {arch!r}", hint=f"write one of {', '.join(TARGETS)}")
    choices: tuple[tuple[str, object, tuple[object, ...]], ...] = (
        ("on_finding", on_finding, ("raise", "collect")), ("checks", checks, (True, False, "strict")),
        ("autotune", autotune, ("all", "first")),
    )
    for name, value, allowed in choices:
        if not any(value is x or (isinstance(x, str) and value == x) for x in allowed):
            raise LaunchError(f"{name} is {value!r}", hint=f"pass one of {', '.join(map(repr, allowed))}")
    if isinstance(schedules, bool) or not isinstance(schedules, int) or schedules < 1:
        raise LaunchError(f"schedules is {schedules!r}", hint="pass the number of thread orders: 1, 2, ...")
    return SessionOptions(target(arch), on_finding, checks, schedules, autotune, orders)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class SimulatedLaunch:
    """A launch of a kernel, and what the simulator reports of it in each schedule."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    reports: tuple[Report, ...]
    seconds: float

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The different findings of all schedules."""
        return tuple(_distinct(f for report in self.reports for f in report.findings))


class Session:
    """The launches of a program while a context such as `tilejit.sanitize.triton` is active, in their order.

    device: the simulated GPU; its memory persists until the context ends.
    """

    def __init__(self, chosen: SessionOptions) -> None:
        self.options = chosen
        self.device = Device()
        self.launches: list[SimulatedLaunch] = []
        self._modules: dict[str, DeviceModule] = {}
        self._counted = 0
        self._instructions = 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all launches: errors and warnings."""
        return tuple(f for launch in self.launches for f in launch.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.level == "error")

    @property
    def instructions(self) -> int:
        """The number of thread instructions that the launches executed, each in one schedule."""
        for launch in self.launches[self._counted :]:
            self._instructions += launch.reports[0].thread_instructions
        self._counted = len(self.launches)
        return self._instructions

    def forget(self) -> list[SimulatedLaunch]:
        """Return the launches, and remove them from the session."""
        launches, self.launches = self.launches, []
        self._counted = 0
        return launches

    def module(self, ptx: str) -> DeviceModule:
        """Return the module of some PTX on the device of this session."""
        if ptx not in self._modules:
            self._modules[ptx] = self.device.load(ptx)
        return self._modules[ptx]

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        run: Callable[[int], Report],
        restore: Callable[[], None],
    ) -> SimulatedLaunch:
        """Run a kernel once in each schedule; raise its first error if findings are raised.

        run: runs the kernel under a schedule, collecting findings. restore: resets the memory to that before the
            launch.
        """
        # pytest leaves such frames out of tracebacks
        __tracebackhide__ = True
        began = time.perf_counter()
        reports = []
        for schedule in reversed(range(self.options.schedules)):
            reports.append(run(schedule))
            if schedule:
                restore()
        launch = SimulatedLaunch(name, grid, block, tuple(reversed(reports)), time.perf_counter() - began)
        self.launches.append(launch)
        if self.options.on_finding == "raise":
            raise_first(launch.findings)
        return launch


class Counts:
    """Numbers of launches, kernels and findings, and the simulator's seconds."""

    def __init__(self) -> None:
        self.kernels: set[str] = set()
        self.launches = 0
        self.findings = 0
        self.seconds = 0.0

    def add(self, kernels: Iterable[str], launches: int, findings: int, seconds: float) -> None:
        self.kernels.update(kernels)
        self.launches += launches
        self.findings += findings
        self.seconds += seconds

    def add_launches(self, launches: Sequence[SimulatedLaunch]) -> None:
        self.add(
            {x.kernel for x in launches}, len(launches), sum(len(x.findings) for x in launches),
            sum(x.seconds for x in launches),
        )

    def line(self, arch: str) -> str:
        """Return one line, such as 'simulated sm_90: 2 kernels, 5 launches, 0 findings, 1.2 s'."""
        kernels = _count(len(self.kernels), "kernel")
        launches = _count(self.launches, "launch", "es")
        return f"simulated {arch}: {kernels}, {launches}, {_count(self.findings, 'finding')}, {self.seconds:.1f} s"


def summary(arch: str, launches: Sequence[SimulatedLaunch]) -> str:
    """Return a line with the numbers of some launches."""
    counts = Counts()
    counts.add_launches(launches)
    return counts.line(arch)


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{plural if number != 1 else ''}"


def raise_first(findings: Sequence[Finding]) -> None:
    """Raise the first error among findings; its message lists the others, too."""
    __tracebackhide__ = True
    errors = [f for f in findings if f.level == "error"]
    if errors:
        first, *others = errors
        more = "".join(f"\n\nalso: {finding}" for finding in others)
        error: SimulationError = first.error(more)
        raise error


def _distinct(findings: Any) -> list[Finding]:
    found: dict[object, Finding] = {}
    for finding in findings:
        key = (finding.rule, finding.level, _position(finding.first), _position(finding.second))
        found.setdefault(key, finding)
    return list(found.values())


def _position(place: Any) -> object:
    if place is None:
        return None
    at = place.location
    return (at.file, at.line, at.column) if at is not None else place.ptx_line
