"""`python -m tilejit count`: runs a kernel on the simulator and counts instructions and memory traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..dtypes import DType
from ..errors import LaunchError
from ..frontend import NO_DEFAULT, ParameterKind
from ..frontend.language import Spec
from ..jit import Kernel, simulate
from ..runtime import devices
from ..target import target as find_target
from .kernel_files import arguments_of, extents_of, one_kernel, printing_to_stderr
from .schema import VERSIONS, CountDocument, formatted

#: random integers are smaller than this
_INTEGERS = 100
#: the largest array, in bytes
_LARGEST = 1 << 32


@printing_to_stderr()
def count(
    place: str, grid: str, specs: Sequence[str], target: str | None, threads: int | None, style: str
) -> Iterator[str]:
    """Run one kernel of a file and return the lines of a report.

    place: `FILE` or `FILE::KERNEL`. grid: extents with commas between them. specs: one `NAME=VALUE` per argument;
    arrays get random data: standard normal floats, integers 0 to 99. style: "text" or "json".
    raises: TilejitError for bad input or for an error in the kernel, such as a race.
    """
    kernel = one_kernel(place)
    extents = extents_of("--grid", grid, "one to three integers", most=3)
    chosen = find_target(target) if target else kernel.options.target or devices.named("sim").target
    report = simulate(kernel, extents, target=chosen, threads=threads, profile=True, **_arguments(kernel, specs))
    executed = sorted(report.instructions.items(), key=lambda item: (-item[1], item[0]))
    data: CountDocument = {
        **VERSIONS, "kernel": kernel.name, "target": str(chosen), "grid": list(report.grid),
        "block": list(report.block), "instructions": report.thread_instructions,
        "by_instruction": [{"instruction": name, "times": times} for name, times in executed],
        "lines": [
            {
                # without the calls through which the code was inlined
                "line": number, "location": report.locations.get(number, "").partition("\n")[0],
                "instructions": each.instructions, "wavefronts": each.traffic.wavefronts,
                "ideal_wavefronts": each.traffic.ideal_wavefronts, "sectors": each.traffic.sectors,
                "ideal_sectors": each.traffic.ideal_sectors,
            }
            for number, each in sorted(report.lines.items())
        ],
    }
    return formatted(style, data, _text(data))


def _arguments(kernel: Kernel, specs: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a launch by name: those that `specs` describe, and random arrays for default specs."""
    arguments = arguments_of(kernel, specs)
    for position, parameter in enumerate(kernel.open_parameters):
        name = parameter.name
        value = arguments.get(name, parameter.default if parameter.spec is None else parameter.spec)
        if value is NO_DEFAULT or (isinstance(value, DType) and parameter.kind is not ParameterKind.CONSTEXPR):
            raise LaunchError(
                f"to run {kernel.name}, {name} needs a value", hint=f"pass --spec {name}=7, or {name}=float32[64, 64]"
            )
        arguments[name] = _random_array(value, position) if isinstance(value, Spec) else value
    return arguments


def _random_array(spec: Spec, position: int) -> np.ndarray[Any, Any]:
    dtype = spec.dtype.numpy
    reach = [(extent - 1) * stride for extent, stride in zip(spec.shape, spec.strides, strict=True)]
    first = -sum(min(0, step) for step in reach)
    size = 0 if 0 in spec.shape else first + sum(max(0, step) for step in reach) + 1
    if size * dtype.itemsize > _LARGEST:
        raise LaunchError(
            f"an array has {size * dtype.itemsize:,} bytes; at most {_LARGEST:,} are possible",
            hint="use smaller extents and strides",
        )
    random = np.random.default_rng(position)
    floats = random.standard_normal(size)
    memory = (floats if dtype.kind not in "iub" else random.integers(0, _INTEGERS, size)).astype(dtype)
    strides = [stride * dtype.itemsize for stride in spec.strides]
    array: np.ndarray[Any, Any] = np.ndarray(spec.shape, dtype, memory, first * dtype.itemsize if size else 0, strides)
    return array


def _text(data: CountDocument) -> Iterator[str]:
    """Yield totals, instructions, then a table of source lines."""
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
