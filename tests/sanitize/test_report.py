"""Results of checks as data, text, JSON and SARIF."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sanitize.kernels_ptx import PTX, RECORDED, SOURCE, line_of
from tests.support.typed_data import conforming
from tilejit.sanitize.names import readable, with_readable_names
from tilejit.sanitize.paths import SourcePaths, line_text
from tilejit.sanitize.report import Result, as_json, as_text, combined, document
from tilejit.sanitize.sarif import RULES, as_sarif, sarif_log
from tilejit.sanitize.schema import Document
from tilejit.simulator import Pointer, Report, run
from tilejit.simulator.checks import findings

SCALE = "_ZN3app5scaleEPfif"


def launched(entry: str, count: int, *others: Any, block: int = 256, checks: bool = True, schedule: int = 0) -> Report:
    """The report of a launch with an array of `count` words and other arguments."""
    array = Pointer(np.zeros(4 * count, np.uint8), name="y")
    return run(
        PTX, entry, (1,), (block,), [array, *others], on_finding="collect", checks=checks, schedule=schedule
    )


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the PTX and its source."""
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_text(PTX)
    Path("kernels.cu").write_text(SOURCE)
    return tmp_path


def several() -> list[Result]:
    """A race in two of three launches, a launch out of bounds, a clean one, and one that did not run."""
    races = (launched("reverse", 256), launched("reverse", 256, block=1, schedule=1), launched("reverse", 200))
    bounds = launched(SCALE, 100, np.int32(101), np.float32(2))
    clean = launched(SCALE, 100, np.int32(100), np.float32(2))
    return [
        Result("reverse", "k.ptx", races, (0, 1, 2)), Result(SCALE, "k.ptx", (bounds,)),
        Result(SCALE, "k.ptx", (clean,)), Result("no_lines", "k.ptx", (launched("no_lines", 1),)),
        Result("surface", "k.ptx", (), errors=("it has a surface instruction",)),
    ]


def test_data_conforms_to_its_schema(files: Path) -> None:
    data = json.loads(as_json(document(several(), "1.2.3")))
    assert conforming(data, Document) == []
    assert (data["version"], data["tilejit"], data["verdict"]) == (1, "1.2.3", "findings")
    assert [k["verdict"] for k in data["kernels"]] == ["findings", "findings", "clean", "findings", "incomplete"]
    # the comparison sees what is missing or of another type
    del data["kernels"][0]["launches"][0]["grid"]
    data["kernels"][1]["verdict"] = "fine"
    data["kernels"][2]["errors"] = [1]
    assert len(conforming(data, Document)) == 3


def test_text_says_what_json_says(files: Path) -> None:
    data = document(several(), "1.2.3")
    text = list(as_text(data))
    # (file:line, level, rule, count, launches) of each finding in the text
    shown, heading = [], ""
    pattern = re.compile(r"  (error|warning) \[([\w-]+)\] ([\d,]+) times?(?: in (\d+) of (\d+) launches)?: (.*)")
    for line in text:
        match = pattern.fullmatch(line)
        if match is None:
            heading = line if not line.startswith(" ") else heading
            continue
        count, launches = int(match[3].replace(",", "")), int(match[4] or 1)
        shown.append((heading, match[1], match[2], count, launches, match[6]))
    expected = []
    for kernel in data["kernels"]:
        for finding in kernel["findings"]:
            place = finding["places"][0]
            expected.append((
                f"{place['file']}:{place['line']}: {place['source']}", finding["level"], finding["rule"],
                finding["count"], len(finding["launches"]), finding["message"].splitlines()[0],
            ))
    assert shown == expected and len(shown) == 5
    # every line of a message is in the text, with both parties
    for kernel in data["kernels"]:
        for finding in kernel["findings"]:
            assert all(f"    {line}" in text for line in finding["message"].splitlines()[1:])
    assert text[-1] == "verdict: findings"
    assert "surface: not checked: it has a surface instruction" in text
    launches = [line for line in text if ", grid (" in line]
    assert len(launches) == sum(len(kernel["launches"]) for kernel in data["kernels"]) == 6
    each = f"{11 * 256:,} instructions"
    assert launches[0] == f"reverse, grid (1, 1, 1), block (256, 1, 1), schedule 0: 1 finding, {each}"
    # 100 threads are inside the array
    each = f"{8 * 256 + 6 * 100:,} instructions"
    assert launches[4] == f"app::scale, grid (1, 1, 1), block (256, 1, 1): clean, {each}"


def test_findings_of_several_launches_are_merged_by_their_lines(files: Path) -> None:
    reports = several()[0].reports
    (kernel,) = document([Result("reverse", "k.ptx", reports, (0, 1, 2))], "0")["kernels"]
    found = {finding["rule"]: finding for finding in kernel["findings"]}
    # the second launch has one thread, so that it writes tile[0] and reads tile[255], which nothing wrote
    assert {rule: found[rule]["launches"] for rule in found} == {"race": [0, 2], "undefined": [1], "bounds": [2]}
    race = found["race"]
    assert race["count"] == 512
    assert [(place["file"], place["line"], place["column"]) for place in race["places"]] == [
        ("kernels.cu", 4, 8), ("kernels.cu", 3, 1)
    ]
    assert race["places"][1]["source"] == "tile[threadIdx.x] = i;"
    assert race["places"][1]["ptx_line"] == line_of("st.shared.u32 [%r3]")
    assert [launch["verdict"] for launch in kernel["launches"]] == ["findings"] * 3


def test_a_launch_without_checks_is_incomplete(files: Path) -> None:
    report = launched("reverse", 256, checks=False)
    data = document([Result("reverse", "k.ptx", (report,))], "0")
    assert data["verdict"] == "incomplete"
    (phrase,) = data["kernels"][0]["launches"][0]["not_checked"]
    assert f"  not checked: {phrase}" in list(as_text(data))


@pytest.mark.parametrize("verdicts, expected", [
    ([], "incomplete"), (["clean"], "clean"), (["clean", "incomplete"], "incomplete"),
    (["incomplete", "findings", "clean"], "findings"),
])
def test_verdicts_combine_to_the_worst(verdicts: Any, expected: str) -> None:
    assert combined(verdicts) == expected


def test_without_line_information_the_ptx_is_the_source(files: Path) -> None:
    (kernel,) = document([Result("no_lines", "k.ptx", (launched("no_lines", 1),))], "0")["kernels"]
    (finding,) = kernel["findings"]
    line = line_of("st.global.u32 [%x1], %r1;")
    assert [(place["file"], place["line"]) for place in finding["places"]] == [("k.ptx", line)] * 2
    # of CUDA C++ the line is unknown
    data = document([Result("no_lines", "k.cu", (launched("no_lines", 1),))], "0")
    assert [(p["file"], p["line"]) for p in data["kernels"][0]["findings"][0]["places"]] == [("k.cu", 0)] * 2
    assert next(as_text(data)) == "k.cu, unknown line"


def sarif_problems(log: dict[str, Any]) -> list[str]:
    """Requirements of SARIF 2.1.0 that a log breaks.

    source: OASIS, SARIF 2.1.0, sections 3.13.2, 3.13.4, 3.14.6, 3.19.2, 3.20.14, 3.27.10, 3.27.11, 3.30.5, 3.30.6,
    3.49.3, 3.52.3, 3.58.5.
    """
    problems = []

    def need(condition: bool, what: str) -> None:
        if not condition:
            problems.append(what)

    def location(value: dict[str, Any]) -> None:
        physical = value["physicalLocation"]
        uri = physical["artifactLocation"]["uri"]
        need(bool(re.fullmatch(r"[\w.~%/:()!*'-]+", uri)), f"the URI {uri}")
        for region in (physical.get("region"), physical.get("contextRegion")):
            if region is not None:
                need(region["startLine"] >= 1 and region.get("startColumn", 1) >= 1, f"the region {region}")

    need(log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json"), "the version")
    for run_ in log["runs"]:
        driver = run_["tool"]["driver"]
        need(isinstance(driver["name"], str), "the name of the tool")
        ids = [rule["id"] for rule in driver["rules"]]
        need(len(set(ids)) == len(ids), "a rule listed twice")
        for invocation in run_["invocations"]:
            need(isinstance(invocation["executionSuccessful"], bool), "executionSuccessful")
            for notification in invocation["toolExecutionNotifications"]:
                need(bool(notification["message"]["text"]), "a notification's message")
        for result in run_["results"]:
            need(ids[result["ruleIndex"]] == result["ruleId"], "a rule's index")
            need(result["level"] in ("none", "note", "warning", "error"), "a level")
            need(bool(result["message"]["text"]), "a result's message")
            need(len(result.get("locations", [])) == 1, "a result's location")
            need(result["occurrenceCount"] >= 1, "a count")
            for each in (*result.get("locations", []), *result.get("relatedLocations", [])):
                location(each)
    return problems


def test_sarif_has_the_required_structure(files: Path) -> None:
    data = document(several(), "1.2.3")
    log = json.loads(as_sarif(data))
    assert log == sarif_log(data)
    assert sarif_problems(log) == []
    (run_,) = log["runs"]
    (invocation,) = run_["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["message"]["text"] == "surface: it has a surface instruction"
    assert len(run_["results"]) == sum(len(kernel["findings"]) for kernel in data["kernels"])
    race = next(result for result in run_["results"] if result["ruleId"] == "race")
    first, other = race["locations"][0]["physicalLocation"], race["relatedLocations"][0]["physicalLocation"]
    assert first["artifactLocation"]["uri"] == other["artifactLocation"]["uri"] == "kernels.cu"
    assert first["region"] == {"startLine": 4, "startColumn": 8} and other["region"]["startLine"] == 3
    # what the structure requires is seen
    race["level"], race["ruleIndex"] = "fatal", 1 - race["ruleIndex"]
    first["region"]["startLine"] = 0
    assert len(sarif_problems(log)) == 3


def test_sarif_describes_every_rule_of_the_simulator() -> None:
    assert RULES.keys() == findings.RULES.keys()


def test_sarif_of_a_clean_kernel_has_no_results(files: Path) -> None:
    clean = launched(SCALE, 100, np.int32(100), np.float32(2))
    log = sarif_log(document([Result(SCALE, "k.ptx", (clean,))], "0"))
    assert sarif_problems(log) == []
    assert log["runs"][0]["results"] == [] and log["runs"][0]["invocations"][0]["executionSuccessful"] is True


def test_uris_are_quoted(files: Path) -> None:
    Path("my kernels").mkdir()
    (files / "my kernels" / "kernels.cu").write_text(SOURCE)
    file = "my kernels/é.ptx"
    log = sarif_log(document([Result("reverse", file, (launched("reverse", 256),))], "0"))
    (place,) = log["runs"][0]["results"][0]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "my%20kernels/kernels.cu"
    log = sarif_log(document([Result("no_lines", file, (launched("no_lines", 1),))], "0"))
    (place,) = log["runs"][0]["results"][0]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "my%20kernels/%C3%A9.ptx"
    assert sarif_problems(log) == []


def test_recorded_paths_become_those_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = SourcePaths("out/k.ptx")
    assert paths.shown(RECORDED) == RECORDED
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "kernels.cu").write_text(SOURCE)
    # a new name, because answers are kept for a path
    assert SourcePaths("other/k.ptx").shown(RECORDED) == str(Path("src", "kernels.cu"))
    assert SourcePaths("k.ptx").shown(r"C:\agent\src\kernels.cu") == str(Path("src", "kernels.cu"))
    # a file of this machine, relative if it is in the working directory
    assert SourcePaths("k.ptx").shown(str(tmp_path / "src" / "kernels.cu")) == str(Path("src", "kernels.cu"))
    assert SourcePaths("src/../src/kernels.cu").shown(str(tmp_path / "src" / "kernels.cu")) == "src/../src/kernels.cu"
    assert SourcePaths("k.ptx").shown(__file__) == __file__
    assert line_text(str(Path("src", "kernels.cu")), 3) == "tile[threadIdx.x] = i;"
    assert line_text("src/kernels.cu", 99) == line_text("src/kernels.cu", 0) == line_text("none.cu", 1) == ""


@pytest.mark.parametrize("symbol, name", [
    ("scale", "scale"), ("_Z5scalePfif", "scale"), ("_ZN3app5scaleEPfif", "app::scale"),
    ("_Z4fillIfLi3EEvPT_", "fill<float, 3>"), ("_Z4fillILb1ELin2EEvv", "fill<true, -2>"),
    ("_ZZ7reverseE4tile", "reverse::tile"), ("_ZZN1a4stepEPKfS1_iE4tile", "a::step::tile"),
    ("_ZN12_GLOBAL__N_14stepEPf", "(anonymous)::step"), ("_ZL4stepi", "step"),
    ("_ZN7kernels3addB2v1B3abcE5ArrayIfLi1E1CE", "kernels::add"), ("_Z3addI6__halfEvPT_", "add<__half>"),
    ("_Z3addIPKfEvT_", "add<float const*>"), ("_Z3addIJifEEvDpT_", "add<int, float>"),
    # constructs that aren't decoded, and what isn't a symbol
    ("_Z3addIXadL_Z3onevEEEvv", "_Z3addIXadL_Z3onevEEEvv"), ("_Z99x", "_Z99x"), ("_Z", "_Z"), ("_ZN", "_ZN"),
    ("_ZN3app", "_ZN3app"), ("_ZZ", "_ZZ"), ("", ""),
])
def test_symbols_are_readable(symbol: str, name: str) -> None:
    assert readable(symbol) == name


def test_symbols_in_a_text_are_readable() -> None:
    text = "reads _ZZ7reverseE4tile+1020 bytes and my_Zone of _Z99x"
    assert with_readable_names(text) == "reads reverse::tile+1020 bytes and my_Zone of _Z99x"


INLINED = """.version 8.6
.target sm_90
.address_size 64
.file 1 "user.cu"
.file 2 "library.cuh"
.visible .entry k() {
.reg .b64 %x<3>; .reg .b32 %r<3>;
.loc 1 10 5
mov.u64 %x1, 0;
.loc 2 200 9, function_name $L__info_string0, inlined_at 1 10 5
ld.global.u32 %r1, [%x1];
.loc 1 20 5
mov.u64 %x2, 0;
.loc 2 200 9, function_name $L__info_string0, inlined_at 1 20 5
ld.global.u32 %r1, [%x2];
ret; }
"""


def test_findings_in_one_inlined_line_are_distinguished_by_its_callers():
    launches = tuple(run(INLINED, "k", (1,), (1,), [], on_finding="collect") for _ in range(2))
    (kernel,) = document([Result("k", "k.ptx", launches)], "1.2.3")["kernels"]
    found = [(x["places"][0]["line"], x["places"][0]["callers"], x["count"]) for x in kernel["findings"]]
    assert found == [(200, ["user.cu:10"], 2), (200, ["user.cu:20"], 2)]
