"""Results of checks, as data (`document`), text and JSON. `sarif.py` makes SARIF of the same data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from os.path import isabs
from typing import TYPE_CHECKING

from ..dataclass import dataclass
from ..wording import counted
from .names import readable, with_readable_names
from .paths import SourcePaths, line_text
from .schema import VERSION, Document, FindingData, KernelData, LaunchData, Listing, PlaceData, Verdict

if TYPE_CHECKING:
    from ..simulator import Finding, Location, Report
    from .session import SimulatedLaunch


@dataclass(frozen=True, slots=True)
class Result:
    """The launches of one kernel.

    file: path of the file that was checked, as the user wrote it, or "".
    schedules: the seed of each report's thread order; () if they are unknown.
    errors: why launches did not run or did not end.
    """

    kernel: str
    file: str
    reports: tuple[Report, ...]
    schedules: tuple[int, ...] = ()
    errors: tuple[str, ...] = ()


def results_of(launches: Sequence[SimulatedLaunch]) -> list[Result]:
    """Return a result for each kernel of a session's launches, in the order of their first launches."""
    reports: dict[str, list[Report]] = {}
    schedules: dict[str, list[int]] = {}
    for launch in launches:
        reports.setdefault(launch.kernel, []).extend(launch.reports)
        schedules.setdefault(launch.kernel, []).extend(range(len(launch.reports)))
    return [Result(kernel, "", tuple(each), tuple(schedules[kernel])) for kernel, each in reports.items()]


def document(results: Sequence[Result], version: str) -> Document:
    """Return the results as plain data. version: that of tilejit."""
    kernels = [_kernel(result) for result in results]
    verdict = combined([kernel["verdict"] for kernel in kernels])
    return {"version": VERSION, "tilejit": version, "verdict": verdict, "kernels": kernels}


def combined(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on all that `verdicts` are about; "incomplete" if there are none."""
    order: tuple[Verdict, ...] = ("findings", "incomplete", "clean")
    return min(verdicts, key=order.index, default="incomplete")


def _kernel(result: Result) -> KernelData:
    paths = SourcePaths(result.file)
    merged: dict[object, FindingData] = {}
    launches: list[LaunchData] = []
    for index, report in enumerate(result.reports):
        launches.append({
            "grid": list(report.grid), "block": list(report.block),
            "schedule": result.schedules[index] if result.schedules else None, "verdict": report.verdict,
            "instructions": report.thread_instructions, "findings": len(report.findings),
            "not_checked": list(report.not_checked),
        })
        for data in (_finding(finding, paths) for finding in report.findings):
            places = tuple((*_position(place), *place["callers"]) for place in data["places"])
            first = merged.setdefault((data["rule"], data["level"], places or data["message"]), data)
            if first is not data:
                first["count"] += data["count"]
            if index not in first["launches"]:
                first["launches"].append(index)
    verdicts: list[Verdict] = [launch["verdict"] for launch in launches]
    if result.errors:
        verdicts.append("incomplete")
    return {
        "kernel": readable(result.kernel), "file": result.file, "verdict": combined(verdicts), "launches": launches,
        "findings": sorted(merged.values(), key=_order), "errors": list(result.errors),
    }


def _position(place: PlaceData) -> tuple[str, int, int]:
    return place["file"], place["line"], place["column"]


def _order(finding: FindingData) -> tuple[str, int, int, str]:
    """Return a sorting key: by line, then errors before warnings."""
    return *(_position(finding["places"][0]) if finding["places"] else ("", 0, 0)), finding["level"]


def _finding(finding: Finding, paths: SourcePaths) -> FindingData:
    places = [x for x in (finding.first, finding.second) if x is not None]
    return {
        "rule": finding.rule, "level": finding.level, "message": with_readable_names(paths.in_text(finding.message)),
        "count": finding.count, "launches": [], "threads": list(finding.threads),
        "places": [_place(x.ptx_line, x.text, x.location, paths) for x in places],
    }


def _place(ptx_line: int, ptx: str, location: Location | None, paths: SourcePaths) -> PlaceData:
    file, column = paths.file, 0
    callers: list[str] = []
    if location is not None:
        calls = [line.strip().removeprefix("called from ").rpartition(":") for line in location.text.splitlines()]
        file, *files = (paths.shown(path) for path, _, _ in calls)
        callers = [f"{path}:{call[2]}" for path, call in zip(files, calls[1:], strict=True)]
        line, column, source = location.line, location.column, line_text(file, location.line)
    elif file.endswith(".ptx"):
        line, source = ptx_line, ptx
    else:
        line, source = 0, ""
    return {
        "file": file, "line": line, "column": column, "source": source, "ptx_line": ptx_line, "ptx": ptx,
        "callers": callers,
    }


def frames(place: PlaceData) -> list[PlaceData]:
    """Return an instruction's place and those of the calls through which it was inlined, innermost first."""
    result = [place]
    for caller in place["callers"]:
        file, _, number = caller.rpartition(":")
        line = int(number)
        result.append({**place, "file": file, "line": line, "column": 0, "source": line_text(file, line)})
    return result


def users_frame(frames: Sequence[PlaceData], file: str) -> int:
    """Return the index of the innermost frame in the user's files: the checked file and those of the working directory.

    0 if no frame is there.
    """
    return next((i for i, frame in enumerate(frames) if frame["file"] == file or not isabs(frame["file"])), 0)


def as_json(data: Document | Listing) -> str:
    return json.dumps(data, indent=2)


def as_text(data: Document) -> Iterator[str]:
    """Yield the lines of a report: findings grouped by source line, then a verdict per launch, then the verdict."""
    for kernel in data["kernels"]:
        heading = ""
        for finding in kernel["findings"]:
            line = _heading(finding, kernel["file"])
            if line != heading:
                yield line
                heading = line
            times = f"{finding['count']:,} time{'s' * (finding['count'] != 1)}"
            if len(kernel["launches"]) > 1:
                times += f" in {len(finding['launches'])} of {len(kernel['launches'])} launches"
            first, *others = finding["message"].splitlines()
            yield f"  {finding['level']} [{finding['rule']}] {times}: {first}"
            yield from (f"    {line}" for line in others)
        for launch in kernel["launches"]:
            yield _launch_line(kernel["kernel"], launch)
            yield from (f"  not checked: {phrase}" for phrase in launch["not_checked"])
        yield from (f"{kernel['kernel']}: not checked: {error}" for error in kernel["errors"])
    yield f"verdict: {data['verdict']}"


def _heading(finding: FindingData, file: str) -> str:
    if not finding["places"] or not finding["places"][0]["line"]:
        return f"{file or 'unknown file'}, unknown line"
    calls = frames(finding["places"][0])
    place = calls[users_frame(calls, file)]
    where = f"{place['file']}:{place['line']}"
    return f"{where}: {place['source']}" if place["source"] else where


def _launch_line(kernel: str, launch: LaunchData) -> str:
    grid, block = (", ".join(map(str, extents)) for extents in (launch["grid"], launch["block"]))
    schedule = "" if launch["schedule"] is None else f", schedule {launch['schedule']}"
    verdict: str = launch["verdict"]
    if launch["findings"]:
        found = counted(launch["findings"], "finding")
        verdict = found if verdict == "findings" else f"{verdict} ({found})"
    return f"{kernel}, grid ({grid}), block ({block}){schedule}: {verdict}, {launch['instructions']:,} instructions"
