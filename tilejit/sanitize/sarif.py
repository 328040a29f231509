"""Results as SARIF 2.1.0, which services for code review show at the lines of a change.

source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0"; the numbers are its sections.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .report import frames, users_frame
from .schema import Document, FindingData, KernelData, PlaceData

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

#: rule -> a sentence about it
_RULES = {
    "race": "Two accesses to a location, at least one of them a write, are unordered.",
    "scope": "The scope of an atomic access does not include a thread that accesses the location.",
    "read-only": "A location that is loaded through the read-only path is written by the kernel.",
    "undefined": "A value is used that nothing wrote.",
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
    run = {
        "tool": {"driver": {"name": "tilejit", "version": data["tilejit"], "rules": [_rule(rule) for rule in rules]}},
        "columnKind": "unicodeCodePoints",
        # 3.20: False if the tool could not do all its work
        "invocations": [{
            "executionSuccessful": not any(True for _ in _notifications(data)),
            "toolExecutionNotifications": list(_notifications(data)),
        }],
        "results": [_result(kernel, finding, rules.index(finding["rule"])) for kernel, finding in found],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: str) -> dict[str, Any]:
    text = _RULES.get(rule, f"{rule}.")
    return {"id": rule, "shortDescription": {"text": text}, "fullDescription": {"text": text}}


def _notifications(data: Document) -> Iterator[dict[str, Any]]:
    """Yield a notification for each thing that was not checked."""
    for kernel in data["kernels"]:
        phrases = [f"not checked: {phrase}" for launch in kernel["launches"] for phrase in launch["not_checked"]]
        for text in dict.fromkeys([*phrases, *kernel["errors"]]):
            yield {"level": "error", "message": {"text": f"{kernel['kernel']}: {text}"}}


def _result(kernel: KernelData, finding: FindingData, rule_index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding["rule"], "ruleIndex": rule_index, "level": finding["level"],
        "message": {"text": finding["message"]}, "occurrenceCount": finding["count"],
        "properties": {"kernel": kernel["kernel"], "threads": finding["threads"], "launches": finding["launches"]},
    }
    related = []
    for number, place in enumerate(place for place in finding["places"] if place["file"]):
        users = users_frame(place, kernel["file"])
        for index, frame in enumerate(frames(place)):
            location = _location(frame, kernel["kernel"])
            if number == 0 and index == users:
                result["locations"] = [location]
                continue
            party = "the other access" if number else "this access"
            text = f"{party} is inlined here" if index > users else f"{party}, in an inlined function"
            related.append({**location, "message": {"text": party if index == users else text}})
    if "locations" not in result and kernel["file"]:
        result["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": _uri(kernel["file"])}}}]
    if related:
        result["relatedLocations"] = related
    return result


def _location(place: PlaceData, kernel: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(place["file"])}}
    if place["line"]:
        # 3.30: lines and columns begin at 1
        region: dict[str, Any] = {"startLine": place["line"]}
        if place["column"]:
            region["startColumn"] = place["column"]
        physical["region"] = region
        if place["source"]:
            physical["contextRegion"] = {"startLine": place["line"], "snippet": {"text": place["source"]}}
    return {"physicalLocation": physical, "logicalLocations": [{"fullyQualifiedName": kernel, "kind": "function"}]}


def _uri(path: str) -> str:
    """Return a relative path as a relative URI, with `/`, and an absolute path as a `file` URI."""
    return Path(path).as_uri() if os.path.isabs(path) else quote(path.replace(os.sep, "/"))
