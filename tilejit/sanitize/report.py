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
    reports: dict[str, list[tuple[int, Report]]] = {}
    for launch in launches:
        reports.setdefault(launch.kernel, []).extend(enumerate(launch.reports))
    return [
        Result(kernel, "", tuple(report for _, report in each), tuple(schedule for schedule, _ in each))
        for kernel, each in reports.items()
    ]


def document(results: Sequence[Result], version: str) -> Document:
    """Return the results as plain data. version: that of tilejit."""
    kernels = [_kernel(result) for result in results]
    verdict = combined([kernel["verdict"] for kernel in kernels])
    return {"version": VERSION, "tilejit": version, "verdict": verdict, "kernels": kernels}


def combined(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on all that `verdicts` are about; "incomplete" if there are none."""
    if not verdicts:
        return "incomplete"
    order: tuple[Verdict, ...] = ("findings", "incomplete", "clean")
    return min(verdicts, key=order.index)


def _kernel(result: Result) -> KernelData:
    paths = SourcePaths(result.file)
    merged: dict[tuple[object, ...], FindingData] = {}
    launches: list[LaunchData] = []
    for index, report in enumerate(result.reports):
        schedule = result.schedules[index] if result.schedules else None
        launches.append(_launch(report, schedule))
        for finding in report.findings:
            _merge(merged, index, _finding(finding, paths))
    verdicts: list[Verdict] = [launch["verdict"] for launch in launches]
    if result.errors:
        verdicts.append("incomplete")
    return {
        "kernel": readable(result.kernel), "file": result.file, "verdict": combined(verdicts), "launches": launches,
        "findings": sorted(merged.values(), key=_order), "errors": list(result.errors),
    }


def _launch(report: Report, schedule: int | None) -> LaunchData:
    return {
        "grid": list(report.grid), "block": list(report.block), "schedule": schedule, "verdict": report.verdict,
        "instructions": report.thread_instructions, "findings": len(report.findings),
        "not_checked": list(report.not_checked),
    }


def _finding(finding: Finding, paths: SourcePaths) -> FindingData:
    parties = [place for place in (finding.first, finding.second) if place is not None]
    places = [_place(place.ptx_line, place.text, place.location, paths) for place in parties]
    return {
        "rule": finding.rule, "level": finding.level, "message": with_readable_names(paths.in_text(finding.message)),
        "count": finding.count, "launches": [], "threads": list(finding.threads), "places": places,
    }


def _place(ptx_line: int, ptx: str, location: Location | None, paths: SourcePaths) -> PlaceData:
    if location is None:
        is_ptx = paths.file.endswith(".ptx") and ptx_line > 0
        return {
            "file": paths.file, "line": ptx_line if is_ptx else 0, "column": 0, "source": ptx if is_ptx else "",
            "ptx_line": ptx_line, "ptx": ptx, "callers": [],
        }
    own, *callers = (line.strip().removeprefix("called from ") for line in location.text.splitlines())
    file = paths.shown(_split(own)[0])
    return {
        "file": file, "line": location.line, "column": location.column, "source": line_text(file, location.line),
        "ptx_line": ptx_line, "ptx": ptx,
        "callers": [f"{paths.shown(path)}:{number}" for path, number in map(_split, callers)],
    }


def _split(location: str) -> tuple[str, str]:
    path, _, number = location.rpartition(":")
    return (path, number) if path else (location, "0")


def frames(place: PlaceData) -> list[PlaceData]:
    """Return an instruction's place and those of the calls through which it was inlined, innermost first."""
    result = [place]
    for caller in place["callers"]:
        file, _, number = caller.rpartition(":")
        line = int(number)
        result.append({**place, "file": file, "line": line, "column": 0, "source": line_text(file, line)})
    return result


def users_frame(place: PlaceData, file: str) -> int:
    """Return the index of the innermost frame in the user's files: the checked file and those of the working directory.

    0 if no frame is there.
    """
    users = [index for index, each in enumerate(frames(place)) if each["file"] == file or not isabs(each["file"])]
    return users[0] if users else 0


def _merge(merged: dict[tuple[object, ...], FindingData], index: int, finding: FindingData) -> None:
    places: list[object] = [(p["file"], p["line"], p["column"], *p["callers"]) for p in finding["places"]]
    key = (finding["rule"], finding["level"], *(places or [finding["message"]]))
    first = merged.setdefault(key, finding)
    if first is not finding:
        first["count"] += finding["count"]
    if index not in first["launches"]:
        first["launches"].append(index)


def _order(finding: FindingData) -> tuple[str, int, int, str]:
    """Return a sorting key: by line, then errors before warnings."""
    place = finding["places"][0] if finding["places"] else None
    position = (place["file"], place["line"], place["column"]) if place else ("", 0, 0)
    return (*position, finding["level"])


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
            yield from _finding_lines(finding, len(kernel["launches"]))
        for launch in kernel["launches"]:
            yield _launch_line(kernel["kernel"], launch)
            yield from (f"  not checked: {phrase}" for phrase in launch["not_checked"])
        yield from (f"{kernel['kernel']}: not checked: {error}" for error in kernel["errors"])
    yield f"verdict: {data['verdict']}"


def _heading(finding: FindingData, file: str) -> str:
    if not finding["places"] or not finding["places"][0]["line"]:
        return f"{file or 'unknown file'}, unknown line"
    place = frames(finding["places"][0])[users_frame(finding["places"][0], file)]
    where = f"{place['file']}:{place['line']}"
    return f"{where}: {place['source']}" if place["source"] else where


def _finding_lines(finding: FindingData, launches: int) -> Iterator[str]:
    times = f"{finding['count']:,} {'time' if finding['count'] == 1 else 'times'}"
    if launches > 1:
        times += f" in {len(finding['launches'])} of {launches} launches"
    first, *others = finding["message"].splitlines()
    yield f"  {finding['level']} [{finding['rule']}] {times}: {first}"
    yield from (f"    {line}" for line in others)


def _launch_line(kernel: str, launch: LaunchData) -> str:
    grid, block = (", ".join(map(str, extents)) for extents in (launch["grid"], launch["block"]))
    schedule = "" if launch["schedule"] is None else f", schedule {launch['schedule']}"
    verdict: str = launch["verdict"]
    if launch["findings"]:
        found = counted(launch["findings"], "finding")
        verdict = found if verdict == "findings" else f"{verdict} ({found})"
    return f"{kernel}, grid ({grid}), block ({block}){schedule}: {verdict}, {launch['instructions']:,} instructions"
