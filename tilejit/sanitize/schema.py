"""The JSON that `python -m tilejit check --format json` prints, as types: a Document, or a Listing without a kernel.

`version` changes if a key is removed or changes its meaning; readers must ignore keys that they don't know.
"""

from __future__ import annotations

from typing import Literal, TypedDict

VERSION = 1

#: "findings": errors were found. "incomplete": none was found, but something was not checked. "clean": all was checked
Verdict = Literal["clean", "findings", "incomplete"]


class PlaceData(TypedDict):
    """An instruction of a finding."""

    #: path of the source file, or of the PTX file if the PTX has no line information
    file: str
    #: 0 if unknown; a line of the PTX file if the PTX has no line information
    line: int
    #: 0 if unknown
    column: int
    #: text of the line, "" if the file can't be read
    source: str
    #: line in the PTX, and its text; 0 and "" if unknown
    ptx_line: int
    ptx: str
    #: `FILE:LINE` of the calls through which the instruction was inlined, innermost first
    callers: list[str]


class FindingData(TypedDict):
    """An error or a warning, merged over the launches of a kernel that have it at the same places."""

    #: such as "race" or "bounds"
    rule: str
    level: str
    #: the first occurrence, in several lines; names the array, the threads and both parties
    message: str
    #: number of faulty accesses in all launches
    count: int
    #: indices in `launches` of those that have it
    launches: list[int]
    #: linear indices in the grid of the first threads at fault
    threads: list[int]
    #: the instruction at fault, then the other one involved; empty if unknown
    places: list[PlaceData]


class LaunchData(TypedDict):
    """One run of a kernel."""

    grid: list[int]
    block: list[int]
    #: seed of the thread order; None if unknown
    schedule: int | None
    verdict: Verdict
    #: executed instructions, summed over threads
    instructions: int
    #: number of errors and warnings, before merging
    findings: int
    #: a phrase for each thing that was not checked
    not_checked: list[str]


class KernelData(TypedDict):
    """A kernel and its launches."""

    #: readable name, such as "a::step"
    kernel: str
    #: path of the file that was checked, as the user wrote it
    file: str
    verdict: Verdict
    launches: list[LaunchData]
    findings: list[FindingData]
    #: why launches did not run or did not end
    errors: list[str]


class Document(TypedDict):
    """The results of all kernels."""

    version: int
    #: version of tilejit
    tilejit: str
    #: "findings" if a kernel has it, else "incomplete" if a kernel has it, else "clean"
    verdict: Verdict
    kernels: list[KernelData]


class ParameterData(TypedDict):
    """A parameter of a kernel."""

    #: name in the source if it is known, else in the PTX
    name: str
    bytes: int
    #: in bytes, in the parameter space
    offset: int
    #: declaration in the source, "" if unknown
    declaration: str


class UnsupportedData(TypedDict):
    """A statement that the simulator doesn't support."""

    #: line in the PTX, and its text; 0 and "" if unknown
    line: int
    text: str
    reason: str


class ListedKernel(TypedDict):
    """A kernel of a file."""

    #: readable name
    kernel: str
    #: name in the PTX
    entry: str
    parameters: list[ParameterData]
    unsupported: list[UnsupportedData]


class Listing(TypedDict):
    """The kernels of a file."""

    version: int
    tilejit: str
    file: str
    #: "incomplete" if a kernel is unsupported, else "clean"
    verdict: Verdict
    kernels: list[ListedKernel]
    #: why the file as a whole is unsupported
    errors: list[str]
