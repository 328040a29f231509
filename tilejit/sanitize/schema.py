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

    file: str  # the source file; the PTX file if the PTX has no line information
    line: int  # in `file`; 0 if unknown
    column: int  # 0 if unknown
    source: str  # text of the line; "" if the file can't be read
    ptx_line: int  # line in the PTX; 0 if unknown
    ptx: str  # text of that line; "" if unknown
    callers: list[str]  # `FILE:LINE` of the calls through which the instruction was inlined, innermost first


class FindingData(TypedDict):
    """An error or a warning, merged over the launches of a kernel that have it at the same places."""

    rule: str  # such as "race" or "bounds"
    level: str  # "error" or "warning"
    message: str  # the first occurrence, in several lines; names the array, the threads and both parties
    count: int  # number of faulty accesses in all launches
    launches: list[int]  # indices in `launches` of those that have it
    threads: list[int]  # linear indices in the grid of the first threads at fault
    places: list[PlaceData]  # the instruction at fault, then the other one involved; empty if unknown


class LaunchData(TypedDict):
    """One run of a kernel."""

    grid: list[int]
    block: list[int]
    schedule: int | None  # seed of the thread order; None if unknown
    verdict: Verdict
    instructions: int  # executed instructions, summed over threads
    findings: int  # number of errors and warnings, before merging
    not_checked: list[str]  # a phrase for each thing that was not checked


class KernelData(TypedDict):
    """A kernel and its launches."""

    kernel: str  # readable name, such as "a::step"
    file: str  # the file that was checked, as the user wrote it
    verdict: Verdict
    launches: list[LaunchData]
    findings: list[FindingData]
    errors: list[str]  # why launches did not run or did not end


class Document(TypedDict):
    """The results of all kernels."""

    version: int
    tilejit: str  # version of tilejit
    verdict: Verdict  # "findings" if a kernel has it, else "incomplete" if a kernel has it, else "clean"
    kernels: list[KernelData]


class ParameterData(TypedDict):
    """A parameter of a kernel."""

    name: str  # in the source if it is known, else in the PTX
    bytes: int
    offset: int  # in bytes, in the parameter space
    declaration: str  # in the source; "" if unknown


class UnsupportedData(TypedDict):
    """A statement that the simulator doesn't support."""

    line: int  # line in the PTX; 0 if unknown
    text: str  # text of that line; "" if unknown
    reason: str


class ListedKernel(TypedDict):
    """A kernel of a file."""

    kernel: str  # readable name
    entry: str  # name in the PTX
    parameters: list[ParameterData]
    unsupported: list[UnsupportedData]


class Listing(TypedDict):
    """The kernels of a file."""

    version: int
    tilejit: str  # version of tilejit
    file: str
    verdict: Verdict  # "incomplete" if a kernel is unsupported, else "clean"
    kernels: list[ListedKernel]
    errors: list[str]  # why the file as a whole is unsupported
