"""The JSON that `--format json` prints, as types; also the structured results of `python -m tilejit mcp`.

| command | type |
| --- | --- |
| `check` | `Document`, or `Listing` without a kernel |
| `explain` | `ExplanationDocument`, or `TextDocument` with `--ptx`, `--tile-ir`, `--lane-ir` or `--llvm` |
| `doctor` | `DoctorDocument` |
| `simulator` | `InstructionDocument` |
| `count` | `CountDocument` |
| `layouts` | `LayoutDocument` |

All have the keys of `Versioned`. `version` changes if a key is removed or changes its meaning; readers must ignore keys
that they don't know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TypedDict

from .. import __version__
from ..sanitize.schema import VERSION
from ..sanitize.schema import Document as Document
from ..sanitize.schema import Listing as Listing


class Versioned(TypedDict):
    """The keys of each document. version: of the schema. tilejit: version of the package."""

    version: int
    tilejit: str


VERSIONS: Versioned = {"version": VERSION, "tilejit": __version__}


def formatted(style: str, data: Mapping[str, object], text: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a command's output. style: "text" or "json"."""
    yield from text if style == "text" else (json.dumps(data, indent=2),)


class PackageData(TypedDict):
    """A package that tilejit uses. installed: its version, None if it is not installed."""

    name: str
    installed: str | None


class CacheData(TypedDict):
    """The cache of compiled kernels on disk. folder: None if it is off."""

    folder: str | None
    is_writable: bool
    #: the reason why it is off, or a problem with its settings; None without one
    problem: str | None


class DoctorDocument(Versioned):
    """The installation, and the device that launches use by default."""

    python: str
    platform: str
    packages: list[PackageData]
    #: the reason why the compiler is unusable, None if it is usable
    compiler_problem: str | None
    #: a line for each GPU
    gpus: list[str]
    #: the reason why there is no GPU, None if there is one
    gpu_problem: str | None
    #: "on", "off (TILEJIT_SIM_CHECKS=0)", or "undetermined" with the reason
    checks: str
    cache: CacheData
    #: name and target of the device that is used; None if there is none
    device: str | None
    target: str | None
    #: the reason for the choice of the device, or why there is none
    reason: str


class ExecutedData(TypedDict):
    """An instruction and how often it is executed: by each thread in explanations, by all threads in counts."""

    instruction: str
    times: int


class DeclinedData(TypedDict):
    """A variant that was not chosen."""

    variant: str
    reasons: list[str]


class OperationData(TypedDict):
    """A tile operation and its variant."""

    #: `file.py:7`, "-" if unknown
    line: str
    #: text of the line, "" if unknown
    source: str
    operation: str
    variant: str
    width: str
    #: iterations over vectors, instructions or results, "-" if there are none
    rounds: str
    instructions: list[ExecutedData]
    #: descriptions: the vectors that are transferred by elements, the reason why the width is not larger, the sectors
    #: of an uncoalesced access; None if there is nothing to describe
    by_elements: str | None
    not_wider: str | None
    uncoalesced: str | None
    #: variants for operands in other memory spaces only with `--all`
    declined: list[DeclinedData]


class ElementData(TypedDict):
    """Accesses to single elements on a line."""

    line: str
    #: "load", "store", or "atomic" with the operation
    kind: str
    #: buffer, memory space and element type
    place: str
    bits: int
    #: occurrences on the line
    times: int


class TensorMapData(TypedDict):
    """A tensor map that a launch creates. of: the array. axes: its dimensions, fastest first."""

    of: str
    dtype: str
    axes: list[int]
    box: list[int]
    swizzle: str


class InsertedData(TypedDict):
    """An instruction that the compiler inserted for a copy or a barrier."""

    line: str
    instruction: str
    reason: str
    times: int


class ExplainedKernel(TypedDict):
    """The explanation of a kernel. notes: on layouts, local memory, instruction counts, the tuned configuration."""

    kernel: str
    target: str
    operations: list[OperationData]
    elements: list[ElementData]
    tensor_maps: list[TensorMapData]
    inserted: list[InsertedData]
    notes: list[str]


class ExplanationDocument(Versioned):
    """The explanations of the kernels of a file."""

    kernels: list[ExplainedKernel]


class KernelText(TypedDict):
    """A compiled kernel as text. threads, shared_bytes: per CTA. kind: "ptx", "tile_ir", "lane_ir" or "llvm_ir"."""

    kernel: str
    target: str
    threads: int
    shared_bytes: int
    kind: str
    text: str


class TextDocument(Versioned):
    """The kernels of a file as text."""

    kernels: list[KernelText]


class InstructionData(TypedDict):
    """PTX instructions that the simulator knows."""

    topic: str
    opcodes: list[str]
    #: in the notation that `InstructionDocument.notation` describes
    modifiers: str
    #: "exact", "approximate" or "unsupported"
    fidelity: str
    #: a note on the fidelity, "" without one
    note: str
    #: False if the race check ignores some of its memory accesses
    is_checked_for_races: bool


class InstructionDocument(Versioned):
    """The simulator's table of instructions. unknown: those that the compiler may emit and the simulator lacks."""

    notation: str
    instructions: list[InstructionData]
    unknown: list[str]


class LineData(TypedDict):
    """The executed instructions of a source line, and its memory traffic."""

    #: 0 for instructions without a location
    line: int
    #: `FILE:LINE: TEXT`, "" if unknown
    location: str
    #: executed instructions, summed over threads
    instructions: int
    #: wavefronts in shared memory, and the minimum; the difference are bank conflicts
    wavefronts: int
    ideal_wavefronts: int
    #: sectors of 32 bytes in global memory, and the minimum
    sectors: int
    ideal_sectors: int


class CountDocument(Versioned):
    """Counts of one launch on the simulator. instructions: executed ones, summed over threads."""

    kernel: str
    target: str
    grid: list[int]
    block: list[int]
    instructions: int
    #: the most frequent first
    by_instruction: list[ExecutedData]
    lines: list[LineData]


class AxisData(TypedDict):
    """The coordinates of a layout's elements on one axis, such as "laneid", or "m" for memory and registers."""

    axis: str
    #: for each copy of the tile, the coordinates of all elements in C order
    copies: list[list[int]]


class LayoutDocument(Versioned):
    """A layout: the place of each element."""

    layout: str
    shape: list[int]
    axes: list[AxisData]
