"""Results as SARIF 2.1.0, which services for code review show at the lines of a change.

source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0"; the numbers are its sections.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .report import frames, users_frame
from .schema import Document, FindingData, KernelData, PlaceData

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

#: rule of a finding -> a sentence about it
RULES = {
    "race": "Two accesses to a location, at least one of them a write, are unordered.",
    "scope": "The scope of an atomic access does not include a thread that accesses the location.",
    "replicas": "Threads that replicate a computation store different results to a location.",
    "read-only": "A location that is loaded through the read-only path is written by the kernel.",
    "undefined": "A value is used that nothing wrote.",
    "unwritten": "A launch writes only a part of an output.",
    "in-flight": "An operand of an asynchronous operation is accessed without the necessary wait or fence.",
    "barrier": "A barrier is misused.",
    "bounds": "An address is outside all memory that the kernel may access.",
    "alignment": "An address is not a multiple of the size of its access.",
    "divergence": "A collective instruction is not executed by all threads that it requires.",
    "deadlock": "Threads wait for an event that can no longer occur.",
    "unsupported": "The simulator does not support an instruction.",
    "failure": "The kernel failed.",
    "registers": "The number of registers is changed incorrectly.",
}


def as_sarif(data: Document) -> str:
    return json.dumps(sarif_log(data), indent=2)


def sarif_log(data: Document) -> dict[str, Any]:
    """Return a SARIF log with one run."""
    found = [(kernel, finding) for kernel in data["kernels"] for finding in kernel["findings"]]
    rules = sorted({finding["rule"] for _, finding in found})
    texts = [{"text": RULES[rule]} for rule in rules]
    described = [{"id": r, "shortDescription": x, "fullDescription": x} for r, x in zip(rules, texts, strict=True)]
    notes = [
        {"level": "error", "message": {"text": f"{kernel['kernel']}: {text}"}}
        for kernel in data["kernels"] for text in _not_checked(kernel)
    ]
    run = {
        "tool": {"driver": {"name": "tilejit", "version": data["tilejit"], "rules": described}},
        "columnKind": "unicodeCodePoints",
        # 3.20: False if the tool could not do all its work
        "invocations": [{"executionSuccessful": not notes, "toolExecutionNotifications": notes}],
        "results": [_result(kernel, finding, rules.index(finding["rule"])) for kernel, finding in found],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _not_checked(kernel: KernelData) -> dict[str, None]:
    phrases = [f"not checked: {phrase}" for launch in kernel["launches"] for phrase in launch["not_checked"]]
    return dict.fromkeys([*phrases, *kernel["errors"]])


def _result(kernel: KernelData, finding: FindingData, rule_index: int) -> dict[str, Any]:
    locations: list[dict[str, Any]] = []
    related: list[dict[str, Any]] = []
    for number, place in enumerate(place for place in finding["places"] if place["file"]):
        calls = frames(place)
        users = users_frame(calls, kernel["file"])
        for index, frame in enumerate(calls):
            location = _location(frame, kernel["kernel"])
            if number == 0 and index == users:
                locations = [location]
                continue
            text = "the other access" if number else "this access"
            if index != users:
                text += " is inlined here" if index > users else ", in an inlined function"
            related.append({**location, "message": {"text": text}})
    if not locations and kernel["file"]:
        locations = [{"physicalLocation": {"artifactLocation": {"uri": _uri(kernel["file"])}}}]
    result = {
        "ruleId": finding["rule"], "ruleIndex": rule_index, "level": finding["level"],
        "message": {"text": finding["message"]}, "occurrenceCount": finding["count"],
        "properties": {"kernel": kernel["kernel"], "threads": finding["threads"], "launches": finding["launches"]},
    }
    lists = {"locations": locations, "relatedLocations": related}
    return result | {name: places for name, places in lists.items() if places}


def _location(place: PlaceData, kernel: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(place["file"])}}
    # 3.30: lines and columns begin at 1
    if place["line"]:
        physical["region"] = {"startLine": place["line"]}
        if place["column"]:
            physical["region"]["startColumn"] = place["column"]
        if place["source"]:
            physical["contextRegion"] = {"startLine": place["line"], "snippet": {"text": place["source"]}}
    return {"physicalLocation": physical, "logicalLocations": [{"fullyQualifiedName": kernel, "kind": "function"}]}


def _uri(path: str) -> str:
    """Return a relative path as a relative URI, with `/`, and an absolute path as a `file` URI."""
    return Path(path).as_uri() if os.path.isabs(path) else quote(path.replace(os.sep, "/"))
