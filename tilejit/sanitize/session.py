"""A run of a program of another compiler on the simulator: its launches and their findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..dataclass import dataclass
from ..errors import LaunchError
from ..simulator import Checks, Device, DeviceModule, Finding, Report
from ..target import TARGETS, Target, target
from ..wording import counted

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
        # by text, because 1 equals True
        texts = [repr(x) for x in allowed]
        if repr(value) not in texts:
            raise LaunchError(f"{name} is {value!r}", hint=f"pass one of {', '.join(texts)}")
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
        """The findings of all schedules; those of one rule at the same lines only once."""
        found: dict[object, Finding] = {}
        for finding in (finding for report in self.reports for finding in report.findings):
            lines = tuple(
                (at.location.file, at.location.line, at.location.column) if at.location else at.ptx_line
                for at in (finding.first, finding.second) if at is not None
            )
            found.setdefault((finding.rule, finding.level, lines or finding.message), finding)
        return tuple(found.values())

    @property
    def counts(self) -> tuple[str, int, float]:
        """The kernel, the number of findings, and the seconds, for `summary`."""
        return self.kernel, len(self.findings), self.seconds


class Session:
    """The launches of a program while a context such as `tilejit.sanitize.triton` is active, in their order.

    device: the simulated GPU; its memory persists until the context ends.
    """

    def __init__(self, chosen: SessionOptions) -> None:
        self.options = chosen
        self.device = Device()
        self.launches: list[SimulatedLaunch] = []
        #: thread instructions that the launches executed, each in one schedule
        self.instructions = 0
        self._modules: dict[str, DeviceModule] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all launches: errors and warnings."""
        return tuple(f for launch in self.launches for f in launch.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.level == "error")

    def forget(self) -> list[SimulatedLaunch]:
        """Return the launches, and remove them from the session."""
        launches, self.launches = self.launches, []
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
        self.instructions += reports[-1].thread_instructions
        errors = [f for f in launch.findings if f.level == "error"]
        if errors and self.options.on_finding == "raise":
            first, *others = errors
            raise first.error("".join(f"\n\nalso: {finding}" for finding in others))
        return launch


def summary(arch: str, launches: Sequence[tuple[str, int, float]]) -> str:
    """Return one line, such as 'simulated sm_90: 2 kernels, 5 launches, 0 findings, 1.2 s'.

    launches: `SimulatedLaunch.counts` of each.
    """
    kernels = counted(len({kernel for kernel, _, _ in launches}), "kernel")
    findings = counted(sum(found for _, found, _ in launches), "finding")
    seconds = sum(seconds for _, _, seconds in launches)
    return f"simulated {arch}: {kernels}, {counted(len(launches), 'launch')}, {findings}, {seconds:.1f} s"
