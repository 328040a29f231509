"""`python -m tilejit count`: runs a kernel on the simulator and counts instructions and memory traffic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import DType
from ..errors import LaunchError
from ..frontend import NO_DEFAULT, ParameterKind
from ..frontend.language import Spec
from ..jit import Kernel, simulate
from ..runtime import devices
from ..target import Target
from ..target import target as find_target
from .kernel_files import arguments_of, kernels_of, one_kernel
from .schema import VERSION, CountDocument, LineData

if TYPE_CHECKING:
    from ..simulator import Report

#: random integers are smaller than this
_INTEGERS = 100
_MOST_DIMENSIONS = 3


def count(
    place: str, grid: str, specs: Sequence[str], target: str | None, threads: int | None, style: str, version: str
) -> Iterator[str]:
    """Run one kernel of a file and yield the lines of a report.

    place: `FILE` or `FILE::KERNEL`. grid: extents with commas between them. specs: one `NAME=VALUE` per argument;
    arrays get random data: standard normal floats, integers 0 to 99. style: "text" or "json".
    raises: TilejitError for bad input or for an error in the kernel, such as a race.
    """
    file, _, wanted = place.partition("::")
    extents = _extents(grid)
    kernel = one_kernel(file, wanted, kernels_of(file, run=False))
    arguments = _arguments(kernel, specs)
    chosen = find_target(target) if target else kernel.options.target or devices.named("sim").target
    report = simulate(kernel, extents, target=chosen, threads=threads, profile=True, **arguments)
    data = _counts(kernel.name, chosen, report, version)
    yield from as_text(data) if style == "text" else (json.dumps(data, indent=2),)


def _extents(grid: str) -> tuple[int, ...]:
    parts = [part.strip() for part in grid.split(",")]
    if len(parts) > _MOST_DIMENSIONS or not all(part.isascii() and part.isdigit() for part in parts):
        raise LaunchError(
            f"--grid {grid} is not one to three integers with commas between them", hint="write --grid 8, or --grid 8,4"
        )
    return tuple(map(int, parts))


def _arguments(kernel: Kernel, specs: Sequence[str]) -> dict[str, Any]:
    written = arguments_of(kernel, specs)
    arguments: dict[str, Any] = {}
    for position, parameter in enumerate(kernel.open_parameters):
        name = parameter.name
        value = written.pop(name, parameter.spec)
        if isinstance(value, Spec):
            arguments[name] = _random_array(value, position)
        elif value is None and parameter.default is not NO_DEFAULT:
            continue
        elif value is None or (isinstance(value, DType) and parameter.kind is not ParameterKind.CONSTEXPR):
            raise LaunchError(
                f"to run {kernel.name}, {name} needs a value", hint=f"pass --spec {name}=7, or {name}=float32[64, 64]"
            )
        else:
            arguments[name] = value
    return {**arguments, **written}


def _random_array(spec: Spec, position: int) -> np.ndarray[Any, Any]:
    dtype = spec.dtype.numpy
    reach = [(extent - 1) * stride for extent, stride in zip(spec.shape, spec.strides, strict=True)]
    first = -sum(min(0, step) for step in reach)
    size = 0 if 0 in spec.shape else first + sum(max(0, step) for step in reach) + 1
    random = np.random.default_rng(position)
    floats = random.standard_normal(size)
    memory = (floats if dtype.kind not in "iub" else random.integers(0, _INTEGERS, size)).astype(dtype)
    strides = [stride * dtype.itemsize for stride in spec.strides]
    array: np.ndarray[Any, Any] = np.ndarray(spec.shape, dtype, memory, first * dtype.itemsize if size else 0, strides)
    return array


def _counts(kernel: str, target: Target, report: Report, version: str) -> CountDocument:
    executed = sorted(report.instructions.items(), key=lambda item: (-item[1], item[0]))
    lines: list[LineData] = []
    for number, each in sorted(report.lines.items()):
        traffic, location = each.traffic, report.locations.get(number, "")
        lines.append({
            # without the calls through which the code was inlined
            "line": number, "location": location.partition("\n")[0], "instructions": each.instructions,
            "wavefronts": traffic.wavefronts, "ideal_wavefronts": traffic.ideal_wavefronts,
            "sectors": traffic.sectors, "ideal_sectors": traffic.ideal_sectors,
        })
    return {
        "version": VERSION, "tilejit": version, "kernel": kernel, "target": str(target), "grid": list(report.grid),
        "block": list(report.block), "instructions": report.thread_instructions,
        "by_instruction": [{"instruction": name, "times": times} for name, times in executed], "lines": lines,
    }


def as_text(data: CountDocument) -> Iterator[str]:
    """Yield the lines of a report: totals, instructions, then a table of source lines."""
    grid, block = (", ".join(map(str, extents)) for extents in (data["grid"], data["block"]))
    yield f"{data['kernel']} for {data['target']}, grid ({grid}), block ({block})"
    yield f"{data['instructions']:,} instructions, summed over threads:"
    yield from (f"  {each['times']:12,}  {each['instruction']}" for each in data["by_instruction"])
    yield "line  instructions  shared wavefronts (ideal)  global sectors (ideal)"
    for line in data["lines"]:
        wavefronts = f"{line['wavefronts']:,} ({line['ideal_wavefronts']:,})"
        sectors = f"{line['sectors']:,} ({line['ideal_sectors']:,})"
        shown = f"{line['line']:4d}  {line['instructions']:12,}  {wavefronts:>25}  {sectors:>22}  {line['location']}"
        yield shown.rstrip()
